#!/usr/bin/env python3
"""Adds one of each to a copy of the sources: an elementwise op, an activation, a collective, a plan line, an optimizer, a pass.

    places.py ROOT [--compiler CC] [--keep FOLDER]

Each addition touches the files that CONTRIBUTING.md lists for it and no others, at most as many as LIMITS says; then the copy is built
(without optimisation, without tests) and each addition is used. A fact that is written down in a second place is a file more here. When
this test fails because an anchor has moved, adapt the addition; when it takes a file more, look for the table that is missing.

FOLDER: where the copy is built and stays, to look at; otherwise it is a temporary one."""
import argparse
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

LIMITS = {'elementwise op': 5, 'activation with an epilogue': 8, 'collective': 12, 'plan line': 5, 'optimizer': 3, 'pass': 2}
NOT_COPIED = shutil.ignore_patterns('.git', 'build', 'build-*', 'test', 'docs', '__pycache__')


class Tree:
    """The copy; notes which files an addition edits."""

    def __init__(self, root):
        self.root = root
        self.edited = set()

    def read(self, path):
        with open(os.path.join(self.root, path)) as file:
            return file.read()

    def write(self, path, text):
        self.edited.add(path)
        with open(os.path.join(self.root, path), 'w') as file:
            file.write(text)

    def replace(self, path, old, new):
        text = self.read(path)
        if text.count(old) != 1:
            raise SystemExit('%s has %d times, wanted once: %s' % (path, text.count(old), old))
        self.write(path, text.replace(old, new))

    def before(self, path, anchor, text):
        self.replace(path, anchor, text + anchor)

    def after(self, path, anchor, text):
        self.replace(path, anchor, anchor + text)

    def copy_row(self, path, macro, name, new, *changes):
        """Adds a table's row `macro(name, ..)` again under a new name, in all columns that have the name; changes: other replacements."""
        rows = re.findall(r'^%s\(%s,.*\n' % (macro, name), self.read(path), re.M)
        if len(rows) != 1:
            raise SystemExit('%s has %d rows %s(%s, ..), wanted one' % (path, len(rows), macro, name))
        row = re.sub(r'\b%s\b' % name, new, rows[0])
        row = re.sub(r'\b%s\b' % name.upper(), new.upper(), row)
        for old, to in changes:
            row = row.replace(old, to)
        self.after(path, rows[0], row)


# ---- the additions ----

def add_op(tree):
    """log2(x), a function of kernel IR."""
    tree.copy_row('ir/ops/ops.def', 'OP', 'log', 'log2')
    tree.after('ir/ops/eval_elementwise.c', 'UNARY(log, log)\n', 'UNARY(log2, log2)\n')
    tree.before('ir/ops/derive_elementwise.c', 'void derive_sqrt(', '''void derive_log2(sc_derive *d)
{
    d->gradients[0] =
        sc_make2(&d->e, SC_OP_div, sc_make_scaled(&d->e, dy(d), 1.4426950408889634), in(d, 0));
}

''')
    tree.copy_row('codegen/kernel/nodes.def', 'FUNCTION', 'log', 'log2', ('"sc_log_f32($0)"', '"sc_log_f32($0) * 1.44269504f"'))


def add_activation(tree):
    """quick_gelu(x) = x sigmoid(1.702 x); Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2."""
    tree.copy_row('program/activations.def', 'ACTIVATION_SLOPE', 'silu', 'quick_gelu', ('ONEDNN(swish, 1)', 'NO_ONEDNN'))
    tree.copy_row('ir/ops/ops.def', 'OP', 'silu', 'quick_gelu')
    tree.copy_row('ir/ops/ops.def', 'OP', 'silu_grad', 'quick_gelu_grad')
    tree.before('ir/ops/eval_elementwise.c', '#define UNARY(', '''static double quick_gelu(double x)
{
    return x * sigmoid(1.702 * x);
}

static double quick_gelu_grad(double dy, double x)
{
    double s = sigmoid(1.702 * x);
    return dy * (s * (1 + 1.702 * x * (1 - s)));
}

''')
    tree.after('ir/ops/eval_elementwise.c', 'UNARY(silu, silu)\n', 'UNARY(quick_gelu, quick_gelu)\n')
    tree.after('ir/ops/eval_elementwise.c', 'BINARY(silu_grad, silu_grad)\n', 'BINARY(quick_gelu_grad, quick_gelu_grad)\n')
    tree.before('ir/ops/derive_elementwise.c', 'void derive_gelu(', '''void derive_quick_gelu(sc_derive *d)
{
    by_slope_at_input(d, SC_OP_quick_gelu_grad);
}

''')
    tree.before('codegen/lower/activation.c', 'static sc_knode (*const activations[', '''static sc_knode node_quick_gelu(sc_kernel *k, sc_knode x)
{
    return two(k, SC_NODE_div, x, one_plus_exp_of_minus(k, times(k, x, 1.702)));
}

''')
    tree.before('codegen/lower/activation.c', 'static sc_knode (*const slopes[', '''static sc_knode node_quick_gelu_grad(sc_kernel *k, sc_knode dy, sc_knode x)
{
    sc_knode wide = times(k, x, 1.702), s = node_sigmoid(k, wide);
    sc_knode bend = plus(k, two(k, SC_NODE_mul, wide, one_minus(k, s)), 1);
    return two(k, SC_NODE_mul, dy, two(k, SC_NODE_mul, s, bend));
}

''')
    kernels = 'runtime/cpu/gemm_kernels.inc'
    tree.before(kernels, 'static void apply_silu(SUM', '''static void apply_quick_gelu(SUM *restrict values)
{
    for (int j = 0; j < WIDTH; j++)
        values[j] *= SIGMOID((SUM)1.702 * values[j]);
}

''')
    tree.before(kernels, 'static void apply_silu_grad(', '''static void apply_quick_gelu_grad(const SUM *restrict x, SUM *restrict values)
{
    for (int j = 0; j < WIDTH; j++) {
        SUM s = SIGMOID((SUM)1.702 * x[j]);
        values[j] *= s * (1 + (SUM)1.702 * x[j] * (1 - s));
    }
}

''')


def add_collective(tree):
    """exchange, which moves what all_to_all moves, and is chosen in its place."""
    tree.copy_row('program/collectives.def', 'COLLECTIVE_OP', 'all_to_all', 'exchange')
    tree.copy_row('ir/ops/ops.def', 'OP', 'all_to_all', 'exchange')
    tree.before('ir/ops/verify.c', '    case SC_OP_all_to_all:\n', '    case SC_OP_exchange:\n')
    tree.before('ir/interp/collectives.c', '#define COLLECTIVE(...)', '''static bool exchange(const sc_transfer *t)
{
    return all_to_all(t);
}

''')
    tree.replace('passes/reshard_path.c', 'SC_OP_all_to_all, SC_OP_all_gather};', 'SC_OP_all_to_all, SC_OP_exchange, SC_OP_all_gather};')
    tree.replace('passes/reshard_path.c', 'exchange.kind = SC_OP_all_to_all;', 'exchange.kind = SC_OP_exchange;')
    path = 'codegen/program/collectives.c'
    body = re.search(r'^bool sc_generate_all_to_all\(.*?^}\n\n', tree.read(path), re.M | re.S).group(0)
    tree.after(path, body, body.replace('all_to_all', 'exchange').replace('ALL_TO_ALL', 'EXCHANGE'))
    tree.after('include/shardc/comm.h', '    SHARDC_ALL_TO_ALL,\n', '    SHARDC_EXCHANGE,\n')
    for path in ('runtime/comm/units.c', 'runtime/comm/tcp_move.c', 'runtime/comm/mpi/mpi_move.c', 'runtime/cuda/collectives_shared.c'):
        text = tree.read(path)
        tree.write(path, re.sub(r'^( *)case SC_COMM_ALL_TO_ALL:', r'\1case SC_COMM_EXCHANGE:\n\g<0>', text, flags=re.M))
    tree.replace('runtime/cuda/collectives_nccl.c', 'bound->call.kind == SC_COMM_ALL_TO_ALL',
                 '(bound->call.kind == SC_COMM_ALL_TO_ALL || bound->call.kind == SC_COMM_EXCHANGE)')


def add_plan_line(tree):
    """even DIMS: dims that must exist."""
    tree.after('frontend/syntax/words.def', 'PLAN_LINE(pad, PAD)\n', 'PLAN_LINE(even, EVEN)\n')
    tree.replace('frontend/syntax/parser.y', '%token <name> IGNORE "ignore"', '%token <name> IGNORE "ignore" EVEN "even"')
    tree.replace('frontend/syntax/parser.y', '| IGNORE ;', '| IGNORE | EVEN ;')
    tree.before('frontend/syntax/parser.y', "    | TUNE args ';'",
                "    | EVEN idlist ';'   { $$ = make_plan_stmt(parser, SC_PLAN_EVEN, @$); $$->even = $2; }\n")
    tree.before('frontend/syntax/ast_plan.h', '        sc_arg_list tune;\n', '        sc_name_list even;\n')
    tree.before('frontend/syntax/ast_print_plan.c', 'static void put_tune(', '''static void put_even(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_put_names(l, &stmt->even);
}

''')
    tree.before('frontend/plan/values.c', '    case SC_PLAN_STAGE:\n        sc_plan_resolve_stage(', '''    case SC_PLAN_EVEN:
        for (uint32_t i = 0; i < stmt->even.count; i++)
            sc_plan_check_dim(plan, &stmt->even.data[i]);
        break;
''')


def add_optimizer(tree):
    """signsgd: a step of lr in the direction of each gradient's sign; Bernstein et al., signSGD, 2018."""
    tree.copy_row('program/optimizers.def', 'OPTIMIZER', 'sgd', 'signsgd', ('momentum nesterov ', ''))
    tree.before('passes/build_update.c', 'static sc_value step_lion(', '''static sc_value step_signsgd(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    g = with_decay(u, x, g, dtype);
    return descend(u, x, sc_make1(&u->e, SC_OP_sign, g), dtype);
}

''')


def add_pass(tree):
    """drop-again: drop-dead a second time."""
    tree.copy_row('passes/passes.def', 'PASS', 'drop_dead', 'drop_again', ('drop-dead', 'drop-again'))
    tree.write('passes/drop_again.c', tree.read('passes/drop_dead.c').replace('sc_run_drop_dead', 'sc_run_drop_again'))


ADDITIONS = {'elementwise op': add_op, 'activation with an epilogue': add_activation, 'collective': add_collective, 'plan line': add_plan_line,
             'optimizer': add_optimizer, 'pass': add_pass}


def listed(guide, kind):
    """The files that CONTRIBUTING.md lists for an addition: those at the head of its numbered items."""
    section = re.search(r'^## Adding an? %s\n(.*?)(?=^## )' % re.escape(kind), guide, re.M | re.S)
    if section is None:
        raise SystemExit('CONTRIBUTING.md has no section "Adding a(n) %s"' % kind)
    return {path for item in re.findall(r'^\d+\. (`[^:]*`):', section.group(1), re.M) for path in re.findall(r'`([^`]+)`', item)}


def check_places(tree, guide):
    failed = 0
    for kind, add in ADDITIONS.items():
        tree.edited = set()
        add(tree)
        wanted = {path.replace('NAME', 'drop_again') for path in listed(guide, kind)}
        print('%s: %d files, at most %d' % (kind, len(tree.edited), LIMITS[kind]))
        if len(tree.edited) > LIMITS[kind]:
            print('  more files than allowed: %s' % ' '.join(sorted(tree.edited)))
            failed += 1
        for path in sorted(tree.edited ^ wanted):
            print('  %s is %s' % (path, 'not in the list of CONTRIBUTING.md' if path in tree.edited else 'in that list, but is not touched'))
            failed += 1
    return failed


def build(tree, compiler):
    folder = os.path.join(tree.root, 'build')
    targets = ['shardc', 'shardc-opt']
    quiet = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, 'text': True}
    configured = subprocess.run(['cmake', '-S', tree.root, '-B', folder, '-G', 'Ninja', '-DSHARDC_TESTS=OFF', '-DCMAKE_BUILD_TYPE=None',
                                 '-DCMAKE_C_FLAGS=-O0', '-DCMAKE_C_COMPILER=' + compiler], **quiet)
    if configured.returncode == 0 and 'shardc_mpi' in tree.read('build/build.ninja'):
        targets.append('shardc_mpi')
    built = configured
    if configured.returncode == 0:
        built = subprocess.run(['cmake', '--build', folder, '--parallel', '2', '--target'] + targets, **quiet)
    if built.returncode != 0:
        raise SystemExit('the copy does not build:\n' + built.stdout[-4000:])
    return folder


# ---- their use ----

MODEL = '''lang 1;
dim B = 8, D = 16, F = 32;
model m {
  param w[D, F] = normal(0.5), b[F] = zeros();
  entry act(x: f32[B, D]) -> [B, F] { return quick_gelu(dot[D](x, w) + b); }
  entry log(x: f32[B, D]) -> [B, D] { return log2(1 + x * x); }
  entry move(x: f32[B, D]) -> [B, D] { y = tanh(x); return exp(y); }
}
plan one for m { even D,F; }
plan moves for m { mesh tp = 4; pin move.y: [B@tp, D]; pin move.x: [B, D@tp]; }
'''
TRAINED = '''lang 1;
dim B = 4;
model m {
  param p[B] = constant(0.7);
  entry loss(x: f32[B]) -> [] { q = quick_gelu(p); return mean[B](log2(1 + q * q) + 0 * x); }
}
minimize m.loss with signsgd(lr = 0.5);
plan one for m { even B; }
'''
EXAMPLES = {'model': MODEL, 'trained': TRAINED, 'misspelt': MODEL.replace('even', 'evn'), 'unknown_dim': MODEL.replace('D,F', 'Q'),
            'unknown_optimizer': TRAINED.replace('signsgd', 'signsgdd')}

# What is run in a folder with the examples, its exit code, and what it prints.
USES = [
    ('shardc verify model.shard --plan one --entry log', 0, r'equals the global'),
    ('shardc verify model.shard --plan one --entry log --compiled', 0, r'emitted code equals'),
    ('shardc verify model.shard --plan one --entry act --compiled', 0, r'emitted code equals'),
    ('shardc kernels model.shard --plan one --entry act -o kernels', 0, r''),
    ('cat kernels/program.txt', 0, r'gemm f32 .* quick_gelu\n'),
    ('shardc comm model.shard --plan moves --entry move', 0, r'forward +exchange +tp '),
    ('shardc verify model.shard --plan moves --entry move', 0, r'equals the global'),
    ('shardc verify model.shard --plan moves --entry move --compiled', 0, r'emitted code equals'),
    ('shardc fmt model.shard', 0, r'\nplan one for m { even D, F; }\n'),
    ('shardc check misspelt.shard', 1, r"did you mean 'even'\?"),
    ('shardc check unknown_dim.shard --plan one --entry log', 1, r"'Q'"),
    ('shardc check unknown_optimizer.shard', 1, r'optimizers are sgd, signsgd, adam, adamw and lion'),
    ('shardc verify trained.shard', 0, r'equals the global'),
    ('shardc verify trained.shard --compiled', 0, r'emitted code equals'),
    ('shardc ir model.shard --plan moves --entry move --after drop-again -o dropped.shir', 0, r''),
    ('shardc-opt --passes=drop-again dropped.shir', 0, r'shardc.ir 1'),
    ('cat editors.json', 0, r'\|quick_gelu\|'),
    ('cat editors.json', 0, r'\|log2\|'),
    ('cat editors.json', 0, r'\|even\|'),
    ('cat editors.json', 0, r'\|signsgd\)'),
]


def run(folder, binaries, command):
    environment = dict(os.environ, PATH=binaries + os.pathsep + os.environ['PATH'], SHARDC_CACHE=os.path.join(folder, 'cache'))
    return subprocess.run(command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check_training(folder, binaries):
    """Two steps of signsgd: losses and norms of the gradient at 0.7 and at 0.7 - 0.5, as by formulas."""
    data = struct.pack('<8f', *[0] * 8)
    header = json.dumps({'x': {'dtype': 'F32', 'shape': [2, 4], 'data_offsets': [0, len(data)]}}).encode()
    with open(os.path.join(folder, 'x.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(header)) + header + data)
    failed = 0
    for steps, p in ((1, 0.7), (2, 0.2)):
        s = 1 / (1 + math.exp(-1.702 * p))
        loss = math.log2(1 + (p * s) ** 2)
        slope = s * (1 + 1.702 * p * (1 - s)) * 2 * p * s / (1 + (p * s) ** 2) / math.log(2)
        result = run(folder, binaries, 'shardc train trained.shard --input x=x.safetensors --steps %d' % steps)
        found = re.search(r'loss ([\d.e-]+), norm ([\d.e-]+)', result.stdout)
        # the loss is a mean of 4: each has a quarter of the slope
        if not found or abs(float(found.group(1)) - loss) > 0.01 * loss or abs(float(found.group(2)) - slope / 2) > 0.01 * slope / 2:
            print('train, %d steps: wanted loss %g, norm %g in\n%s' % (steps, loss, slope / 2, result.stdout))
            failed += 1
    return failed


def check_uses(tree, binaries):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in EXAMPLES.items():
            with open(os.path.join(folder, name + '.shard'), 'w') as file:
                file.write(text)
        subprocess.run([sys.executable, os.path.join(tree.root, 'editors', 'update.py'), tree.root, os.path.join(folder, 'editors.json')],
                       check=True)
        for command, code, pattern in USES:
            result = run(folder, binaries, command)
            if result.returncode != code or re.search(pattern, result.stdout) is None:
                print('%s: exit code %d, wanted %d and /%s/ in\n%s' % (command, result.returncode, code, pattern, result.stdout[-2000:]))
                failed += 1
        failed += check_training(folder, binaries)
    return failed


def check(root, folder, compiler):
    tree = Tree(os.path.join(folder, 'copy'))
    shutil.copytree(root, tree.root, ignore=NOT_COPIED)
    failed = check_places(tree, tree.read('CONTRIBUTING.md'))
    failed += check_uses(tree, build(tree, compiler))
    print('%d failed' % failed)
    return failed > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('root')
    parser.add_argument('--compiler', default='cc')
    parser.add_argument('--keep')
    options = parser.parse_args()
    if options.keep is not None:
        return check(options.root, options.keep, options.compiler)
    with tempfile.TemporaryDirectory() as folder:
        return check(options.root, folder, options.compiler)


if __name__ == '__main__':
    sys.exit(main())
