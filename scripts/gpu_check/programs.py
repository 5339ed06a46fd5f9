"""Which programs are prepared, and what they are asked."""
from . import suites


class Program:
    """`args` build it; `full` and `quick` are sizes, for a GPU and for a CPU that plays one."""

    def __init__(self, name, model, args, full='', quick=None):
        self.name, self.model, self.args, self.full, self.quick = name, model, args, full, full if quick is None else quick

    def command(self, is_quick):
        sizes = self.quick if is_quick else self.full
        return [self.model, *self.args.split(), *(['--bind', sizes] if sizes else [])]

    def sizes(self, is_quick):
        text = self.quick if is_quick else self.full
        return {k: int(v) for k, v in (pair.split('=') for pair in text.split(','))}


class Case:
    """A program's `run` here and the interpreter's there: {out} is the file that is compared, by `kind`, to within `tolerance`."""

    def __init__(self, name, model, args, sizes, run, kind, tolerance, quick=False):
        self.program = Program('case-' + name, model, args, sizes)
        self.name, self.run, self.kind, self.tolerance, self.quick = name, run, kind, tolerance, quick


GPT2, LLAMA, ATTENTION, KERNELS = ('bench/%s.shard' % m for m in ('gpt2_124m', 'llama_1b', 'attention', 'kernels'))
LM, CACHED = ('test/tools/cuda/Inputs/%s.shard' % m for m in ('lm', 'cached'))
FORMS, TINY = 'scripts/gpu_check/forms.shard', 'examples/tiny.shard'
EVAL = 'eval -o {out}'
TRAIN = 'train --data {text} --steps %d --log {out}'
PROMPTS = 'generate --prompt hello --prompt a --prompt seven --max-tokens 9 --format json'
BF16, F32 = 3e-2, 1e-4  # of a tensor's largest element: bf16 has roundings to 8 bits one behind the other

# A kernel of each form, in f32 and in bf16; those that pick the largest of computed numbers in f32 alone, since roundings would pick others.
FORMS_OF_KERNELS = ('elements', 'rows_of_a_warp', 'rows_of_a_block', 'columns', 'stages', 'tiles', 'lookup', 'running', 'xent_of_rows', 'angles',
                    'routed', 'matmul', 'attention')
SMOKE = [Case('%s-%s' % (form, plan), FORMS, '--plan %s --entry %s' % (plan, form), '', EVAL, 'tensors', tolerance,
              (form, plan) in (('elements', 'wide'), ('columns', 'halves')))
         for plan, tolerance in (('wide', F32), ('halves', BF16)) for form in FORMS_OF_KERNELS]
SMOKE.append(Case('picks-wide', FORMS, '--plan wide --entry picks', '', EVAL, 'tensors', F32))

CASES = [
    Case('attention-128', ATTENTION, '--plan halves --entry forward', 'B=1,S=160,H=3,E=128', EVAL, 'tensors', BF16),
    Case('attention-128-step', ATTENTION, '--plan halves', 'B=1,S=160,H=3,E=128', 'train --steps 1 --save {out}', 'tensors', BF16),
    Case('attention-64', ATTENTION, '--plan halves --entry forward', 'B=2,S=77,H=2,E=64', EVAL, 'tensors', BF16, True),
    Case('attention-64-step', ATTENTION, '--plan halves', 'B=2,S=77,H=2,E=64', 'train --steps 1 --save {out}', 'tensors', BF16),
    Case('kernels', KERNELS, '--plan halves', 'N=40,M=33,R=50,D=768,P=7,V=3000,Q=9,W=1001,S=30,H=4,E=64', EVAL, 'tensors', BF16),
    Case('gpt2', GPT2, '--plan gpu', 'L=2,H=2,E=64,V=300,P=128,B=2,S=96', TRAIN % 4, 'log', 1e-2),
    Case('llama', LLAMA, '--plan step', 'L=2,D=64,F=128,V=300,K=2,G=2,E=64,B=2,S=80', TRAIN % 4, 'log', 1e-2),
    Case('one', LM, '--plan one', '', TRAIN % 5, 'log', 1e-5, True),
    Case('accumulate', LM, '--plan acc', '', TRAIN % 5, 'log', 1e-5),
    Case('ranks', LM, '--plan both', '', TRAIN % 5, 'log', 1e-5),
    Case('generate', CACHED, '--plan one --entry decode', '', PROMPTS, 'same', 0),
    Case('generate-ranks', CACHED, '--plan tp2 --entry decode', '', PROMPTS, 'same', 0),
]

SMALL = 'L=1,H=2,E=16,V=128,P=32,B=1,S=8'
SMALL_LLAMA = 'L=1,D=32,F=64,V=256,K=2,G=2,E=16'
MEASURED = {p.name: p for p in [
    Program('kernels', KERNELS, '--plan halves', '', 'N=8,M=9,R=10,D=64,P=7,V=80,Q=9,W=81,S=5,H=2,E=16'),
    Program('attention-128', ATTENTION, '--plan halves --entry forward', 'B=2,S=8192,H=16,E=128', 'B=1,S=32,H=2,E=32'),
    Program('attention-128-step', ATTENTION, '--plan halves', 'B=2,S=8192,H=16,E=128', 'B=1,S=32,H=2,E=32'),
    Program('attention-64', ATTENTION, '--plan halves --entry forward', 'B=2,S=8192,H=32,E=64', 'B=1,S=32,H=2,E=16'),
    Program('attention-64-step', ATTENTION, '--plan halves', 'B=2,S=8192,H=32,E=64', 'B=1,S=32,H=2,E=16'),
    Program('gpt2', GPT2, '--plan gpu', '', SMALL),
    Program('llama', LLAMA, '--plan step', '', SMALL_LLAMA + ',B=1,S=16'),
    Program('gpt2-decode', 'bench/gpt2_serve.shard', '--plan serve --entry decode', '', 'L=1,H=2,E=16,V=256,P=32,T=32'),
    Program('llama-decode', LLAMA, '--plan serve --entry decode', '', SMALL_LLAMA + ',T=32'),
]}
QUICK_MEASURED = ('kernels', 'attention-128-step', 'gpt2', 'gpt2-decode')

# Between GPUs: plans of a model that must have one loss, and what moves much. Gradients of `dp2` are all_reduced, those of `fsdp2` are
# reduce_scattered and its parameters all_gathered.
SEVERAL = {p.name: p for p in [
    *(Program('several-' + plan, TINY, '--plan ' + plan) for plan in ('one', 'fsdp2', 'tp2', 'pp2')),
    Program('several-lm-one', LM, '--plan one'), Program('several-lm-dp', LM, '--plan dp'),
    Program('several-all_reduce', 'scripts/gpu_check/moves.shard', '--plan dp', '', 'N=64,D=32'),
    Program('several-all_gather', 'scripts/gpu_check/moves.shard', '--plan fsdp', '', 'N=64,D=32'),
]}
QUICK_SEVERAL = ('several-lm-one', 'several-lm-dp', 'several-all_reduce')


QUICK_OPS = ('op:3', 'op:14', 'ids:1')


def of_suites(root, shardc, quick):
    """The programs of the acceptance and training suites: what they say that they will ask of shardc."""
    found = {}
    for suite in suites.SUITES:
        for model, arguments in suites.models(root, shardc, suite, quick):
            name = suites.program_of(model, arguments)
            found[name] = Program(name, model, ' '.join(suites.built_in(arguments)))
    return list(found.values())


def measured(quick):
    return [p for name, p in MEASURED.items() if not quick or name in QUICK_MEASURED]


def several(quick):
    return [p for name, p in SEVERAL.items() if not quick or name in QUICK_SEVERAL]


def cases(quick):
    return [case for case in SMOKE + CASES if case.quick or not quick]

