"""Compares weights files: same A B, rounded A B (B is A in bf16), at-most BYTES FOLDER. A and B are files or folders."""
import json
import pathlib
import struct
import sys


def read(path):
    path, found = pathlib.Path(path), {}
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        data = file.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, about in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = about["data_offsets"]
                found[name] = about["dtype"], about["shape"], data[start + begin : start + end]
    return found


def bf16(data):
    words = (bits[0] for bits in struct.iter_unpack("<I", data))
    return b"".join(struct.pack("<H", (word + 0x7FFF + (word >> 16 & 1)) >> 16) for word in words)


def main():
    how, *rest = sys.argv[1:]
    if how == "at-most":
        for file in pathlib.Path(rest[1]).glob("*.safetensors"):
            there = [len(data) for _, _, data in read(file).values()]
            assert sum(there) <= int(rest[0]) or len(there) == 1, file
        return
    a, b = map(read, rest)
    if how == "rounded":
        a = {name: ("BF16", shape, bf16(data)) for name, (_, shape, data) in a.items()}
    assert a.keys() == b.keys() and a, (a.keys(), b.keys())
    for name, tensor in a.items():
        assert b[name] == tensor, name


main()
