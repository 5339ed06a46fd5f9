#!/usr/bin/env python3
"""Training steps of GPT-2 124M, ours against PyTorch's, on this machine's CPU.

    gpt2_vs_torch.py [--prog PROGRAM] [--threads 2] [--rounds 3] [--steps 2] [--modes f32-eager,f32-compile]

Both sides make the same step: 4 rows of 256 random tokens, 124M parameters with a tied head, AdamW, gradients clipped; bench/gpt2_torch.py
and bench/gpt2_124m.shard. The two sides take turns, a few steps each, so that what else the machine does falls on both.

PyTorch lives in a virtual environment of its own, made at --torch-env (build/torch-env) by pip when it lacks one. What pip installs by
default brings a lot for GPUs along; --pip-args chooses another index or a wheel: --torch-package torch-2.x+cpu.whl.

PROGRAM is a compiled bench/gpt2_124m.shard. What is asked of it:

    PROGRAM bench --steps N --json      a line of JSON a step: {"step": 0, "seconds": 0.91, "cpu": 1.8, "loss": 10.9}; no "cpu" (seconds
                                        of all threads) or "loss" is fine; lines that lack "seconds" may stand between
    PROGRAM bench --calibrate --json    {"gflops": 95.1}: the matmul of 1024x768 and 768x3072 in f32

The first step of either side is reported apart; "start" is from the start of the process to its end. CPU seconds are what to look at on a
machine that others load. Without --prog the peer is measured alone.

Modes are DTYPE-eager and DTYPE-compile, with dtype f32 or bf16 (autocast). By default bf16 is left out where its products are slower than
those of f32. The ratio is our tokens/s by the peer's best; the table also says what part of the calibrated speed of products a step gets,
from 6 operations a token and parameter in a product, and 12 * layers * width * sequence a token for attention (Chowdhery et al., "PaLM",
2022, appendix B)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LAYERS, WIDTH, VOCABULARY, BATCH, SEQUENCE = 12, 768, 50257, 4, 256
TOKENS = BATCH * SEQUENCE
IN_PRODUCTS = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH  # parameters
FLOPS = TOKENS * (6 * IN_PRODUCTS + 12 * LAYERS * WIDTH * SEQUENCE)


def fail(message):
    sys.exit('gpt2_vs_torch: ' + message)


# ---- the environment ----
def can_import(python):
    return os.path.exists(python) and subprocess.run([python, '-c', 'import torch'], capture_output=True).returncode == 0


def torch_python(folder, package, pip_args):
    """The interpreter of an environment that has torch; made when there is none."""
    python = os.path.join(folder, 'bin', 'python')
    if can_import(python):
        return python
    print(f'installing {package} into {folder}', file=sys.stderr)
    if not os.path.exists(python):
        subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
    install = subprocess.run([python, '-m', 'pip', 'install', '--quiet', *pip_args, package, 'numpy'])
    if install.returncode != 0 or not can_import(python):
        fail(f'{folder} has no torch that can be imported')
    return python


# ---- the peer ----
class Torch:
    """One mode of PyTorch in a process of its own, which waits while others are measured."""

    def __init__(self, python, mode, threads):
        dtype, form = mode.split('-')
        command = [python, os.path.join(HERE, 'gpt2_torch.py'), '--dtype', dtype, '--threads', str(threads)]
        settings = dict(os.environ, OMP_NUM_THREADS=str(threads))
        started = time.perf_counter()
        self.mode, self.steps, self.peak_rss = 'torch ' + mode, [], 0
        self.process = subprocess.Popen(command + (['--compile'] if form == 'compile' else []), env=settings, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.about = self.read()
        self.first = self.ask('step 1')['steps'][0]
        self.start = time.perf_counter() - started

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            fail(f'{self.mode} ended with status {self.process.wait()}')
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(request + '\n')
        self.process.stdin.flush()
        return self.read()

    def measure(self, steps):
        reply = self.ask(f'step {steps}')
        self.steps += reply['steps']
        self.peak_rss = reply['peak_rss']

    def end(self):
        self.process.stdin.write('end\n')
        self.process.stdin.close()
        self.process.wait()


def calibrate_torch(python, dtype, threads):
    command = [python, os.path.join(HERE, 'gpt2_torch.py'), '--threads', str(threads)]
    run = subprocess.run(command, input=f'calibrate {dtype}\nend\n', env=dict(os.environ, OMP_NUM_THREADS=str(threads)), text=True,
                         stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout.splitlines()[-1])['gflops']


# ---- ours ----
def json_lines(text):
    for line in text.splitlines():
        if line.startswith('{'):
            yield json.loads(line)


class Ours:
    """The program is started anew for every turn; its first step is its start and is not counted."""

    def __init__(self, program, args, threads):
        self.command, self.mode = [program, 'bench', '--json', *args], 'ours'
        self.settings = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.steps, self.peak_rss, self.first, self.start = [], 0, None, None

    def measure(self, steps):
        began = time.perf_counter()
        process = subprocess.Popen(self.command + ['--steps', str(steps + 1)], env=self.settings, text=True, stdout=subprocess.PIPE)
        seen = []
        for line in process.stdout:
            seen += [step for step in json_lines(line) if 'seconds' in step]
            if seen and self.start is None:
                self.start = time.perf_counter() - began
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0 or len(seen) != steps + 1:
            fail(f'{self.command[0]} ended with status {process.returncode} after {len(seen)} of {steps + 1} steps')
        self.first = self.first or seen[0]
        self.steps += seen[1:]
        self.peak_rss = max(self.peak_rss, usage.ru_maxrss * 1024)

    def calibrate(self):
        run = subprocess.run(self.command + ['--calibrate'], env=self.settings, text=True, stdout=subprocess.PIPE, check=True)
        found = [line['gflops'] for line in json_lines(run.stdout) if 'gflops' in line]
        return found[-1] if found else fail(f'{self.command[0]} bench --calibrate gives no gflops')

    def end(self):
        pass


# ---- the table ----
def summary(side, gflops):
    seconds = [step['seconds'] for step in side.steps]
    cpu = [step['cpu'] for step in side.steps if 'cpu' in step]
    median = statistics.median(seconds)
    return {'mode': side.mode, 'steps': len(seconds), 'seconds': median, 'fastest': min(seconds), 'slowest': max(seconds),
            'cpu': statistics.median(cpu) if cpu else None, 'tokens_per_second': TOKENS / median,
            'of_products': FLOPS / median / (gflops * 1e9), 'peak_rss': side.peak_rss, 'first_step': side.first['seconds'],
            'start': side.start, 'first_loss': side.first.get('loss')}


def cell(value, form):
    return ' ' * (len(format(0.0, form)) - 1) + '-' if value is None else format(value, form)


def print_table(result):
    print(f"{result['threads']} threads, load {result['load'][0]:.2f} before and {result['load'][1]:.2f} after, of {result['cpus']} CPUs")
    for side, gflops in result['gflops'].items():
        print(f'{side}: {gflops:.1f} GFLOP/s, 1024x768x3072')
    names = ['s/step', 'min', 'max', 'CPU s', 'tokens/s', '% products', 'peak GiB', 'step 1', 'start', 'loss 1']
    print(' ' * 18 + ''.join(f'{name:>11}' for name in names))
    for row in result['rows']:
        values = [(row['seconds'], '11.3f'), (row['fastest'], '11.3f'), (row['slowest'], '11.3f'), (row['cpu'], '11.2f'),
                  (row['tokens_per_second'], '11.1f'), (100 * row['of_products'], '11.1f'), (row['peak_rss'] / 2**30, '11.2f'),
                  (row['first_step'], '11.2f'), (row['start'], '11.2f'), (row['first_loss'], '11.4f')]
        print(f"{row['mode']:18}" + ''.join(cell(value, form) for value, form in values))
    if 'ratio' in result:
        print(f"ours / best of torch: {result['ratio']:.3f} in tokens/s, {result['rss_ratio']:.3f} in memory")


def add_ratios(result):
    ours = [row for row in result['rows'] if row['mode'] == 'ours']
    peers = [row for row in result['rows'] if row['mode'] != 'ours']
    if ours and peers:
        best = max(peers, key=lambda row: row['tokens_per_second'])
        result['ratio'] = ours[0]['tokens_per_second'] / best['tokens_per_second']
        result['rss_ratio'] = ours[0]['peak_rss'] / best['peak_rss']


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prog', help='a compiled bench/gpt2_124m.shard')
    parser.add_argument('--prog-args', default='', help='further arguments of its bench')
    parser.add_argument('--torch-env', default=os.path.join(ROOT, 'build', 'torch-env'), help='the virtual environment')
    parser.add_argument('--torch-package', default='torch', help='what pip installs: a name, a version, a wheel')
    parser.add_argument('--pip-args', default='', help='further arguments of pip install')
    parser.add_argument('--modes', default='', help='of the peer, by commas')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=2, help='counted steps of a side in a round')
    parser.add_argument('--json', help='a file for the numbers')
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < 1:
        parser.error('at least one round of one step')
    return options


def main():
    options = parse_options()
    python = torch_python(options.torch_env, options.torch_package, options.pip_args.split())
    result = {'threads': options.threads, 'cpus': os.cpu_count(), 'load': [os.getloadavg()[0]], 'gflops': {}}
    for dtype in ['f32', 'bf16']:
        result['gflops']['torch ' + dtype] = calibrate_torch(python, dtype, options.threads)
    slow_bf16 = result['gflops']['torch bf16'] < result['gflops']['torch f32']
    modes = options.modes.split(',') if options.modes else ['f32-eager', 'f32-compile'] + ([] if slow_bf16 else ['bf16-compile'])
    sides = [Ours(options.prog, options.prog_args.split(), options.threads)] if options.prog else []
    if options.prog:
        result['gflops']['ours f32'] = sides[0].calibrate()
    sides += [Torch(python, mode, options.threads) for mode in modes]
    for _ in range(options.rounds):
        for side in sides:
            side.measure(options.steps)
    for side in sides:
        side.end()
    result['load'].append(os.getloadavg()[0])
    result['torch'] = sides[-1].about
    speeds = {side.mode: result['gflops']['ours f32' if side.mode == 'ours' else side.mode.split('-')[0]] for side in sides}
    result['rows'] = [summary(side, speeds[side.mode]) for side in sides]
    add_ratios(result)
    print_table(result)
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(result, file, indent=1)
            file.write('\n')


if __name__ == '__main__':
    main()
