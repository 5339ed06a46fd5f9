#!/usr/bin/env python3
"""How the time and the memory of every command grow with the program: each program is measured at one size and at twice that size.

    bench/growth.py build/shardc [--program layers] [--command comm] [--times 1] [--size N] [--memory-only]

A command fails when the larger program takes more than 2.3 times the CPU time or 2.3 times the peak memory of the smaller one, or does not
end. CPU time is the least of --times runs, so other work on the machine hardly shows; both sizes are large enough for it to be above what
starting takes, which is subtracted (`shardc --version`).
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile

LIMIT = 2.3
LEAST_SECONDS, LEAST_BYTES = 0.1, 64 * 2**20  # below that a ratio says nothing


def layers(n):
    """A stack of n layers, trained under data, fully sharded and tensor parallelism."""
    return f"""lang 1;
dim B = 16, S = 32, T = alias S, D = 64, H = 8, E = 8, F = 256, V = 512, L = {n};
block norm(x[.., D]) -> [.., D] {{ param g[D] = ones(); return x * rsqrt(mean[D](x * x) + 1e-5) * g; }}
block attention(x[B, S, D]) -> [B, S, D] {{
  param wq[D, H, E], wk[D, H, E], wv[D, H, E], wo[H, E, D];
  k = rename[S -> T](dot[D](x, wk));
  v = rename[S -> T](dot[D](x, wv));
  return dot[H, E](attend[T, E](dot[D](x, wq), k, v, mask = causal), wo);
}}
block mlp(x[B, S, D]) -> [B, S, D] {{ param w1[D, F], w2[F, D]; return dot[F](silu(dot[D](x, w1)), w2); }}
block layer(x[B, S, D]) -> [B, S, D] {{
  sub n1: norm, attn: attention, n2: norm, ffn: mlp;
  h = x + attn(n1(x));
  return h + ffn(n2(h));
}}
model m {{
  param tok[V, D], head[D, V];
  sub layers: layer * L, norm: norm;
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] {{
    x = gather[V](tok, t);
    repeat L {{ x = layers(x); }}
    return mean[B, S](xent[V](dot[D](norm(x), head), y));
  }}
}}
minimize m.loss with adamw(lr = 1e-3, clip = 1.0);
plan p for m {{
  mesh fsdp = 2, tp = 2;
  shard B over fsdp;
  shard H, F, V over tp;
  shard act S over tp if free;
  shard param, grad, opt D over fsdp;
  remat layers;
}}
plan q for m {{ mesh tp = 4; shard H, F, V over tp; }}
"""


def pins(n):
    """n values in a row, each with a pin of its own."""
    lines = "\n".join(f"    x{i + 1} = x{i} + 1.0;" for i in range(n))
    pinned = "\n".join(f"  pin f.x{i + 1}: [B{'@dp' if i // 8 % 2 == 0 else ''}, D] over dp;" for i in range(n))
    return f"""lang 1;
dim B = 16, D = 16;
model m {{
  entry f(x0: f32[B, D]) -> [B, D] {{
{lines}
    return x{n};
  }}
}}
plan p for m {{
  mesh dp = 2;
{pinned}
}}
plan q for m {{ mesh dp = 2; shard B over dp; }}
"""


def rules(n):
    """n parameters, each with a rule of its own, which a rule for all makes idle."""
    params = ", ".join(f"w{i}[D]" for i in range(n))
    lines = "\n".join(f"    x = x + w{i};" for i in range(n))
    own = "\n".join(f"  shard param D over dp in w{i};" for i in range(n))
    return f"""lang 1;
dim B = 16, D = 16;
model m {{
  param {params};
  entry f(x: f32[B, D]) -> [B, D] {{
{lines}
    return x;
  }}
}}
plan p for m {{
  mesh dp = 2;
  shard param D over dp;
{own}
}}
plan q for m {{ mesh dp = 2; shard B over dp; }}
"""


def blocks(n):
    """Blocks nested in pairs: n instances of the innermost one."""
    depth = n.bit_length() - 1
    nested = "\n".join(f"block b{i + 1}(x[B, D]) -> [B, D] {{ sub a: b{i}, b: b{i}; return b(a(x)); }}" for i in range(depth))
    return f"""lang 1;
dim B = 16, D = 16;
block b0(x[B, D]) -> [B, D] {{ param g[D]; return x * g; }}
{nested}
model m {{ sub all: b{depth}; entry f(x: f32[B, D]) -> [B, D] {{ return all(x); }} }}
plan p for m {{ mesh dp = 2; shard B over dp; }}
plan q for m {{ mesh dp = 2; shard D over dp; }}
"""


def chain(n):
    """A chain of n ops in one entry, with a matmul now and then."""
    step = ["x = relu(x);", "x = x + 0.5;", "x = x * x;", "x = dot[E](dot[D](x, w), v);"]
    lines = "\n".join("    " + step[i % 4] for i in range(n))
    return f"""lang 1;
dim B = 16, D = 16, E = 16;
model m {{
  param w[D, E], v[E, D];
  entry f(x: f32[B, D]) -> [B, D] {{
{lines}
    return x;
  }}
}}
plan p for m {{ mesh tp = 2; shard E over tp; }}
plan q for m {{ mesh dp = 2; shard B over dp; }}
"""


PROGRAMS = {"layers": (layers, 64), "pins": (pins, 4000), "rules": (rules, 4000), "blocks": (blocks, 8192), "chain": (chain, 8192)}

COMMANDS = {
    "check": ["check", "FILE"],
    "ir": ["ir", "FILE", "--plan", "p"],
    "fold": ["ir", "FILE", "--plan", "p", "--fold"],
    "comm": ["comm", "FILE", "--plan", "p"],
    "comm-json": ["comm", "FILE", "--plan", "p", "--format", "json"],
    "memory": ["memory", "FILE", "--plan", "p"],
    "explain": ["explain", "FILE", "--plan", "p"],
    "explain-json": ["explain", "FILE", "--plan", "p", "--format", "json"],
    "diff": ["diff", "FILE", "--plan", "p", "--plan", "q"],
    "kernels": ["kernels", "FILE", "--plan", "p"],
    "legal": ["legal", "FILE", "D", "--plan", "p"],
    "verify": ["verify", "FILE", "--plan", "p"],
    "fmt": ["fmt", "FILE"],
    "build": ["build", "FILE", "--plan", "p", "-o", "PROGRAM"],
}


def run(command):
    """CPU seconds, peak bytes and the exit code of a command and its children."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def measure(shardc, arguments, path, program, times):
    command = [shardc] + [{"FILE": path, "PROGRAM": program}.get(a, a) for a in arguments]
    runs = [run(command) for _ in range(times)]
    return min(r[0] for r in runs), min(r[1] for r in runs), runs[0][2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shardc")
    parser.add_argument("--program", action="append", choices=PROGRAMS)
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--size", type=int)
    parser.add_argument("--memory-only", action="store_true", help="take no notice of time: for test suites")
    options = parser.parse_args()
    bad = 0
    print(f"{'program':8} {'command':13} {'size':>7} {'seconds':>8} {'x':>5} {'MiB':>8} {'x':>5}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.program or PROGRAMS:
            make, size = PROGRAMS[name]
            size = options.size or size
            paths = [os.path.join(folder, f"{name}{n}.shard") for n in (size, 2 * size)]
            for path, n in zip(paths, (size, 2 * size)):
                with open(path, "w") as file:
                    file.write(make(n))
            for command in options.command or COMMANDS:
                one, two = (measure(options.shardc, COMMANDS[command], p, os.path.join(folder, "out"), options.times) for p in paths)
                seconds = two[0] / max(one[0], LEAST_SECONDS)
                memory = two[1] / max(one[1], LEAST_BYTES)
                fails = one[2] != 0 or two[2] != 0 or memory > LIMIT or (seconds > LIMIT and not options.memory_only)
                bad += fails
                print(f"{name:8} {command:13} {2 * size:7} {two[0]:8.2f} {seconds:5.2f} {two[1] / 2**20:8.1f} {memory:5.2f}"
                      f"{'  exit codes %d, %d' % (one[2], two[2]) if one[2] or two[2] else ''}{'  FAILS' if fails else ''}", flush=True)
    print(f"{bad} of these grow by more than {LIMIT} when the program doubles" if bad else "all are linear")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
