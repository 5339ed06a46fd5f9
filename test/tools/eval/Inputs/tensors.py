"""Writes or shows small safetensors files: tensors.py write FILE NAME DTYPE SHAPE VALUES [..] | show FILE"""

import json
import struct
import sys

CODES = {"F64": "d", "F32": "f", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?"}


def numbers(text):
    return [float(x) if "." in x else int(x) for x in text.split(",") if x]


def write(path, fields):
    header, data = {}, b""
    for name, dtype, shape, values in zip(*[iter(fields)] * 4):
        raw = struct.pack("<%d%s" % (len(numbers(values)), CODES[dtype]), *numbers(values))
        header[name] = {"dtype": dtype, "shape": numbers(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def show(path):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        part = raw[8 + size + begin : 8 + size + end]
        values = part.hex() if tensor["dtype"] not in CODES else list(struct.unpack("<%d%s" % (len(part) // struct.calcsize(CODES[tensor["dtype"]]), CODES[tensor["dtype"]]), part))
        print(name, tensor["dtype"], tensor["shape"], values)


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3:])
else:
    show(sys.argv[2])
