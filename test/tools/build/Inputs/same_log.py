"""same_log.py A B: two logs of train say the same, but for what clocks say."""
import json
import sys

# and for the rows that a process reads of the batch
CLOCKS = ('seconds', 'tokens_per_second', 'tflops', 'data_wait', 'data_bytes')
a, b = [[json.loads(line) for line in open(path, encoding='utf-8')] for path in sys.argv[1:3]]
assert len(a) == len(b) > 0, (len(a), len(b))
for left, right in zip(a, b):
    assert list(left) == list(right), (left, right)
    assert {k: v for k, v in left.items() if k not in CLOCKS} == {k: v for k, v in right.items() if k not in CLOCKS}, (left, right)
