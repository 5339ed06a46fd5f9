"""States of `shardc train --state DIR` as whole tensors, whatever mesh wrote them: read_state, add_to_state. As a command, `same DIR DIR..`
compares values, steps, seed and program of several."""
import array
import json
import math
import pathlib
import struct
import sys

KINDS = {"F64": "d", "F32": "f", "F16": "e", "I32": "i", "I64": "q", "U8": "B", "BOOL": "B"}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "U8": 1, "BOOL": 1}
BEGIN = b'{"checksum": "'


def state_folder(path):
    latest = pathlib.Path(path, "latest")
    return pathlib.Path(path, latest.read_text().strip()) if latest.exists() else pathlib.Path(path)


def decode(data, dtype):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack("<%d%s" % (len(data) // SIZES[dtype], KINDS[dtype]), data))


def rows(first, shape, whole):
    """Where the rows of a box begin in the whole, row-major."""
    strides = [math.prod(whole[d + 1 :]) for d in range(len(whole))]
    for row in range(math.prod(shape[:-1])):
        at = first[-1] if first else 0
        for d in reversed(range(len(shape) - 1)):
            at += (first[d] + row % shape[d]) * strides[d]
            row //= shape[d]
        yield at


def file_data(path):
    """All bytes, and where the tensors begin."""
    data = path.read_bytes()
    return bytearray(data), 8 + struct.unpack("<Q", data[:8])[0]


def read_tensor(folder, about, files):
    whole = [None] * math.prod(about["shape"])
    for shard in about["shards"]:
        if shard["file"] not in files:
            files[shard["file"]] = file_data(folder / shard["file"])
        data, start = files[shard["file"]]
        begin, end = (start + offset for offset in shard["data_offsets"])
        values = decode(data[begin:end], about["dtype"])
        length = shard["shape"][-1] if shard["shape"] else 1
        for i, at in enumerate(rows(shard["first"], shard["shape"], about["shape"])):
            assert all(x is None for x in whole[at : at + length]), "an element is there twice"
            whole[at : at + length] = values[i * length : (i + 1) * length]
    assert all(x is not None for x in whole), "an element is missing"
    return array.array("d", whole)


def read_state(path):
    """Of DIR or DIR/step-000400: the values by name, and what state.json says but for the state's identity."""
    folder, files = state_folder(path), {}
    index = json.loads((folder / "index.json").read_text())
    counts = json.loads((folder / "state.json").read_text())
    values = {name: read_tensor(folder, about, files) for name, about in index["weight_map"].items()}
    return values, {key: value for key, value in counts.items() if key not in ("checksum", "id")}


# ---- writing: XXH64, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md ----
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1


def rotate(x, by):
    return (x << by | x >> (64 - by)) & MASK


def mixed(lane, word):
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def checksum(data):
    end = len(data) // 32 * 32
    value = P5
    if end > 0:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        words = struct.unpack("<%dQ" % (end // 8), data[:end])
        for i in range(0, len(words), 4):
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words[i : i + 4])]
        value = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * P1 + P4) & MASK
    value = (value + len(data)) & MASK
    rest = data[end:]
    while len(rest) >= 8:
        value = (rotate(value ^ mixed(0, struct.unpack("<Q", rest[:8])[0]), 27) * P1 + P4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        value = (rotate(value ^ struct.unpack("<I", rest[:4])[0] * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        value = rotate(value ^ byte * P5 & MASK, 11) * P1 & MASK
    value = (value ^ value >> 33) * P2 & MASK
    value = (value ^ value >> 29) * P3 & MASK
    return value ^ value >> 32


def write_checked(path, root):
    rest = json.dumps({key: value for key, value in root.items() if key != "checksum"}).encode()[1:]
    path.write_bytes(BEGIN + b'%016x",' % checksum(rest) + rest)


def add_to_state(path, terms):
    """Adds numbers to whole tensors of floats, by name."""
    folder, files = state_folder(path), {}
    index = json.loads((folder / "index.json").read_text())
    for name, values in terms.items():
        about = index["weight_map"][name]
        kind, size = KINDS[about["dtype"]], SIZES[about["dtype"]]
        for shard in about["shards"]:
            if shard["file"] not in files:
                files[shard["file"]] = file_data(folder / shard["file"])
            data, start = files[shard["file"]]
            to = start + shard["data_offsets"][0]
            for at in rows(shard["first"], shard["shape"], about["shape"]):
                for term in values[at : at + (shard["shape"][-1] if shard["shape"] else 1)]:
                    data[to : to + size] = struct.pack("<" + kind, struct.unpack("<" + kind, data[to : to + size])[0] + term)
                    to += size
    for name, (data, _) in files.items():
        (folder / name).write_bytes(data)
        blocks = [bytes(data[at : at + index["block"]]) for at in range(0, len(data), index["block"])]
        index["files"][name]["xxh64"] = ["%016x" % checksum(block) for block in blocks]
    write_checked(folder / "index.json", index)


def main():
    (values, counts), *others = [read_state(path) for path in sys.argv[2:]]
    for other_values, other_counts in others:
        assert other_counts == counts, other_counts
        assert sorted(other_values) == sorted(values)
        for name, there in values.items():
            assert other_values[name].tobytes() == there.tobytes(), "%s differs" % name


if __name__ == "__main__":
    main()
