"""The acceptance and training suites ask shardc to evaluate and train models. Where nothing is compiled, programs that were built of these
models do so. Which, the suites say themselves: `--list` prints what they would ask, so that nothing that they ask for is missing."""
import json
import os
import sys

from .common import Failed, run

# Each with its arguments, in full and as a part that a CPU that plays a GPU can do.
ACCEPTANCE = ('test/acceptance/run.py', ('g', 'tg'), ('g2_gpt2_logits_one',))
TRAINING = ('test/train/bytes.py', (), ('--steps', '2', '--only', 'pp2'))
SUITES = (ACCEPTANCE, TRAINING)
BUILT_IN = ('--plan', '--entry')


def command(folder, shardc, suite, quick, *more):
    path, full, part = suite
    return [sys.executable, os.path.join(folder, path), shardc, *more, *(part if quick else full)]


def models(root, shardc, suite, quick):
    """What of (model, arguments) the suite will have evaluated or trained; the models' paths are relative to `root`."""
    found = []
    for line in run(command(root, shardc, suite, quick, '--list'), 120, cwd=root).splitlines():
        words = json.loads(line)
        if words[0] in ('eval', 'train') and is_part(root, words[1]):
            found.append((os.path.relpath(words[1], root), words[2:]))
    if not found:
        raise Failed('%s asks for nothing' % suite[0])
    return found


def plans(root, shardc, quick):
    """The plans that the training suite compares with another, which can be asked for one by one."""
    path, full, part = TRAINING
    asked = [built_in(arguments) for _, arguments in models(root, shardc, TRAINING, quick)]
    listed = list(dict.fromkeys(words[1] for words in asked))
    return [plan for plan in listed
            if run([sys.executable, os.path.join(root, path), shardc, '--list', '--steps', '1', '--only', plan], 120, cwd=root)]


def is_part(root, path):
    return not os.path.relpath(path, root).startswith(os.pardir)


def built_in(arguments):
    """Of the arguments those that a program is built with."""
    pairs = [(option, value) for option in BUILT_IN for name, value in zip(arguments, arguments[1:]) if name == option]
    return [word for pair in pairs for word in pair]


def program_of(model, arguments):
    """The name of the program that stands for `shardc .. MODEL ARGUMENTS`."""
    return '.'.join([os.path.basename(model)[:-len('.shard')], *built_in(arguments)[1::2]])


def as_shardc(shardc, programs, arguments):
    """All else than running models is shardc's own."""
    if len(arguments) < 2 or arguments[0] not in ('eval', 'train'):
        os.execv(shardc, [shardc, *arguments])
    verb, model, *rest = arguments
    program = os.path.join(programs, program_of(model, rest))
    if not os.path.exists(program):
        sys.exit('%s was not built' % os.path.basename(program))
    kept = [word for before, word in zip([None, *rest], rest) if word not in BUILT_IN and before not in BUILT_IN]
    os.execv(program, [program, verb, *kept])
