#!/usr/bin/env python3
"""Whatever the mesh and the plan, a few train steps end where they end on one device.

Small Llamas (grouped keys, tied and untied, mean and weighted loss) and GPT-2s (dropout, tied embedding), on every factorisation of up to
8 ranks into data, storage, context and tensor axes, with and without sequence parallelism, each ZeRO variant, one and two micro-batches,
clipping on, recomputation on some. After 5 steps the losses, the norms of the gradients and every parameter equal those of one device, and
`shardc verify` agrees. What an axis does not divide must be refused with the sizes that are legal. A failing case's file is kept:

  train_equivalence.py --shardc build/shardc --seed 1 --cases 60
  train_equivalence.py --shardc build/shardc --all --jobs 2
  train_equivalence.py --shardc build/shardc --stages        as pipelines, on more ranks
  train_equivalence.py --shardc build/shardc --all --only gpt2_dp2_tp2     cases whose name begins so
"""

from __future__ import annotations

import argparse
import array
import concurrent.futures
import dataclasses
import functools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

from cases import add_target, verify_compiled
from state_files import read_state
from tensor_files import read_tensors, write_integers
from train_cases import STEPS, Case, all_cases, sample, with_stages

TIMEOUT, TIMEOUT_COMPILED = 120, 1800
RANKS_A_GPU = 16  # that the runtime lets share one
RELATIVE, ABSOLUTE = 1e-9, 1e-12  # of the tensor's largest, of the largest of all
BETA2 = 0.999


class Failure(Exception):
    pass


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--all", action="store_true", help="every case, not a sample")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compiled", action="store_true", help="verify the emitted code instead (SHARDC_CFLAGS=-O1 is sooner done)")
    add_target(parser)
    parser.add_argument("--stages", action="store_true", help="as pipelines of all schedules")
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name begins so")
    parser.add_argument("--keep", type=pathlib.Path, help="where failing files stay (default: a new folder)")
    return parser.parse_args()


def run(*command: str, timeout: int = TIMEOUT) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        return 124, f"no answer in {timeout} s"
    return done.returncode, done.stderr + done.stdout


# ---- runs ----
@dataclasses.dataclass(frozen=True)
class Run:
    losses: list[float]
    norms: list[float]
    params: dict[str, array.array]
    squares: dict[str, array.array]  # Adam's running mean of squared gradients, by parameter; empty for others


def write_data(case: Case, file: pathlib.Path) -> None:
    """A batch per step; where the loss is weighted, targets to ignore, unevenly spread over rows and steps."""
    rng = random.Random(f"{case.model.name}:{case.batch}")
    rows, seq, vocabulary = case.batch * STEPS, case.model.size("S"), case.model.size("V")
    tokens = [rng.randrange(vocabulary) for _ in range(rows * seq)]
    targets = [rng.randrange(vocabulary) for _ in range(rows * seq)]
    if case.model.weighted:
        kept = [rng.choice((0.0, 0.2, 0.9, 1.0)) for _ in range(rows)]
        targets = [y if rng.random() < kept[i // seq] else -100 for i, y in enumerate(targets)]
    write_integers(file, (STEPS, case.batch, seq), {"t": tokens, "y": targets})


def train(shardc: str, source: pathlib.Path, plan: str, case: Case, folder: pathlib.Path) -> Run:
    stem = folder / f"{source.stem}.{plan}"
    data, log, saved, state = (stem.with_name(stem.name + end) for end in (".data", ".log", ".params", ".state"))
    write_data(case, data)
    command = [shardc, "train", str(source), "--plan", plan, "--steps", str(STEPS), "--seed", "3", "--log", str(log), "--save", str(saved)]
    command += ["--state", str(state), "--input", f"t={data}:t", "--input", f"y={data}:y"]
    code, message = run(*command)
    if code != 0:
        raise Failure(f"train --plan {plan} exits {code}: {message.strip()[:300]}")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [s for s in steps if "loss" in s]
    values = read_state(state)[0]
    squares = {name[: -len(".v")]: v for name, v in values.items() if name.endswith(".v")}
    return Run([s["loss"] for s in steps], [s["grad_norm"] for s in steps], read_tensors(saved), squares)


class References:
    """One-device runs, each made once."""

    def __init__(self, shardc: str, folder: pathlib.Path) -> None:
        self.shardc, self.folder = shardc, folder
        self.runs: dict[tuple[str, int, int, int], concurrent.futures.Future[Run]] = {}
        self.lock = threading.Lock()

    def get(self, case: Case) -> Run:
        key = (case.model.name, case.batch, case.parts, case.layers)
        with self.lock:
            mine = key not in self.runs
            future = self.runs.setdefault(key, concurrent.futures.Future())
        if mine:
            try:
                source = self.folder / ("reference_" + "_".join(map(str, key)) + ".shard")
                source.write_text(case.text())
                future.set_result(train(self.shardc, source, "one", case, self.folder))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


# ---- comparing ----
def largest(values: array.array) -> float:
    return max(map(abs, values), default=0.0)


def compare_scalars(name: str, got: list[float], want: list[float]) -> None:
    if len(got) != STEPS or len(want) != STEPS:
        raise Failure(f"{name}: {len(got)} and {len(want)} steps")
    for i, (a, b) in enumerate(zip(got, want)):
        if not math.isfinite(a) or abs(a - b) > RELATIVE * abs(b):
            raise Failure(f"{name} of step {i + 1}: {a!r}, on one device {b!r}")


def has_gradient(want: Run) -> Callable[[str, int], bool]:
    """Where a gradient is above the tolerance: below it, Adam's step is the sign of a rounding error."""
    correction = 1 - BETA2**STEPS
    bounds = {name: math.sqrt(largest(v) / correction) for name, v in want.squares.items()}
    over_all = max(bounds.values(), default=0.0)
    bounds = {name: RELATIVE * bound + ABSOLUTE * over_all for name, bound in bounds.items()}
    return lambda name, i: name not in bounds or math.sqrt(want.squares[name][i] / correction) > bounds[name]


def state_name(param: str) -> str:
    """layers.0.attn.wq of the file is layers[0].attn.wq of the state."""
    head, _, rest = param.partition("layers.")
    return param if head or not rest else "layers[{}].{}".format(*rest.split(".", 1))


def compare_params(got: Run, want: Run) -> None:
    if got.params.keys() != want.params.keys():
        raise Failure(f"other parameters are saved: {sorted(got.params.keys() ^ want.params.keys())}")
    counts = has_gradient(want)
    over_all = max(map(largest, want.params.values()))
    for name, values in want.params.items():
        allowed = RELATIVE * largest(values) + ABSOLUTE * over_all
        for i, (a, b) in enumerate(zip(got.params[name], values, strict=True)):
            if not abs(a - b) <= allowed and counts(state_name(name), i):
                raise Failure(f"{name}[{i}] is {a!r}, on one device {b!r}")


# ---- a case ----
def check_refused(shardc: str, source: pathlib.Path, illegal: dict[str, list[int]]) -> None:
    code, message = run(shardc, "check", str(source), "--plan", "p")
    if code != 4:
        raise Failure(f"check exits {code}, not 4: {message.strip()[:300]}")
    for dim, sizes in illegal.items():
        if ", ".join(map(str, sizes)) not in message:
            raise Failure(f"the sizes of {dim}, {sizes}, are not listed: {message.strip()[:300]}")


def check_trained(shardc: str, source: pathlib.Path, case: Case, references: References, scratch: pathlib.Path) -> None:
    want = references.get(case)
    got = train(shardc, source, "p", case, scratch)
    compare_scalars("loss", got.losses, want.losses)
    compare_scalars("grad_norm", got.norms, want.norms)
    compare_params(got, want)
    code, message = run(shardc, "verify", str(source), "--plan", "p")
    if code != 0:
        raise Failure(f"verify exits {code}: {message.strip()[:300]}")


def check_compiled(shardc: str, target: str | None, source: pathlib.Path) -> None:
    code, message = run(*verify_compiled(shardc, target), str(source), "--plan", "p", timeout=TIMEOUT_COMPILED)
    if code != 0:
        raise Failure(f"verify --compiled exits {code}: {message.strip()[:300]}")


def check(shardc: str, compiled: bool, target: str | None, keep: pathlib.Path, references: References, case: Case) -> str:
    """fine, refused, or what is wrong."""
    source = keep / f"{case.name}.shard"
    source.write_text(case.text())
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if case.illegal():
                check_refused(shardc, source, case.illegal())
            elif compiled:
                check_compiled(shardc, target, source)
            else:
                check_trained(shardc, source, case, references, pathlib.Path(scratch))
    except Failure as failure:
        return f"{failure} ({source})"
    source.unlink()
    return "refused" if case.illegal() else "fine"


def main() -> int:
    arguments = parse_arguments()
    keep = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="train_equivalence_"))
    keep.mkdir(parents=True, exist_ok=True)
    cases = all_cases(arguments.seed)
    if not arguments.all:
        cases = sample(cases, arguments.cases, arguments.seed)
    if arguments.stages:
        cases = with_stages(cases, arguments.seed)
    cases = [case for case in cases if case.name.startswith(arguments.only)]
    if arguments.target and arguments.target.startswith("cuda"):
        cases = [case for case in cases if case.ranks <= RANKS_A_GPU]
    counts = {"fine": 0, "refused": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        references = References(arguments.shardc, pathlib.Path(scratch))
        one = functools.partial(check, arguments.shardc, arguments.compiled, arguments.target, keep, references)
        for case, outcome in zip(cases, pool.map(one, cases)):
            counts[outcome if outcome in counts else "failed"] += 1
            if outcome not in counts:
                print(f"FAILED {case.name}: {outcome}", flush=True)
    if not any(keep.iterdir()):
        keep.rmdir()
    print(f"{counts['fine']} equal, {counts['refused']} refused as they must be, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["fine"] else 0


sys.exit(main())
