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
from state_files import add_to_state, read_state  # noqa: E402
from tensor_files import write_integers  # noqa: E402

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
        """What travels, seen from its layer, sorted."""
        return sorted(re.sub(r"^\w+\[\d+\]\.", "", value) for row in self.rows(*where, **more) for value in row["values"])

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

    def log(self, plan: str, steps: int, data: pathlib.Path, *options: str) -> list[dict]:
        log = data.with_name("log")
        arguments = [self.shardc, "train", self.file, "--plan", plan, "--steps", str(steps), "--log", str(log), *options]
        done = subprocess.run(arguments + ["--input", f"t={data}:t", "--input", f"y={data}:y"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"train --plan {plan} exits {done.returncode}: {done.stderr}")
        return [record for record in map(json.loads, log.read_text().splitlines()) if "loss" in record]

    @functools.cache
    def train(self, plan: str, steps: int = STEPS, targets: str = "all", settings: str = "lr=0.1") -> dict[str, list[float]]:
        """Losses, norms of gradients and, in the end, every parameter, by name."""
        if plan not in self.plans:
            self.plans.append(plan)
        with tempfile.TemporaryDirectory() as name:
            data, state = pathlib.Path(name, "data"), pathlib.Path(name, "state")
            self.batch(targets, data)
            records = self.log(plan, steps, data, "--seed", "7", "--set", settings, "--state", str(state))
            found = {"loss": [r["loss"] for r in records], "grad_norm": [r["grad_norm"] for r in records]}
            return found | {name: list(values) for name, values in read_state(state)[0].items()}

    def agree(self, first: str, *others: str, targets: str = "all") -> bool:
        """After a few steps, losses, norms and parameters are those of the first plan, to rounding."""
        want = self.train(first, targets=targets)
        return all(
            self.close(name, self.train(plan, targets=targets).get(name), values) for plan in others for name, values in want.items()
        )

    @staticmethod
    def close(name: str, got: list[float] | None, want: list[float]) -> bool:
        allowed = 1e-9 * max(map(abs, want)) + 1e-15
        fine = got is not None and len(got) == len(want) and all(abs(a - b) <= allowed for a, b in zip(got, want))
        if not fine:
            print(f"{name} differs")
        return fine

    def loss_beside(self, plan: str, targets: str, way: dict[str, list[float]], length: float) -> float:
        """Of the initial parameters, moved along `way`."""
        with tempfile.TemporaryDirectory() as name:
            data, state = pathlib.Path(name, "data"), pathlib.Path(name, "state")
            self.batch(targets, data)
            self.log(plan, 1, data, "--seed", "7", "--set", "lr=0", "--state", str(state))
            add_to_state(state, {name: [length * x for x in values] for name, values in way.items()})
            return self.log(plan, 2, data, "--set", "lr=0", "--resume", str(state))[-1]["loss"]

    def differentiates(self, plan: str, targets: str = "all") -> bool:
        """What plain descent moves the parameters by is the gradient of the loss (along a random direction, by differences), and the
        norm is that of the gradient, each element counted once."""
        rate, length = 1e-6, 1e-6
        still, moved = (self.train(plan, 1, targets, f"lr={r!r}") for r in (0.0, rate))
        params = [name for name in still if name not in ("loss", "grad_norm")]
        gradient = {name: [(a - b) / rate for a, b in zip(still[name], moved[name])] for name in params}
        rng = random.Random(2)
        way = {name: [rng.gauss(0, 1) for _ in gradient[name]] for name in params}
        slope = (self.loss_beside(plan, targets, way, length) - self.loss_beside(plan, targets, way, -length)) / (2 * length)
        along = sum(g * x for name in params for g, x in zip(gradient[name], way[name]))
        norm = math.sqrt(sum(g * g for name in params for g in gradient[name]))
        if abs(slope - along) < 1e-5 * norm and abs(moved["grad_norm"][0] - norm) < 1e-6 * norm:
            return True
        print(f"slope {slope} by differences, {along} by the gradient; norm {norm}, logged {moved['grad_norm'][0]}")
        return False

    def show(self, plan: str) -> str:
        lines = [
            f"  {plan}: {r['phase']} {r['op']} {r['sub'] or r['axes']} x{r['count']} of {r['bytes']} bytes in {r['scope']}: "
            f"{', '.join(r['values'])}{' (control)' if r['control'] else ''}"
            for r in self.table(plan)
        ]
        return "\n".join(lines + [f"  {plan}: {self.per_rank(plan)}"])


def main() -> int:
    report = Report(sys.argv[1], sys.argv[2])
    offered = {name: getattr(report, name) for name in ("calls", "sent", "values", "dims", "memory", "train", "agree", "differentiates")}
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
