"""Fills a folder with what a machine with a GPU needs, on one that builds."""
import concurrent.futures
import ctypes
import gzip
import json
import os
import re
import shutil
import threading

from . import programs, suites
from .common import ROOT, RUNTIME, TEXT, Failed, run, say

SYSTEM = re.compile(r'^(linux-vdso|ld-linux|libc\.|libm\.|libpthread\.|libdl\.|librt\.|libresolv\.)')
EXECUTABLES = ('shardc', 'shardc-prog', 'test/test_compiled_ops', 'test/test_cuda_products', 'test/test_nccl_alone', 'bench/cuda_rates')
FILES = ('scripts/gpu-check', 'scripts/gpu_check', 'test/tools/cuda/Inputs/processes.py', TEXT)
NVRTC = ('libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so')


def nvrtc_version(env):
    """Of the NVRTC that shardc opens (codegen/toolchain/nvrtc.c), as '13.0'; None where it is not found here."""
    folders = [os.path.join(home, lib) for home in (env.get('CUDA_HOME'), env.get('CUDA_PATH'), '/usr/local/cuda') if home for lib in ('lib64', 'lib')]
    paths = [env['SHARDC_NVRTC']] if env.get('SHARDC_NVRTC') else [*NVRTC, *(os.path.join(f, name) for name in NVRTC for f in folders)]
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
            return '%d.%d' % (major.value, minor.value)
    return None


class Carrier:
    def __init__(self, options):
        self.o, self.to, self.target = options, os.path.abspath(options.folder), options.target
        self.shardc = os.path.join(self.to, 'build', 'shardc')
        self.programs, self.left_out, self.lock = {}, {}, threading.Lock()

    def path(self, *parts):
        path = os.path.join(self.to, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def copy(self, path):
        source, to = os.path.join(ROOT, path), self.path(path)
        if os.path.isdir(source):
            shutil.copytree(source, to, ignore=shutil.ignore_patterns('__pycache__'))
        else:
            shutil.copy2(source, to)

    def executable(self, path):
        """Without what debuggers read, and with the libraries that a bare system lacks."""
        source, to = os.path.join(self.o.build, path), self.path('build', path)
        if not os.path.exists(source):
            raise Failed('%s is missing: the release build comes first' % source)
        shutil.copy2(source, to)
        if shutil.which('strip'):
            run(['strip', to], 60)
        for line in run(['ldd', to], 60).splitlines():
            found = re.match(r'\s*(\S+) => (/\S+)', line)
            if found and not SYSTEM.match(found[1]):
                shutil.copy2(found[2], self.path('lib', found[1]))

    def build(self, program, target):
        """All begin with the same runtime: what stands behind it is kept."""
        path = self.path('programs', target.replace(':', '-'), program.name)
        run([self.shardc, 'build', *program.command(self.o.quick), '--target', target, '-o', path], 600, cwd=ROOT)
        with open(os.path.join(self.to, RUNTIME), 'rb') as stub, open(path, 'rb') as file:
            begin, data = stub.read(), file.read()
        if not data.startswith(begin):
            raise Failed('%s does not begin with shardc-prog' % path)
        with gzip.open(path + '.gz', 'wb') as file:
            file.write(data[len(begin):])
        os.remove(path)
        with self.lock:
            self.programs.setdefault(program.name, []).append(target)

    def expect(self, case):
        """By the interpreter of this machine, or, of text that is generated, by its code."""
        out, text = self.path('expected', case.name), os.path.join(ROOT, TEXT)
        verb, *rest = case.run.format(out=out, text=text).split()
        printed = run([self.shardc, verb, *case.program.command(False), *rest, *([] if verb == 'generate' else ['--interpret'])], 600, cwd=ROOT)
        if verb == 'generate':
            with open(out, 'w') as file:
                file.write(printed)

    def all_of(self, work):
        """All of these calls, some beside each other. The first that fails is raised."""
        with concurrent.futures.ThreadPoolExecutor(self.o.jobs) as pool:
            for future in [pool.submit(*call) for call in work]:
                future.result()

    def small_set(self, target, wanted):
        """For GPUs of another kind: NVRTC may be too old for them, which the first program tells."""
        say('cases and smoke for', target)
        try:
            self.build(wanted[0], target)
        except Failed as failure:
            self.left_out[target] = str(failure)
            print('%s is left out: %s' % (target, failure), flush=True)
            return
        self.all_of([(self.build, program, target) for program in wanted[1:]])

    def ops(self):
        """A program each, for a process each."""
        say('ops')
        self.path('ops', '')
        tool = self.path('build', 'test', 'test_compiled_ops')
        env = dict(os.environ, SHARDC_TEST_KEEP=self.path('ops'), SHARDC_TEST_TARGET=self.target)
        rows = [line.split('\t') for line in run([tool, '--list'], 60).splitlines()]
        self.rows = [row for row in rows if not self.o.quick or row[0] in programs.QUICK_OPS]
        self.all_of([(run, [tool, name], 600, env) for name, _ in self.rows])

    def suites(self):
        for path, _, _ in suites.SUITES:
            self.copy(path)
        for model, _ in suites.models(ROOT, self.shardc, suites.ACCEPTANCE, self.o.quick):
            self.copy(model)
        self.copy('test/acceptance/golden')

    def prepare(self):
        if os.path.exists(self.to) and os.listdir(self.to):
            raise Failed('%s is not empty' % self.to)
        try:
            self.fill()
        except BaseException:
            shutil.rmtree(self.to, ignore_errors=True)  # half of one is none
            raise

    def fill(self):
        for path in EXECUTABLES:
            self.executable(path)
        for path in FILES:
            self.copy(path)
        self.suites()
        cases, quick = programs.cases(self.o.quick), self.o.quick
        say('cases')
        self.all_of([(self.expect, case) for case in cases])
        of_suites = programs.of_suites(ROOT, self.shardc, quick)
        for_main = [*(case.program for case in cases), *of_suites, *programs.measured(quick), *programs.several(quick)]
        say('%d programs for %s' % (len(for_main), self.target))
        self.all_of([(self.build, program, self.target) for program in for_main])
        self.ops()
        for target in self.o.also:
            self.small_set(target, [case.program for case in cases])
        self.write_manifest({'cases': [case.name for case in cases], 'suites': [program.name for program in of_suites],
                             'ops': self.rows, 'plans': suites.plans(ROOT, self.shardc, quick)})

    @staticmethod
    def commit():
        try:
            return run(['git', 'describe', '--always', '--dirty'], 60, cwd=ROOT).strip()
        except (Failed, OSError):
            return 'of no repository'

    def write_manifest(self, contents):
        manifest = {'target': self.target, 'targets': [self.target, *(t for t in self.o.also if t not in self.left_out)], 'left_out': self.left_out,
                    'quick': self.o.quick, 'commit': self.commit(), 'nvrtc': nvrtc_version(os.environ), 'programs': self.programs, **contents}
        with open(self.path('manifest.json'), 'w') as file:
            json.dump(manifest, file, indent=1)
        size = sum(os.path.getsize(os.path.join(folder, f)) for folder, _, files in os.walk(self.to) for f in files)
        print('%s: %d programs for %s, %.1f MiB, by NVRTC %s' % (self.o.folder, len(self.programs), ', '.join(manifest['targets']), size / 2**20,
                                                                manifest['nvrtc'] or 'of an unknown version'))
