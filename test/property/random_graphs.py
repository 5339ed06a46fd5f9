#!/usr/bin/env python3
"""Every op of the language, in random graphs under random plans: the per-rank program equals the one-device program.

Draws one small entry of random ops (all of LANGUAGE 4), a mesh of up to 12 ranks in up to three axes and random rules and pins; each must
pass `shardc verify`, or be refused with a message (too many are a failure of this test). A failing case is shrunk and its file kept:

  random_graphs.py --shardc build/shardc --seed 7 --cases 3000 --jobs 8
  random_graphs.py --shardc build/shardc --only 7:812        one case again
  random_graphs.py --shardc build/shardc --dtypes            with the casts in force
  random_graphs.py --shardc build/shardc --train --stages    train steps, cut into pipeline stages
  random_graphs.py --shardc build/shardc --train --stages --forward    the entries of these steps, run forward
  random_graphs.py --shardc build/shardc --compiled          the emitted code, run here
  random_graphs.py --shardc build/shardc --compiled --target cuda:sm_90a
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

import cases
import graph_plans
import graphs

LARGEST_REFUSED_SHARE = 0.40
TIMEOUT, TIMEOUT_COMPILED = 60, 1800
REFUSED = (1, 4, 6)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", metavar="SEED:INDEX", help="one case")
    parser.add_argument("--keep", type=pathlib.Path, help="where failing files stay (default: a new folder)")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--train", action="store_true", help="train steps: every op's derivative, under plans that store and recompute, too")
    parser.add_argument("--stages", action="store_true", help="with --train: as pipelines of all schedules")
    parser.add_argument("--forward", action="store_true", help="with --stages: the entry without its step, as micro-batches")
    parser.add_argument("--compiled", action="store_true", help="verify the emitted code (SHARDC_CFLAGS=-O1 is sooner done)")
    parser.add_argument("--dtypes", action="store_true", help="verify with the casts in force, too")
    cases.add_target(parser)
    parser.add_argument("--refusals", action="store_true", help="say why cases were refused")
    arguments = parser.parse_args()
    if arguments.stages and not arguments.train:
        parser.error("--stages is of train steps: give --train, too")
    if arguments.forward and not arguments.stages:
        parser.error("--forward is of entries in stages: give --stages, too")
    return arguments


def first_error(messages: str) -> str:
    return next((line for line in messages.splitlines() if "error" in line.lower()), messages[:200].strip())


def alike(message: str) -> str:
    """A message without its numbers and names, so that a smaller case can be asked for the same one."""
    return re.sub(r"'[^']*'|\d[\d.e+-]*|\S+\.shard\S*|\b[a-z]\d+\b", "_", message)[:60]


def is_needless(messages: str) -> bool:
    """`*` stores a parameter as it can be stored: no size refuses it."""
    return re.search(r"divide\]\n *shard (param|grad|opt)[^;]*\* over", messages) is not None


def outcome(arguments: argparse.Namespace, file: pathlib.Path, text: str) -> tuple[str, str]:
    """fine, refused or what went wrong; and its message."""
    file.write_text(text)
    timeout = TIMEOUT_COMPILED if arguments.compiled else TIMEOUT
    verify = cases.verify_compiled(arguments.shardc, arguments.target) if arguments.compiled else [arguments.shardc, "verify"] + ["--dtypes"] * arguments.dtypes
    try:
        done = subprocess.run([*verify, str(file), *["--entry", "f"] * arguments.forward], capture_output=True, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        return "hangs", f"no answer in {timeout} s"
    message = first_error(done.stderr)
    if done.returncode in REFUSED and ": error: " in done.stderr and not is_needless(done.stderr):
        return "refused", message
    return ("fine", "") if done.returncode == 0 else (f"exit {done.returncode}: {alike(message)}", message)


def shrink(arguments: argparse.Namespace, file: pathlib.Path, case: graph_plans.Case, kind: str) -> graph_plans.Case:
    """The first smaller case that fails alike, again and again."""
    for smaller in graph_plans.smaller(case):
        if outcome(arguments, file, smaller.text())[0] == kind:
            return shrink(arguments, file, smaller, kind)
    return case


def report(arguments: argparse.Namespace, work: pathlib.Path, case: graph_plans.Case, kind: str, message: str) -> None:
    file = work / f"{case.name}.shard"
    print(f"FAILED {case.name}: {kind}: {message} ({file})", flush=True)
    if arguments.no_shrink:
        return
    small = work / f"{case.name}_small.shard"
    found = shrink(arguments, small, case, kind)
    kind, message = outcome(arguments, small, found.text())
    print(f"  smaller: {small}: {message}\n{found.text()}", flush=True)


def check(arguments: argparse.Namespace, work: pathlib.Path, drawn: list[graph_plans.Case]) -> tuple[int, int, set[str]]:
    """How many were refused, how many failed, and which ops were in what passed."""
    refused, failed, ops = 0, 0, collections.Counter()

    def run(case: graph_plans.Case) -> tuple[str, str]:
        return outcome(arguments, work / f"{case.name}.shard", case.text())

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, (kind, message) in zip(drawn, pool.map(run, drawn)):
            refused += kind == "refused"
            if kind == "refused" and arguments.refusals:
                print(f"refused {case.name}: {message}")
            if kind not in ("fine", "refused"):
                failed += 1
                report(arguments, work, case, kind, message)
                continue
            if kind == "fine":
                ops.update({s.op for s in case.graph.statements})
            (work / f"{case.name}.shard").unlink()
    return refused, failed, set(ops)


def main() -> int:
    arguments = parse_arguments()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="random_graphs_"))
    work.mkdir(parents=True, exist_ok=True)
    seed, indices = arguments.seed, range(arguments.cases)
    if arguments.only:
        seed, only = map(int, arguments.only.split(":"))
        indices = range(only, only + 1)
    drawn = [graph_plans.draw_staged_case(seed, i) if arguments.stages else graph_plans.draw_case(seed, i, arguments.train) for i in indices]
    refused, failed, ops = check(arguments, work, drawn)
    share = refused / len(drawn)
    absent = {"append"} if arguments.stages else set()  # caches belong to blocks, and the statements need not stand in one
    missing = sorted(set(graphs.ALL_OPS) - ops - absent)
    print(f"{100 * share:.1f} % of the cases were refused with a message; {len(ops)} ops were in cases that passed")
    if share >= LARGEST_REFUSED_SHARE:
        print(f"FAILED: at most {100 * LARGEST_REFUSED_SHARE:.0f} % may be")
        failed += 1
    if missing and len(drawn) >= 300:
        print(f"FAILED: no case with {', '.join(missing)} passed")
        failed += 1
    if failed == 0 and not any(work.iterdir()):
        work.rmdir()
    print(f"{len(drawn) - min(failed, len(drawn))} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
