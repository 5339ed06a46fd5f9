"""judges.py ROOT: what gpu-check concludes, where no GPU has to be asked."""
import os
import sys
import types

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], 'scripts'))
from gpu_check import figures, suites, tools, versions
from gpu_check.check import Check, fitness
from gpu_check.common import Failed

TARGETS = ['cuda:sm_80', 'cuda:sm_89', 'cuda:sm_90a', 'cuda:sm_100a', 'cuda:sm_120', 'cuda:compute_80']


def best(capability):
    check = types.SimpleNamespace(manifest={'programs': {'p': TARGETS}}, capability=lambda: capability)
    return Check.target_of(check, 'p')


# Machine code for the GPU alone, then of its generation, then the latest PTX; an earlier GPU takes none.
assert [best(c) for c in (75, 80, 86, 89, 90, 100, 103, 120, 121)] == [
    None, 'cuda:sm_80', 'cuda:sm_80', 'cuda:sm_89', 'cuda:sm_90a', 'cuda:sm_100a', 'cuda:sm_100a', 'cuda:sm_120', 'cuda:sm_120']
assert fitness('cuda:sm_90a', 100) == (1, 90) and fitness('cuda:sm_90a', 89) is None and fitness('cuda:compute_80', 80) == (1, 80)

# A driver of CUDA 12 takes nothing of NVRTC 13; of a later minor version it takes machine code.
assert versions.nvrtc_verdict((12, 4), (13, 0))[0] is False
assert 'PTX, for GPUs that no target fits, is not' in versions.nvrtc_verdict((12, 4), (12, 9))[1]
assert versions.nvrtc_verdict((13, 0), (12, 9)) == (True, 'the driver has CUDA 13.0, NVRTC 12.9 prepared: machine code and PTX are taken')
assert versions.nvrtc_verdict((13, 0), None)[0] is None

# No kernel is faster than a copy; what moves little has no goal.
assert figures.verdict(0.9, 0.85, 64 << 20, False) == ('at least 0.85', True)
assert figures.verdict(0.8, 0.85, 64 << 20, False) == ('at least 0.85', False)
assert 'suspicious' in figures.verdict(8.87, 0.85, 64 << 20, False)[1]
assert figures.verdict(8.87, 0.85, 1 << 20, False) == (None, None)
assert figures.attention_flops({'B': 1, 'H': 1, 'S': 3, 'E': 2}, True) == 2 * 2 * 6 * 2

text = '==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k_0","%s","%%","81.5"\n' % tools.MEMORY
assert tools.profiled_rows(text) == [('k_0', tools.MEMORY, '81.5', '%')] and tools.profiled_rows('==ERROR== no permission') == []

assert suites.program_of('a/b.shard', ['--entry', 'e', '--steps', '2', '--plan', 'p']) == 'b.p.e'
try:
    suites.models(sys.argv[1], '/bin/true', ('test/train/bytes.py', (), ('--steps', '2', '--only', 'no_such_plan')), True)
except Failed as why:
    assert 'asks for nothing' in str(why)
else:
    raise SystemExit('a suite that asks for nothing was taken')
print('all as wanted')
