#!/usr/bin/env python3
"""A ring rounds like one device: the error of bf16 attention over eight ranks is at most 1.05 times that over one, against f64.

  ring_rounding.py --shardc build/shardc
"""

from __future__ import annotations

import argparse
import math
import pathlib
import random
import subprocess
import sys
import tempfile

from tensor_files import read_tensors, write_floats

MOST = 1.05
MODEL = """lang 1;
dim B = 2, S = 512, T = alias S, K = 2, G = 2, H = (K, G), E = 32;
model m {
  entry out(q: f32[B, S, H, E], k: f32[B, T, K, E], v: f32[B, T, K, E]) -> [B, S, H, E] {
    return cast(attend[T, E](3 * q, k, v, mask = %s), f32);
  }
}
plan exact for m { precision act = f64; }
plan one for m { precision act = bf16; }
plan ring for m { mesh cp = 8; shard act, input S over cp%s; form out: ring over cp; precision act = bf16; }
"""


SHAPES = {"q": (2, 512, 4, 32), "k": (2, 512, 2, 32), "v": (2, 512, 2, 32)}


def write_inputs(path: pathlib.Path) -> None:
    rng = random.Random(7)
    write_floats(path, {name: (shape, [rng.gauss(0, 1) for _ in range(math.prod(shape))]) for name, shape in SHAPES.items()})


def outputs(shardc: str, file: pathlib.Path, plan: str, folder: pathlib.Path) -> list[float]:
    result = folder / f"{plan}.safetensors"
    inputs = [word for name in SHAPES for word in ("--input", f"{name}={folder / 'inputs.safetensors'}:{name}")]
    subprocess.run([shardc, "eval", str(file), "--plan", plan, *inputs, "-o", str(result)], check=True, capture_output=True)
    (values,) = read_tensors(result).values()
    return list(values)


def error(got: list[float], wanted: list[float]) -> float:
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(got, wanted, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    arguments = parser.parse_args()
    fine = True
    for mask in ("none", "causal", "window(100)"):
        for order in ("", " zigzag"):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                file = folder / "ring.shard"
                file.write_text(MODEL % (mask, order))
                write_inputs(folder / "inputs.safetensors")
                exact, one, ring = (outputs(arguments.shardc, file, plan, folder) for plan in ("exact", "one", "ring"))
            ratio = error(ring, exact) / error(one, exact)
            fine = fine and ratio <= MOST
            print(f"{mask}{order}: the error over 8 ranks is {ratio:.4f} of that over one")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
