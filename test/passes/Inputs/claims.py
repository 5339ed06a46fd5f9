#!/usr/bin/env python3
"""Claims about the collectives and the memory of a file's plans:

  // RUN: %python %source_dir/test/passes/Inputs/claims.py shardc %s
  // CLAIM: calls("tp", "backward", "all_reduce", "tp", scope="layers") == 4
  // CLAIM: sent("ddp") == sent("zero1")

Each claim is a Python expression over the functions of `Report`. A plan that a claim names must pass `shardc verify`, too.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess
import sys


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

    def show(self, plan: str) -> str:
        lines = [f"  {plan}: {r['phase']} {r['op']} {r['sub'] or r['axes']} x{r['count']} of {r['bytes']} bytes in {r['scope']}: "
                 f"{', '.join(r['values'])}{' (control)' if r['control'] else ''}" for r in self.table(plan)]
        return "\n".join(lines + [f"  {plan}: {self.per_rank(plan)}"])


def main() -> int:
    report = Report(sys.argv[1], sys.argv[2])
    offered = {name: getattr(report, name) for name in ("calls", "sent", "values", "dims", "memory")}
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
