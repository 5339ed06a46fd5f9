#!/usr/bin/env python3
"""The order in which a program is written decides nothing: lines of the plan and statements that do not read each other may change places.

Draws random graphs and transformers under random plans, permutes the plan's lines and independent statements, and compares placements
(`explain`) and collectives (`comm`, as a multiset: calls may stand in another order); the same file compiled twice gives the same bytes.

  order.py --shardc build/shardc --seed 7 --cases 1000 --jobs 8
  order.py --shardc build/shardc --only 7:12        one case again
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import cases
import graph_plans
import graphs

TIMEOUT = 60


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", metavar="SEED:INDEX", help="one case")
    parser.add_argument("--keep", type=pathlib.Path, help="where failing files stay (default: a new folder)")
    return parser.parse_args()


# ---- another order ----
def permuted(rng: random.Random, graph: graphs.Graph) -> graphs.Graph:
    """Any statement whose operands are made may come next."""
    left, done = list(graph.statements), []
    made = {v.name for v in graph.inputs + graph.params + graph.caches}
    while left:
        ready = [s for s in left if set(s.uses) <= made]
        done.append(rng.choice(ready))
        left.remove(done[-1])
        made |= {v.name for v in done[-1].results}
    return dataclasses.replace(graph, statements=tuple(done))


ASSIGNMENTS = re.compile(r"(^ +[a-z]\w*(\[[^]]*\])? = .*;\n){2,}", re.M)


def permuted_block(rng: random.Random, lines: list[str]) -> list[str]:
    """Assignments of one block, each after those that it reads."""
    names = [re.match(r"\s*([a-z]\w*)", line)[1] for line in lines]
    if len(set(names)) < len(names):
        return lines
    reads = [{n for n in names if re.search(rf"\b{n}\b", line.split("=", 1)[1])} for line in lines]
    left, done = list(range(len(lines))), []
    while left:
        ready = [i for i in left if reads[i] - {names[i]} <= {names[j] for j in done}]
        if not ready:
            return lines
        done.append(rng.choice(ready))
        left.remove(done[-1])
    return [lines[i] for i in done]


def permuted_text(rng: random.Random, text: str) -> str:
    """A model's text with the assignments of its blocks in another order."""
    return ASSIGNMENTS.sub(lambda found: "".join(permuted_block(rng, found[0].splitlines(keepends=True))), text)


def permuted_plan(rng: random.Random, text: str) -> str:
    head, plan = text.split("plan p for m {\n")
    lines = plan.removesuffix("}\n").splitlines(keepends=True)
    return f"{head}plan p for m {{\n{''.join(rng.sample(lines, len(lines)))}}}\n"


def draw_texts(seed: int, index: int) -> tuple[str, str, tuple[str, ...]]:
    """A program, the same in another order, and the arguments that choose its entry."""
    rng = random.Random(f"order:{seed}:{index}")
    if index % 4 == 0:
        case = cases.draw_case(seed, index)
        text = case.text()
        return text, permuted_plan(rng, permuted_text(rng, text)), ("--entry", case.entry)
    drawn = graph_plans.draw_case(seed, index)
    text = drawn.text()
    other = text.replace(graphs.statement_lines(drawn.graph), graphs.statement_lines(permuted(rng, drawn.graph)))
    return text, permuted_plan(rng, other), ()


# ---- what is compared ----
def run(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
    return done.returncode, done.stdout


def collectives(printed: str) -> collections.Counter:
    keys = ("op", "reduce", "axes", "sub", "phase", "scope", "layer", "dtype", "bytes", "sent", "count", "control")
    return collections.Counter(json.dumps([row[key] for key in keys] + [sorted(row["values"])]) for row in json.loads(printed)["collectives"])


def placements(printed: str) -> collections.Counter:
    return collections.Counter(json.dumps([row["path"], row["type"], row["placement"]], sort_keys=True) for row in json.loads(printed)["values"])


def first_difference(a: collections.Counter, b: collections.Counter) -> str:
    return f"first order has {sorted((a - b).elements())[:2]}, second has {sorted((b - a).elements())[:2]}"


def compare(shardc: str, files: list[pathlib.Path], entry: tuple[str, ...]) -> tuple[str, str]:
    """fine, refused or failed; and what is different."""
    for command, read in (("explain", placements), ("comm", collectives)):
        results = [run([shardc, command, str(file), *entry, "--format", "json"]) for file in files]
        codes = [code for code, _ in results]
        if codes[0] != codes[1]:
            return "failed", f"{command} exits {codes[0]}, and {codes[1]} in another order"
        if codes[0] in (1, 4, 6):
            return "refused", ""
        if codes[0] != 0:
            return "failed", f"{command} exits {codes[0]}"
        first, second = (read(printed) for _, printed in results)
        if first != second:
            return "failed", f"{command}: {first_difference(first, second)}"
    printed = [run([shardc, "ir", str(files[0]), *entry]) for _ in range(2)]
    return ("fine", "") if printed[0] == printed[1] else ("failed", "ir: two runs print different bytes")


def check(shardc: str, work: pathlib.Path, seed: int, index: int) -> tuple[str, str]:
    first, second, entry = draw_texts(seed, index)
    files = [work / f"{seed}_{index}_{n}.shard" for n in ("a", "b")]
    for file, text in zip(files, (first, second)):
        file.write_text(text)
    try:
        kind, detail = compare(shardc, files, entry)
    except subprocess.TimeoutExpired:
        kind, detail = "failed", f"no answer in {TIMEOUT} s"
    if kind != "failed":
        for file in files:
            file.unlink()
    return kind, f"{files[0]} and {files[1].name}: {detail}"


def main() -> int:
    arguments = parse_arguments()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="order_"))
    work.mkdir(parents=True, exist_ok=True)
    seed, indices = arguments.seed, range(arguments.cases)
    if arguments.only:
        seed, only = map(int, arguments.only.split(":"))
        indices = range(only, only + 1)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(lambda i: check(arguments.shardc, work, seed, i), indices))
    failures = [detail for kind, detail in outcomes if kind == "failed"]
    refused = sum(kind == "refused" for kind, _ in outcomes)
    for detail in failures:
        print(f"FAILED {detail[:600]}")
    print(f"{refused} refused in both orders")
    if not failures and not any(work.iterdir()):
        work.rmdir()
    failed = len(failures) + (refused > 0.4 * len(outcomes))
    print(f"{len(outcomes) - len(failures)} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
