"""What all steps have in common: the programs, time, rows and the table."""
import concurrent.futures
import contextlib
import datetime
import glob
import gzip
import json
import math
import os
import re
import shlex
import sys
import threading
import time

from .common import RUNTIME, STARTS, TEXT, Failed, LeftOut, opens, run, say

LEAST_SECONDS = 3  # with less than these left, nothing begins
SLOW = 20  # times the time of a step, where CPUs play the GPU
LIBRARIES = (('SHARDC_CUBLASLT', ('libcublasLt.so.13', 'libcublasLt.so.12')), ('SHARDC_NCCL', ('libnccl.so.2',)))


def python_libraries(env):
    """Of CUDA's libraries that programs would not find: those that Python's packages have."""
    found = {}
    toolkits = [os.path.join(env[v], 'lib64') for v in ('CUDA_HOME', 'CUDA_PATH') if env.get(v)] + ['/usr/local/cuda/lib64']
    for variable, names in LIBRARIES:
        if env.get(variable) or any(opens(path) for name in names for path in (name, *(os.path.join(t, name) for t in toolkits))):
            continue
        packaged = [path for name in names for folder in sys.path for path in glob.glob(os.path.join(folder, 'nvidia', '*', 'lib', name))]
        if packaged:
            found[variable] = packaged[0]
    return found


def fitness(target, capability):
    """How well a GPU of the capability (90: 9.0) runs what was compiled for the target: machine code for it alone, machine code of its
    generation, PTX; the latest first. None: not at all."""
    kind, number, special = re.match(r'cuda:(sm|compute)_(\d+)(a?)$', target).groups()
    number = int(number)
    if special and kind == 'sm' and number == capability:
        return 3, number
    if not special and kind == 'sm' and number // 10 == capability // 10 and number <= capability:
        return 2, number
    return (1, number) if number <= capability else None


class Check:
    def __init__(self, options, work):
        self.o, self.work, self.folder = options, work, os.path.abspath(options.folder)
        with open(os.path.join(self.folder, 'manifest.json')) as file:
            self.manifest = json.load(file)
        self.quick = self.manifest['quick']
        self.env = dict(os.environ, LD_LIBRARY_PATH=':'.join(filter(None, [os.environ.get('LD_LIBRARY_PATH'), self.libraries()])))
        self.env.update(python_libraries(self.env))
        self.until = self.step_until = time.monotonic() + (options.within or math.inf)
        self.about, self.results, self.rows, self.copied, self.tuned = None, [], [], None, set()
        self.ours = {}  # what PyTorch is compared with: tokens/s or TFLOP/s by name
        self.text = os.path.join(self.folder, TEXT)
        self.programs = os.path.join(work, 'programs')
        self.lock = threading.RLock()
        os.makedirs(self.programs)

    # ---- what is run ----

    def libraries(self):
        """A folder of those carried ones that the system lacks."""
        carried, lacking = os.path.join(self.folder, 'lib'), os.path.join(self.work, 'lib')
        os.makedirs(lacking)
        for name in os.listdir(carried):
            if not opens(name):
                os.symlink(os.path.join(carried, name), os.path.join(lacking, name))
        return lacking

    @staticmethod
    def executable(path, *parts):
        """Complete when it appears under its name, since others may be about to run it."""
        with STARTS, open(path + '.part', 'wb') as file:
            file.writelines(parts)
        os.chmod(path + '.part', 0o755)
        os.replace(path + '.part', path)

    def tool(self, *parts):
        """A copy where it may be run, where what was carried has lost that."""
        path, copy = os.path.join(self.folder, 'build', *parts), os.path.join(self.work, *parts)
        if os.access(path, os.X_OK):
            return path
        with self.lock:
            if not os.path.exists(copy):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                with open(path, 'rb') as file:
                    self.executable(copy, file.read())
        return copy

    def capability(self):
        major, minor = self.about['capability'].split('.')
        return 10 * int(major) + int(minor)

    def target_of(self, name):
        """Of those that the program was built for the best one here; None: it was built for none that runs here."""
        fit = [(fitness(target, self.capability()), target) for target in self.manifest['programs'].get(name, ())]
        return max((f, target) for f, target in fit if f is not None)[1] if any(f for f, _ in fit) else None

    def has(self, name):
        return self.target_of(name) is not None

    def unpacked(self, name):
        """In a folder that can be written to: programs may keep something beside them."""
        path = os.path.join(self.programs, name)
        with self.lock:
            if not os.path.exists(path):
                target = self.target_of(name)
                if target is None:
                    raise LeftOut('%s was not prepared for this GPU' % name)
                packed = os.path.join(self.folder, 'programs', target.replace(':', '-'), name + '.gz')
                with open(os.path.join(self.folder, RUNTIME), 'rb') as stub, gzip.open(packed) as rest:
                    self.executable(path, stub.read(), rest.read())
        return path

    def as_shardc(self):
        """A shardc that runs models by the programs that were built of them."""
        path = os.path.join(self.work, 'as-shardc')
        words = [sys.executable, os.path.join(self.folder, 'scripts', 'gpu-check'), '--as-shardc', self.tool('shardc'), self.programs]
        self.executable(path, ('#!/bin/sh\nexec %s "$@"\n' % ' '.join(map(shlex.quote, words))).encode())
        return path

    def left(self, limit):
        """Seconds of `limit` that there are."""
        until = min(self.until, self.step_until)
        return max(1, min(limit * (SLOW if self.quick else 1), int(min(until - time.monotonic(), 1e6))))

    def command(self, *words, limit=120, more_env=None, last=3):
        return run(words, self.left(limit), env=dict(self.env, **(more_env or {})), cwd=self.work, last=last)

    def program(self, name, *words, limit=120):
        return self.command(self.unpacked(name), *words, limit=limit)

    # ---- steps and rows ----

    def begin(self, seconds):
        """A step has so long, and no longer than there is for all."""
        self.step_until = min(self.until, time.monotonic() + seconds * (SLOW if self.quick else 1))

    def attempt(self, kind, name, work):
        begin, fine = time.monotonic(), False
        try:
            if min(self.until, self.step_until) - begin < LEAST_SECONDS:
                raise Failed('no time is left for it')
            detail, fine = work() or '', True
        except LeftOut as why:
            detail, fine = 'left out: %s' % why, None
        except (Failed, OSError, ValueError, KeyError, IndexError, StopIteration) as failure:
            detail = str(failure) if isinstance(failure, Failed) else repr(failure)
        return {'step': name, 'kind': kind, 'ok': fine, 'detail': detail, 'seconds': time.monotonic() - begin}

    @staticmethod
    def tell(result):
        mark = {True: 'ok  ', False: 'FAIL', None: '--  '}[result['ok']]
        print('%s %s%s' % (mark, result['step'], ': ' + result['detail'] if result['detail'] else ''), flush=True)

    def step(self, kind, name, work):
        say(name)
        result = self.attempt(kind, name, work)
        with self.lock:
            self.results.append(result)
            self.tell(result)
            self.save()
        return result

    def checks(self, works):
        """Checks that do not disturb each other, as (name, work), some of them at a time; told in their order. Their results."""
        results = [None] * len(works)

        def one(i):
            results[i] = self.attempt('check', *works[i])
            with self.lock:
                before = self.results
                self.results = before + [r for r in results if r is not None]
                self.save()
                self.results = before

        with self.shared_cores(), concurrent.futures.ThreadPoolExecutor(self.o.jobs) as pool:
            for i, future in enumerate([pool.submit(one, i) for i in range(len(works))]):
                future.result()
                self.tell(results[i])
        with self.lock:
            self.results += results
            self.save()
        return results

    @contextlib.contextmanager
    def shared_cores(self):
        """What runs side by side has a part of the cores each: teams of threads that wait for each other would be slow."""
        whole = self.env
        self.env = dict(whole, OMP_NUM_THREADS=str(max(1, (os.cpu_count() or 1) // self.o.jobs)))
        try:
            yield
        finally:
            self.env = whole

    def row(self, what, measured, goal=None, reached=None):
        """reached: None where there is no goal; or words, where the number cannot be believed."""
        self.rows.append({'what': what, 'measured': measured, 'goal': goal, 'reached': reached})

    # ---- what comes of it ----

    def about_gpu(self):
        self.about = json.loads(run([self.tool('bench', 'cuda_rates')], 60, env=self.env, cwd=self.work))

    def head(self):
        about, checks = self.about, [r for r in self.results if r['kind'] == 'check' and r['ok'] is not None]
        targets = sorted({t for t in map(self.target_of, self.manifest['programs']) if t})
        lines = ['%s, compute capability %s, %d multiprocessors, %.0f GiB; driver of CUDA %d.%d; %s; shardc %s for %s%s' % (
            about['gpu'], about['capability'], about['multiprocessors'], about['memory'] / 2**30, about['driver'] // 1000,
            about['driver'] % 1000 // 10, datetime.date.today(), self.manifest['commit'], ', '.join(targets) or 'other GPUs',
            ', small sizes that say nothing of speed' if self.quick else ''), '`%s`' % ' '.join(sys.argv), '',
            '%d of %d checks passed.' % (sum(bool(r['ok']) for r in checks), len(checks))]
        lines += ['FAILED: %s: %s' % (r['step'], r['detail']) for r in self.results if r['ok'] is False]
        lines += ['not done: %s: %s' % (r['step'], r['detail']) for r in self.results if r['ok'] is None]
        return lines + ['not carried: %s: %s' % pair for pair in self.manifest['left_out'].items()]

    def table(self):
        lines = ['| what | %s | goal | |' % self.about['gpu'], '|---|---|---|---|']
        for row in self.rows:
            reached = row['reached']
            mark = '' if reached is None else '**%s**' % reached if isinstance(reached, str) else 'reached' if reached else '**missed**'
            lines.append('| %s | %s | %s | %s |' % (row['what'].replace('|', '\\|'), row['measured'].replace('|', '\\|'), row['goal'] or '', mark))
        return '\n'.join([*self.head(), '', *(lines if self.rows else [])])

    def save(self):
        if not self.o.out:
            return
        for path, text in ((self.o.out + '.json', json.dumps({'gpu': self.about, 'manifest': self.manifest, 'steps': self.results,
                                                              'rows': self.rows}, indent=1)), (self.o.out, self.table() + '\n')):
            with open(path + '.part', 'w') as file:
                file.write(text)
            os.replace(path + '.part', path)
