"""entries.py SHARDC FILE FOLDER: every entry of the file gives under every plan with stages what it gives under plan `one`, to 1e-12 in f64; emitted and, under the first, interpreted."""

import array
import json
import random
import struct
import subprocess
import sys

CODES = {"F64": "d", "F32": "f", "I32": "i"}
INPUTS = {"loss": "xt", "mean_loss": "xt", "logits": "xs", "several": "xt"}  # the others: x
ENTRIES = ["loss", "mean_loss", "logits", "several", "greatest", "centred", "squared", "numbered"]
RUNS = [("pp", "--interpret"), ("pp",), ("looped",), ("folded",)]
shardc, file, folder = sys.argv[1:]


def write(path, tensors):
    header, data = {}, b""
    for name, dtype, shape, values in tensors:
        raw = array.array(CODES[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = open(path, "rb").read()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    return {
        name: (e["shape"], array.array(CODES[e["dtype"]], raw[begin + e["data_offsets"][0] : begin + e["data_offsets"][1]]))
        for name, e in json.loads(raw[8:begin]).items()
        if name != "__metadata__"
    }


def run(entry, plan, *options):
    inputs = [f"--input={name}={folder}/in" for name in INPUTS.get(entry, "x")]
    command = [shardc, "eval", file, "--plan", plan, "--entry", entry, "--seed", "7", "-o", f"{folder}/out", *inputs, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "runs_as_one" in line]
    return read(f"{folder}/out"), notes


draw = random.Random(1)
write(
    f"{folder}/in",
    [
        ("x", "F64", [8, 4], [draw.gauss(0, 1) for _ in range(32)]),
        ("t", "I32", [8], [draw.randrange(3) for _ in range(8)]),
        ("s", "F64", [], [0.75]),
    ],
)
for entry in ENTRIES:
    expected, _ = run(entry, "one")
    for plan in RUNS:
        found, notes = run(entry, *plan)
        assert expected.keys() == found.keys()
        for name, (shape, values) in expected.items():
            assert shape == found[name][0], f"{entry} {plan} {name}: {found[name][0]}"
            bound = (1e-12 if values.typecode == "d" else 1e-6) * max(map(abs, values))
            for i, (a, b) in enumerate(zip(values, found[name][1])):
                assert abs(a - b) <= bound, f"{entry} {plan} {name}[{i}]: {b!r}, not {a!r}"
    print(entry, "is the same", *notes)
