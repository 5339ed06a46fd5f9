"""overflow.py A.log B.log: in A the first steps are skipped and later ones are not; the loss moves only after a step that was taken, and
the losses of B are those of A, as far as both go."""

import json
import sys

first, second = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
skipped = [line.get("skipped", False) for line in first]
assert skipped[0] and not skipped[-1], skipped
assert skipped == sorted(skipped, reverse=True), skipped
by_step = {line["step"]: line for line in first}
for line in second:
    same = by_step[line["step"]]
    assert line.get("skipped", False) == same.get("skipped", False), (line, same)
    assert abs(line["loss"] - same["loss"]) <= 1e-3 * abs(same["loss"]), (line, same)
