#!/usr/bin/env python3
"""Published sizes compile: Inputs/published_sizes.json has the facts of config.json files, their sources and the number of parameters that each
publisher states. Each is imported, and `shardc memory` plans a train step under a plan of the imported file. What the ranks store as parameters
is that number, in bf16: of a fully sharded plan up to padding, of tensor parallelism up to the norms, which every rank has.

  published_sizes.py --shardc build/shardc [NAME..]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROWS = json.loads((pathlib.Path(__file__).resolve().parent / "Inputs" / "published_sizes.json").read_text())
BYTES = 2
MORE = 0.002  # padding, and norms on each rank


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exits {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def check(shardc: str, row: dict, folder: pathlib.Path) -> list[str]:
    (folder / "config.json").write_text(json.dumps(row["config"]))
    model = folder / "model.shard"
    run(shardc, "import", str(folder), "-o", str(model))
    report = json.loads(run(shardc, "memory", str(model), "--plan", row["plan"], "--bind", row["bind"], "--format", "json"))
    stored = report["ranks"] * report["per_rank"]["param"] / BYTES
    peak = report["per_rank"]["peak"] / 2**30
    print(f"{row['name']}: {row['parameters']} parameters; {row['plan']} with {row['bind']}: {peak:.1f} GiB a rank", flush=True)
    fits = row["parameters"] <= stored <= (1 + MORE) * row["parameters"]
    return [] if fits else [f"{row['name']}: {stored:.0f} parameters are stored, {row['parameters']} are published"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("names", nargs="*", default=[row["name"] for row in ROWS])
    arguments = parser.parse_args()
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if row["name"] in arguments.names:
                count += 1
                faults += check(arguments.shardc, row, pathlib.Path(folder))
    print("\n".join(faults) if faults else f"{count} published models are planned")
    sys.exit(1 if faults or count == 0 else 0)


if __name__ == "__main__":
    main()
