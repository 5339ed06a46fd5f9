#!/usr/bin/env python3
"""The figures of docs/performance.md, taken now on this machine: figures.py BUILD [--steps 3] [--rounds 3] [--only WHAT,..] [--torch-env DIR]

Each is a ratio of two things measured in one run, taken in turns where both are steps of seconds; medians. What a line needs is built apart,
with a cache of its own. The machine should have nothing else to do: the load is printed with the table."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
GPT2 = os.path.join(ROOT, 'bench', 'gpt2_124m.shard')
DECODE = os.path.join(ROOT, 'examples', 'gpt2.shard')


class Figures:
    def __init__(self, options, folder):
        self.o, self.folder, self.rows = options, folder, []
        self.env = dict(os.environ, SHARDC_CACHE=os.path.join(folder, 'cache'), OMP_NUM_THREADS='2')

    def run(self, *command):
        begin = time.monotonic()
        done = subprocess.run([str(c) for c in command], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return done.stdout, time.monotonic() - begin

    def bench(self, name, *more):
        return self.run(os.path.join(self.o.build, 'bench', name), *more)[0]

    def build(self, model, plan, *more):
        to = os.path.join(self.folder, '-'.join([plan, *more]).replace('/', '_'))
        _, seconds = self.run(os.path.join(self.o.build, 'shardc'), 'build', model, '--plan', plan, *more, '-o', to)
        return to, seconds

    def row(self, what, figure, wanted):
        self.rows.append((what, figure, wanted))
        print('| %s | %s | %s |' % (what, figure, wanted), flush=True)

    def steps(self, program, *more):
        lines = [json.loads(line) for line in self.run(program, 'bench', '--steps', self.o.steps, '--json', *more)[0].splitlines()]
        return [line for line in lines if 'step' in line], lines[-1]

    # ---- lines of the table ----

    def compile(self):
        _, first = self.build(GPT2, 'one')
        program, again = self.build(GPT2, 'one')
        starts = [self.run(program, 'info')[1] for _ in range(9)]
        self.row('first compile of the GPT-2 step', '%.2f s' % first, 'under 5 s')
        self.row('the same from the cache', '%.3f s' % again, 'under 0.2 s')
        self.row('start of the program (`info`)', '%.1f ms' % (1e3 * statistics.median(starts)), 'under 50 ms')

    def step(self):
        program, _ = self.build(GPT2, 'one')
        timings, summary = self.steps(program)
        text = self.run(program, 'bench', '--steps', self.o.steps, '--gemms-only')[0]
        share = float(re.search(r'([0-9.]+) of the step', text).group(1))
        seconds = statistics.median(t['seconds'] for t in timings)
        self.row('GPT-2 124M train step, f32', '%.2f s, %.0f tokens/s, %.2f GiB' % (seconds, 1024 / seconds, summary['peak_rss'] / 2**30), '')
        self.row('matmuls alone, of the step', '%.2f' % share, 'at least 0.7')

    def ranks(self):
        one, two = self.build(GPT2, 'one')[0], self.build(GPT2, 'tp2')[0]
        times = {one: [], two: []}
        for _ in range(self.o.rounds):
            for program in (one, two):
                times[program] += [t['seconds'] for t in self.steps(program)[0]]
        self.row('tp = 2 on 2 threads, by one rank with 2 threads',
                 '%.2f' % (statistics.median(times[two]) / statistics.median(times[one])), 'at most 1.15')

    def decode(self):
        program, _ = self.build(DECODE, 'one', '--entry', 'decode', '--bind', 'B=1,T=256')
        last = json.loads(self.run(program, 'bench', '--steps', '1', '--json')[0].splitlines()[-1])
        self.row('a token of the 124M shape: parameters read, by reading memory',
                 '%.2f (%.1f of %.1f GB/s)' % (last['of_read_rate'], last['parameter_rate'] / 1e9, last['read_rate'] / 1e9), 'at least 0.7')

    def elementwise(self):
        values = {}
        for _ in range(self.o.rounds):
            for name, ratio in re.findall(r'^(\S.*?)\s+[0-9.]+ GB/s\s+([0-9.]+) of the copy', self.bench('elementwise'), re.M):
                values.setdefault(name, []).append(float(ratio))
        for name, ratios in values.items():
            self.row('%s, by a copy' % name, '%.2f' % statistics.median(ratios), 'at least 0.8')

    def attention(self):
        text = self.bench('attend')
        for pas, ratio in re.findall(r'^  (forward|backward) .*?ratio ([0-9.]+);', text.split('B 4')[0], re.M):
            self.row('attention at S 4096, %s, by the unfused form' % pas, ratio, 'at least 2')

    def torch(self):
        program, _ = self.build(GPT2, 'one')
        out = os.path.join(self.folder, 'torch.json')
        text = self.run(sys.executable, os.path.join(ROOT, 'bench', 'gpt2_vs_torch.py'), '--prog', program, '--torch-env', self.o.torch_env,
                        '--modes', 'f32-eager', '--rounds', self.o.rounds, '--steps', '2', '--json', out)[0]
        speed, memory = re.search(r'best of torch: ([0-9.]+) in tokens/s, ([0-9.]+) in memory', text).groups()
        self.row("the step, by PyTorch's f32 eager one", '%s in tokens/s, %s in memory' % (speed, memory), 'at least 1.15')


def main():
    kinds = ('compile', 'step', 'ranks', 'decode', 'elementwise', 'attention', 'torch')
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--steps', default='3')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--only', default=','.join(kinds))
    parser.add_argument('--torch-env', help='a virtual environment for PyTorch; without it that line is left out')
    options = parser.parse_args()
    print('load before: %s' % (os.getloadavg(),))
    print('| what | measured | wanted |\n|---|---|---|')
    with tempfile.TemporaryDirectory() as folder:
        figures = Figures(options, folder)
        for kind in options.only.split(','):
            if kind != 'torch' or options.torch_env:
                getattr(figures, kind)()
    print('load after: %s' % (os.getloadavg(),))


if __name__ == '__main__':
    main()
