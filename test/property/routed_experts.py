#!/usr/bin/env python3
"""Routed experts equal dense ones, which multiply every row by the weights of every expert and take what `onehot` picks.

A step of sgd with rate 1, in f64: the losses and what each parameter becomes (so all gradients) agree to 1e-12. For one choice of a token, two
and eight; with probabilities that differ, with ties, and with ids from outside that send all rows to one expert (an expert without rows then
keeps its weights bit for bit, and gets exactly 0). Interpreted on one device, and compiled on one and on meshes: rows, columns, contracted
dims, storage and experts split, rows gathered by their experts, micro-batches, recomputation.

  routed_experts.py --shardc build/shardc [--target cuda:sm_90a]
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from cases import add_target
from tensor_files import read_tensors, write_integers

B, S, X, V = 4, 6, 8, 11
WITHIN = 1e-12
ONE = 3  # the expert with all rows

PRECISION = "precision param = f64, act = f64, grad = f64, opt = f64;"
EXPERTS = "shard X over ep in ffn.w1, ffn.w3, ffn.w2;"
GATHER = f"{EXPERTS} form ffn: gather over ep;"
DISPATCH = f"{EXPERTS} form ffn: dispatch over ep;"
PLANS = {
    "one": "",
    "dp": "mesh dp = 2; shard B over dp;",
    "tp": "mesh tp = 2; shard F over tp;",
    "width": "mesh tp = 2; shard D over tp in ffn.w1, ffn.w3, ffn.w2;",
    "sp": "mesh sp = 3; shard act S over sp;",
    "fsdp": "mesh fsdp = 2; shard B over fsdp; shard param D over fsdp;",
    "experts": f"mesh ep = 4; {EXPERTS}",
    "mixed": f"mesh dp = 2, ep = 2, tp = 2; shard B over dp; shard F over tp; {EXPERTS}",
    "gather": f"mesh ep = 4; shard B over ep; {GATHER}",
    "gather positions": f"mesh ep = 2; shard act, input S over ep; {GATHER}",
    "gather mixed": f"mesh dp = 2, ep = 2, tp = 2; shard B over dp, ep; shard F over tp; {GATHER}",
    "gather width": f"mesh ep = 2, tp = 2; shard B over ep; shard D over tp in ffn.w1, ffn.w3, ffn.w2; {GATHER}",
    "gather stored": f"mesh fsdp = 2, ep = 2; shard B over fsdp, ep; shard param D over fsdp; {GATHER}",
    "gather batches": f"mesh ep = 2; shard B over ep; accumulate 2 over B; remat ffn; {GATHER}",
    "dispatch": f"mesh ep = 4; shard B over ep; {DISPATCH}",
    "dispatch few": f"mesh ep = 4; shard B over ep; tune capacity = 0.3; {DISPATCH}",
    "dispatch positions": f"mesh ep = 2; shard act, input S over ep; {DISPATCH}",
    "dispatch both": f"mesh cp = 2, ep = 2; shard B over ep; shard act, input S over cp, ep if free; {DISPATCH}",
    "dispatch mixed": f"mesh ep = 2, dp = 2, tp = 2; shard B over ep, dp; shard F over tp; {DISPATCH}",
    "dispatch width": f"mesh ep = 2, tp = 2; shard B over ep; shard D over tp in ffn.w1, ffn.w3, ffn.w2; {DISPATCH}",
    "dispatch stored": f"mesh fsdp = 2, ep = 2; shard B over fsdp, ep; shard param D over fsdp; {DISPATCH}",
    "dispatch sequence": f"mesh ep = 2, tp = 2; shard B over ep; shard F over tp; shard act S over tp if free; {DISPATCH}",
    "dispatch batches": f"mesh ep = 2; shard B over ep; accumulate 2 over B; remat ffn; {DISPATCH}",
    "batches": "mesh dp = 2; shard B over dp; accumulate 2 over B; remat ffn;",
    # room for some of the choices of rows: it grows where it does not do
    "packed": f"mesh ep = 4; {EXPERTS} tune capacity = 1.3;",
    "packed gather": f"mesh ep = 4; shard B over ep; {GATHER} tune capacity = 0.5;",
    "packed mixed": f"mesh dp = 2, ep = 2, tp = 2; shard B over dp, ep; shard F over tp; {GATHER} tune capacity = 1.4;",
    "packed batches": f"mesh fsdp = 2, ep = 2; shard B over fsdp, ep; shard param D over fsdp; remat ffn; {GATHER} tune capacity = 1.4;",
    "packed dispatch batches": f"mesh ep = 2; shard B over ep; accumulate 2 over B; remat ffn; {DISPATCH} tune capacity = 1.1;",
    "packed uneven": f"mesh ep = 3, dp = 3; pad B to multiple 3; pad X to multiple 3; shard B over dp; {EXPERTS} tune capacity = 1.4;",
}
BODIES = {
    "routed": """h = silu(dot[D](x, gather[X](w1, i))) * dot[D](x, gather[X](w3, i));
    return dot[Q](dot[F](h, gather[X](w2, i)), p);""",
    "dense": """h = silu(dot[D](x, w1)) * dot[D](x, w3);
    return dot[X](dot[F](h, w2), dot[Q](onehot[X](i), p));""",
    # a bias for each expert, and rows weighted before the last product
    "routed, biased": """h = silu(dot[D](x, gather[X](w1, i)) + gather[X](b1, i)) * dot[D](x, gather[X](w3, i)) * p;
    return sum[Q](dot[F](h, gather[X](w2, i)));""",
    "dense, biased": """h = silu(dot[D](x, w1) + b1) * dot[D](x, w3);
    return dot[X](dot[F](h, w2), dot[Q](onehot[X](i), p));""",
    # a bias for each expert behind the last product
    "routed, shifted": """h = silu(dot[D](x, gather[X](w1, i))) * dot[D](x, gather[X](w3, i));
    return dot[Q](dot[F](h, gather[X](w2, i)) + gather[X](b2, i), p);""",
    "dense, shifted": """h = silu(dot[D](x, w1)) * dot[D](x, w3);
    return dot[X](dot[F](h, w2) + b2, dot[Q](onehot[X](i), p));""",
    # two routers of the same experts
    "routed, doubled": """r, j = topk[X -> Q](softmax[X](dot[D](x, gate2)));
    h = silu(dot[D](x, gather[X](w1, i))) * dot[D](x, gather[X](w3, i));
    g = silu(dot[D](x, gather[X](w1, j))) * dot[D](x, gather[X](w3, j));
    return dot[Q](dot[F](h, gather[X](w2, i)), p) + dot[Q](dot[F](g, gather[X](w2, j)), r);""",
    "dense, doubled": """r, j = topk[X -> Q](softmax[X](dot[D](x, gate2)));
    h = silu(dot[D](x, w1)) * dot[D](x, w3);
    return dot[X](dot[F](h, w2), dot[Q](onehot[X](i), p) + dot[Q](onehot[X](j), r));""",
}
CHOICES = {
    "drawn": ("gate[D, X]", "p, i = topk[X -> Q](softmax[X](dot[D](x, gate)));"),
    "ties": ("gate[D, X] = zeros()", "p, i = topk[X -> Q](softmax[X](dot[D](x, gate)));"),
    "given": ("gate[D, Q]", "p = sigmoid(dot[D](x, gate));"),
}


def model(body: str, choice: str, top: int) -> str:
    gate, pick = CHOICES[choice]
    given = choice == "given"
    plans = "".join(f"plan {name.replace(' ', '_')} for m {{ {lines} {PRECISION} }}\n" for name, lines in PLANS.items())
    return f"""lang 1;
dim B = {B}, S = {S}, D = 8, F = 12, X = {X}, Q = {top}, V = {V};
block experts(x[B, S, D]{', i: i32[B, S, Q]' if given else ''}) -> [B, S, D] {{
    param {gate}, w1[X, D, F], w3[X, D, F], w2[X, F, D]{", b1[X, F]" if "biased" in body else ""}{", b2[X, D]" if "shifted" in body else ""}{", gate2[D, X]" if "doubled" in body else ""};
    {pick}
    {BODIES[body]}
}}
model m {{
  param tok[V, D], head[D, V];
  sub ffn: experts;
  entry loss(t: i32[B, S], y: i32[B, S]{', i: i32[B, S, Q]' if given else ''}) -> [] {{
    x = gather[V](tok, t);
    return mean[B, S](xent[V](dot[D](x + ffn(x{', i' if given else ''}), head), y));
  }}
}}
minimize m.loss with sgd(lr = 1.0);
{plans}"""


class Runner:
    def __init__(self, arguments: argparse.Namespace, folder: pathlib.Path) -> None:
        self.shardc, self.folder = arguments.shardc, folder
        self.target = ["--target", arguments.target] if arguments.target else []

    def step(self, body: str, choice: str, top: int, plan: str, *options: str):
        """The losses and the parameters of a run."""
        file, out, log = (self.folder / name for name in ("m.shard", "out.safetensors", "log.json"))
        file.write_text(model(body, choice, top))
        data, ids = self.folder / "data.safetensors", self.folder / "ids.safetensors"
        write_integers(data, (1, B, S), {n: [(7 * i * i + 3 * i + k) % V for i in range(B * S)] for k, n in enumerate("ty")})
        write_integers(ids, (1, B, S, top), {"i": [ONE] * (B * S * top)})
        command = [self.shardc, "train", str(file), "--plan", plan.replace(" ", "_"), "--steps", "1", "--seed", "5", "--save", str(out), "--log", str(log)]
        command += ["--input", f"t={data}:t", "--input", f"y={data}:y", *options]
        command += ["--input", f"i={ids}:i"] if choice == "given" else []
        log.unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exits {done.returncode}\n{done.stderr}\n{file.read_text()}")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line], read_tensors(out)


def differences(got, want) -> list[str]:
    found = []
    for a, b in zip(got[0], want[0], strict=True):
        if not abs(a - b) <= WITHIN:
            found.append(f"the loss is {a!r}, not {b!r}")
    assert got[1].keys() == want[1].keys() and len(want[1]) >= 6
    for name, values in want[1].items():
        worst = max(abs(a - b) for a, b in zip(got[1][name], values, strict=True))
        if not worst <= WITHIN:
            found.append(f"{name} differs by {worst}")
    return found


def unpicked_changes(got, before) -> list[str]:
    """Weights of experts without rows that a step has changed."""
    found = []
    for name in ("ffn.w1", "ffn.w3", "ffn.w2"):
        size = len(before[1][name]) // X
        for e in range(X):
            part = slice(e * size, (e + 1) * size)
            if (got[1][name][part] == before[1][name][part]) != (e != ONE):
                found.append(f"{name}: expert {e} {'has' if e == ONE else 'lacks'} rows")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--only", default="", help="plans whose names begin so")
    add_target(parser)
    arguments = parser.parse_args()
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments, pathlib.Path(folder))
        cases = [("", *case) for case in itertools.product(CHOICES, (1, 2, 8))] + [(f", {kind}", "drawn", 2) for kind in ("biased", "shifted", "doubled")]
        for kind, choice, top in cases:
            want = runner.step(f"dense{kind}", choice, top, "one", "--interpret")
            before = runner.step(f"dense{kind}", choice, top, "one", "--interpret", "--set", "lr=0")
            runs = [("one", "--interpret"), ("one", *runner.target)]
            plans = [plan for plan in PLANS if not plan.startswith("packed") or (choice != "ties" and kind != ", shifted")]
            runs += [(plan, *runner.target) for plan in plans if plan != "one" and plan.startswith(arguments.only) and top == 2]
            for run in runs:
                got = runner.step(f"routed{kind}", choice, top, *run)
                found = differences(got, want) + (unpicked_changes(got, before) if choice == "given" else [])
                faults += [f"{choice}{kind}, top {top}, {' '.join(run)}: {fault}" for fault in found]
                count += 1
    print("\n".join(faults) if faults else f"{count} runs of routed experts are what dense ones are")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
