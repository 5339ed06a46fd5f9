"""One case: a model, its sizes, a plan and an entry; what shardc makes of it; and smaller cases that may show the same."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import random
import subprocess
from collections.abc import Callable, Iterator

from models import Model, draw_model, text
from plans import ALL_MESHES, Axis, Pin, Plan, Rule, draw_plan

TIMEOUT = 60
TIMEOUT_COMPILED = 1800
REFUSED = (1, 4, 6)
UNEVEN = ("B", "S", "D", "F", "V")  # never a part of a composite: those are not padded


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: Model
    sizes: tuple[tuple[str, int], ...]
    plan: Plan
    entry: str
    padded: bool = False  # sizes that axes do not divide, with --allow-padding

    def text(self) -> str:
        return text(self.model, dict(self.sizes)) + self.plan.text()


def make_uneven(rng: random.Random, sizes: dict[str, int]) -> dict[str, int]:
    return {dim: size + rng.randrange(4) if dim in UNEVEN and isinstance(size, int) else size for dim, size in sizes.items()}


def draw_case(seed: int, index: int, padded: bool = False) -> Case:
    rng = random.Random(f"{seed}:{index}")
    model = draw_model(rng)
    plan, sizes = draw_plan(rng, model, ALL_MESHES[index % len(ALL_MESHES)])
    entry = rng.choice(("loss", "loss", "logits", "decode"))
    if padded:
        sizes = make_uneven(rng, sizes)
    return Case(f"{seed}_{index}", model, tuple(sizes.items()), plan, entry, padded)


# ---- running ----
@dataclasses.dataclass(frozen=True)
class Outcome:
    """kind is fine, refused, or what went wrong: cases are alike when it is equal."""

    kind: str
    detail: str = ""

    def failed(self) -> bool:
        return self.kind not in ("fine", "refused")


@dataclasses.dataclass(frozen=True)
class Tools:
    shardc: str
    shardc_opt: str
    work: pathlib.Path
    dtypes: bool = False
    compiled: bool = False  # the emitted code instead
    target: str | None = None  # what runs it; None: the CPU


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default=os.environ.get("SHARDC_TEST_TARGET"), help="--compiled: what runs the code, as cuda:sm_90a ($SHARDC_TEST_TARGET)")


def verify_compiled(shardc: str, target: str | None) -> list[str]:
    return [shardc, "verify", "--compiled"] + (["--target", target] if target else [])


def run(command: list[str], timeout: int = TIMEOUT) -> tuple[int, str, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer in {timeout} s"
    return done.returncode, done.stdout, done.stderr


def first_line(message: str) -> str:
    return next((line for line in message.splitlines() if "error" in line or "ERROR" in line), message[:200].strip())


MARKS = (
    "random inputs",
    "integers inputs",
    "dtypes inputs",
    "program itself fails",
    "emitted code fails",
    "(again inputs)",
    "two threads",
    "collectives",
    "program fails",
    "another shape",
    "different ones",
    "ir_invalid",
)


def kind_of(message: str) -> str:
    """Which failure it is, without its numbers and names: a smaller case must show the same one."""
    return ", ".join(mark for mark in MARKS if mark in message) or "another"


def is_needless(tools: Tools, case: Case, message: str) -> bool:
    """`*` stores a parameter as it can be stored, and other entries take it as the default entry has it."""
    if re.search(r"divide\]\n *shard param \* over", message):
        return True
    starred = any(isinstance(line, Rule) and line.dims == ("*",) for line in case.plan.lines)
    return starred and "two_dims_one_axis" in message and "placed by the plan's default entry" in message


def check_compiled(tools: Tools, arguments: list[str]) -> Outcome:
    code, _, errors = run(verify_compiled(tools.shardc, tools.target) + arguments, TIMEOUT_COMPILED)
    if code in REFUSED and ": error: " in errors:
        return Outcome("refused", first_line(errors))
    return Outcome("fine") if code == 0 else Outcome(f"verify --compiled exits {code} ({kind_of(errors)})", first_line(errors))


def check_case(tools: Tools, case: Case) -> Outcome:
    file = tools.work / f"{case.name}.shard"
    file.write_text(case.text())
    arguments = [str(file), "--entry", case.entry] + (["--allow-padding"] if case.padded else [])
    if tools.compiled:
        return check_compiled(tools, arguments)
    code, _, errors = run([tools.shardc, "verify"] + arguments + (["--dtypes"] if tools.dtypes else []))
    if code in REFUSED and ": error: " in errors and not is_needless(tools, case, errors):
        return Outcome("refused", first_line(errors))
    if code != 0:
        return Outcome(f"verify exits {code} ({kind_of(errors)})", first_line(errors))
    code, printed, errors = run([tools.shardc, "ir"] + arguments)
    if code != 0:
        return Outcome(f"ir exits {code}", first_line(errors))
    program = tools.work / f"{case.name}.shir"
    program.write_text(printed)
    code, again, errors = run([tools.shardc_opt, str(program)])
    program.unlink()
    if code != 0:
        return Outcome(f"shardc-opt exits {code}", first_line(errors))
    return Outcome("fine") if again == printed else Outcome("the printed program reads back as another")


# ---- smaller cases ----
def with_plan(case: Case, **changes: object) -> Case:
    return dataclasses.replace(case, plan=dataclasses.replace(case.plan, **changes))


def smaller_lines(line: object) -> Iterator[object]:
    if isinstance(line, Rule):
        for field in ("dims", "axes"):
            items = getattr(line, field)
            for i in range(len(items) if len(items) > 1 else 0):
                yield dataclasses.replace(line, **{field: items[:i] + items[i + 1 :]})
        if line.path:
            yield dataclasses.replace(line, path="")
        if line.kinds:
            yield dataclasses.replace(line, kinds=())
    if isinstance(line, Pin):
        if line.over:
            yield dataclasses.replace(line, over=())
        for i, axes in enumerate(line.splits):
            for j in range(len(axes)):
                yield dataclasses.replace(line, splits=line.splits[:i] + (axes[:j] + axes[j + 1 :],) + line.splits[i + 1 :])


def without_axis(case: Case, name: str) -> Case:
    """Only for an axis that no line names."""
    return with_plan(case, mesh=tuple(a for a in case.plan.mesh if a.name != name))


def smaller_plans(case: Case) -> Iterator[Case]:
    plan = case.plan
    for i in range(len(plan.lines)):
        yield with_plan(case, lines=plan.lines[:i] + plan.lines[i + 1 :])
    for i, other in enumerate(plan.others):
        if other.startswith("precision") or case.entry != "decode":
            yield with_plan(case, others=plan.others[:i] + plan.others[i + 1 :])
    for i, line in enumerate(plan.lines):
        for smaller in smaller_lines(line):
            yield with_plan(case, lines=plan.lines[:i] + (smaller,) + plan.lines[i + 1 :])
    for i, axis in enumerate(plan.mesh):
        if not any(axis.name in line.text() for line in plan.lines):
            yield without_axis(case, axis.name)
        for changed in (Axis(axis.name, axis.size), Axis(axis.name, 2, axis.inter)):
            if changed.size <= axis.size and changed != axis:
                yield with_plan(case, mesh=plan.mesh[:i] + (changed,) + plan.mesh[i + 1 :])


def smaller_models(case: Case) -> Iterator[Case]:
    for feature in sorted(case.model.features - {"plain_heads"}):  # that one changes which sizes there are
        yield dataclasses.replace(case, model=dataclasses.replace(case.model, features=case.model.features - {feature}))
    if case.model.layers > 1:
        yield dataclasses.replace(case, model=dataclasses.replace(case.model, layers=1))
    if case.entry == "loss":
        yield dataclasses.replace(case, entry="logits")
    sizes = dict(case.sizes)
    for dim, size in case.sizes:
        for smaller in (2, 4, 8, 16):
            if smaller < size and dim not in ("H", "K", "G", "T") and not (dim == "P" and smaller < sizes["T"]):
                yield dataclasses.replace(case, sizes=tuple(dict(sizes, **{dim: smaller}).items()))


def shrink(case: Case, still_fails: Callable[[Case], bool]) -> Case:
    """The first smaller case that fails alike, again and again; every step is smaller, so it ends."""
    for smaller in (s for source in (smaller_plans, smaller_models) for s in source(case)):
        if still_fails(smaller):
            return shrink(smaller, still_fails)
    return case
