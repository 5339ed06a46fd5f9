"""Random graphs of ops of the language: values with their dims, statements that make them, and the text of an entry."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

PLAIN = ("A", "B", "C", "S", "D", "E", "V")
PARTS = {"H": ("K", "G")}
LARGEST = 2000  # elements of a value


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    dims: tuple[str, ...]
    dtype: str = "f32"
    below: int = 0  # integers: all are in [0, below); 0: not known

    def shape(self) -> str:
        return f"[{', '.join(self.dims)}]"

    def declared(self) -> str:
        return f"{self.name}: {self.dtype}{self.shape()}"


@dataclasses.dataclass(frozen=True)
class Statement:
    op: str
    results: tuple[Value, ...]
    text: str
    uses: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Graph:
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[Value, ...]
    params: tuple[Value, ...]
    caches: tuple[Value, ...]
    statements: tuple[Statement, ...]
    cached: bool  # an entry with positions, S of them of T
    block: bool   # the statements stand in a block
    train: str = ""  # the optimizer that minimises a scalar of the outputs; none: the entry returns the outputs

    def results(self) -> list[Value]:
        return [value for statement in self.statements for value in statement.results]

    def used(self) -> set[str]:
        return {name for statement in self.statements for name in statement.uses}

    def outputs(self) -> list[Value]:
        """What no statement reads."""
        return [value for value in self.results() if value.name not in self.used()]

    def values(self) -> list[Value]:
        return [v for v in self.inputs + self.params + self.caches if v.name in self.used()] + self.results()


def leaves(dims: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(leaf for dim in dims for leaf in PARTS.get(dim, (dim,)))


# ---- drawing ----
class Builder:
    """A graph being drawn."""

    def __init__(self, rng: random.Random, sizes: dict[str, int], cached: bool):
        self.rng = rng
        # for what was added later: drawing it leaves the rest of a seed's graph as it was
        self.later = random.Random(repr(sorted(sizes.items())))
        self.sizes = sizes
        self.cached = cached
        self.inputs: list[Value] = []
        self.params: list[Value] = []
        self.caches: list[Value] = []
        self.statements: list[Statement] = []
        self.count = 0

    def size(self, dim: str) -> int:
        return math.prod(self.sizes[leaf] for leaf in leaves((dim,)))

    def elements(self, dims: tuple[str, ...]) -> int:
        return math.prod(self.size(d) for d in dims)

    def legal(self, dims: tuple[str, ...]) -> bool:
        here = leaves(dims)
        return len(set(here)) == len(here) and self.elements(dims) <= LARGEST

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def values(self, wanted: Callable[[Value], bool] = lambda v: True) -> list[Value]:
        found = [v for s in self.statements for v in s.results] + self.inputs + self.params
        return [v for v in found if wanted(v)]

    def source(self, dims: tuple[str, ...], dtype: str = "f32", below: int = 0) -> Value:
        """A new input or parameter."""
        is_param = dtype == "f32" and self.rng.random() < 0.5
        value = Value(self.name("p" if is_param else "x"), dims, dtype, below)
        (self.params if is_param else self.inputs).append(value)
        return value

    def draw_dims(self, needed: tuple[str, ...] = (), banned: tuple[str, ...] = ()) -> tuple[str, ...]:
        pool = [d for d in PLAIN + ("H",) if d not in needed + banned]
        dims = list(needed) + self.rng.sample(pool, self.rng.choice((0, 1, 1, 2)))
        self.rng.shuffle(dims)
        return tuple(dims) if self.legal(tuple(dims)) else tuple(needed)

    def take(self, wanted: Callable[[Value], bool] = lambda v: True, needed: tuple[str, ...] = (), banned: tuple[str, ...] = ()) -> Value:
        """A float value with the needed dims: one that is there, late ones first, or a new one."""
        found = self.values(lambda v: v.dtype == "f32" and set(needed) <= set(v.dims) and not set(leaves(banned)) & set(leaves(v.dims)) and wanted(v))
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found[-6:] if self.rng.random() < 0.5 else found)
        return self.source(self.draw_dims(needed, banned) or ("B", "D"))

    def integers(self, below: int, dims: tuple[str, ...] | None = None, banned: tuple[str, ...] = ()) -> Value:
        """Indices in [0, below): some that are there, or a new input that only this reader gives a range."""
        found = self.values(lambda v: v.dtype == "i32" and 0 < v.below <= below and (dims is None or v.dims == dims) and not set(banned) & set(leaves(v.dims)))
        if found and self.rng.random() < 0.5:
            return self.rng.choice(found)
        return self.source(self.draw_dims((), banned) if dims is None else dims, "i32", below)

    def emit(self, op: str, text: str, dims: tuple[str, ...], uses: tuple[Value, ...], dtype: str = "f32", below: int = 0) -> bool:
        if not self.legal(dims):
            return False
        self.statements.append(Statement(op, (Value(self.name("v"), dims, dtype, below),), text, tuple(v.name for v in uses)))
        return True


def union(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return a + tuple(d for d in b if d not in a)


def aligned(*values: Value) -> bool:
    """No dim stands alone in one and inside a composite in another."""
    dims = {d for v in values for d in v.dims}
    return not any(whole in dims and dims & set(parts) for whole, parts in PARTS.items())


def without(dims: tuple[str, ...], gone: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for d in dims if d not in gone)


# ---- elementwise ----
UNARY = {
    "neg": "-{0}", "abs": "abs({0})", "exp": "exp({0} * 0.25)", "log": "log(abs({0}) + 0.5)", "sqrt": "sqrt(abs({0}))", "rsqrt": "rsqrt({0} * {0} + 0.5)",
    "sin": "sin({0})", "cos": "cos({0})", "tanh": "tanh({0})", "sigmoid": "sigmoid({0})", "relu": "relu({0})", "silu": "silu({0})", "gelu": "gelu({0})",
    "gelu_tanh": "gelu_tanh({0})", "erf": "erf({0})", "floor": "floor({0})", "sign": "sign({0})", "pow": "pow(abs({0}) + 0.5, 1.5)",
    "stop_gradient": "stop_gradient({0})", "dropout": "dropout({0}, p = 0.1)",
}  # fmt: skip
BINARY = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / (abs({1}) + 1.0)", "mod": "mod({0}, abs({1}) + 1.0)", "min": "min({0}, {1})", "max": "max({0}, {1})"}
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def draw_unary(b: Builder) -> bool:
    x = b.take()
    op = b.rng.choice(tuple(UNARY))
    return b.emit(op, UNARY[op].format(x.name), x.dims, (x,))


def draw_binary(b: Builder) -> bool:
    x, y = b.take(), b.take()
    op = b.rng.choice(tuple(BINARY))
    return aligned(x, y) and b.emit(op, BINARY[op].format(x.name, y.name), union(x.dims, y.dims), (x, y))


def draw_integer(b: Builder) -> bool:
    """Arithmetic of integers, with integers and with floats."""
    found = b.values(lambda v: v.dtype == "i32")
    if not found:
        return False
    x, y = b.rng.choice(found), b.rng.choice(b.values(lambda v: v.dtype in ("i32", "f32")))
    op = b.rng.choice(("add", "sub", "mul", "min", "max"))
    dtype = "i32" if y.dtype == "i32" else "f32"
    return aligned(x, y) and b.emit(op, BINARY[op].format(x.name, y.name), union(x.dims, y.dims), (x, y), dtype)


def draw_compare(b: Builder) -> bool:
    x, y = b.take(), b.take()
    op = b.rng.choice(COMPARE)
    return aligned(x, y) and b.emit(op, f"{op}({x.name}, {y.name})", union(x.dims, y.dims), (x, y), "bool")


def take_bool(b: Builder) -> Value:
    found = b.values(lambda v: v.dtype == "bool")
    return b.rng.choice(found) if found and b.rng.random() < 0.9 else b.source(b.draw_dims() or ("B",), "bool")


def draw_logical(b: Builder) -> bool:
    x, y = take_bool(b), take_bool(b)
    op = b.rng.choice(("and", "or", "not"))
    if op == "not":
        return b.emit(op, f"not({x.name})", x.dims, (x,), "bool")
    return aligned(x, y) and b.emit(op, f"{op}({x.name}, {y.name})", union(x.dims, y.dims), (x, y), "bool")


def draw_where(b: Builder) -> bool:
    c, x, y = take_bool(b), b.take(), b.take()
    return aligned(c, x, y) and b.emit("where", f"where({c.name}, {x.name}, {y.name})", union(union(c.dims, x.dims), y.dims), (c, x, y))


def draw_cast(b: Builder) -> bool:
    x = b.rng.choice(b.values() or [b.take()])
    dtype = b.rng.choice(("f32", "i32", "bool") if x.dtype == "f32" else ("f32", "i32"))
    return b.emit("cast", f"cast({x.name}, {dtype})", x.dims, (x,), dtype)


# ---- contractions and reductions ----
def draw_dot(b: Builder) -> bool:
    x = b.take(lambda v: len(v.dims) > 0)
    dims = tuple(b.rng.sample(x.dims, min(len(x.dims), b.rng.choice((1, 1, 2)))))
    found = b.values(lambda v: v.dtype == "f32" and set(dims) <= set(v.dims) and aligned(x, v))
    y = b.rng.choice(found) if found and b.rng.random() < 0.4 else b.source(b.draw_dims(dims, tuple(set(leaves(x.dims)) - set(dims))))
    if not aligned(x, y):
        return False
    return b.emit("dot", f"dot[{', '.join(dims)}]({x.name}, {y.name})", without(union(x.dims, y.dims), dims), (x, y))


def draw_reduction(b: Builder) -> bool:
    x = b.take(lambda v: len(v.dims) > 0) if b.rng.random() < 0.85 else take_bool(b)
    op = b.rng.choice(("sum", "mean", "max", "min")) if x.dtype != "bool" else "sum"
    dims = tuple(b.rng.sample(x.dims, b.rng.randint(1, min(2, len(x.dims))))) if x.dims else ()
    return len(dims) > 0 and b.emit(op, f"{op}[{', '.join(dims)}]({x.name})", without(x.dims, dims), (x,))


def plain_dim(b: Builder, x: Value) -> str | None:
    found = [d for d in x.dims if d not in PARTS]
    return b.rng.choice(found) if found else None


def draw_argmax(b: Builder) -> bool:
    x = b.take(lambda v: len(v.dims) > 0)
    dim = plain_dim(b, x)
    return dim is not None and b.emit("argmax", f"argmax[{dim}]({x.name})", without(x.dims, (dim,)), (x,), "i32", b.size(dim))


def draw_softmax(b: Builder) -> bool:
    x = b.take(lambda v: len(v.dims) > 0)
    op = b.rng.choice(("softmax", "log_softmax", "logsumexp"))
    dims = tuple(b.rng.sample(x.dims, b.rng.randint(1, min(2, len(x.dims))))) if x.dims else ()
    return len(dims) > 0 and b.emit(op, f"{op}[{', '.join(dims)}]({x.name})", without(x.dims, dims) if op == "logsumexp" else x.dims, (x,))


def draw_cumsum(b: Builder) -> bool:
    x = b.take(lambda v: len(v.dims) > 0)
    dim = plain_dim(b, x)
    return dim is not None and b.emit("cumsum", f"cumsum[{dim}]({x.name})", x.dims, (x,))


# ---- indices ----
def draw_gather(b: Builder) -> bool:
    x = b.take(lambda v: plain_dim(b, v) is not None, banned=("K", "G"))
    dim = plain_dim(b, x)
    if dim is None:
        return False
    ids = b.integers(b.size(dim), None, (dim,))
    if not aligned(x, ids) or dim in ids.dims:
        return False
    at = x.dims.index(dim)
    fresh = tuple(d for d in ids.dims if d not in x.dims)
    return b.emit("gather", f"gather[{dim}]({x.name}, {ids.name})", x.dims[:at] + fresh + x.dims[at + 1 :], (x, ids))


def draw_routed(b: Builder) -> bool:
    """A product with the weights that each row picks, of one dim or two; weights may be there for each of a dim of x, too."""
    x = b.take(lambda v: len(v.dims) > 1, banned=("V",))
    dims = tuple(b.rng.sample(x.dims, len(x.dims)))
    if len(dims) < 2:
        return False
    rows, dot, rest = dims[:1], dims[1 : b.rng.choice((2, 2, 3))], dims[3:]
    pool = [d for d in ("C", "E", "A", "Q") if d not in x.dims]
    if len(pool) < 2:
        return False
    fresh = tuple(b.rng.sample(pool, 2))
    picked = rows + (fresh[1:] if b.rng.random() < 0.6 else ())
    weights = ("V", fresh[0], *dot, *(rest if b.rng.random() < 0.3 else ()))
    ids = b.integers(b.size("V"), tuple(b.rng.sample(picked, len(picked))), ("V",))
    to = without(union(union(x.dims, ids.dims), (fresh[0],)), dot)
    if not b.legal(weights) or not b.legal(union(to, dot)) or not aligned(x, ids):
        return False
    w = b.source(tuple(b.rng.sample(weights, len(weights))))
    operands = [x.name, f"gather[V]({w.name}, {ids.name})"]
    gathered = [d for v in w.dims for d in (ids.dims if v == "V" else (v,))]
    order = x.dims, tuple(gathered)
    if b.rng.random() < 0.3:
        operands, order = operands[::-1], order[::-1]
    return b.emit("dot", f"dot[{', '.join(dot)}]({', '.join(operands)})", without(union(*order), dot), (x, w, ids))


def draw_xent(b: Builder) -> bool:
    x = b.take(needed=(b.rng.choice(("V", "D")),))
    dim = b.rng.choice([d for d in x.dims if d in ("V", "D")])
    rest = without(x.dims, (dim,))
    targets = b.integers(b.size(dim), tuple(b.rng.sample(rest, len(rest))) if b.rng.random() < 0.8 else None, (dim,))
    options = "".join(o for o in (", ignore = 1", ", smoothing = 0.1") if b.rng.random() < 0.4)
    return aligned(x, targets) and b.emit("xent", f"xent[{dim}]({x.name}, {targets.name}{options})", union(rest, targets.dims), (x, targets))


def draw_onehot(b: Builder) -> bool:
    dim = b.rng.choice(("V", "D", "E"))
    ids = b.integers(b.size(dim), None, (dim,))
    return b.emit("onehot", f"onehot[{dim}]({ids.name})", ids.dims + (dim,), (ids,))


def resized(x: Value, dim: str, to: str) -> tuple[str, ...]:
    return tuple(to if d == dim else d for d in x.dims)


def draw_topk(b: Builder) -> bool:
    x = b.take(needed=(b.rng.choice(("V", "D")),), banned=("Q",))
    dim = b.rng.choice([d for d in x.dims if d in ("V", "D")])
    dims = resized(x, dim, "Q")
    if not b.legal(dims):
        return False
    results = (Value(b.name("v"), dims), Value(b.name("v"), dims, "i32", b.size(dim)))
    b.statements.append(Statement("topk", results, f"topk[{dim} -> Q]({x.name})", (x.name,)))
    return True


def draw_slice(b: Builder) -> bool:
    x = b.take(lambda v: any(b.size(d) >= b.sizes["R"] for d in without(v.dims, tuple(PARTS))), banned=("R",))
    found = [d for d in x.dims if d not in PARTS and b.size(d) >= b.sizes["R"]]
    if not found:
        return False
    dim = b.rng.choice(found)
    first = b.rng.randint(0, b.size(dim) - b.sizes["R"])
    start = f", from = {first}" if first > 0 or b.rng.random() < 0.3 else ""
    return b.emit("slice", f"slice[{dim} -> R]({x.name}{start})", resized(x, dim, "R"), (x,))


def draw_concat(b: Builder) -> bool:
    """C and R make U."""
    first, second = b.rng.choice((("C", "R"), ("R", "C")))
    x, y = b.take(needed=(first,), banned=(second, "U")), b.take(needed=(second,), banned=(first, "U"))
    dims = union(resized(x, first, "U"), without(y.dims, (second,)))
    return aligned(x, y) and b.emit("concat", f"concat[{first} -> U, {second} -> U]({x.name}, {y.name})", dims, (x, y))


def draw_rename(b: Builder) -> bool:
    """W has D's size, and N has H's."""
    pairs = [("D", "W"), ("W", "D"), ("H", "N")] + ([] if b.cached else [("S", "T")])
    source, to = b.rng.choice(pairs)
    x = b.take(needed=(source,), banned=(to,))
    return b.emit("rename", f"rename[{source} -> {to}]({x.name})", resized(x, source, to), (x,))


def draw_regroup(b: Builder) -> bool:
    found = b.values(lambda v: "H" in v.dims or tuple(d for d in v.dims if d in "KG") == ("K", "G"))
    x = b.rng.choice(found) if found else b.source(b.draw_dims(("H",)))
    if "H" in x.dims:
        at = x.dims.index("H")
        return b.emit("split", f"split[H]({x.name})", x.dims[:at] + ("K", "G") + x.dims[at + 1 :], (x,), x.dtype, x.below)
    at = x.dims.index("K")
    if x.dims[at + 1] != "G":
        return False
    return b.emit("merge", f"merge[H]({x.name})", x.dims[:at] + ("H",) + x.dims[at + 2 :], (x,), x.dtype, x.below)


# ---- sequences ----
def draw_positions(b: Builder) -> bool:
    return b.emit("positions", "positions[S]()", ("B", "S") if b.cached else ("S",), (), "i32", 0 if b.cached else b.sizes["S"])


def draw_rope(b: Builder) -> bool:
    x = b.take(needed=("B", "S", "E") if b.cached else ("S", "E"), banned=("T",))
    scaling = b.rng.choice(("", ", scaling = linear(4.0)", ", scaling = llama3(8.0, 1.0, 4.0, 64.0)", ", scaling = none"))
    part = "R" if "R" not in x.dims and b.sizes["R"] % 2 == 0 and b.sizes["R"] <= b.sizes["E"] and b.later.random() < 0.3 else "E"
    short, long = ([round(b.later.uniform(1, 4), 2) for _ in range(b.sizes[part] // 2)] for _ in range(2))
    lists = ("yarn(4, 8, beta_fast = 4, attention = 1.25)", f"longrope({short}, {long}, {b.later.randint(1, 8)})")
    if b.later.random() < 0.5:
        scaling = ", scaling = " + b.later.choice(lists)
    pairs = b.rng.choice(("", ", pairs = halves", ", pairs = interleaved"))
    dims = ", dims = R" if part == "R" else ""
    return b.emit("rope", f"rope[S, E]({x.name}, theta = 1e4{scaling}{pairs}{dims})", x.dims, (x,))


def draw_last(b: Builder) -> bool:
    x = b.take(needed=("B", "S") if b.cached else ("S",))
    return b.emit("last", f"last[S]({x.name})", without(x.dims, ("S",)), (x,))


# ---- one value under two names ----
def draw_residual(b: Builder) -> bool:
    """A value and a product of itself under another dim's name, added: tokens are mixed, and the sum may be taken where the value is."""
    source, to = b.rng.choice([("D", "W")] + ([] if b.cached else [("S", "T")]))
    x = b.take(needed=(source,), banned=(to,))
    if not b.legal(resized(x, source, to)) or not b.emit("tanh", f"tanh({x.name})", x.dims, (x,)):
        return False
    y = b.statements[-1].results[0]
    b.emit("rename", f"rename[{source} -> {to}]({y.name})", resized(y, source, to), (y,))
    other = b.statements[-1].results[0]
    weights = b.source(b.rng.choice(((source, to), (to, source))))
    twice = f"{y.name} + " if b.rng.random() < 0.3 else ""
    return b.emit("dot", f"{y.name} + ({twice}dot[{to}]({weights.name}, {other.name}))", y.dims, (y, weights, other))


SCORES = "fn scores(q[B, S, D], k[B, T, D], u[D, C], v[D, C]) -> [B, S, T] { return dot[C](dot[D](q, u), dot[D](k, v)); }\n"


def draw_scores(b: Builder) -> bool:
    """An elementwise result and itself under another dim's name are the arguments of one call: queries and keys of one block."""
    dims = ("B", "S", "D")
    if b.cached or not b.legal(("B", "S", "T")) or not b.legal(("B", "S", "C")):
        return False
    found = b.values(lambda v: v.dims == dims and v.dtype == "f32")
    x = b.rng.choice(found) if found and b.rng.random() < 0.7 else b.source(dims)
    b.emit("tanh", f"tanh({x.name})", dims, (x,))
    y = b.statements[-1].results[0]
    u, v = b.source(("D", "C")), b.source(("D", "C"))
    return b.emit("dot", f"scores({y.name}, rename[S -> T]({y.name}), {u.name}, {v.name})", ("B", "S", "T"), (y, u, v))


def key_dims(b: Builder, q: Value) -> tuple[str, ...]:
    """Dims of keys for these queries: T and E, and some of q's others; K for H."""
    kept = [d for d in q.dims if d not in ("S", "E", "H") and (b.rng.random() < 0.8 or (b.cached and d == "B"))]
    if "H" in q.dims:
        kept += b.rng.choice((["K"], ["K"], ["H"], []))
    kept.insert(b.rng.randint(0, len(kept)), "T")
    return tuple(kept) + ("E",)


def make_keys(b: Builder, dims: tuple[str, ...]) -> Value | None:
    """Keys or values with T: appended to a cache, or positions under T's name, or given with T."""
    if not b.legal(dims):
        return None
    if not b.cached and b.rng.random() < 0.4:
        return b.source(dims)
    rows = tuple("S" if d == "T" else d for d in dims)
    found = b.values(lambda v: v.dims == rows and v.dtype == "f32")
    x = b.rng.choice(found) if found and b.rng.random() < 0.7 else b.source(rows)
    if not b.cached and b.rng.random() < 0.5:
        return b.statements[-1].results[0] if b.emit("rename", f"rename[S -> T]({x.name})", dims, (x,)) else None
    again = [c for c in b.caches if c.dims == dims]
    cache = b.rng.choice(again) if again and b.rng.random() < 0.3 else Value(b.name("c"), dims)
    b.caches += [] if cache in again else [cache]
    return b.statements[-1].results[0] if b.emit("append", f"append[S -> T]({cache.name}, {x.name})", dims, (cache, x)) else None


def attend_options(b: Builder, q: Value, uses: list[Value]) -> str:
    options = b.rng.choice(("", ", mask = none", ", mask = causal", ", mask = causal", ", mask = window(3)", ", mask = window(100)"))
    around = without(q.dims, ("E",))
    if b.rng.random() < 0.25:
        keep = b.source(tuple(b.rng.sample(around, min(len(around), 2))) + ("T",), "bool")
        options += f", keep = {keep.name}"
        uses.append(keep)
    if b.rng.random() < 0.25:
        dims = tuple(b.rng.sample(around, min(len(around), 2))) + ("T",)
        bias = b.source(dims if b.elements(dims) <= LARGEST else ("T",))
        options += f", bias = {bias.name}"
        uses.append(bias)
    if b.later.random() < 0.25:
        sinks = b.source(tuple(b.later.sample(around, min(len(around), 2))))
        options += f", sinks = {sinks.name}"
        uses.append(sinks)
    if b.rng.random() < 0.2 and not b.cached:
        segments = b.source(tuple(d for d in q.dims if d in ("B", "S")), "i32", 3)
        options += f", segments = {segments.name}"
        uses.append(segments)
    options += ", softcap = 5.0" if b.rng.random() < 0.25 else ""
    options += ", dropout = 0.0" if b.rng.random() < 0.1 else ""
    return options + (", scale = 0.3" if b.rng.random() < 0.3 else "")


def draw_attend(b: Builder) -> bool:
    q = b.take(needed=("B", "S", "E") if b.cached else ("S", "E"), banned=("T", "K", "G", "N"))
    dims = key_dims(b, q)
    own = tuple("C" if d == "E" else d for d in dims) if b.rng.random() < 0.25 and "C" not in q.dims else dims
    k = make_keys(b, dims)
    v = make_keys(b, own) if k is not None and b.rng.random() < 0.9 else k
    if k is None or v is None:
        return False
    uses = [q, k, v]
    options = attend_options(b, q, uses)
    return b.emit("attend", f"attend[T, E]({q.name}, {k.name}, {v.name}{options})", resized(q, "E", "C" if v.dims == own != dims else "E"), tuple(uses))


DRAWS: tuple[tuple[Callable[[Builder], bool], float], ...] = (
    (draw_unary, 4), (draw_binary, 4), (draw_integer, 0.7), (draw_compare, 1), (draw_logical, 0.8), (draw_where, 1), (draw_cast, 0.7), (draw_dot, 4),
    (draw_reduction, 2), (draw_argmax, 0.7), (draw_softmax, 1.5), (draw_cumsum, 0.7), (draw_gather, 1.5), (draw_routed, 1.2), (draw_xent, 1), (draw_onehot, 0.7),
    (draw_topk, 0.7), (draw_slice, 1), (draw_concat, 1), (draw_rename, 1), (draw_regroup, 1), (draw_positions, 0.5), (draw_rope, 1.2), (draw_last, 0.5),
    (draw_attend, 1.5), (draw_residual, 0.8), (draw_scores, 0.8),
)  # fmt: skip
ALL_OPS = tuple(UNARY) + tuple(BINARY) + COMPARE + (
    "and", "or", "not", "where", "cast", "dot", "sum", "mean", "argmax", "softmax", "log_softmax", "logsumexp", "cumsum", "gather", "xent", "onehot",
    "topk", "slice", "concat", "rename", "split", "merge", "positions", "rope", "last", "append", "attend",
)  # fmt: skip


def draw_sizes(rng: random.Random, cached: bool) -> dict[str, int]:
    sizes = {d: rng.choice((4, 6, 8, 12)) for d in ("A", "B", "C", "D", "V")}
    sizes |= {"E": rng.choice((4, 8, 12)), "S": rng.choice((2, 4, 6) if cached else (4, 6, 8, 12)), "K": rng.choice((1, 2, 3, 4)), "G": rng.choice((1, 2, 3))}
    sizes |= {"R": rng.choice((2, 3, 4)), "Q": rng.choice((1, 2, 3, 4)), "W": sizes["D"], "N": sizes["K"] * sizes["G"]}
    return sizes | {"T": sizes["S"] * (2 if cached else 1), "U": sizes["C"] + sizes["R"]}


OPTIMIZERS = ("sgd(lr = 0.1)", "sgd(lr = 0.1, momentum = 0.9, nesterov = 1)", "adam(lr = 0.1, clip = 0.5)", "adamw(lr = 0.1, clip = 1.0)", "lion(lr = 0.1)")


def draw_graph(rng: random.Random, train: bool = False) -> Graph:
    cached = rng.random() < 0.25 and not train
    b = Builder(rng, draw_sizes(rng, cached), cached)
    wanted = rng.choice((3, 5, 8, 12))
    draws, weights = zip(*DRAWS)
    for _ in range(20 * wanted):  # a draw may find nothing that fits
        if len(b.statements) < wanted:
            rng.choices(draws, weights)[0](b)
    for _ in range(20):
        if cached and not b.caches:
            draw_attend(b)
    block = bool(b.caches) or rng.random() < 0.3
    optimizer = rng.choice(OPTIMIZERS) if train else ""
    return Graph(tuple(b.sizes.items()), tuple(b.inputs), tuple(b.params), tuple(b.caches), tuple(b.statements), cached, block, optimizer)


# ---- text ----
def dim_lines(graph: Graph) -> str:
    bound_later = ("S", "T") if graph.cached else ("T",)
    plain = [f"{d} = {n}" for d, n in graph.sizes if d not in bound_later]
    return f"dim {', '.join(plain)}{', S' if graph.cached else ''}, T = alias S, H = (K, G);\n"


def body_lines(graph: Graph) -> str:
    used = graph.used()
    lines = [f"param {p.name}{p.shape()} = normal(0.5);" for p in graph.params if p.name in used]
    lines += [f"cache {c.name}{c.shape()};" for c in graph.caches if c.name in used]
    return "".join(f"  {line}\n" for line in lines)


def statement_lines(graph: Graph) -> str:
    lines = [f"{', '.join(v.name for v in s.results)} = {s.text};" for s in graph.statements]
    return "".join(f"    {line}\n" for line in lines)


def objective(graph: Graph) -> str:
    """A number that hangs on every float that the statements leave."""
    terms = [f"mean[{', '.join(v.dims)}](tanh({v.name}))" if v.dims else f"tanh({v.name})" for v in graph.outputs() if v.dtype == "f32"]
    return " + ".join(terms)


def entry_lines(graph: Graph, formals: str, types: str) -> str:
    at = " at pos[B] along S" if graph.cached else ""
    names = ", ".join(v.name for v in graph.outputs())
    returned, result = (objective(graph), "f32[]") if graph.train else (names, types)
    if not graph.block:
        return f"model m {{\n{body_lines(graph)}  entry f({formals}){at} -> {result} {{\n{statement_lines(graph)}    return {returned};\n  }}\n}}\n"
    given = ", ".join(v.name for v in graph.inputs if v.name in graph.used())
    block = f"block body({formals}) -> {types} {{\n{body_lines(graph)}{statement_lines(graph)}    return {names};\n}}\n"
    return block + f"model m {{\n  sub g: body;\n  entry f({formals}){at} -> {result} {{\n    {names} = g({given});\n    return {returned};\n  }}\n}}\n"


def text(graph: Graph) -> str:
    formals = ", ".join(v.declared() for v in graph.inputs if v.name in graph.used())
    types = ", ".join(f"{v.dtype}{v.shape()}" for v in graph.outputs())
    minimize = f"minimize m.f with {graph.train};\n" if graph.train else ""
    helpers = SCORES if any("scores(" in s.text for s in graph.statements) else ""
    return "lang 1;\n" + dim_lines(graph) + helpers + entry_lines(graph, formals, types) + minimize


# ---- smaller graphs ----
def smaller(graph: Graph) -> list[Graph]:
    """Without a statement that nobody reads, or with one's results given as inputs."""
    found = []
    used = graph.used()
    for i, statement in enumerate(graph.statements):
        rest = graph.statements[:i] + graph.statements[i + 1 :]
        if not rest:
            continue
        inputs = tuple(v for v in statement.results if v.name in used)
        found.append(dataclasses.replace(graph, statements=rest, inputs=graph.inputs + inputs))
    if graph.block and not graph.caches:
        found.append(dataclasses.replace(graph, block=False))
    return found
