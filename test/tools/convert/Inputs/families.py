"""families.py SHARDC MODELS FOLDER: the weights of every folder of MODELS become a state, and the state weights again: of the same names, shapes
and values. Nothing but the family's map says what the shapes are."""
import json
import pathlib
import re
import struct
import subprocess
import sys


def tensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    begin = 8 + length
    entries = {k: v for k, v in json.loads(data[8:begin]).items() if k != "__metadata__"}
    return {name: (e["dtype"], e["shape"], data[begin + e["data_offsets"][0]:begin + e["data_offsets"][1]]) for name, e in entries.items()}


def run(*command):
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


def main():
    shardc, models, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    faults = 0
    for source in sorted(models.glob("*/config.json")):
        model, state, back = (folder / f"{source.parent.name}{end}" for end in (".shard", "-state", ".safetensors"))
        before = tensors(source.parent / "model.safetensors")
        precision = {"BF16": "bf16", "F32": "f32", "F64": "f64"}[next(iter(before.values()))[0]]
        run(shardc, "import", source.parent, "--precision", precision, "-o", model)
        # dims that the file names without a size: B, S, and Y, the positions of a decoder beside an encoder
        text = model.read_text()
        sizes = ",".join(f"{dim}={size}" for dim, size in (("B", 2), ("S", 4), ("Y", 4)) if re.search(rf"\b{dim}\b", text) and f" {dim} = " not in text)
        run(shardc, "convert", model, source.parent / "model.safetensors", "--plan", "one", "--bind", sizes, "-o", state)
        run(shardc, "convert", model, state, "--plan", "one", "--bind", sizes, "-o", back)
        after = tensors(back)
        differ = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        print(f"{source.parent.name}: {len(after)} tensors")
        for name in differ:
            faults += 1
            print(f"  {name}: {[t and t[:2] for t in (before.get(name), after.get(name))]}")
    sys.exit(1 if faults else 0)


main()
