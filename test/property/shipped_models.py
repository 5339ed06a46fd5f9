#!/usr/bin/env python3
"""Every model that the project ships, under each of its plans and for each entry that these bind: `verify`, `verify --dtypes` and
`verify --compiled` agree, whatever is drawn.

Of each program a sample verifies the emitted code and, by turns, the per-rank program with and without its casts, each under another one of
the twenty seeds; --full draws all twenty in all modes. A program that this version does not compile (exit 6) or that a plan leaves without
sizes is no case; how many cases there have to be is said below.

  shipped_models.py --shardc build/shardc
  shipped_models.py --shardc build/shardc --full --jobs 2
  shipped_models.py --shardc build/shardc --only bytes.shard:one:loss
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("examples", "bench")
MODES = {"f64": [], "dtypes": ["--dtypes"], "compiled": ["--compiled"]}
SEEDS = 20
TIMEOUT = 1800
REFUSED, NO_CASE = (4, 6), ("[unbound_dim]", "[choose_entry]")
NO_CODE = "a pipeline ('stage')"  # verified, but no code is emitted for it: docs/roadmap.md
LEAST_PROGRAMS = 39  # with plans and entries that the files have today


@dataclasses.dataclass(frozen=True)
class Program:
    file: pathlib.Path
    plan: str
    entry: str | None  # None: what the command takes by itself, a train step where there is one

    def name(self) -> str:
        return f"{self.file.name}:{self.plan}:{self.entry or 'step'}"

    def command(self, shardc: str) -> list[str]:
        chosen = [] if self.entry is None else ["--entry", self.entry]
        return [shardc, "verify", str(self.file), "--plan", self.plan, *chosen]


@dataclasses.dataclass(frozen=True)
class Outcome:
    kind: str  # fine, none (no case) or failed
    text: str = ""


def programs_of(file: pathlib.Path) -> list[Program]:
    text = re.sub(r"//.*", "", file.read_text())
    plans = re.findall(r"^plan (\w+) for", text, re.M)
    entries = re.findall(r"^\s+entry (\w+)", text, re.M)
    return [Program(file, plan, entry) for plan in plans for entry in (None, *entries)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--full", action="store_true", help=f"all {SEEDS} seeds in every mode")
    parser.add_argument("--only", default="", metavar="FILE:PLAN:ENTRY", help="programs whose name begins so")
    parser.add_argument("--modes", default=",".join(MODES), help="of " + ", ".join(MODES))
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="other models than the project's")
    return parser.parse_args()


def verify(arguments: argparse.Namespace, program: Program, mode: str, seed: int) -> Outcome:
    try:
        done = subprocess.run([*program.command(arguments.shardc), *MODES[mode], "--seed", str(seed)], capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return Outcome("failed", f"no answer in {TIMEOUT} s")
    if done.returncode == 0:
        return Outcome("fine")
    if mode == "compiled" and done.returncode == 6 and NO_CODE in done.stderr:
        return Outcome("no code", "")
    first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
    is_none = done.returncode in REFUSED or any(reason in done.stderr for reason in NO_CASE)
    return Outcome("none" if is_none else "failed", f"exit {done.returncode}: {first}")


def draws(arguments: argparse.Namespace, number: int) -> list[tuple[str, int]]:
    """Which mode under which seed."""
    modes = arguments.modes.split(",")
    if arguments.full:
        return [(mode, seed) for mode in modes for seed in range(1, SEEDS + 1)]
    left_out = ("f64", "dtypes")[number % 2] if len(modes) == len(MODES) else None
    return [(mode, 1 + (number + 7 * i) % SEEDS) for i, mode in enumerate(modes) if mode != left_out]


def check(arguments: argparse.Namespace, numbered: tuple[int, Program]) -> tuple[Program, int, list[str]]:
    """The program, how often it was verified, and what failed. What is no case under one seed is none under another."""
    number, program = numbered
    ran, failures = 0, []
    for mode, seed in draws(arguments, number):
        outcome = verify(arguments, program, mode, seed)
        if outcome.kind == "none" and ran == 0:
            break
        if outcome.kind == "no code":
            continue
        ran += 1
        if outcome.kind != "fine":
            failures.append(f"{mode}, seed {seed}: {outcome.text}")
    return program, ran, failures


def main() -> int:
    arguments = parse_arguments()
    files = arguments.files or [file for folder in FOLDERS for file in sorted((ROOT / folder).glob("*.shard"))]
    chosen = [program for file in files for program in programs_of(file) if program.name().startswith(arguments.only)]
    verified = runs = failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for program, ran, failures in pool.map(lambda numbered: check(arguments, numbered), enumerate(chosen)):
            verified, runs, failed = verified + (ran > 0), runs + ran, failed + len(failures)
            for failure in failures:
                print(f"FAILED {program.name()}: {failure}", flush=True)
    if not arguments.only and not arguments.files and verified < LEAST_PROGRAMS:
        print(f"FAILED: {verified} programs could be verified, fewer than {LEAST_PROGRAMS}")
        failed += 1
    print(f"{verified} programs of {len(chosen)} that plans and entries make")
    print(f"{runs - min(failed, runs)} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
