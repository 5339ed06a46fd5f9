"""Random meshes, rules and pins for a random graph, and smaller cases that may show the same failure."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator

import graphs
import stacks
from graphs import Graph, Value, leaves

AXES = ("x", "y", "z")
MESHES = ((2,), (3,), (4,), (6,), (8,), (12,), (2, 2), (2, 3), (3, 2), (4, 2), (2, 4), (6, 2), (3, 4), (2, 2, 2), (2, 3, 2), (2, 2, 3))
STAGED_MESHES = ((), (2,), (2,), (3,), (4,), (2, 2), (2, 3))  # beside the stages


@dataclasses.dataclass(frozen=True)
class Rule:
    kinds: tuple[str, ...]
    dims: tuple[str, ...]
    axes: tuple[str, ...]
    path: str = ""
    free: bool = False

    def text(self) -> str:
        kinds = ", ".join(self.kinds) + " " if self.kinds else ""
        where = f" in {self.path}" if self.path else ""
        return f"shard {kinds}{', '.join(self.dims)} over {', '.join(self.axes)}{where}{' if free' if self.free else ''};"


@dataclasses.dataclass(frozen=True)
class Pin:
    path: str
    dims: tuple[str, ...]
    splits: tuple[tuple[str, ...], ...]
    over: tuple[str, ...] = ()

    def text(self) -> str:
        at = [d if not a else f"{d}@{a[0]}" if len(a) == 1 else f"{d}@({', '.join(a)})" for d, a in zip(self.dims, self.splits)]
        return f"pin {self.path}: [{', '.join(at)}]{' over ' + ', '.join(self.over) if self.over else ''};"


@dataclasses.dataclass(frozen=True)
class Style:
    path: str
    kind: str
    axis: str

    def text(self) -> str:
        return f"style {self.path}: {self.kind} over {self.axis};"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    graph: Graph
    mesh: tuple[tuple[str, int, bool], ...]  # name, size, inter
    lines: tuple[Rule | Pin | Style, ...]
    others: tuple[str, ...] = ()
    pipeline: stacks.Pipeline | None = None

    def plan_lines(self) -> list[str]:
        sizes = dict(self.graph.sizes)
        axes = [f"{n} = {s}{' inter' if inter else ''}" for n, s, inter in self.mesh]
        if self.pipeline:
            axes.insert(self.pipeline.at, self.pipeline.axis())
        lines = [f"mesh {', '.join(axes)};"] if axes else []
        lines += [self.pipeline.line()] if self.pipeline else []
        lines += [f"bind S = {sizes['S']}, T = {sizes['T']} in f;"] if self.graph.cached else []
        return lines + list(self.others) + [line.text() for line in self.lines]

    def text(self) -> str:
        program = stacks.text(self.graph, self.pipeline.stack) if self.pipeline else graphs.text(self.graph)
        return program + "plan p for m {\n" + "".join(f"  {line}\n" for line in self.plan_lines()) + "}\n"


# ---- drawing ----
def size_of(graph: Graph, dim: str) -> int:
    sizes = dict(graph.sizes)
    return math.prod(sizes[leaf] for leaf in leaves((dim,)))


def divides(graph: Graph, dim: str, parts: int) -> bool:
    """As far as rules go: a composite is split major first."""
    sizes = dict(graph.sizes)
    if dim == "H":
        return sizes["K"] % parts == 0 or (parts % sizes["K"] == 0 and sizes["G"] % (parts // sizes["K"]) == 0)
    return sizes[dim] % parts == 0


def clash(graph: Graph, dims: tuple[str, ...]) -> bool:
    """Two of the dims stand in one value."""
    return any(sum(d in v.dims or bool(set(leaves((d,))) & set(leaves(v.dims))) for d in dims) > 1 for v in graph.values())


def draw_rule(rng: random.Random, graph: Graph, axes: tuple[str, ...], parts: int, free: bool) -> Rule | None:
    there = {d for v in graph.values() for d in v.dims}
    fitting = [d for d in sorted(there) if divides(graph, d, parts) and size_of(graph, d) > 1 and (d not in "KG" or "H" not in there)]
    dims: tuple[str, ...] = ()
    for dim in rng.sample(fitting, len(fitting)):
        if len(dims) < 3 and not clash(graph, dims + (dim,)):
            dims += (dim,)
    dims = dims[: rng.choice((1, 1, 2, 3))]
    kinds = rng.choice(((), (), ("act",), ("act", "input"), ("input",), ("param",), ("param", "act"), () if graph.train else ("output",)))
    present = {"param": graph.params, "input": graph.inputs, "output": graph.outputs(), "act": graph.results(), "cache": graph.caches}
    used = graph.used()
    for dim in dims:
        if kinds and not any(dim in v.dims and (kind != "param" and kind != "input" or v.name in used) for kind in kinds for v in present[kind]):
            return None
    return Rule(kinds, dims, axes, "", free) if dims else None


def named_path(graph: Graph, value: Value) -> str:
    if value in graph.caches or (value in graph.params and graph.block):
        return f"g.{value.name}"
    if value in graph.params:
        return value.name
    if graph.block and value not in graph.inputs:
        return f"g.{value.name}"
    return f"f.{value.name}"


def draw_pin(rng: random.Random, graph: Graph, mesh: tuple[tuple[str, int, bool], ...]) -> Pin | None:
    value = rng.choice(graph.values())
    if not value.dims:
        return None
    splits: list[tuple[str, ...]] = [() for _ in value.dims]
    sizes = {name: size for name, size, _ in mesh}
    over = tuple(a for a in sizes if rng.random() < 0.5) if rng.random() < 0.4 else ()
    for axis in rng.sample(tuple(over or sizes), len(over or sizes)):
        at = rng.randrange(len(value.dims))
        parts = math.prod(sizes[a] for a in splits[at] + (axis,))
        if rng.random() < 0.7 and divides(graph, value.dims[at], parts):
            splits[at] += (axis,)
    return Pin(named_path(graph, value), value.dims, tuple(splits), over)


def draw_style(rng: random.Random, graph: Graph, axis: str, parts: int) -> Style | None:
    """Colwise and rowwise need a weight of one dot; any of its dims divide then."""
    weights = [p for p in graph.params if any(s.op == "dot" and s.uses[1] == p.name for s in graph.statements)]
    weights = [p for p in weights if all(divides(graph, d, parts) for d in p.dims) and len(p.dims) > 1]
    return Style(named_path(graph, rng.choice(weights)), rng.choice(("colwise", "rowwise", "replicate")), axis) if weights else None


def draw_lines(rng: random.Random, graph: Graph, mesh: tuple[tuple[str, int, bool], ...]) -> list[Rule | Pin | Style]:
    lines: list[Rule | Pin | Style | None] = []
    left = list(mesh)
    rng.shuffle(left)
    while left:
        taken = [left.pop() for _ in range(2 if len(left) > 1 and rng.random() < 0.25 else 1)]
        axes, parts = tuple(t[0] for t in taken), math.prod(t[1] for t in taken)
        if len(axes) == 1 and rng.random() < 0.12:
            lines.append(draw_style(rng, graph, axes[0], parts))
        elif rng.random() < 0.85:
            lines.append(draw_rule(rng, graph, axes, parts, False))
        if rng.random() < 0.35:
            lines.append(draw_rule(rng, graph, axes, parts, True))
        elif rng.random() < 0.25 and any("S" in v.dims for v in graph.results()) and divides(graph, "S", parts):
            lines.append(Rule(("act",), ("S",), axes, "", True))  # sequence parallelism
    lines += [draw_pin(rng, graph, mesh) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    kept = [line for line in lines if line is not None]
    rng.shuffle(kept)
    paths = [line.path for line in kept if isinstance(line, Pin)]
    return [line for line in kept if not isinstance(line, Pin) or paths.count(line.path) == 1]


STORAGE = ("param, grad, opt", "grad, opt", "opt", "param", "grad", "param, opt")


def draw_training_lines(rng: random.Random, graph: Graph, mesh: tuple[tuple[str, int, bool], ...], batch: str = "") -> tuple[str, ...]:
    """`batch`: what the micro-batches of a pipeline split, and no other dim may be split into such then."""
    lines = []
    if rng.random() < 0.6:
        lines.append(f"shard {rng.choice(STORAGE)} * over {rng.choice(mesh)[0]}{rng.choice(('', ' if free'))};")
    split = [d for d in batch or "ABCSD" if any(d in v.dims for v in graph.inputs if v.name in graph.used())]
    if split and rng.random() < 0.25:
        lines.append(f"accumulate 2 over {rng.choice(split)};")
    if rng.random() < 0.3:
        lines.append("remat g;" if graph.block else "remat f;")
    if rng.random() < 0.4:
        lines.append(f"reshard after {rng.choice(('forward', 'use', 'step'))};")
    if rng.random() < 0.2:
        lines.append(f"precision {rng.choice(('act = bf16', 'act = f16', 'grad = bf16', 'act = bf16, reduce = bf16', 'param = bf16, act = bf16, opt = f32'))};")
    return tuple(lines)


def draw_offload(rng: random.Random, graph: Graph) -> tuple[str, ...]:
    """With numbers of its own: what else a case has does not depend on it."""
    act = f"offload act in {'g' if graph.block else 'f'};"
    line = rng.choice(("offload opt;", "offload param;", "offload param, opt;", act))
    return (line,) if rng.random() < 0.4 else ()


def draw_case(seed: int, index: int, train: bool = False) -> Case:
    rng = random.Random(f"{'steps' if train else 'graphs'}:{seed}:{index}")
    graph = graphs.draw_graph(rng, train)
    mesh = tuple((AXES[i], size, rng.random() < 0.2) for i, size in enumerate(rng.choice(MESHES)))
    others = draw_training_lines(rng, graph, mesh) if train else ("precision act = bf16;",) if rng.random() < 0.1 else ()
    lines = tuple(draw_lines(rng, graph, mesh))
    if train:
        others += draw_offload(random.Random(f"offload:{seed}:{index}"), graph)
    return Case(f"{seed}_{index}", graph, mesh, lines, others)


def draw_staged_case(seed: int, index: int) -> Case:
    """A train step as a pipeline, on fewer ranks of the other axes."""
    rng = random.Random(f"stages:{seed}:{index}")
    drawn = None
    while drawn is None:
        drawn = stacks.draw_pipeline(rng, graphs.draw_graph(rng, True))
    graph, pipeline = drawn
    pipeline = dataclasses.replace(pipeline, inter=random.Random(f"inter:{seed}:{index}").random() < 0.5)
    mesh = tuple((AXES[i], size, rng.random() < 0.2) for i, size in enumerate(rng.choice(STAGED_MESHES)))
    others = draw_training_lines(rng, graph, mesh, stacks.BATCH) if mesh else ()
    lines = draw_lines(rng, graph, mesh) if mesh else []
    others += draw_offload(random.Random(f"offload:{seed}:{index}"), graph)
    return Case(f"{seed}_{index}", graph, mesh, tuple(lines), others, pipeline)


# ---- smaller cases ----
def without_unused_axes(case: Case) -> Iterator[Case]:
    for i, (name, size, inter) in enumerate(case.mesh):
        rest = case.mesh[:i] + case.mesh[i + 1 :]
        if not any(f"{name}" in (*getattr(line, "axes", ()), getattr(line, "axis", "")) or (isinstance(line, Pin) and name in line.text().split("[", 1)[1]) for line in case.lines):
            yield dataclasses.replace(case, mesh=rest)
        if size > 2 or inter:
            yield dataclasses.replace(case, mesh=case.mesh[:i] + ((name, 2, False),) + case.mesh[i + 1 :])


def smaller_lines(case: Case) -> Iterator[Case]:
    for i, line in enumerate(case.lines):
        yield dataclasses.replace(case, lines=case.lines[:i] + case.lines[i + 1 :])
        if isinstance(line, Rule) and len(line.dims) > 1:
            for dim in line.dims:
                rule = dataclasses.replace(line, dims=tuple(d for d in line.dims if d != dim))
                yield dataclasses.replace(case, lines=case.lines[:i] + (rule,) + case.lines[i + 1 :])
        if isinstance(line, Rule) and line.kinds:
            yield dataclasses.replace(case, lines=case.lines[:i] + (dataclasses.replace(line, kinds=()),) + case.lines[i + 1 :])


def smaller(case: Case) -> Iterator[Case]:
    for pipeline in stacks.smaller(case.pipeline) if case.pipeline else []:
        yield dataclasses.replace(case, pipeline=pipeline)
    for i in range(len(case.others)):
        yield dataclasses.replace(case, others=case.others[:i] + case.others[i + 1 :])
    yield from smaller_lines(case)
    for graph in graphs.smaller(case.graph):
        yield dataclasses.replace(case, graph=graph)
    yield from without_unused_axes(case)
    for i, (dim, size) in enumerate(case.graph.sizes):
        for less in (2, 4):
            if less < size and dim not in ("T", "U", "W", "N", "K", "G", "R", "Q", "C", "D", "S"):
                sizes = case.graph.sizes[:i] + ((dim, less),) + case.graph.sizes[i + 1 :]
                yield dataclasses.replace(case, graph=dataclasses.replace(case.graph, sizes=sizes))
