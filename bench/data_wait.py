#!/usr/bin/env python3
"""data_wait.py SHARDC [--steps N] [--cores LIST]: how long a training step waits for its data, on two cores. Eight files of ids (2^26 tokens
in all), a mixture of two halves with documents, for a small decoder under dp = 2. Prints, in milliseconds, what --log has
as `data_wait`: median, 99th percentile and most, and what share of the steps' time it is."""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

MODEL = """lang 1;
dim B = 8, S = 128, T = alias S, V = 512, D = 64, H = 4, E = 16, F = 128, L = 1;
block layer(x[B, S, D], segments: i32[B, S]) -> [B, S, D] {
  param wq[D, H, E], wk[D, H, E], wv[D, H, E], wo[H, E, D], up[D, F], down[F, D];
  k = rename[S -> T](dot[D](x, wk));
  v = rename[S -> T](dot[D](x, wv));
  h = x + dot[H, E](attend[T, E](dot[D](x, wq), k, v, mask = causal, segments = segments), wo);
  return h + dot[F](gelu(dot[D](h, up)), down);
}
model m {
  param tok[V, D];
  sub layers: layer * L;
  entry loss(t: i32[B, S], y: i32[B, S], segments: i32[B, S]) -> [] {
    x = gather[V](tok, t);
    repeat L { x = layers(x, segments); }
    return mean[B, S](xent[V](dot[D](x, tok), y));
  }
}
minimize m.loss with adamw(lr = 1e-3);
plan dp for m { mesh dp = 2; shard B over dp; }
"""
FILES, TOKENS = 8, 1 << 23


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shardc")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--cores", default="0,1")
    options = parser.parse_args()
    os.sched_setaffinity(0, {int(c) for c in options.cores.split(",")})
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        with open(path("m.shard"), "w") as file:
            file.write(MODEL)
        block = struct.pack("<%dH" % (1 << 16), *random.Random(1).choices(range(512), k=1 << 16))
        for i in range(FILES):
            os.makedirs(path("%d" % (i % 2)), exist_ok=True)
            with open(path("%d/%d.bin" % (i % 2, i)), "wb") as file:
                for _ in range(TOKENS >> 16):
                    file.write(block)
        subprocess.run([os.path.abspath(options.shardc), "train", "m.shard", "--plan", "dp", "--data", "0:0.7,1:0.3", "--documents", "--eos", "511", "--steps", str(options.steps), "--log", "log"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(path("log")) as file:
            lines = [line for line in map(json.loads, file) if "loss" in line][1:]
    waits = sorted(1e3 * line["data_wait"] for line in lines)
    steps = sorted(1e3 * line["seconds"] for line in lines)
    print("%d steps of %.1f ms (median): data_wait median %.4f ms, 99th percentile %.4f ms, most %.4f ms; %.4f %% of the time" %
          (len(lines), steps[len(steps) // 2], waits[len(waits) // 2], waits[min(len(waits) - 1, len(waits) * 99 // 100)], waits[-1],
           100 * sum(waits) / sum(steps)))


if __name__ == "__main__":
    sys.exit(main())
