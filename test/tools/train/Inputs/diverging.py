"""diverging.py write FILE STEP..: inputs x of eight steps; those of these steps, from 1, have one infinite element, in the last row.
diverging.py log FILE STEP..: the log has these steps as skipped, with a loss that is not finite, and no others."""

import json
import math
import struct
import sys

STEPS, ROWS, COLUMNS = 8, 4, 6
file, bad = sys.argv[2], [int(step) for step in sys.argv[3:]]


def write():
    values = [((i * 37 + 11) % 23 - 11) / 8 for i in range(STEPS * ROWS * COLUMNS)]
    for step in bad:
        values[step * ROWS * COLUMNS - 2] = math.inf
    header = json.dumps({"x": {"dtype": "F32", "shape": [STEPS, ROWS, COLUMNS], "data_offsets": [0, 4 * len(values)]}}).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(header)) + header + struct.pack("<%df" % len(values), *values))


def log():
    lines = [json.loads(line) for line in open(file)]
    assert [line["step"] for line in lines if line.get("skipped")] == bad, lines
    for line in lines:
        finite = all(math.isfinite(float(line[key])) for key in ("loss", "grad_norm"))
        assert finite == (line["step"] not in bad), line


write() if sys.argv[1] == "write" else log()
