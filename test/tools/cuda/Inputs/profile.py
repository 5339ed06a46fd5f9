"""profile.py FILE [KIND]: the summary that `bench --json --profile --steps 3` printed last; it has rows of the kind, `comm` if none is named."""
import json
import sys

summary = json.loads(open(sys.argv[1]).read().splitlines()[-1])
rows = summary['profile']['all']
assert summary['profile']['slowest'] == rows[:10], summary
assert [row['total'] for row in rows] == sorted((row['total'] for row in rows), reverse=True), rows
for kind, seconds in summary['profile']['kinds'].items():
    assert abs(sum(row['total'] for row in rows if row['kind'] == kind) - seconds) <= 1e-9, kind
for row in rows:
    assert row['calls'] % 2 == 0 and 0 < row['least'] * row['calls'] <= row['total'] * (1 + 1e-9), row
    assert ('bytes' in row) == (row['kind'] != 'wait'), row
    assert ('flops' in row) == (row['kind'] == 'gemm'), row
kind = sys.argv[2] if len(sys.argv) > 2 else 'comm'
assert {'kernel', 'gemm', kind, 'wait'} <= {row['kind'] for row in rows}, rows
if kind != 'comm':
    sys.exit()
# 2 rows of 8 tokens a rank, 16 wide, 256 ids: logits are the largest product, forward and backward.
gemms = [row for row in rows if row['kind'] == 'gemm']
assert gemms and all(row['flops'] > 0 and row['what'].startswith('gemm f32 ') for row in gemms), gemms
largest = max(gemms, key=lambda row: row['flops'])
assert largest['flops'] == 2 * 16 * 256 * 16 and largest['bytes'] == 4 * (16 * 16 + 16 * 256 + 256 * 16), largest
