"""Which GPU, driver and libraries there are, and whether they take what was prepared. Nothing is set, only read."""
import ctypes
import os
import shutil

from .check import LIBRARIES
from .common import Failed, LeftOut

SMI = ('name', 'driver_version', 'clocks.sm', 'clocks.max.sm', 'clocks.mem', 'clocks.max.mem', 'temperature.gpu', 'power.draw', 'power.limit')
REASONS = ('clocks_event_reasons.active', 'clocks_throttle_reasons.active')  # of low clocks: newer drivers' name, older ones'


def two(number, hundred):
    return '%d.%d' % (number // hundred, number % hundred // 10)


def nvrtc_verdict(driver, nvrtc):
    """(fine, words) of a driver and the NVRTC that prepared, as (major, minor). Machine code of a later NVRTC of the same major version is
    taken; PTX is not, since its version is later. Of a later major version neither is: its machine code has another ABI."""
    if nvrtc is None:
        return None, 'it is not known which NVRTC prepared'
    words = 'the driver has CUDA %d.%d, NVRTC %d.%d prepared: ' % (*driver, *nvrtc)
    if nvrtc[0] > driver[0]:
        return False, words + 'the driver refuses machine code and PTX; prepare with an NVRTC of CUDA %d' % driver[0]
    if nvrtc > driver:
        return True, words + 'machine code is taken; PTX, for GPUs that no target fits, is not'
    return True, words + 'machine code and PTX are taken'


def of_nvrtc(check):
    driver = check.about['driver']
    text = check.manifest['nvrtc']
    nvrtc = tuple(map(int, text.split('.'))) if text else None
    fine, words = nvrtc_verdict((driver // 1000, driver % 1000 // 10), nvrtc)
    if fine is None:
        raise LeftOut(words)
    if not fine:
        raise Failed(words)
    return words


def library(check, variable, names):
    folders = [os.path.join(check.env[v], 'lib64') for v in ('CUDA_HOME', 'CUDA_PATH') if check.env.get(v)] + ['/usr/local/cuda/lib64']
    paths = [check.env[variable]] if check.env.get(variable) else [*names, *(os.path.join(f, name) for name in names for f in folders)]
    for path in paths:
        try:
            return ctypes.CDLL(path), path
        except OSError:
            continue
    raise LeftOut('none of %s is found' % ', '.join(paths))


def cublaslt(check):
    found, path = library(check, *LIBRARIES[0])
    found.cublasLtGetVersion.restype = ctypes.c_size_t
    number = found.cublasLtGetVersion()
    big = 10000 if number >= 100000 else 1000
    return '%d.%d.%d (%s)' % (number // big, number % big // 100, number % 100, path)


def nccl(check):
    found, path = library(check, *LIBRARIES[1])
    number = ctypes.c_int()
    if found.ncclGetVersion(ctypes.byref(number)) != 0:
        raise Failed('ncclGetVersion fails')
    return '%d.%d.%d (%s)' % (number.value // 10000, number.value % 10000 // 100, number.value % 100, path)


def smi(check):
    if not shutil.which('nvidia-smi'):
        raise LeftOut('there is no nvidia-smi')
    for more in (REASONS[:1], REASONS[1:], ()):
        try:
            line = check.command('nvidia-smi', '--query-gpu=' + ','.join(SMI + more), '--format=csv,noheader', limit=15).splitlines()[0]
        except Failed:
            if not more:
                raise
            continue
        return ', '.join('%s %s' % pair for pair in zip(SMI + more, (word.strip() for word in line.split(','))))


def targets(check):
    best = sorted({t for t in map(check.target_of, check.manifest['programs']) if t})
    if not best:
        raise Failed('compute capability %s runs none of %s' % (check.about['capability'], ', '.join(check.manifest['targets'])))
    return 'programs for %s, of %s' % (', '.join(best), ', '.join(check.manifest['targets']))


def step(check):
    for name, work in (('driver and NVRTC', of_nvrtc), ('targets', targets), ('cuBLASLt', cublaslt), ('NCCL', nccl), ('nvidia-smi', smi)):
        result = check.step('check', name, lambda work=work: work(check))
        check.row(name, result['detail'])
