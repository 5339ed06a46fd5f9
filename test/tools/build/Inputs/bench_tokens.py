"""bench_tokens.py PROG: the lines that its bench prints about tokens; PROG is ../generate/Inputs/lm.shard under tp2."""
import json
import subprocess
import sys


def tokens(*args):
    run = subprocess.run([sys.argv[1], 'bench', '--json', '--steps', '2', *args], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert sum('steps' in line for line in lines) == 1, lines
    return [line for line in lines if 'token' in line], lines[-1]


# The prompt fills 4 of the caches' 24 positions.
each, all_of_them = tokens('--max-tokens', '20', '--profile')
assert [line['position'] for line in each] == list(range(4, 24)), each
assert all(line['seconds'] > 0 and line['cpu'] > 0 for line in each)
assert all_of_them['tokens'] == 20 and 0 < all_of_them['least'] <= all_of_them['median'], all_of_them
assert abs(all_of_them['tokens_per_second'] * all_of_them['median'] - 3) < 1e-6, all_of_them
# Two layers and the head, whatever the plan does with them: what gathers pick does not count.
layer = 16 * 4 * 4 * 2 + 16 * 2 * 4 * 2 + 2 * 16 * 32
assert all_of_them['parameter_bytes'] == 4 * (2 * layer + 16 * 256), all_of_them
ratio = all_of_them['parameter_bytes'] / all_of_them['median'] / all_of_them['read_rate']
assert abs(all_of_them['of_read_rate'] / ratio - 1) < 1e-9, all_of_them
# No call of the whole prompt is left in the profile of tokens.
assert all(row['calls'] % 20 == 0 for row in all_of_them['profile']['slowest']), all_of_them

# Without room after the prompt: the last ones; with more tokens than positions, over again.
assert [line['position'] for line in tokens('--max-tokens', '22')[0]] == list(range(2, 24))
assert [line['position'] for line in tokens('--max-tokens', '26')[0]] == [*range(24), 0, 1]
