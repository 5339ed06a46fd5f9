"""Results here beside those of the interpreter: smoke, cases, the suites, every op."""
import concurrent.futures
import os
import re
import sys

from . import programs, suites
from .common import Failed, LeftOut, opens, run
from .compare import compare


def run_case(check, case, *more):
    out = os.path.join(check.work, case.name + (''.join(more)))
    printed = check.program(case.program.name, *case.run.format(out=out, text=check.text).split(), *more)
    if case.kind == 'same':
        with open(out, 'w') as file:
            file.write(printed)
    worst = compare(case.kind, os.path.join(check.folder, 'expected', case.name), out, case.tolerance)
    return 'as on CPUs' if case.kind == 'same' else 'within %.1e; allowed are %.0e' % (worst, case.tolerance)


def one_case(check, case):
    try:
        return run_case(check, case)
    except Failed as failure:
        try:
            without = run_case(check, case, '--no-graph')
        except Failed:
            without = 'it fails, too'
        raise Failed('%s; without graphs: %s' % (failure, without)) from None


def carried(check, cases):
    return [case for case in cases if case.name in check.manifest['cases']]


def product(check, name, told):
    """Whether cuBLASLt takes it; that it does not is an answer, but for matmuls without an epilogue. What went wrong among others is tried
    alone, since an error that a context does not survive is not of the matmul that meets it."""
    if name in told:
        return told[name]
    lines = check.command(check.tool('test', 'test_cuda_products'), name, limit=30, last=8).splitlines()
    return next(line for line in lines if line.startswith(name + ': ')).split(': ', 1)[1]


def fine_products(check, beginning):
    """By name what is told of all with this beginning, by one process; of those that are not fine nothing."""
    command = [check.tool('test', 'test_cuda_products'), beginning + '*']
    out = run(command, check.left(60), env=check.env, cwd=check.work, fails=False)
    pairs = [line.split(': ', 1) for line in out.splitlines() if line.startswith(beginning) and ': ' in line]
    return {name: words for name, words in pairs if not words.startswith('WRONG')}


def nccl(check):
    if not check.env.get('SHARDC_NCCL') and not opens('libnccl.so.2'):
        raise LeftOut('there is no libnccl.so.2')
    out = run([check.tool('test', 'test_nccl_alone')], check.left(60), env=dict(check.env, CMOCKA_MESSAGE_OUTPUT='TAP'), cwd=check.work, last=30)
    return '%s, %d tests' % (re.search(r'NCCL [0-9.]+', out).group(), len(re.findall(r'^ok ', out, re.M)))


def smoke(check):
    works = [('form %s' % case.name, lambda case=case: run_case(check, case)) for case in carried(check, programs.SMOKE)]
    works += [('a graph', lambda: graphs_change_nothing(check, 'case-one')), ('one rank with NCCL', lambda: nccl(check))]
    check.checks(works)
    products(check)


def products(check):
    names = check.command(check.tool('test', 'test_cuda_products'), '--list').split()
    told = {}
    with check.shared_cores(), concurrent.futures.ThreadPoolExecutor(check.o.jobs) as pool:
        for found in pool.map(lambda beginning: fine_products(check, beginning), sorted({name.split('-')[0] + '-' for name in names})):
            told.update(found)
    results = check.checks([('matmul %s' % name, lambda name=name: product(check, name, told)) for name in names])
    for form, words in verdicts(zip(names, results)).items():
        check.row('matmul, %s' % form, words)


def verdicts(told):
    """By form which dtypes are taken and which not: what stands before the details in a row."""
    by_form = {}
    for name, result in told:
        dtype, form = name.split('-')
        verdict = re.split('[;:]', result['detail'])[0] if result['ok'] else 'FAILED'
        by_form.setdefault(form, {}).setdefault(verdict, []).append(dtype)
    return {form: '; '.join('%s: %s' % (verdict, ', '.join(dtypes)) for verdict, dtypes in sorted(found.items(), reverse=True))
            for form, found in by_form.items()}


def cases(check):
    works = [('case %s' % case.name, lambda case=case: one_case(check, case)) for case in carried(check, programs.CASES)]
    works += [('graphs of %s change nothing' % name, lambda name=name: graphs_change_nothing(check, name))
              for name in ('case-one', 'case-gpt2', 'case-llama') if check.has(name)]
    check.checks(works)


def graphs_change_nothing(check, name):
    logs = [os.path.join(check.work, '%s.%d' % (name, i)) for i in range(2)]
    for log, more in zip(logs, ([], ['--no-graph'])):
        check.program(name, 'train', '--data', check.text, '--steps', 5, '--log', log, *more)
    compare('log', *logs, 0)


def suite_programs(check):
    for name in check.manifest['suites']:
        check.unpacked(name)
    return check.as_shardc()


def acceptance(check):
    def one(shardc, case):
        return suite_lines(check, suites.ACCEPTANCE[0], shardc, '-v', case)[-1]

    shardc = suite_programs(check)
    folder = os.path.join(check.folder, 'test', 'acceptance', 'cases')
    check.checks([('acceptance %s' % case, lambda case=case: one(shardc, case))
                  for case in sorted(f[:-len('.shard')] for f in os.listdir(folder))])


def training(check):
    """A row that learns, where there is time for it, and one for each plan."""
    path = suites.TRAINING[0]
    shardc = suite_programs(check)
    works = [('training %s' % plan, lambda plan=plan: suite_lines(check, path, shardc, '--steps', '2' if check.quick else '20', '--only', plan)[-2])
             for plan in check.manifest['plans']]
    if not check.quick:
        works.append(('training learns', lambda: suite_lines(check, path, shardc, '--only', 'none')[0]))
    check.checks(works)


def suite_lines(check, path, *words):
    return check.command(sys.executable, os.path.join(check.folder, path), *words, limit=120).strip().splitlines()


def ops(check):
    """A process each: an error that a GPU's context does not survive costs one row."""
    target = check.manifest['target']
    tool = check.tool('test', 'test_compiled_ops')
    env = {'SHARDC_TEST_KEPT': os.path.join(check.folder, 'ops'), 'SHARDC_TEST_TARGET': target, 'CMOCKA_MESSAGE_OUTPUT': 'TAP'}

    def one(name):
        out = check.command(tool, name, limit=120, more_env=env, last=30)
        return '%d tests' % len(re.findall(r'^ok ', out, re.M))

    check.checks([('%s (%s)' % (name, title), lambda name=name: one(name)) for name, title in check.manifest['ops']])
