"""same.py logs A B [TOLERANCE]: the logs have the same steps; losses, norms and metrics agree to 1e-5, or to the tolerance.
same.py tensors A B [TOLERANCE]: the files have the same tensors; elements agree to as much of the tensor's largest."""

import array
import json
import struct
import sys

TOLERANCE = float(sys.argv[4]) if len(sys.argv) > 4 else 1e-5
CODES = {"F64": "d", "F32": "f", "I32": "i", "I64": "q"}


def tensors(path):
    data = open(path, "rb").read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:begin])
    return {name: array.array(CODES[e["dtype"]], data[begin + e["data_offsets"][0] : begin + e["data_offsets"][1]])
            for name, e in entries.items() if name != "__metadata__"}


def rows(path):
    lines = [json.loads(line) for line in open(path)]
    return {"step %d %s" % (line["step"], key): [line[key]] for line in lines for key in ("loss", "grad_norm", "eval_loss") if key in line}


a, b = map(rows if sys.argv[1] == "logs" else tensors, sys.argv[2:4])
assert a and a.keys() == b.keys(), "%s and %s" % (list(a), list(b))
for name, values in a.items():
    bound = TOLERANCE * max(map(abs, values))
    assert len(values) == len(b[name]), name
    for i, (x, y) in enumerate(zip(values, b[name])):
        assert abs(x - y) <= bound, "%s, element %d: %.9g and %.9g, bound %.3g" % (name, i, x, y, bound)
