"""Safetensors files, with nothing but the standard library."""

from __future__ import annotations

import array
import json
import math
import pathlib
import struct

CODES = {"F64": "d", "F32": "f", "I32": "i", "I64": "q"}


def read_tensors(path: pathlib.Path) -> dict[str, array.array]:
    """Values in row-major order, by name."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = array.array(CODES[entry["dtype"]], data[8 + length + begin : 8 + length + end])
    return tensors


def write_floats(path: pathlib.Path, tensors: dict[str, tuple[tuple[int, ...], list[float]]]) -> None:
    """f32 tensors: shape and values, by name."""
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        data = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_integers(path: pathlib.Path, shape: tuple[int, ...], tensors: dict[str, list[int]]) -> None:
    """i32 tensors of one shape."""
    size = 4 * math.prod(shape)
    header = {name: {"dtype": "I32", "shape": shape, "data_offsets": [i * size, (i + 1) * size]} for i, name in enumerate(tensors)}
    text = json.dumps(header).encode()
    body = b"".join(array.array("i", values).tobytes() for values in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
