#!/usr/bin/env python3
"""Claims about the collectives and the memory of a file's plans:

  // RUN: %python %source_dir/test/passes/Inputs/claims.py shardc %s
  // CLAIM: calls("tp", "backward", "all_reduce", "tp", scope="layers") == 4
  // CLAIM: sent("ddp") == sent("zero1")
  // CLAIM: agree("one", "tp", "fsdp")

Each claim is a Python expression over the functions of `Report`. A plan that a claim names must pass `shardc verify`, too.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "property"))
from tensor_files import read_tensors, write_integers  # noqa: E402

STEPS = 3


class Report:
    """What shardc says of a file; phase, op and axes of None mean any. Control calls count only where they are asked for."""

    def __init__(self, shardc: str, file: str) -> None:
        self.shardc, self.file = shardc, file
        self.plans: list[str] = []

    def ask(self, command: str, plan: str) -> dict:
        arguments = [self.shardc, command, self.file, "--plan", plan, "--format", "json"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command} --plan {plan} exits {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    @functools.cache
    def table(self, plan: str) -> list[dict]:
        if plan not in self.plans:
            self.plans.append(plan)
        return self.ask("comm", plan)["collectives"]

    @functools.cache
    def per_rank(self, plan: str) -> dict[str, int]:
        if plan not in self.plans:
            self.plans.append(plan)
        return self.ask("memory", plan)["per_rank"]

    def rows(self, plan, phase=None, op=None, axes=None, scope=None, control=False) -> list[dict]:
        def fits(row: dict) -> bool:
            over = row["sub"] or "+".join(row["axes"])
            here = scope is None or row["scope"] == scope or row["scope"].startswith(scope + ".")
            wanted = phase in (None, row["phase"]) and op in (None, row["op"]) and axes in (None, over)
            return wanted and here and row["control"] == control

        return [row for row in self.table(plan) if fits(row)]

    def calls(self, *where, **more) -> int:
        """Executed in a step."""
        return sum(row["count"] for row in self.rows(*where, **more))

    def sent(self, *where, **more) -> float:
        """Bytes that a rank sends in a step."""
        return sum(row["count"] * row["sent"] for row in self.rows(*where, **more))

    def values(self, *where, **more) -> list[str]:
        """What travels, sorted."""
        return sorted(value for row in self.rows(*where, **more) for value in row["values"])

    def dims(self, *where, **more) -> list[str]:
        """Dims that are gathered or scattered, one a call, sorted."""
        return sorted(str(row["dim"]) for row in self.rows(*where, **more))

    def memory(self, plan: str, kind: str) -> int:
        return self.per_rank(plan)[kind]

    # ---- runs: in f64 where the plan asks for it ----
    def batch(self, targets: str, file: pathlib.Path) -> None:
        """Random tokens t and targets y of plan `one`'s sizes, the same in every step. targets: all, some (few in the first rows, none in
        the very first) or none of them count."""
        values = {value["path"]: value["global"] for value in self.ask("explain", "one")["values"]}
        rows, length = (values["loss.t"][dim] for dim in "BS")
        vocabulary = next(sizes["V"] for sizes in values.values() if "V" in sizes)
        rng = random.Random(1)
        tokens, ids = ([rng.randrange(vocabulary) for _ in range(rows * length)] for _ in range(2))
        share = {"all": lambda row: 1.0, "some": lambda row: row / rows, "none": lambda row: 0.0}[targets]
        ids = [id if rng.random() < share(i // length) else -100 for i, id in enumerate(ids)]
        write_integers(file, (rows, length), {"t": tokens, "y": ids})

    @functools.cache
    def train(self, plan: str, steps: int = STEPS, targets: str = "all", settings: str = "") -> dict[str, list[float]]:
        """Losses, norms of gradients and, in the end, every parameter, by name."""
        if plan not in self.plans:
            self.plans.append(plan)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data, log, state = folder / "data", folder / "log", folder / "state"
            self.batch(targets, data)
            arguments = [self.shardc, "train", self.file, "--plan", plan, "--steps", str(steps), "--seed", "7", "--log", str(log)]
            arguments += ["--state", str(state), "--input", f"t={data}:t", "--input", f"y={data}:y"]
            done = subprocess.run(arguments + (["--set", settings] if settings else []), capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"train --plan {plan} exits {done.returncode}: {done.stderr}")
            records = [record for record in map(json.loads, log.read_text().splitlines()) if "loss" in record]
            found = {"loss": [r["loss"] for r in records], "grad_norm": [r["grad_norm"] for r in records]}
            return found | {name: list(values) for name, values in read_tensors(state / "state.safetensors").items()}

    def agree(self, first: str, *others: str, targets: str = "all") -> bool:
        """After a few steps, losses, norms, parameters and optimizer state are those of the first plan, to rounding."""
        want = self.train(first, targets=targets)
        return all(self.close(name, self.train(plan, targets=targets).get(name), values) for plan in others for name, values in want.items())

    @staticmethod
    def close(name: str, got: list[float] | None, want: list[float]) -> bool:
        allowed = 1e-9 * max(map(abs, want)) + 1e-15
        fine = got is not None and len(got) == len(want) and all(abs(a - b) <= allowed for a, b in zip(got, want))
        if not fine:
            print(f"{name} differs")
        return fine

    def descends(self, plan: str, targets: str = "all") -> bool:
        """A small step of plain descent changes the loss by -lr |gradient|^2, and the parameters by lr |gradient|: the gradient is that
        of the loss, and its norm counts each element once."""
        rate = 1e-6
        still, moved = (self.train(plan, 2, targets, f"lr={r!r}") for r in (0.0, rate))
        slope = (moved["loss"][0] - moved["loss"][1]) / rate
        length = math.sqrt(sum((a - b) ** 2 for name in still if name not in ("loss", "grad_norm") for a, b in zip(still[name], moved[name])))
        norm = moved["grad_norm"][0]
        print(f"slope {slope}, moved {length / (2 * rate)} a step, norm {norm}")
        return abs(slope / norm**2 - 1) < 1e-3 and abs(length / (2 * rate * norm) - 1) < 1e-3

    def show(self, plan: str) -> str:
        lines = [f"  {plan}: {r['phase']} {r['op']} {r['sub'] or r['axes']} x{r['count']} of {r['bytes']} bytes in {r['scope']}: "
                 f"{', '.join(r['values'])}{' (control)' if r['control'] else ''}" for r in self.table(plan)]
        return "\n".join(lines + [f"  {plan}: {self.per_rank(plan)}"])


def main() -> int:
    report = Report(sys.argv[1], sys.argv[2])
    offered = {name: getattr(report, name) for name in ("calls", "sent", "values", "dims", "memory", "train", "agree", "descends")}
    claims = re.findall(r"^// CLAIM: (.*)$", pathlib.Path(report.file).read_text(), re.MULTILINE)
    false = [claim for claim in claims if not eval(claim, dict(offered))]
    for claim in false:
        print(f"does not hold: {claim}")
        for name in report.plans:
            if f'"{name}"' in claim:
                print(report.show(name))
    for plan in report.plans:
        if not report.ask("verify", plan)["equal"]:
            false.append(plan)
    return 1 if false or not claims else 0


sys.exit(main())
