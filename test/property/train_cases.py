"""Train steps of small transformers under every mix of data, storage, context, tensor and sequence parallelism."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator

RANKS = (1, 2, 3, 4, 6, 8)
STEPS = 5
ZERO = ("", "opt", "grad, opt", "param, grad, opt")
REMAT = ("", "", "remat layers;", "remat layers save layers.attn.o;", "remat layers.ffn, layers.n2;")
RESHARD = ("", "", "reshard after step;", "reshard after use;")
OFFLOAD = ("", "", "offload opt;", "offload opt in layers[0].ffn, tok;", "offload param, opt;", "offload act in layers;", "offload param in layers; offload act in layers.ffn;", "offload opt, param; offload act in layers;")
TUNE = ("", "", "tune bucket = 512;", "tune call_cost = 4096;")

# ---- models ----
LLAMA = """block rmsnorm(x[.., D]) -> [.., D] {
  param g[D] = ones();
  return x * rsqrt(mean[D](x * x) + 1e-5) * g;
}
block attention(x[B, S, D]) -> [B, S, D] {
  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];
  q = rope[S, E](dot[D](x, wq), theta = 1e4);
  k = rename[S -> T](rope[S, E](dot[D](x, wk), theta = 1e4));
  v = rename[S -> T](dot[D](x, wv));
  o = attend[T, E](q, k, v, mask = causal);
  return dot[H, E](o, wo);
}
block mlp(x[B, S, D]) -> [B, S, D] {
  param w1[D, F], w3[D, F], w2[F, D];
  return dot[F](silu(dot[D](x, w1)) * dot[D](x, w3), w2);
}
block layer(x[B, S, D]) -> [B, S, D] {
  sub n1: rmsnorm, attn: attention, n2: rmsnorm, ffn: mlp;
  h = x + attn(n1(x));
  return h + ffn(n2(h));
}
"""
GPT2 = """block layernorm(x[.., D]) -> [.., D] {
  param g[D] = ones(), b[D] = zeros();
  c = x - mean[D](x);
  return c * rsqrt(mean[D](c * c) + 1e-5) * g + b;
}
block attention(x[B, S, D]) -> [B, S, D] {
  param wq[D, H, E], bq[H, E], wk[D, H, E], bk[H, E], wv[D, H, E], bv[H, E], wo[H, E, D], bo[D];
  q = dot[D](x, wq) + bq;
  k = rename[S -> T](dot[D](x, wk) + bk);
  v = rename[S -> T](dot[D](x, wv) + bv);
  o = attend[T, E](q, k, v, mask = causal, dropout = 0.1);
  return dot[H, E](o, wo) + bo;
}
block mlp(x[B, S, D]) -> [B, S, D] {
  param w1[D, F], b1[F], w2[F, D], b2[D];
  return dot[F](gelu_tanh(dot[D](x, w1) + b1), w2) + b2;
}
block layer(x[B, S, D]) -> [B, S, D] {
  sub n1: layernorm, attn: attention, n2: layernorm, ffn: mlp;
  h = x + dropout(attn(n1(x)), p = 0.1);
  return h + dropout(ffn(n2(h)), p = 0.1);
}
"""
LLAMA_PARAMS = "n1.g attn.wq attn.wk attn.wv attn.wo n2.g ffn.w1 ffn.w3 ffn.w2".split()
GPT2_PARAMS = "n1.g n1.b attn.wq attn.bq attn.wk attn.bk attn.wv attn.bv attn.wo attn.bo n2.g n2.b ffn.w1 ffn.b1 ffn.w2 ffn.b2".split()


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    dims: str
    sizes: tuple[tuple[str, int], ...]  # of what axes may split
    groups: tuple[int, int]  # K and G of composite heads; (0, 0): heads are plain
    tied: bool
    weighted: bool  # (total, weight), with targets to ignore
    optimizer: str

    @property
    def gpt2(self) -> bool:
        return not self.groups[0]

    def size(self, dim: str) -> int:
        return dict(self.sizes)[dim]

    def splits(self, dim: str, parts: int) -> bool:
        if dim != "H" or self.gpt2:
            return self.size(dim) % parts == 0
        keys, group = self.groups
        return keys % parts == 0 or (parts % keys == 0 and group % (parts // keys) == 0)

    def legal_parts(self, dim: str) -> list[int]:
        return [n for n in range(1, self.size(dim) + 1) if self.splits(dim, n)]

    def params(self) -> list[str]:
        outer = ["tok"] + ([] if self.tied else ["head"]) + (["wpe", "norm.g", "norm.b"] if self.gpt2 else ["norm.g"])
        return outer + [f"layers.{p}" for p in (GPT2_PARAMS if self.gpt2 else LLAMA_PARAMS)]

    def text(self) -> str:
        embed = "gather[V](tok, t)" + (" + gather[P](wpe, positions[S]())" if self.gpt2 else "")
        params = ["tok[V, D]"] + ([] if self.tied else ["head[D, V]"]) + (["wpe[P, D]"] if self.gpt2 else [])
        nll = f"xent[V](dot[D](norm(x), {'tok' if self.tied else 'head'}), y)"
        types, results = "[]", f"mean[B, S]({nll})"
        if self.weighted:
            types, results = "[], []", f"sum[B, S]({nll}), sum[B, S](ne(y, -100))"
        norm = "layernorm" if self.gpt2 else "rmsnorm"
        weights = "".join(f'  {p} = "{p.replace("layers.", "layers.{L}.")}";\n' for p in self.params())
        return f"""lang 1;
dim B, {self.dims}, L = 2, T = alias S;
{GPT2 if self.gpt2 else LLAMA}model m {{
  param {', '.join(params)};
  sub layers: layer * L, norm: {norm};
  entry loss(t: i32[B, S], y: i32[B, S]) -> {types} {{
    x = {embed};
    repeat L {{ x = layers(x); }}
    return {results};
  }}
}}
weights own for m {{
{weights}}}
minimize m.loss with {self.optimizer};
"""


def composite(name: str, keys: int, group: int, seq: int, tied: bool, weighted: bool, optimizer: str) -> Model:
    sizes = {"S": seq, "D": 20, "F": 24, "V": 24, "H": keys * group}
    plain = ", ".join(f"{d} = {n}" for d, n in sizes.items() if d != "H")
    dims = f"{plain}, E = 4, K = {keys}, G = {group}, H = (K, G)"
    return Model(name, dims, tuple(sizes.items()), (keys, group), tied, weighted, optimizer)


ADAMW = "adamw(lr = 1e-3, clip = 0.5)"
SGD = "sgd(lr = 0.1, momentum = 0.9, nesterov = 1, decay = 0.01, clip = 0.5)"
GPT2_SIZES = (("S", 12), ("D", 20), ("F", 24), ("V", 30), ("H", 6))
MODELS = (
    composite("llama", 2, 4, 8, False, False, ADAMW),
    composite("weighted", 2, 3, 12, True, True, SGD),
    Model("gpt2", "S = 12, D = 20, F = 24, V = 30, H = 6, E = 4, P = 16", GPT2_SIZES, (0, 0), True, False, ADAMW),
)


# ---- pipelines ----
SCHEDULES = {"gpipe": 1, "one_f_one_b": 1, "zero_bubble": 1, "interleaved(2)": 2, "interleaved(3)": 3, "looped_bfs(2)": 2, "zero_bubble_v": 2, "dual_pipe_v": 2}


@dataclasses.dataclass(frozen=True)
class Pipeline:
    stages: int
    schedule: str
    micro_batches: int
    layers: int
    split: str
    at: int  # where its axis is among those of the mesh
    inter: bool = False  # between nodes: what is replicated on other axes is sent in parts

    @property
    def name(self) -> str:
        return f"pp{self.stages}_{self.schedule.replace('(', '').replace(')', '')}_m{self.micro_batches}_l{self.layers}_{self.split[:5].strip('(')}_at{self.at}{'_inter' * self.inter}"

    def axis(self) -> str:
        return f"pp = {self.stages}{' inter' if self.inter else ''}"

    def line(self) -> str:
        split = f", split({self.split})" if self.split else ""
        return f"stage layers over pp: schedule = {self.schedule}, microbatches = {self.micro_batches}, batch = B{split};"


def draw_pipeline(rng: random.Random) -> Pipeline:
    stages, schedule = rng.choice((2, 2, 3, 4)), rng.choice(tuple(SCHEDULES))
    chunks = stages * SCHEDULES[schedule]
    least = 2 * stages if schedule == "dual_pipe_v" else 1 if schedule in ("gpipe", "one_f_one_b") else stages
    layers = chunks + rng.randrange(3)
    lengths = [1 + sum(rng.randrange(chunks) == c for _ in range(layers - chunks)) for c in range(chunks)]
    split = rng.choice(("", "even", "auto", ", ".join(map(str, lengths))))
    layers = sum(lengths) if split and split[0].isdigit() else layers
    return Pipeline(stages, schedule, least + rng.randrange(3), layers, split, rng.randrange(5))


# ---- cases ----
@dataclasses.dataclass(frozen=True)
class Case:
    model: Model
    mesh: tuple[int, int, int, int]  # dp, fsdp, cp, tp
    zero: str  # kinds whose storage is split
    wide: bool  # over all axes that split data, not only over fsdp
    sequence: bool
    micro_batches: int
    remat: str
    reshard: str
    tune: str
    offload: str
    pipeline: Pipeline | None = None

    AXES = ("dp", "fsdp", "cp", "tp")

    @property
    def name(self) -> str:
        mesh = "_".join(f"{a}{n}" for a, n in zip(self.AXES, self.mesh) if n > 1) or "one"
        marks = "sp" * self.sequence + "w" * self.wide + "r" * bool(self.remat) + self.reshard.replace("reshard after ", "").rstrip(";")
        stages = f"_{self.pipeline.name}" if self.pipeline else ""
        return f"{self.model.name}_{mesh}_z{ZERO.index(self.zero)}_a{self.micro_batches}{'_' * bool(marks)}{marks}{stages}"

    @property
    def ranks(self) -> int:
        return math.prod(self.mesh) * (self.pipeline.stages if self.pipeline else 1)

    @property
    def layers(self) -> int:
        return self.pipeline.layers if self.pipeline else 2

    @property
    def parts(self) -> int:
        """The micro-batches of a step."""
        return self.micro_batches * (self.pipeline.micro_batches if self.pipeline else 1)

    def size(self, axis: str) -> int:
        return self.mesh[self.AXES.index(axis)]

    def over(self, *axes: str) -> str:
        return ", ".join(a for a in axes if self.size(a) > 1)

    @property
    def batch(self) -> int:
        rows = self.size("dp") * self.size("fsdp") * self.parts
        return 2 * rows if rows < 4 else rows

    def illegal(self) -> dict[str, list[int]]:
        """The dims that an axis does not divide, and what they may be split into."""
        wants = [(d, self.size("tp")) for d in "HFV"] + [("S", self.size("cp"))]
        return {d: self.model.legal_parts(d) for d, parts in wants if not self.model.splits(d, parts)}

    def storage(self) -> str:
        return self.over("dp", "fsdp", "cp") if self.wide else self.over("fsdp") or self.over("dp") or self.over("cp")

    def lines(self) -> Iterator[str]:
        data = self.over("dp", "fsdp")
        mesh = [f"{a} = {n}" for a, n in zip(self.AXES, self.mesh) if n > 1]
        if self.pipeline:
            mesh.insert(min(self.pipeline.at, len(mesh)), self.pipeline.axis())
        yield f"mesh {', '.join(mesh)};" if mesh else ""
        yield self.pipeline.line() if self.pipeline else ""
        yield f"shard B over {data};" if data else ""
        yield "shard H, F, V over tp;" if self.size("tp") > 1 else ""
        yield "shard act, input S over cp in loss;" if self.size("cp") > 1 else ""
        yield "shard act S over tp if free;" if self.sequence else ""
        yield f"shard {self.zero} * over {self.storage()};" if self.zero else ""
        yield self.remat
        yield self.reshard
        yield self.tune
        yield self.offload

    def text(self) -> str:
        shared = [f"bind B = {self.batch};", "precision param = f64, act = f64, grad = f64, opt = f64;"]
        parts = {"one": self.parts, "p": self.micro_batches}
        lines = {name: [f"accumulate {n} over B;"] if n > 1 else [] for name, n in parts.items()}
        plans = {"one": shared + lines["one"], "p": shared + lines["p"] + [line for line in self.lines() if line]}
        return self.model.text().replace("L = 2", f"L = {self.layers}") + "".join(
            f"plan {name} for m {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n" for name, lines in plans.items()
        )


def factorisations(ranks: int, parts: int) -> list[tuple[int, ...]]:
    """Ordered factors, ones included."""
    if parts == 1:
        return [(ranks,)]
    return [(n,) + rest for n in range(1, ranks + 1) if ranks % n == 0 for rest in factorisations(ranks // n, parts - 1)]


def all_cases(seed: int) -> list[Case]:
    """Every factorisation, model, ZeRO variant, sequence and micro-batch choice; what else a plan may say is drawn."""
    found = []
    meshes = [mesh for ranks in RANKS for mesh in factorisations(ranks, 4)]
    for model, mesh, zero, sequence, micro in itertools.product(MODELS, meshes, ZERO, (False, True), (1, 2)):
        dp, fsdp, cp, tp = mesh
        if (sequence and tp == 1) or (zero and dp * fsdp * cp == 1):
            continue
        rng = random.Random(f"{seed}:{model.name}:{mesh}:{zero}:{sequence}:{micro}")
        wide = bool(zero) and sum(n > 1 for n in (dp, fsdp, cp)) > 1 and rng.random() < 0.5
        remat, tune, reshard = rng.choice(REMAT), rng.choice(TUNE), rng.choice(RESHARD) if zero.startswith("param") else ""
        offload = rng.choice(OFFLOAD)
        found.append(Case(model, mesh, zero, wide, sequence, micro, remat, reshard, tune, offload))
    return found


def with_stages(cases: list[Case], seed: int) -> list[Case]:
    """The same cases, as pipelines."""
    found = []
    for i, case in enumerate(cases):
        pipeline = draw_pipeline(random.Random(f"stages:{seed}:{i}:{case.name}"))
        pipeline = dataclasses.replace(pipeline, inter=random.Random(f"inter:{seed}:{i}").random() < 0.5)
        found.append(dataclasses.replace(case, pipeline=pipeline))
    return found


def sample(cases: list[Case], count: int, seed: int) -> list[Case]:
    """One factorisation after the other, so that a small sample has all of them."""
    rng = random.Random(f"{seed}")
    shuffled = rng.sample(cases, len(cases))
    by_mesh: dict[tuple[int, ...], list[Case]] = {}
    for case in shuffled:
        by_mesh.setdefault(case.mesh, []).append(case)
    rounds = itertools.zip_longest(*by_mesh.values())
    return [case for group in rounds for case in group if case is not None][:count]
