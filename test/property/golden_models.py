#!/usr/bin/env python3
"""The families of models/ on golden files, without PyTorch: test/models/NAME has a config.json and weights as transformers saved them, tokens and
logits (io.safetensors), and what five steps of AdamW make of the model (steps.json: losses, norms, and of each tensor two sums).

`shardc import --check` compares the logits; `shardc train` under tensor parallelism with sequence parallelism, interpreted, the steps; an encoder
and a decoder alike. What it saves has the names and shapes of the weights that it read.

  golden_models.py --shardc build/shardc [NAME..]
  golden_models.py --shardc build/shardc --write NAME..     # with the Python of scripts/hf_venv: makes these files
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import tempfile

from imported import STEPS, Failure, Imported, header_of
from tensor_files import read_tensors

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "models"
WITHIN = 1e-8


def sums_of(values) -> list[float]:
    """Two numbers that a change of any element changes; the second also if elements are exchanged."""
    return [math.fsum(values), math.fsum(value * math.cos(i) for i, value in enumerate(values))]


def compare(name: str, got: list[float], want: list[float], scale: float) -> list[str]:
    worst = max(abs(a - b) for a, b in zip(got, want)) / scale
    return [] if worst <= WITHIN and len(got) == len(want) else [f"{name} by {worst:.1e}"]


def check(shardc: str, name: str, folder: pathlib.Path) -> list[str]:
    source = FOLDER / name
    for file in ("config.json", "model.safetensors"):
        (folder / file).write_bytes((source / file).read_bytes())
    ours = Imported(shardc, folder)
    print(f"{name}: {ours.check_logits(source / 'io.safetensors', '--interpret')}", flush=True)
    want = json.loads((source / "steps.json").read_text())
    plan = "tp2" if "\nplan tp2 " in ours.text else "one"
    got = ours.train(plan, source / "steps.safetensors", "--interpret")
    faults = compare("losses", got.losses, want["losses"], max(want["losses"]))
    faults += compare("norms of gradients", got.norms, want["norms"], max(want["norms"]))
    if header_of(folder / "saved.safetensors") != header_of(folder / "model.safetensors"):
        faults.append("names or shapes of what was saved are not those of what was read")
    for tensor, values in got.params.items():
        faults += compare(tensor, sums_of(values), want["sums"][tensor], want["sizes"][tensor])
    print(f"{name}, {plan}: {len(got.params)} tensors, losses from {got.losses[0]:.4f} to {got.losses[-1]:.4f}", flush=True)
    return [f"{name}: {fault}" for fault in faults]


def write(name: str) -> None:
    import hf_models

    case = 0
    target = FOLDER / name
    target.mkdir(parents=True, exist_ok=True)
    model = hf_models.make_model(name, case, seed=1)
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        model.bfloat16().save_pretrained(folder)
        for file in ("config.json", "model.safetensors"):
            (target / file).write_bytes((folder / file).read_bytes())
        batches = hf_models.draw_batches(model.config, seed=3)
        hf_models.write_batches(target / "steps.safetensors", batches)
        with hf_models.Widened():
            hf_models.write_logits(target / "io.safetensors", hf_models.make_model(name, case, seed=1), batches[0])
            want = hf_models.train_published(hf_models.make_model(name, case, seed=1), batches, folder / "after")
    sums = {tensor: sums_of(values) for tensor, values in want.params.items()}
    sizes = {tensor: math.fsum(map(abs, values)) for tensor, values in want.params.items()}
    steps = {"losses": want.losses, "norms": want.norms, "sums": sums, "sizes": sizes}
    (target / "steps.json").write_text(json.dumps(steps, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*", default=sorted(path.name for path in FOLDER.iterdir()) if FOLDER.exists() else [])
    arguments = parser.parse_args()
    faults = []
    for name in arguments.names:
        if arguments.write:
            write(name)
        with tempfile.TemporaryDirectory() as made:
            try:
                faults += check(arguments.shardc, name, pathlib.Path(made))
            except Failure as failure:
                faults.append(f"{name}: {failure}")
    print("\n".join(faults) if faults else f"{len(arguments.names)} models do {STEPS} steps as transformers does")
    sys.exit(1 if faults or not arguments.names else 0)


if __name__ == "__main__":
    main()
