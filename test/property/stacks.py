"""Random graphs around or inside a stack that is cut into pipeline stages."""

from __future__ import annotations

import dataclasses
import math
import random

import graphs
from graphs import Graph, Value
from train_cases import SCHEDULES

BATCH = "X"
LARGEST = 12000  # elements of a value
INNER = 6  # of the dim M, which only the stack's own block has
KINDS = ("gain", "gain", "mlp", "mlp", "plain", "shared")


@dataclasses.dataclass(frozen=True)
class Stack:
    """A value passes every instance. Around: an instance is the drawn statements; else a small block of its own stands among them."""

    value: Value
    around: bool
    kind: str  # of its own block
    at: int  # in front of which statement it stands
    length: int

    def own(self) -> tuple[str, ...]:
        """The dims of a parameter that is multiplied with the value."""
        return tuple(d for d in self.value.dims if d != BATCH)

    def block(self) -> str:
        dims, own = ", ".join(self.value.dims), ", ".join(self.own())
        given = f"x[{dims}]" + f", w[{own}]" * (self.kind == "shared")
        last = self.value.dims[-1] if self.value.dims else ""
        body = {
            "gain": f"param w[{own}] = normal(0.5); return x + tanh(x * w);",
            "mlp": f"param a[{last}, M] = normal(0.5), b[M, {last}] = normal(0.5); return x + dot[M](dropout(tanh(dot[{last}](x, a)), p = 0.1), b);",
            "plain": "return tanh(x) * 1.5;",
            "shared": "return x + tanh(x * w);",
        }
        return f"block step({given}) -> [{dims}] {{ {body[self.kind]} }}\n"


@dataclasses.dataclass(frozen=True)
class Pipeline:
    stack: Stack
    stages: int
    schedule: str
    micro_batches: int
    split: str
    at: int  # where its axis is among those of the mesh
    inter: bool = False  # between nodes: what is replicated on other axes is sent in parts

    def axis(self) -> str:
        return f"pp = {self.stages}{' inter' if self.inter else ''}"

    def line(self) -> str:
        split = f", split({self.split})" if self.split else ""
        return f"stage g over pp: schedule = {self.schedule}, microbatches = {self.micro_batches}, batch = {BATCH}{split};"


# ---- text ----
def mean(value: Value) -> str:
    return f"mean[{', '.join(value.dims)}](tanh({value.name}))" if value.dims else f"tanh({value.name})"


def share(value: Value, kept: Value) -> str:
    """A term of a sum with `kept`: no dim more, so that rows of the batch stay apart."""
    gone = [d for d in value.dims if d not in kept.dims]
    return f"0.1 * mean[{', '.join(gone)}](tanh({value.name}))" if gone else f"0.1 * tanh({value.name})"


def terms(graph: Graph, stack: Stack) -> list[str]:
    """Of every float that the statements leave."""
    return [mean(v) for v in graph.outputs() if v.dtype == "f32" and v.name != stack.value.name]


def around_lines(graph: Graph, stack: Stack, formals: str) -> str:
    """An instance adds what its statements leave to the value."""
    x = stack.value
    added = [share(v, x) for v in graph.outputs() if v.dtype == "f32"]
    inner = graphs.body_lines(graph) + graphs.statement_lines(graph)
    block = f"block body({formals}) -> {x.shape()} {{\n{inner}    return {' + '.join([x.name] + added)};\n}}\n"
    used = graph.used() | {x.name}
    given = ", ".join("y" if v == x else v.name for v in graph.inputs if v.name in used)
    repeat = f"    y = {x.name};\n    repeat L {{ y = g({given}); }}\n    return {mean(dataclasses.replace(x, name='y'))};\n"
    return block + f"model m {{\n  sub g: body * L;\n  entry f({formals}) -> f32[] {{\n{repeat}  }}\n}}\n"


def among_lines(graph: Graph, stack: Stack, formals: str) -> str:
    x = stack.value
    made = next((i + 1 for i, s in enumerate(graph.statements) if x in s.results), 0)
    at = max(made, min(stack.at, len(graph.statements)))
    shared = f"  param q[{', '.join(stack.own())}] = normal(0.5);\n" * (stack.kind == "shared")
    lines = [f"    {', '.join(v.name for v in s.results)} = {s.text};\n" for s in graph.statements]
    lines.insert(at, f"    repeat L {{ {x.name} = g({x.name}{', q' * (stack.kind == 'shared')}); }}\n")
    result = " + ".join([mean(x)] + terms(graph, stack))
    head = f"model m {{\n  sub g: step * L;\n{shared}{graphs.body_lines(graph)}"
    return stack.block() + head + f"  entry f({formals}) -> f32[] {{\n{''.join(lines)}    return {result};\n  }}\n}}\n"


def text(graph: Graph, stack: Stack) -> str:
    used = graph.used() | {stack.value.name}
    formals = ", ".join(v.declared() for v in graph.inputs if v.name in used)
    helpers = graphs.SCORES if any("scores(" in s.text for s in graph.statements) else ""
    lines = around_lines if stack.around else among_lines
    return "lang 1;\n" + graphs.dim_lines(graph) + f"dim M = {INNER}, L = {stack.length};\n" + helpers + lines(graph, stack, formals) + f"minimize m.f with {graph.train};\n"


# ---- drawing ----
def with_batch(rng: random.Random, graph: Graph, size: int) -> Graph | None:
    """Some inputs, and all that is computed from them, have rows of a batch, which no op mixes. None: a value is too large, or an op does not allow it."""
    used = graph.used()
    batched = {v.name for v in graph.inputs if v.name in used and rng.random() < 0.7}
    if not batched:
        return None

    def add(value: Value) -> Value:
        return dataclasses.replace(value, dims=(BATCH,) + value.dims) if value.name in batched else value

    statements = []
    for s in graph.statements:
        if s.op == "attend" and batched & set(s.uses) and s.uses[0] not in batched:
            return None  # keys have no dim that queries lack
        if batched & set(s.uses):
            batched |= {v.name for v in s.results}
        statements.append(dataclasses.replace(s, results=tuple(map(add, s.results))))
    sizes = dict(graph.sizes) | {BATCH: size}
    found = dataclasses.replace(graph, sizes=tuple(sizes.items()), inputs=tuple(map(add, graph.inputs)), statements=tuple(statements))
    elements = [math.prod(sizes[leaf] for leaf in graphs.leaves(v.dims)) for v in found.values()]
    return found if max(elements) <= LARGEST else None


def draw_stack(rng: random.Random, graph: Graph, length: int) -> Stack | None:
    used = graph.used()
    first = {v.name for v in graph.inputs if v.name in used and BATCH in v.dims}
    inputs = [v for v in graph.inputs if v.name in first and v.dtype == "f32"]
    around = bool(inputs) and rng.random() < 0.4
    for s in graph.statements:  # whose dims begin with the batch: the first operand's come first
        if s.uses and s.uses[0] in first:
            first |= {v.name for v in s.results}
    found = inputs if around else inputs + [v for v in graph.results() if v.dtype == "f32" and v.name in first]
    if not found:
        return None
    value, kind = rng.choice(found), rng.choice(KINDS)
    if not any(p.name in used for p in graph.params) and (around or kind == "plain"):
        return None  # there would be nothing to train
    return Stack(value, around, "gain" if value.dims == (BATCH,) else kind, rng.randrange(len(graph.statements) + 1), length)


def draw_pipeline(rng: random.Random, graph: Graph) -> tuple[Graph, Pipeline] | None:
    """None where no stack would stand, and for ops whose dims are all named in a block."""
    if graph.caches or any("scores(" in s.text for s in graph.statements):
        return None
    stages, schedule = rng.choice((2, 2, 3)), rng.choice(tuple(SCHEDULES))
    chunks = stages * SCHEDULES[schedule]
    least = 2 * stages if schedule == "dual_pipe_v" else 1 if schedule in ("gpipe", "one_f_one_b") else stages
    count = least + rng.randrange(3)
    batched = with_batch(rng, graph, count * rng.choice((4, 6, 12)))
    stack = draw_stack(rng, batched, chunks + rng.choice((0, 0, 1))) if batched else None
    if stack is None:
        return None
    return dataclasses.replace(batched, block=stack.around), Pipeline(stack, stages, schedule, count, rng.choice(("", "even", "auto")), rng.randrange(3))


# ---- smaller pipelines ----
def smaller(pipeline: Pipeline) -> list[Pipeline]:
    """Fewer stages, a simpler schedule, a simpler block."""
    stack, chunks = pipeline.stack, pipeline.stages * SCHEDULES[pipeline.schedule]
    found = []
    if pipeline.schedule != "gpipe":
        found.append(dataclasses.replace(pipeline, schedule="gpipe", stack=dataclasses.replace(stack, length=pipeline.stages)))
    if pipeline.stages > 2:
        found.append(dataclasses.replace(pipeline, stages=2))
    if stack.length > chunks:
        found.append(dataclasses.replace(pipeline, stack=dataclasses.replace(stack, length=chunks)))
    if not stack.around and stack.kind != "plain":
        found.append(dataclasses.replace(pipeline, stack=dataclasses.replace(stack, kind="plain")))
    if pipeline.split:
        found.append(dataclasses.replace(pipeline, split=""))
    if pipeline.inter:
        found.append(dataclasses.replace(pipeline, inter=False))
    if pipeline.at:
        found.append(dataclasses.replace(pipeline, at=0))
    return found
