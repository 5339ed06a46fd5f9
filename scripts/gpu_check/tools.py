"""compute-sanitizer and ncu, where they are installed, on programs that are small."""
import csv
import glob
import os
import shutil

from .common import LeftOut, run

PLACES = ('/usr/local/cuda/bin', '/opt/nvidia/nsight-compute/*')
# (tool of compute-sanitizer, program, what it does)
SANITIZED = (('memcheck', 'case-attention-64', ('eval',)), ('memcheck', 'case-one', ('train', '--data', '{text}', '--steps', '1')),
             ('racecheck', 'case-attention-64', ('eval',)))
MEMORY, TIME = 'dram__throughput.avg.pct_of_peak_sustained_elapsed', 'gpu__time_duration.sum'
# The same of several generations of GPUs: the first that ncu knows counts.
TENSOR = ('sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active', 'sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active',
          'sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active')
WORDS = {MEMORY: "of memory's peak", **{metric: "of the tensor cores' peak" for metric in TENSOR}}
PROFILED = (('attention', 'attention-128'), ('norms and others', 'kernels'))


def find(name):
    path = shutil.which(name) or next((p for place in PLACES for p in sorted(glob.glob(os.path.join(place, name)), reverse=True)), None)
    if path is None:
        raise LeftOut('there is no %s' % name)
    return path


def sanitize(check, tool, program, words):
    out = check.command(find('compute-sanitizer'), '--tool', tool, '--error-exitcode', '9', check.unpacked(program),
                        *(word.format(text=check.text) for word in words), limit=60, last=12)
    return next((line.strip('= ') for line in reversed(out.splitlines()) if 'SUMMARY' in line), 'nothing is reported')


def profiled_rows(text):
    """By kernel and metric, from ncu's CSV: (kernel, metric, value, unit)."""
    lines = text[text.index('"ID"'):].splitlines() if '"ID"' in text else []
    return [(row['Kernel Name'], row['Metric Name'], row['Metric Value'], row['Metric Unit']) for row in csv.DictReader(lines)
            if row.get('Metric Name')]


def metrics_of(check, program, tensor):
    """By kernel and metric (value, unit) of the first launches, and ncu's last words."""
    out = run([find('ncu'), '--csv', '--launch-count', '12', '--metrics', ','.join((MEMORY, tensor, TIME)), check.unpacked(program), 'bench',
               '--steps', '1', '--no-graph'], check.left(40), env=check.env, cwd=check.work, fails=False)
    by_kernel = {}
    for kernel, metric, value, unit in profiled_rows(out):
        by_kernel.setdefault(kernel, {}).setdefault(metric, (value, unit))
    return by_kernel, ' / '.join(out.strip().splitlines()[-2:])


def profile(check, what, program):
    for tensor in TENSOR:
        by_kernel, words = metrics_of(check, program, tensor)
        if any(tensor in found for found in by_kernel.values()):
            break
    if not by_kernel:
        raise LeftOut('ncu reports nothing: %s' % (words or 'it says nothing'))
    for kernel, found in by_kernel.items():
        check.row('ncu, %s: `%s`' % (what, kernel), ', '.join('%s %s' % (' '.join(found[m]), WORDS[m]) for m in WORDS if m in found) +
                  ('; %s %s' % found[TIME] if TIME in found else ''))
    return '%d kernels' % len(by_kernel)


def step(check):
    check.checks([('%s of %s' % (tool, program), lambda row=(tool, program, words): sanitize(check, *row))
                  for tool, program, words in SANITIZED if check.has(program)])
    for what, program in PROFILED:
        if check.has(program):
            check.step('figure', 'ncu of %s' % what, lambda what=what, program=program: profile(check, what, program))
