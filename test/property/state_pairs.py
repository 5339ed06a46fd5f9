#!/usr/bin/env python3
"""States of every plan under every other: state_pairs.py SHARDC [--only NAME].

A transformer with routed experts is trained under dp2, tp2, fsdp2 x tp2, pp2 and ep2. For every ordered pair of plans, a state of the first
is resumed under the second:

- a run that has nothing left to do saves the same values again, to the bit;
- two more steps end with the same bits as two steps of the second plan from a state of the same values that holds every tensor whole, in
  one file, which this script writes itself (test/property/state_files.py).

Then other precisions: parameters become the rounded values of master copies or parameters, and master copies the parameters; and a state
of f32 AdamW has 12 bytes a parameter."""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from state_files import KINDS, SIZES, checksum, decode, read_state, state_folder, write_checked

MODEL = """lang 1;
dim B = 4, S = 8, T = alias S, V = 258, D = 16, H = 2, E = 8, F = 12, X = 4, Q = 2, L = 2;
block layer(x[B, S, D]) -> [B, S, D] {
  param g[D] = ones(), wq[D, H, E], wk[D, H, E], wv[D, H, E], wo[H, E, D], router[D, X], up[X, D, F], down[X, F, D];
  n = x * rsqrt(mean[D](x * x) + 1e-5) * g;
  k = rename[S -> T](dot[D](n, wk));
  v = rename[S -> T](dot[D](n, wv));
  y = x + dot[H, E](attend[T, E](dot[D](n, wq), k, v, mask = causal), wo);
  p, i = topk[X -> Q](softmax[X](dot[D](y, router)));
  h = relu(dot[D](y, gather[X](up, i)));
  return y + sum[Q](p * dot[F](h, gather[X](down, i)));
}
model m {
  param tok[V, D], head[D, V];
  sub layers: layer * L;
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] {
    x = gather[V](tok, t);
    repeat L { x = layers(x); }
    return mean[B, S](xent[V](dot[D](x, head), y));
  }
}
minimize m.loss with adamw(lr = 1e-2, clip = 1.0);
plan dp2 for m { mesh dp = 2; shard B over dp; }
plan tp2 for m { mesh tp = 2; shard H, F, V over tp; }
plan fsdp2_tp2 for m { mesh fsdp = 2, tp = 2; shard B over fsdp; shard H, F, V over tp; shard param, grad, opt * over fsdp; }
plan pp2 for m { mesh pp = 2; stage layers over pp: schedule = one_f_one_b, microbatches = 2, batch = B; stage tok = first; stage head = last; }
plan ep2 for m { mesh ep = 2; shard X over ep in layers.up, layers.down; }
plan bf16 for m { mesh dp = 2; shard B over dp; shard param, grad, opt * over dp; precision param = bf16; }
plan f16 for m { precision param = f16, act = f16; }
plan f64 for m { precision param = f64, act = f64, grad = f64, opt = f64; }
plan one for m { }
"""
PLANS = ["dp2", "tp2", "fsdp2_tp2", "pp2", "ep2"]
STEPS, MORE = 2, 2
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("shardc")
parser.add_argument("--only", help="pairs that contain this plan")
options = parser.parse_args()
SHARDC = os.path.abspath(options.shardc)


def check(fine, *what):
    if not fine:
        sys.exit("state_pairs.py: " + " ".join(map(str, what)))


def train(root, plan, steps, *more):
    command = [SHARDC, "train", os.path.join(root, "m.shard"), "--plan", plan, "--data", os.path.join(root, "data"), "--steps", str(steps), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, " ".join(command), done.stderr)


def encode(values, dtype):
    return struct.pack("<%d%s" % (len(values), KINDS[dtype]), *values)


def write_whole(path, target):
    """The same values as one file with every tensor whole."""
    values, counts = read_state(path)
    folder = state_folder(path)
    index = json.loads((folder / "index.json").read_text())
    made = pathlib.Path(target, "step-%06d" % counts["steps"])
    made.mkdir(parents=True)
    shutil.copy(folder / "state.json", made / "state.json")
    header, data = {"__metadata__": {"format": "shardc-state", "id": index["id"]}}, b""
    for name, about in index["weight_map"].items():
        begin = len(data)
        data += encode(values[name], about["dtype"])
        header[name] = {"dtype": about["dtype"], "shape": about["shape"], "data_offsets": [begin, len(data)]}
        about["shards"] = [{"file": "rank-00000.safetensors", "first": [0] * len(about["shape"]), "shape": about["shape"],
                            "data_offsets": [begin, len(data)]}]
    text = json.dumps(header, separators=(",", ":")).encode()
    whole = struct.pack("<Q", len(text)) + text + data
    (made / "rank-00000.safetensors").write_bytes(whole)
    block = index["block"]
    sums = ["%016x" % checksum(whole[at : at + block]) for at in range(0, len(whole), block)]
    index["files"] = {"state.json": index["files"]["state.json"], "rank-00000.safetensors": {"bytes": len(whole), "xxh64": sums}}
    write_checked(made / "index.json", index)
    pathlib.Path(target, "latest").write_text(made.name + "\n")


def same(a, b, *context):
    (values, counts), (others, other_counts) = read_state(a), read_state(b)
    check(counts == other_counts, "other counts:", *context)
    check(sorted(values) == sorted(others), "other names:", *context)
    for name, there in values.items():
        check(others[name].tobytes() == there.tobytes(), name, "differs:", *context)


def pairs(root):
    count = 0
    for plan in PLANS:
        train(root, plan, STEPS, "--seed", "3", "--state", os.path.join(root, plan))
        write_whole(os.path.join(root, plan), os.path.join(root, plan + "-whole"))
    for first in PLANS:
        for second in PLANS:
            if first == second or (options.only and options.only not in (first, second)):
                continue
            state, work = os.path.join(root, first), os.path.join(root, "work")
            again, ends, want = (os.path.join(work, name) for name in ("again", "ends", "want"))
            os.mkdir(work)
            train(root, second, STEPS, "--resume", state, "--state", again)
            same(state, again, first, second)
            train(root, second, STEPS + MORE, "--resume", state, "--state", ends)
            train(root, second, STEPS + MORE, "--resume", state + "-whole", "--state", want)
            same(ends, want, first, second)
            shutil.rmtree(work)
            count += 1
    return count


def rounded(values, dtype):
    if dtype == "BF16":
        bits = [struct.unpack("<I", struct.pack("<f", x))[0] for x in values]
        return decode(b"".join(struct.pack("<H", (b + 0x7FFF + (b >> 16 & 1)) >> 16) for b in bits), "BF16")
    return decode(encode(values, dtype), dtype)


def expected(values, name, dtype):
    """What a tensor of another precision gets from the values of a state."""
    if name.startswith("scaling."):
        return {"scaling.scale": [65536.0], "scaling.taken": [float(STEPS)], "scaling.good": [0.0]}[name]
    param = name.removesuffix(".master")
    source = values.get(param + ".master", values[param]) if name in (param, param + ".master") and ".m" not in param[-2:] else values[name]
    return rounded(list(source), dtype)


def precisions(root):
    count = 0
    for first in ("tp2", "bf16", "f16", "f64"):
        state = os.path.join(root, "precise-" + first)
        train(root, first, STEPS, "--seed", "3", "--state", state)
        values, _ = read_state(state)
        for second in ("one", "bf16", "f16", "f64"):
            if first == second:
                continue
            again = os.path.join(root, "again-%s-%s" % (first, second))
            train(root, second, STEPS, "--resume", state, "--state", again)
            train(root, second, STEPS + 1, "--resume", state)
            index = json.loads((state_folder(again) / "index.json").read_text())
            got, counts = read_state(again)
            scale = 65536 if second == "f16" else None
            check(counts["loss_scale"] == scale, "loss scale", counts["loss_scale"], "of", first, "as", second)
            for name, about in index["weight_map"].items():
                if name.startswith("scaling.") and first == "f16":
                    want = list(values[name])
                else:
                    want = expected(values, name, about["dtype"])
                check(list(got[name]) == want, name, "of", first, "as", second)
            count += 1
    return count


def sizes(root):
    """12 bytes a parameter: itself and two moments, each element once."""
    for plan in PLANS:
        folder = state_folder(os.path.join(root, plan))
        index = json.loads((folder / "index.json").read_text())
        parameters = sum(len(values) for name, values in read_state(folder)[0].items() if not name.endswith((".m", ".v")))
        stored = 0
        for path in folder.glob("rank-*.safetensors"):
            data = path.read_bytes()
            stored += len(data) - 8 - struct.unpack("<Q", data[:8])[0]
        check(parameters > 10000 and index["metadata"]["total_size"] == 12 * parameters == stored, plan, parameters, stored)
        check(all(SIZES[about["dtype"]] == 4 for about in index["weight_map"].values()), "not f32")


def main():
    root = tempfile.mkdtemp(prefix="shardc-pairs-")
    try:
        pathlib.Path(root, "m.shard").write_text(MODEL)
        pathlib.Path(root, "data").write_bytes(bytes((i * i * 7 + i // 5) % 61 + 32 for i in range(400)))
        done = pairs(root)
        sizes(root)
        print("%d pairs of plans, %d of precisions" % (done, 0 if options.only else precisions(root)))
    finally:
        shutil.rmtree(root, ignore_errors=True)


main()
