#!/usr/bin/env python3
"""The routers of examples/routers.shard equal what the published models compute, token by token and expert by expert, in f64 to 1e-12.

The reference is written from the models' definitions: Mixtral (arXiv:2401.04088, section 2.1; loss of balance: Switch Transformer,
arXiv:2101.03961, equations 4 to 6), DeepSeek-V3 (arXiv:2412.19437, section 2.1.2, and its published inference code for groups) and gpt-oss
(arXiv:2508.10925, section 2.2, and its published code for the clamped unit). Interpreted and compiled, on one device and with experts split.

  routers.py --shardc build/shardc
"""

from __future__ import annotations

import argparse
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from tensor_files import read_tensors, write_floats

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHIN = 1e-12
SEEDS = 6
TOKENS, D, F, Z, X, N, M, Q, P, R = 6, 5, 4, 3, 12, 4, 3, 3, 2, 2
SIZES = {"B": 2, "S": 3, "D": D, "F": F, "Z": Z, "X": X, "N": N, "M": M, "Q": Q, "P": P, "R": R}
EXPERTS = {"gate": (D, X), "w1": (X, D, F), "w3": (X, D, F), "w2": (X, F, D)}
BIASES = {"b": (X,), "b1": (X, F), "b3": (X, F), "b2": (X, D)}
SHARED = {"bias": (X,), "s1": (D, Z), "s3": (D, Z), "s2": (Z, D)}

Vector = list[float]


class Tensor:
    """Values of a shape in row-major order; indexing takes the first dim off."""

    def __init__(self, shape: tuple[int, ...], values: Vector) -> None:
        self.shape, self.values = shape, values

    def __getitem__(self, i: int):
        if len(self.shape) == 1:
            return self.values[i]
        size = math.prod(self.shape[1:])
        return Tensor(self.shape[1:], self.values[i * size : (i + 1) * size])


def times(x: Vector, w: Tensor) -> Vector:
    return [sum(x[d] * w.values[d * w.shape[1] + f] for d in range(w.shape[0])) for f in range(w.shape[1])]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softmax(x: Vector) -> Vector:
    e = [math.exp(a - max(x)) for a in x]
    return [a / sum(e) for a in e]


def best(x: Vector, count: int) -> list[int]:
    return sorted(range(len(x)), key=lambda i: (-x[i], i))[:count]


def gated(x: Vector, w1: Tensor, w3: Tensor, w2: Tensor) -> Vector:
    return times([a * sigmoid(a) * b for a, b in zip(times(x, w1), times(x, w3), strict=True)], w2)


def clamped(x: Vector, w: dict[str, Tensor], e: int) -> Vector:
    def biased(x: Vector, weights: str, bias: str) -> Vector:
        return [a + b for a, b in zip(times(x, w[weights][e]), w[bias][e].values, strict=True)]

    g = [min(a, 7.0) for a in biased(x, "w1", "b1")]
    u = [max(-7.0, min(a, 7.0)) for a in biased(x, "w3", "b3")]
    return biased([(b + 1) * a * sigmoid(1.702 * a) for a, b in zip(g, u, strict=True)], "w2", "b2")


def mix(parts: list[tuple[float, Vector]]) -> Vector:
    return [sum(p * y[d] for p, y in parts) for d in range(D)]


def softmax_router(rows: list[Vector], w: dict[str, Tensor]) -> list[Vector]:
    out, used, mean = [], [0.0] * X, [0.0] * X
    for x in rows:
        p = softmax(times(x, w["gate"]))
        chosen = best(p, Q)
        total = sum(p[e] for e in chosen)
        out.append(mix([(p[e] / total, gated(x, w["w1"][e], w["w3"][e], w["w2"][e])) for e in chosen]))
        for e in range(X):
            used[e] += (e in chosen) / len(rows)
            mean[e] += p[e] / len(rows)
    return [*out, [X * sum(a * b for a, b in zip(used, mean, strict=True))]]


def sigmoid_router(rows: list[Vector], w: dict[str, Tensor]) -> list[Vector]:
    out = []
    for x in rows:
        score = [sigmoid(a) for a in times(x, w["gate"])]
        biased = [a + b for a, b in zip(score, w["bias"].values, strict=True)]
        groups = best([sum(sorted(biased[n * M : (n + 1) * M])[-P:]) for n in range(N)], R)
        chosen = best([a if e // M in groups else -math.inf for e, a in enumerate(biased)], Q)
        total = sum(score[e] for e in chosen) + 1e-20
        parts = [(2.5 * score[e] / total, gated(x, w["w1"][e], w["w3"][e], w["w2"][e])) for e in chosen]
        out.append(mix([*parts, (1.0, gated(x, w["s1"], w["s3"], w["s2"]))]))
    return out


def topk_router(rows: list[Vector], w: dict[str, Tensor]) -> list[Vector]:
    out = []
    for x in rows:
        logits = [a + b for a, b in zip(times(x, w["gate"]), w["b"].values, strict=True)]
        chosen = best(logits, Q)
        shares = softmax([logits[e] for e in chosen])
        out.append(mix([(p, clamped(x, w, e)) for p, e in zip(shares, chosen, strict=True)]))
    return out


ROUTERS = {
    "softmax_router": (softmax_router, EXPERTS),
    "sigmoid_router": (sigmoid_router, EXPERTS | SHARED),
    "topk_router": (topk_router, EXPERTS | BIASES),
}
RUNS = (["--plan", "one", "--interpret"], ["--plan", "one"], ["--plan", "experts"])


def model(router: str) -> str:
    """The block as the example has it, in a model of nothing else."""
    block = re.search(rf"^block {router}\(.*?^}}\n", (ROOT / "examples" / "routers.shard").read_text(), re.M | re.S).group()
    result = "[B, S, D], []" if "-> [B, S, D], []" in block else "[B, S, D]"
    precision = "precision param = f64, act = f64;"
    return f"""lang 1;
dim {", ".join(f"{name} = {size}" for name, size in SIZES.items())};
{block}
model m {{
  sub r: {router};
  entry f(x: f64[B, S, D]) -> {result} {{ return r(x); }}
}}
plan one for m {{ {precision} }}
plan experts for m {{ mesh dp = 2, ep = 4; shard B over dp; shard X over ep in r.w1, r.w3, r.w2; {precision} }}
"""


def drawn(random_numbers: random.Random, shape: tuple[int, ...], scale: float) -> Tensor:
    """Values that f32, which the files hold, has exactly."""
    return Tensor(shape, [round(random_numbers.gauss(0, scale) * 1024) / 1024 for _ in range(math.prod(shape))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    arguments = parser.parse_args()
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for router, (reference, parameters) in ROUTERS.items():
            (folder / "m.shard").write_text(model(router))
            for seed in range(SEEDS):
                numbers = random.Random(f"{router} {seed}")
                x = drawn(numbers, (TOKENS, D), 1.0)
                w = {name: drawn(numbers, shape, 1.5) for name, shape in parameters.items()}  # wide: clamps and groups matter
                write_floats(folder / "x.safetensors", {"x": ((2, 3, D), x.values)})
                write_floats(folder / "w.safetensors", {f"r.{name}": (t.shape, t.values) for name, t in w.items()})
                want = [a for row in reference([x[t].values for t in range(TOKENS)], w) for a in row]
                for run in RUNS:
                    command = [arguments.shardc, "eval", str(folder / "m.shard"), *run, "--weights", str(folder / "w.safetensors")]
                    command += ["--input", f"x={folder}/x.safetensors:x", "-o", str(folder / "out.safetensors")]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
                    if done.returncode != 0:
                        raise SystemExit(f"{' '.join(command)}: exits {done.returncode}\n{done.stderr}\n{model(router)}")
                    outputs = read_tensors(folder / "out.safetensors")
                    got = [a for name in sorted(outputs, key=lambda name: -len(outputs[name])) for a in outputs[name]]
                    worst = max(abs(a - b) / (1 + abs(b)) for a, b in zip(got, want, strict=True))
                    if not worst <= WITHIN:
                        faults.append(f"{router}, seed {seed}, {' '.join(run)}: differs by {worst}")
                    count += 1
    print("\n".join(faults) if faults else f"{count} runs of routers are what the models define")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
