"""Random plans: meshes, rules, pins, styles and forms, chosen so that most of them are legal."""

from __future__ import annotations

import dataclasses
import math
import random

from models import Model, Tensor, tensors

AXES = ("x", "y", "z")
RANKS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclasses.dataclass(frozen=True)
class Axis:
    name: str
    size: int
    inter: bool = False

    def text(self) -> str:
        return f"{self.name} = {self.size}" + (" inter" if self.inter else "")


@dataclasses.dataclass(frozen=True)
class Rule:
    kinds: tuple[str, ...]  # none: all
    dims: tuple[str, ...]  # ("*",): each tensor's own choice
    axes: tuple[str, ...]
    path: str = ""
    free: bool = False
    zigzag: bool = False

    def text(self) -> str:
        kinds = ", ".join(self.kinds) + " " if self.kinds else ""
        where = f" in {self.path}" if self.path else ""
        order = " zigzag" if self.zigzag else ""
        return f"shard {kinds}{', '.join(self.dims)} over {', '.join(self.axes)}{order}{where}{' if free' if self.free else ''};"

    def stores_only(self) -> bool:
        return self.kinds == ("param",)


@dataclasses.dataclass(frozen=True)
class Pin:
    path: str
    dims: tuple[str, ...]
    splits: tuple[tuple[str, ...], ...]  # axes of each dim, major first
    over: tuple[str, ...] = ()

    def text(self) -> str:
        shape = []
        for dim, axes in zip(self.dims, self.splits):
            shape.append(dim if not axes else f"{dim}@{axes[0]}" if len(axes) == 1 else f"{dim}@({', '.join(axes)})")
        return f"pin {self.path}: [{', '.join(shape)}]{' over ' + ', '.join(self.over) if self.over else ''};"


@dataclasses.dataclass(frozen=True)
class Style:
    paths: tuple[str, ...]
    kind: str
    axis: str

    def text(self) -> str:
        return f"style {', '.join(self.paths)}: {self.kind} over {self.axis};"


@dataclasses.dataclass(frozen=True)
class Form:
    path: str
    name: str
    axis: str

    def text(self) -> str:
        return f"form {self.path}: {self.name} over {self.axis};"


@dataclasses.dataclass(frozen=True)
class Plan:
    mesh: tuple[Axis, ...]
    lines: tuple[Rule | Pin | Style | Form, ...]
    others: tuple[str, ...]  # precision, bind

    def text(self) -> str:
        body = [f"mesh {', '.join(a.text() for a in self.mesh)};"] if self.mesh else []
        body += list(self.others) + [line.text() for line in self.lines]
        return "plan p for m {\n" + "".join(f"  {line}\n" for line in body) + "}\n"

    def size(self, axes: tuple[str, ...]) -> int:
        sizes = {a.name: a.size for a in self.mesh}
        return math.prod(sizes.get(a, 1) for a in axes)


# ---- meshes ----
def factorisations(ranks: int, parts: int = len(AXES)) -> list[tuple[int, ...]]:
    """Ordered factors of at least 2."""
    if ranks == 1:
        return [()]
    found = []
    for first in range(2, ranks + 1):
        if parts > 0 and ranks % first == 0:
            found += [(first,) + rest for rest in factorisations(ranks // first, parts - 1)]
    return found


ALL_MESHES = [sizes for ranks in RANKS for sizes in factorisations(ranks)]


def draw_mesh(rng: random.Random, sizes: tuple[int, ...]) -> tuple[Axis, ...]:
    sizes_here = list(sizes)
    if not sizes_here or (len(sizes_here) < len(AXES) and rng.random() < 0.08):
        sizes_here.insert(rng.randint(0, len(sizes_here)), 1)
    return tuple(Axis(AXES[i], size, rng.random() < 0.25) for i, size in enumerate(sizes_here))


# ---- which tensors a line speaks of ----
def is_under(path: str, prefix: str) -> bool:
    return prefix == "" or path == prefix or path.startswith((prefix + ".", prefix + "["))


def matches(rule: Rule, tensor: Tensor) -> bool:
    kinds = rule.kinds or ("param", "act", "input", "output", "cache")
    return tensor.kind in kinds and (is_under(tensor.path, rule.path) or rule.path in ("loss", "logits", "decode"))


def touched(rule: Rule, tensor: Tensor) -> set[str]:
    """Dims of the tensor that the rule names; H and K are one to it where both are there."""
    dims = set(tensor.dims)
    return set(rule.dims) & dims if matches(rule, tensor) else set()


def fights(model: Model, a: Rule, b: Rule) -> bool:
    """Both want one axis of one tensor, or one of them two dims of it."""
    if a is not b and (not set(a.axes) & set(b.axes) or a.free != b.free):
        return False
    if a is not b and "*" in a.dims + b.dims:
        return False
    for tensor in tensors(model):
        dims = touched(a, tensor) | touched(b, tensor)
        if len(dims) > 1 and touched(a, tensor) and touched(b, tensor):
            return True
        if "H" in tensor.dims and {"H", "K"} <= set(a.dims + b.dims) and matches(a, tensor) and matches(b, tensor):
            return True
    return False


def says_something(model: Model, rule: Rule) -> bool:
    named = set().union(*(touched(rule, tensor) for tensor in tensors(model)))
    return "*" in rule.dims or named == set(rule.dims)


# ---- lines ----
THEMES = ("data",) + 3 * ("tensor",) + ("sequence",) + 2 * ("storage",) + ("stream", "vocabulary", "style", "key", "odd", "nothing")
ROUTED_THEMES = THEMES + 3 * ("experts",)


def theme_rules(rng: random.Random, model: Model, theme: str, axes: tuple[str, ...]) -> list[Rule]:
    def some(*dims: str) -> tuple[str, ...]:
        return tuple(d for d in dims if rng.random() < 0.75) or (dims[0],)

    if theme == "data":
        return [Rule(rng.choice(((), ("act", "input"), ("act", "input", "cache"), ("act", "input", "output"))), ("B",), axes)]
    if theme == "tensor":
        return [Rule(rng.choice(((), (), ("param", "act"), ("act",))), some("H", "F", "V"), axes)]
    if theme == "sequence":
        return [Rule(rng.choice((("act",), ("act", "input"), ())), ("S",), axes, rng.choice(("", "", "loss", "logits")))]
    if theme == "storage":
        dims = rng.choice((("*",), ("D",), ("D", "F") if rng.random() < 0.1 else ("F",), ("V",), ("E",)))
        return [Rule(("param",), dims, axes)]
    if theme == "stream":
        return [Rule(rng.choice(((), ("act",))), ("D",), axes, rng.choice(("", model.stack + ".attn", model.stack, "norm")))]
    if theme == "vocabulary":
        return [Rule(rng.choice(((), ("output",), ("act", "output"))), ("V",), axes)]
    if theme == "key":
        return [Rule(rng.choice((("cache",), ("act", "cache"), ("act",))), ("T",), axes, rng.choice(("", "decode")))]
    if theme == "experts":
        if not model.has("routed"):
            return []
        experts = [Rule(rng.choice(((), ("param",), ("param",))), ("X",), axes)]
        return experts + ([Rule((), ("B",), axes)] if rng.random() < 0.6 else [])
    if theme == "odd":
        has = {"E": True, "K": model.composite and model.key_heads, "P": model.family == "gpt2", "G": model.composite}
        dim = rng.choice([dim if there else "E" for dim, there in has.items()])
        return [Rule((), (dim,), axes, rng.choice(("", "", model.stack + ".attn") if dim != "P" else ("",)))]
    return []


def theme_styles(rng: random.Random, model: Model, axis: str) -> list[Style]:
    at = model.stack
    ups = tuple(f"{at}.ffn.{w}" for w in (("w1", "w3") if model.family == "llama" else ("w1",)))
    choices = [
        Style((f"{at}.attn.wq", f"{at}.attn.wk", f"{at}.attn.wv") if not model.has("mqa") else (f"{at}.attn.wq",), "colwise", axis),
        Style((f"{at}.attn.wo",), "rowwise", axis),
        Style(ups, "colwise", axis),
        Style((f"{at}.ffn.w2",), rng.choice(("rowwise", "rowwise(to = S)", "rowwise(to = replicate)")), axis),
        Style((f"{at}.n1", f"{at}.n2", "norm"), rng.choice(("sequence(S)", "replicate")), axis),
        Style((f"{at}.attn.wq",), "replicate", axis),
    ]
    return [s for s in choices[:5] if rng.random() < 0.6] or [choices[5]]


def free_rule(rng: random.Random, model: Model, axes: tuple[str, ...]) -> Rule:
    offers = (("act", "S"), ("act", "D"), ("", "F"), ("act", "B"), ("param", "D"), ("", "V"), ("cache", "T"), ("", "E"))
    kind, dim = rng.choice(offers)
    kinds = (kind,) if kind else ()
    return Rule(kinds, (dim,), axes, rng.choice(("", "", model.stack) if dim not in "VT" else ("",)), True)


def draw_rules(rng: random.Random, model: Model, mesh: tuple[Axis, ...]) -> list[Rule | Style]:
    lines: list[Rule | Style] = []
    left = [a.name for a in mesh]
    rng.shuffle(left)
    while left:
        axes = tuple(left.pop() for _ in range(2 if len(left) > 1 and rng.random() < 0.2 else 1))
        themes = ROUTED_THEMES if model.has("routed") else THEMES
        theme = rng.choice(themes)
        offered = theme_rules(rng, model, theme, axes) if theme != "style" else theme_styles(rng, model, axes[0])
        if rng.random() < 0.3:
            offered += theme_rules(rng, model, rng.choice(themes), axes)
        if rng.random() < 0.4:
            offered.append(free_rule(rng, model, axes))
        lines += offered
    kept: list[Rule | Style] = []
    for line in lines:
        rules = [k for k in kept if isinstance(k, Rule)]
        if isinstance(line, Style) or (says_something(model, line) and not any(fights(model, line, k) for k in rules + [line])):
            kept.append(line)
        elif rng.random() < 0.03:
            kept.append(line)
    rng.shuffle(kept)
    return kept


def draw_forms(rng: random.Random, model: Model, lines: list[Rule | Style]) -> list[Form]:
    """Of attention, over axes that split positions; rings of dots, over axes that split heads or hidden dims; of routed products, over axes that
    split experts."""
    axes = {axis for line in lines if isinstance(line, Rule) and line.dims == ("S",) for axis in line.axes}
    inner = {axis for line in lines if isinstance(line, Rule) and {"F", "H"} & set(line.dims) for axis in line.axes}
    rings = [Form(rng.choice((f"{model.stack}", f"{model.stack}.attn")), "ring", axis) for axis in sorted(inner - axes) if rng.random() < 0.5]
    experts = {axis for line in lines if isinstance(line, Rule) and line.dims == ("X",) for axis in line.axes}
    rows = {axis for line in lines if isinstance(line, Rule) and "B" in line.dims and not line.free for axis in line.axes}
    rings += [
        Form(f"{model.stack}.ffn", rng.choice(("gather", "dispatch", "dispatch")) if axis in rows else "gather", axis)
        for axis in sorted(experts)
        if rng.random() < 0.7
    ]
    return rings + [
        Form(rng.choice((f"{model.stack}.attn", f"{model.stack}.attn.o", model.stack)), rng.choice(("gather", "heads", "heads", "ring")), axis)
        for axis in sorted(axes)
        if rng.random() < 0.6
    ]


def draw_zigzags(rng: random.Random, lines: list[Rule | Style]) -> list[Rule | Style]:
    """Rules of positions over one axis, all over that axis or none."""
    rules = [line for line in lines if isinstance(line, Rule) and ("S" in line.dims or "T" in line.dims)]
    fine = {axis for rule in rules for axis in rule.axes if rng.random() < 0.4}
    for rule in rules:
        kinds = set(rule.kinds)
        if not kinds or not kinds <= {"act", "input", "output"} or rule.dims != ("S",) or len(rule.axes) != 1 or rule.free:
            fine -= set(rule.axes)
    return [dataclasses.replace(line, zigzag=True) if line in rules and set(line.axes) <= fine else line for line in lines]


def divides(sizes: dict[str, int], dim: str, parts: int) -> bool:
    if dim != "H" or "K" not in sizes:
        return sizes[dim] % parts == 0
    return sizes["K"] % parts == 0 or (parts % sizes["K"] == 0 and sizes["G"] % (parts // sizes["K"]) == 0)


def draw_pin(rng: random.Random, plan: Plan, sizes: dict[str, int], tensor: Tensor) -> Pin:
    splits: list[tuple[str, ...]] = [() for _ in tensor.dims]
    axes = [a.name for a in plan.mesh]
    over = tuple(a for a in axes if rng.random() < 0.5) if rng.random() < 0.25 else ()
    for axis in rng.sample(over or axes, len(over or axes)):
        at = rng.randrange(len(tensor.dims))
        if rng.random() < 0.6 and divides(sizes, tensor.dims[at], plan.size(splits[at] + (axis,))):
            splits[at] += (axis,)
    return Pin(tensor.path, tensor.dims, tuple(splits), over)


def draw_pins(rng: random.Random, model: Model, plan: Plan, sizes: dict[str, int]) -> list[Pin]:
    count = rng.choice((0, 0, 0, 1, 1, 2, 3)) if plan.mesh else 0
    named = {t.path: t for t in tensors(model)}
    return [draw_pin(rng, plan, sizes, named[path]) for path in rng.sample(sorted(named), count)]


# ---- sizes ----
def wanted_parts(lines: list[Rule | Style], forms: list[Form], plan: Plan) -> dict[str, int]:
    """How many parts rules make of each dim; styles of every dim they may mean."""
    parts: dict[str, int] = {}
    for line in lines:
        axes, dims = (line.axes, line.dims) if isinstance(line, Rule) else ((line.axis,), ("H", "F", "S"))
        if isinstance(line, Rule) and line.free:
            continue
        for dim in dims if dims != ("*",) else ("D", "F", "V", "E", "H", "X"):
            parts[dim] = math.lcm(parts.get(dim, 1), plan.size(axes) * (2 if isinstance(line, Rule) and line.zigzag else 1))
    for form in forms:
        if form.name == "heads":
            parts["H"] = parts.get("H", 1) * plan.size((form.axis,))
    return parts


def draw_size(rng: random.Random, choices: tuple[int, ...], parts: int) -> int:
    fitting = [c for c in choices if c % parts == 0]
    return rng.choice(fitting or [parts if parts >= choices[0] else choices[-1]])


def draw_heads(rng: random.Random, parts: dict[str, int]) -> tuple[int, int]:
    pairs = [(k, g) for k in (1, 2, 3, 4, 6, 8, 12, 16) for g in (1, 2, 3, 4, 6, 8) if k * g <= 16]
    wanted = parts.get("H", 1)
    fitting = [p for p in pairs if divides({"K": p[0], "G": p[1]}, "H", wanted)]
    fitting = [p for p in fitting if p[0] % parts.get("K", 1) == 0 and p[1] % parts.get("G", 1) == 0]
    small = [p for p in fitting if p[0] * p[1] <= 8]
    return rng.choice(small or fitting or pairs)


def draw_sizes(rng: random.Random, model: Model, parts: dict[str, int]) -> dict[str, int]:
    both = math.lcm(parts.get("S", 1), parts.get("T", 1))
    sizes = {
        "B": draw_size(rng, (4, 6, 8, 12), parts.get("B", 1)),
        "S": draw_size(rng, (4, 6, 8, 12, 16), both),
        "D": draw_size(rng, (16, 24, 32, 48), parts.get("D", 1)),
        "F": draw_size(rng, (12, 16, 24, 32, 48), parts.get("F", 1)),
        "V": draw_size(rng, (24, 32, 36, 48), parts.get("V", 1)),
        "E": draw_size(rng, (4, 8, 6, 12), parts.get("E", 1)),
    }
    sizes["T"] = sizes["S"] * rng.choice((1, 2))
    if model.has("routed"):
        sizes["X"], sizes["Q"] = draw_size(rng, (4, 6, 8, 12), parts.get("X", 1)), 2
    if model.family == "gpt2":
        sizes["P"] = draw_size(rng, (48, 64, 96), parts.get("P", 1))
    if model.composite:
        sizes["K"], sizes["G"] = draw_heads(rng, parts)
        sizes["H"] = sizes["K"] * sizes["G"]
    else:
        sizes["H"] = draw_size(rng, (2, 3, 4, 6, 8), parts.get("H", 1))
    return sizes


# ---- plans ----
def draw_precision(rng: random.Random) -> tuple[str, ...]:
    lines = ("precision act = bf16;", "precision param = bf16, act = bf16, cache = bf16;", "precision act = f16, cache = bf16;")
    return (rng.choice(lines),) if rng.random() < 0.2 else ()


def draw_plan(rng: random.Random, model: Model, mesh_sizes: tuple[int, ...]) -> tuple[Plan, dict[str, int]]:
    """A plan and sizes that it divides, for all entries."""
    mesh = draw_mesh(rng, mesh_sizes)
    plan = Plan(mesh, (), ())
    lines = draw_rules(rng, model, mesh)
    forms = draw_forms(rng, model, lines)
    lines = draw_zigzags(rng, lines)
    parts = wanted_parts(lines, forms, plan)
    sizes = draw_sizes(rng, model, parts)
    decode = sizes["S"] if parts.get("S", 1) > 1 or rng.random() < 0.3 else rng.choice((1, 2))
    others = (f"bind S = {decode}, T = {sizes['T']} in decode;",) + draw_precision(rng)
    if model.has("routed") and any(isinstance(line, Rule) and "X" in line.dims for line in lines):
        others += (rng.choice(("", "tune capacity = 0.3;", "tune capacity = 1;", "tune capacity = 1.3;", "tune capacity = 9;")),)
    small = dict(sizes, S=math.gcd(sizes["S"], decode), T=math.gcd(sizes["T"], sizes["S"]))
    return Plan(mesh, tuple(lines + forms + draw_pins(rng, model, plan, small)), others), sizes
