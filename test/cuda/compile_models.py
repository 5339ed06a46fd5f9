#!/usr/bin/env python3
"""NVRTC compiles what is emitted for GPUs of the project's models: every program that has kernels for CPUs has them for GPUs, each
is machine code - those that matter without a register spilled - and a block has the shared memory that it asks for.
Usage: compile_models.py SHARDC SOURCE_DIR [--all] [-v] [WORD..]
Models are those of examples/, bench/, test/ and of a folder shared/ beside the project, each under each of its plans: the train step, and
every entry's program; of those outside of examples/ and bench/, whose kernels are much the same, every sixth. A program is compiled for one
architecture, most for the one that takes least time, those of examples/ for that and, by turns, for one of the others; with --all, every
program for all. WORDs: only files with one of them in their path. $SHARDC_CACHE keeps what was compiled. Exit status 77: there is no
NVRTC."""
import concurrent.futures, glob, os, re, shlex, subprocess, sys, tempfile, time

# CUDA C++ programming guide, technical specifications per compute capability: shared memory that a block may have.
KIB_OF_BLOCK = {'sm_80': 163, 'sm_90a': 227, 'sm_100a': 227}
ARCHITECTURES = list(KIB_OF_BLOCK)
REGISTERS = 65536  # of a multiprocessor
EVERY = 6  # of the programs that are much the same
SPILLED = 32  # bytes of a thread, of kernels that are not hot: norms of all gradients in one block of 1024 threads have 64 registers each
# What unbound dims are given, where the file does not say it: the first that a CPU's program takes.
BINDINGS = [[], ['--bind', 'T=64'], ['--bind', 'B=4,S=32'], ['--bind', 'B=2,S=1,T=48']]
# Kernels that must be there and must not spill, by their titles: attention, a norm, a softmax cross-entropy, an optimizer.
HOT = [r'^attend$', r'^attend_grad$', r' sum .*rsqrt', r' exp .*sum .*log', r'^update: .*cast .* more$']

argv = sys.argv[1:]
everything, verbose = '--all' in argv, '-v' in argv
argv = [a for a in argv if a not in ('--all', '-v')]
if len(argv) < 2:
    sys.exit(__doc__)
shardc, root, words = argv[0], os.path.abspath(argv[1]), argv[2:]
jobs = os.cpu_count() or 1


def run(arguments, **environment):
    return subprocess.run([shardc, 'kernels'] + arguments, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})


def programs_of(path):
    """Arguments of each program of the file."""
    text = open(path, errors='replace').read()
    given = [shlex.split(line) for line in re.findall(r'^// ARGS:(.*)', text, re.M)]
    code = re.sub(r'//.*', '', text)
    plans = [['--plan', p] for p in re.findall(r'^\s*plan\s+(\w+)\s+for\b', code, re.M)] or [[]]
    if given:
        return [given[0]] if '--plan' in given[0] else [plan + given[0] for plan in plans]
    entries = [[]] + [['--entry', e] for e in dict.fromkeys(re.findall(r'^\s*entry\s+(\w+)\s*\(', code, re.M))]
    return [plan + entry for plan in plans for entry in entries]


def cpus_program(path, arguments):
    """The arguments with which there is a program for CPUs, or None."""
    for more in BINDINGS:
        if run([path] + arguments + more).returncode == 0:
            return arguments + more
    return None


class Kernels:
    def __init__(self):
        self.seen, self.hot, self.errors = set(), set(), []

    def take(self, name, architecture, made):
        if made.returncode != 0:
            self.errors.append('%s for %s: %s' % (name, architecture, made.stderr.strip()[:2000]))
            return
        symbol = title = ''
        for line in made.stdout.splitlines():
            head = re.match(r'(sc_k_\w+) +\d+ calls  (.*)', line)
            if head:
                symbol, title = head.groups()
                self.hot.update(pattern for pattern in HOT if re.search(pattern, title))
            elif line.startswith('    missing:'):
                self.errors.append('%s for %s: %s (%s) is%s' % (name, architecture, symbol, title, line.split(':')[1]))
            elif line.startswith('    stage') and (symbol, line, architecture) not in self.seen:
                self.seen.add((symbol, line, architecture))
                self.check_stage('%s for %s: %s (%s),%s' % (name, architecture, symbol, title, line[3:]), architecture, line,
                                 any(re.search(pattern, title) for pattern in HOT))

    def check_stage(self, where, architecture, line, is_hot):
        stage = re.search(r'(\d+) blocks x (\d+) threads, (\d+) shared bytes, (\d+) registers, (\d+) bytes spilled$', line)
        if not stage:
            self.errors.append(where + ': NVRTC says nothing of it')
            return
        blocks, threads, shared, registers, spilled = map(int, stage.groups())
        wrong = []
        if not 0 < blocks < 1 << 31 or not 0 < threads <= 1024 or not 0 < registers <= 255 or registers * threads > REGISTERS:
            wrong.append('does not fit a multiprocessor')
        if shared > KIB_OF_BLOCK[architecture] << 10:
            wrong.append('a block has %d KiB' % KIB_OF_BLOCK[architecture])
        if spilled > (0 if is_hot else SPILLED):
            wrong.append('registers are spilled')
        self.errors += [where + ': ' + w for w in wrong]


def architectures_of(path, number):
    if everything:
        return ARCHITECTURES
    if '/examples/' in path:
        return [ARCHITECTURES[0], ARCHITECTURES[1 + number % 2]]
    return [ARCHITECTURES[{7: 1, 23: 2}.get(number % 32, 0)]]


def main():
    folders = [os.path.join(root, f) for f in ('examples', 'bench', 'test')] + [os.path.join(root, '..', 'shared')]
    paths = sorted({os.path.realpath(p) for f in folders for p in glob.glob(f + '/**/*.shard', recursive=True)})
    texts, begin, kernels, failed, unfit = {}, time.time(), Kernels(), 0, 0
    for path in paths:
        if not words or any(w in path for w in words):
            texts.setdefault(open(path, errors='replace').read(), path)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder:
        cache = os.environ.get('SHARDC_CACHE', folder)
        wanted = [(p, a) for p in texts.values() for a in programs_of(p)]
        wanted = [w for i, w in enumerate(wanted) if everything or words or i % EVERY == 0 or
                  os.path.basename(os.path.dirname(w[0])) in ('examples', 'bench')]
        taken = pool.map(lambda w: cpus_program(*w), wanted)
        programs = [(p, a) for (p, _), a in zip(wanted, taken) if a is not None]
        found = time.time()
        tasks = [(p, a, architecture) for i, (p, a) in enumerate(programs) for architecture in architectures_of(p, i)]

        def compile_one(task):
            path, arguments, architecture = task
            return run([path] + arguments + ['--target', 'cuda:' + architecture, '--compile'], SHARDC_CACHE=cache)

        for (path, arguments, architecture), made in zip(tasks, pool.map(compile_one, tasks)):
            if made.returncode == 7 and 'NVRTC: ' in made.stderr:
                pool.shutdown(cancel_futures=True)
                print('skipped: ' + made.stderr.strip())
                return 77
            if made.returncode == 4 and '[stages_do_not_fit]' in made.stderr:
                unfit += 1  # a GPU's program has 32 MiB for cuBLASLt, for which a plan of the tests may have no room
                continue
            name = ' '.join([os.path.relpath(path, root)] + arguments)
            if verbose:
                print('%5.0f s  %-7s %s' % (time.time() - begin, architecture, name), flush=True)
            before = len(kernels.errors)
            kernels.take(name, architecture, made)
            failed += len(kernels.errors) > before
    print('%d programs of %d files, compiled %d times: %d stages in %.0f s, after %.0f s for CPUs' % (
        len(programs), len({p for p, _ in programs}), len(tasks), len(kernels.seen), time.time() - found, found - begin))
    if not words:
        missing = ['no kernel is like ' + pattern for pattern in HOT if pattern not in kernels.hot]
        kernels.errors += missing
        failed += len(missing)
    for error in kernels.errors[:40]:
        print(error)
    if unfit > 0:
        print('%d need more memory on a GPU than their plans allow' % unfit)
    print('%d passed, %d failed' % (len(tasks) - unfit - min(failed, len(tasks)), failed))
    return 1 if failed or 2 * unfit > len(tasks) or not tasks else 0


sys.exit(main())
