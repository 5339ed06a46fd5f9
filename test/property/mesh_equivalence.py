#!/usr/bin/env python3
"""Whatever the mesh and the plan, the per-rank programs equal the one-device program.

Draws small transformers, meshes of up to 16 ranks in up to three axes and plans of random rules, pins and styles; each must pass
`shardc verify`, and its printed IR must read back unchanged. A plan may be refused with a message (too many are a failure of this
test). A failing case is shrunk and its file kept:

  mesh_equivalence.py --shardc build/shardc --seed 7 --cases 3000 --jobs 8
  mesh_equivalence.py --shardc build/shardc --only 7:812        one case again
  mesh_equivalence.py --shardc build/shardc --compiled          the emitted code, run here
  mesh_equivalence.py --shardc build/shardc --compiled --target cuda:sm_90a
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import pathlib
import sys
import tempfile

from cases import Case, Outcome, Tools, add_target, check_case, draw_case, shrink

LARGEST_REFUSED_SHARE = 0.40


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True, help="the compiler; shardc-opt is looked for beside it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", metavar="SEED:INDEX", help="one case")
    parser.add_argument("--keep", type=pathlib.Path, help="where failing files stay (default: a new folder)")
    parser.add_argument("--dtypes", action="store_true", help="verify with the casts in force, too")
    parser.add_argument("--compiled", action="store_true", help="verify the emitted code (SHARDC_CFLAGS=-O1 is sooner done)")
    add_target(parser)
    parser.add_argument("--padding", action="store_true", help="sizes that axes do not divide, padded")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--refusals", action="store_true", help="say why plans were refused")
    return parser.parse_args()


def shrink_failure(tools: Tools, case: Case, outcome: Outcome) -> Case:
    scratch = dataclasses.replace(case, name=case.name + "_small")
    return shrink(scratch, lambda smaller: check_case(tools, smaller).kind == outcome.kind)


def report_failure(tools: Tools, case: Case, outcome: Outcome, shrinks: bool) -> None:
    file = tools.work / f"{case.name}.shard"
    print(f"FAILED {case.name} --entry {case.entry}: {outcome.kind}: {outcome.detail} ({file})", flush=True)
    if shrinks:
        small = shrink_failure(tools, case, outcome)
        again = check_case(tools, small)
        print(f"  smaller: {tools.work / small.name}.shard --entry {small.entry}: {again.detail}\n{small.text()}", flush=True)


def check_all(tools: Tools, cases: list[Case], arguments: argparse.Namespace) -> dict[str, int]:
    counts = {"passed": 0, "failed": 0, "refused": 0}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, outcome in zip(cases, pool.map(lambda c: check_case(tools, c), cases)):
            counts["failed" if outcome.failed() else "passed"] += 1
            if outcome.failed():
                report_failure(tools, case, outcome, not arguments.no_shrink)
                continue
            counts["refused"] += outcome.kind == "refused"
            if outcome.kind == "refused" and arguments.refusals:
                print(f"refused {case.name}: {outcome.detail}")
            (tools.work / f"{case.name}.shard").unlink()
    return counts


def main() -> int:
    arguments = parse_arguments()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="mesh_equivalence_"))
    work.mkdir(parents=True, exist_ok=True)
    shardc = pathlib.Path(arguments.shardc).resolve()
    tools = Tools(str(shardc), str(shardc.with_name("shardc-opt")), work, arguments.dtypes, arguments.compiled, arguments.target)
    if arguments.only:
        seed, index = map(int, arguments.only.split(":"))
        cases = [draw_case(seed, index, arguments.padding)]
    else:
        cases = [draw_case(arguments.seed, i, arguments.padding) for i in range(arguments.cases)]
    counts = check_all(tools, cases, arguments)
    share = counts["refused"] / len(cases)
    print(f"{100 * share:.1f} % of the plans were refused with a message")
    if share >= LARGEST_REFUSED_SHARE:
        print(f"FAILED: at most {100 * LARGEST_REFUSED_SHARE:.0f} % may be")
        counts["failed"] += 1
    if counts["failed"] == 0 and not any(work.iterdir()):
        work.rmdir()
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


sys.exit(main())
