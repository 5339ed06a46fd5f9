"""Small random transformers: what varies, their text, and what of them a plan can name."""

from __future__ import annotations

import dataclasses
import random

LLAMA_FEATURES = ("qk_norm", "parallel", "mqa", "plain_heads", "tied", "window", "softcap", "weighted", "smoothing", "minimized", "head_gains", "routed")
GPT2_FEATURES = ("parallel", "untied", "window", "dropout", "no_bias", "weighted", "smoothing", "minimized", "declared")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Something a plan can name: kind is param, act, input, output or cache."""

    path: str
    kind: str
    dims: tuple[str, ...]
    entry: str = ""  # the only entry that has it; empty: all


@dataclasses.dataclass(frozen=True)
class Model:
    family: str
    layers: int
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def stack(self) -> str:
        return "layers" if self.family == "llama" else "h"

    @property
    def composite(self) -> bool:
        return self.family == "llama" and not self.has("plain_heads")

    @property
    def key_heads(self) -> tuple[str, ...]:
        """Dims of keys between T and E."""
        if self.has("mqa"):
            return ()
        return ("K",) if self.composite else ("H",)


def draw_model(rng: random.Random) -> Model:
    family = rng.choice(("llama", "llama", "gpt2"))
    features = LLAMA_FEATURES if family == "llama" else GPT2_FEATURES
    chances = {"minimized": 0.6, "mqa": 0.12, "plain_heads": 0.2, "no_bias": 0.15}
    return Model(family, 2, frozenset(f for f in features if rng.random() < chances.get(f, 0.25)))


def shape(*dims: str) -> str:
    return "[" + ", ".join(dims) + "]"


# ---- text ----
def dim_lines(model: Model, sizes: dict[str, int]) -> str:
    plain = ["B", "S", "D", "F", "V", "E"] + (["P"] if model.family == "gpt2" else []) + (["X"] if model.has("routed") else [])
    heads = f"K = {sizes['K']}, G = {sizes['G']}, H = (K, G)" if model.composite else f"H = {sizes['H']}"
    choices = ", Q = 2" if model.has("routed") else ""
    return f"dim {', '.join(f'{d} = {sizes[d]}' for d in plain)}, L = {model.layers}, T = alias S{choices};\ndim {heads};\n"


def mask_options(model: Model) -> str:
    mask = "window(3)" if model.has("window") else "causal"
    return f"mask = {mask}" + (", softcap = 5.0" if model.has("softcap") else "")


RMSNORM = """block rmsnorm[N](x[.., N], eps = 1e-5) -> [.., N] {
  param g[N] = ones();
  return x * rsqrt(mean[N](x * x) + eps) * g;
}
"""
LAYERNORM = """block layernorm(x[.., D]) -> [.., D] {
  param g[D] = ones(), b[D] = zeros();
  c = x - mean[D](x);
  return c * rsqrt(mean[D](c * c) + 1e-5) * g + b;
}
"""
SWIGLU = """block swiglu(x[B, S, D]) -> [B, S, D] {
  param w1[D, F], w3[D, F], w2[F, D];
  a = dot[D](x, w1);
  return dot[F](silu(a) * dot[D](x, w3), w2);
}
"""
EXPERTS = """block experts(x[B, S, D]) -> [B, S, D] {
  param gate[D, X], w1[X, D, F], w3[X, D, F], w2[X, F, D];
  p, i = topk[X -> Q](softmax[X](dot[D](x, gate)));
  a = dot[D](x, gather[X](w1, i));
  return dot[Q](dot[F](silu(a) * dot[D](x, gather[X](w3, i)), gather[X](w2, i)), p / sum[Q](p));
}
"""


def llama_attention(model: Model) -> str:
    key = ", ".join(model.key_heads + ("E",))
    norms = model.has("qk_norm")
    sub = "  sub qn: rmsnorm[E], kn: rmsnorm[E](eps = 1e-6);\n" if norms else ""
    gains = model.has("head_gains")
    query, keys = ("qn(dot[D](x, wq))", "kn(dot[D](x, wk))") if norms else ("dot[D](x, wq)", "dot[D](x, wk)")
    return f"""block attention(x[B, S, D]) -> [B, S, D] {{
  param wq[D, H, E], wk[D, {key}], wv[D, {key}], wo[H, E, D]{', hg[H] = ones()' if gains else ''};
  cache ck[B, T, {key}], cv[B, T, {key}];
{sub}  q = rope[S, E]({query}, theta = 1e4);
  k = append[S -> T](ck, rope[S, E]({keys}, theta = 1e4));
  v = append[S -> T](cv, dot[D](x, wv));
  o[B, S, H, E] = attend[T, E](q, k, v, {mask_options(model)});
  return dot[H, E](o{' * hg' if gains else ''}, wo);
}}
"""


def gpt2_attention(model: Model) -> str:
    bias = not model.has("no_bias")
    params = ["wq[D, H, E]", "wk[D, H, E]", "wv[D, H, E]", "wo[H, E, D]"]
    params += ["bq[H, E]", "bk[H, E]", "bv[H, E]", "bo[D]"] if bias else []
    add = {n: f" + b{n}" if bias else "" for n in "qkvo"}
    declared = "[B, S, H, E]" if model.has("declared") else ""
    return f"""block attention(x[B, S, D]) -> [B, S, D] {{
  param {', '.join(params)};
  cache ck[B, T, H, E], cv[B, T, H, E];
  q{declared} = dot[D](x, wq){add['q']};
  k = append[S -> T](ck, dot[D](x, wk){add['k']});
  v = append[S -> T](cv, dot[D](x, wv){add['v']});
  o = attend[T, E](q, k, v, {mask_options(model)});
  return dot[H, E](o, wo){add['o']};
}}
block mlp(x[B, S, D]) -> [B, S, D] {{
  param w1[D, F], w2[F, D]{', b1[F], b2[D]' if bias else ''};
  a = dot[D](x, w1){' + b1' if bias else ''};
  return dot[F](gelu_tanh(a), w2){' + b2' if bias else ''};
}}
"""


def layer_text(model: Model, norm: str, ffn: str) -> str:
    wrap = "dropout({}, p = 0.1)" if model.has("dropout") else "{}"
    attn, mlp = wrap.format("attn(n1(x))"), wrap.format("ffn(n2({}))")
    one_by_one = f"  h = x + {attn};\n  return h + {mlp.format('h')};\n"
    body = f"  return x + {attn} + {mlp.format('x')};\n" if model.has("parallel") else one_by_one
    return f"block layer(x[B, S, D]) -> [B, S, D] {{\n  sub n1: {norm}, attn: attention, n2: {norm}, ffn: {ffn};\n{body}}}\n"


def loss_text(model: Model) -> str:
    smoothing = ", smoothing = 0.1" if model.has("smoothing") else ""
    nll = f"  z = dot[D](trunk(t), {head_name(model)});\n    e = xent[V](z, y{smoothing});\n  "
    if model.has("weighted"):
        types, results = "f32[], f32[]", "sum[B, S](e), sum[B, S](ne(y, -100))"
    else:
        types, results = "f32[]", "mean[B, S](e)"
    return f"  entry loss(t: i32[B, S], y: i32[B, S]) -> {types} {{\n  {nll}  return {results};\n  }}\n"


def is_tied(model: Model) -> bool:
    return model.has("tied") if model.family == "llama" else not model.has("untied")


def head_name(model: Model) -> str:
    return "tok" if is_tied(model) else "head"


def model_text(model: Model, norm: str) -> str:
    params = ["tok[V, D]"] + ([] if is_tied(model) else ["head[D, V]"]) + (["wpe[P, D]"] if model.family == "gpt2" else [])
    embed = "gather[V](tok, t)" + (" + gather[P](wpe, positions[S]())" if model.family == "gpt2" else "")
    head = head_name(model)
    return f"""model m {{
  param {', '.join(params)};
  sub {model.stack}: layer * L, norm: {norm};
  fn trunk(t: i32[B, S]) -> [B, S, D] {{
    x = {embed};
    repeat L {{ x = {model.stack}(x); }}
    return norm(x);
  }}
{loss_text(model)}  entry logits(t: i32[B, S]) -> [B, S, V] {{ return dot[D](trunk(t), {head}); }}
  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] {{ return dot[D](last[S](trunk(t)), {head}); }}
}}
""" + ("minimize m.loss with sgd(lr = 0.1);\n" if model.has("minimized") else "")


def text(model: Model, sizes: dict[str, int]) -> str:
    """The file without its plan."""
    if model.family == "llama":
        blocks = RMSNORM + llama_attention(model) + (EXPERTS if model.has("routed") else SWIGLU)
        blocks += layer_text(model, "rmsnorm[D]", "experts" if model.has("routed") else "swiglu") + model_text(model, "rmsnorm[D]")
    else:
        blocks = LAYERNORM + gpt2_attention(model) + layer_text(model, "layernorm", "mlp") + model_text(model, "layernorm")
    return "lang 1;\n" + dim_lines(model, sizes) + blocks


# ---- what a plan can name ----
def attention_tensors(model: Model, at: str) -> list[Tensor]:
    key = model.key_heads + ("E",)
    found = [Tensor(f"{at}.wq", "param", ("D", "H", "E")), Tensor(f"{at}.wo", "param", ("H", "E", "D"))]
    found += [Tensor(f"{at}.{w}", "param", ("D",) + key) for w in ("wk", "wv")]
    found += [Tensor(f"{at}.{c}", "cache", ("B", "T") + key, "decode") for c in ("ck", "cv")]
    found += [Tensor(f"{at}.{v}", "act", ("B", "T") + key) for v in ("k", "v")]
    found += [Tensor(f"{at}.{v}", "act", ("B", "S", "H", "E")) for v in ("q", "o")]
    found += [Tensor(f"{at}.hg", "param", ("H",))] if model.has("head_gains") else []
    if model.family == "gpt2" and not model.has("no_bias"):
        found += [Tensor(f"{at}.b{n}", "param", ("H", "E")) for n in "qkv"] + [Tensor(f"{at}.bo", "param", ("D",))]
    return found


def ffn_tensors(model: Model, at: str) -> list[Tensor]:
    names = ("w1", "w3") if model.family == "llama" else ("w1",)
    if model.has("routed"):
        found = [Tensor(f"{at}.{w}", "param", ("X", "D", "F")) for w in names] + [Tensor(f"{at}.w2", "param", ("X", "F", "D"))]
        found += [Tensor(f"{at}.gate", "param", ("D", "X")), Tensor(f"{at}.i", "act", ("B", "S", "Q"))]
        return found + [Tensor(f"{at}.a", "act", ("B", "S", "Q", "F"))]
    found = [Tensor(f"{at}.{w}", "param", ("D", "F")) for w in names] + [Tensor(f"{at}.w2", "param", ("F", "D"))]
    if model.family == "gpt2" and not model.has("no_bias"):
        found += [Tensor(f"{at}.b1", "param", ("F",)), Tensor(f"{at}.b2", "param", ("D",))]
    return found + [Tensor(f"{at}.a", "act", ("B", "S", "F"))]


def layer_tensors(model: Model, at: str) -> list[Tensor]:
    stream = ("B", "S", "D")
    found = attention_tensors(model, f"{at}.attn") + ffn_tensors(model, f"{at}.ffn")
    found += [Tensor(f"{at}{b}.{v}", "act", stream) for b in ("", ".n1", ".attn", ".ffn", ".n2") for v in ("x", "out")]
    found += [Tensor(f"{at}.{n}.g", "param", ("D",)) for n in ("n1", "n2")]
    return found + ([] if model.has("parallel") else [Tensor(f"{at}.h", "act", stream)])


def tensors(model: Model) -> list[Tensor]:
    found = [Tensor("tok", "param", ("V", "D")), Tensor("norm.g", "param", ("D",)), Tensor("norm.out", "act", ("B", "S", "D"))]
    found += [] if is_tied(model) else [Tensor("head", "param", ("D", "V"))]
    found += [Tensor("wpe", "param", ("P", "D"))] if model.family == "gpt2" else []
    found += layer_tensors(model, model.stack) + layer_tensors(model, f"{model.stack}[1]" if model.layers > 1 else model.stack)
    found += [Tensor("loss.t", "input", ("B", "S"), "loss"), Tensor("loss.y", "input", ("B", "S"), "loss")]
    found += [Tensor("loss.z", "act", ("B", "S", "V"), "loss"), Tensor("loss.e", "act", ("B", "S"), "loss")]
    found += [Tensor("logits.t", "input", ("B", "S"), "logits"), Tensor("logits.out", "output", ("B", "S", "V"), "logits")]
    found += [Tensor("decode.t", "input", ("B", "S"), "decode"), Tensor("decode.pos", "input", ("B",), "decode")]
    return found + [Tensor("decode.out", "output", ("B", "V"), "decode"), Tensor("trunk.x", "act", ("B", "S", "D"))]
