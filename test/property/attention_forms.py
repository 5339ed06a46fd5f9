#!/usr/bin/env python3
"""Whatever the mask, the form, the order and the sharing of keys, attention over a split sequence is attention.

A small model with one attention, for each mask of the language, each form of attention over one axis or two (what cost picks, gather, ring,
heads, heads and ring), contiguous and zigzag, with as many key heads as query heads, and with 4 and 8 query heads a key head: the train step, its gradients
and updated parameters equal those of the unsharded program (`verify`). Keys are fewer than positions in no case; some rows have no visible
key, and some documents end inside a chunk, as the inputs of `verify` are random.

  attention_forms.py --shardc build/shardc
  attention_forms.py --shardc build/shardc --compiled --only causal        the emitted code, cases whose name has `causal` in it
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import pathlib
import subprocess
import sys
import tempfile

TIMEOUT = 600
MOST_SHOWN = 8

MODEL = """lang 1;
dim B = 2, S = 16, T = alias S, D = 12, K = {keys}, G = {group}, H = (K, G), E = 4;
block attention(x[B, S, D]{formals}) -> [B, S, D] {{
  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D]{params};
  q = rope[S, E](dot[D](x, wq), theta = 1e4);
  k = rename[S -> T](rope[S, E](dot[D](x, wk), theta = 1e4));
  v = rename[S -> T](dot[D](x, wv));
  o = attend[T, E](q, k, v, {mask});
  return dot[H, E](o, wo);
}}
model m {{
  sub attn: attention;
  entry loss(x[B, S, D]{formals}, y[B, S, D]) -> [] {{ z = attn(x{arguments}) - y; return mean[B, S](sum[D](z * z)); }}
}}
minimize m.loss with adamw(lr = 1e-2, clip = 1.0);
plan p for m {{ {plan} }}
"""

# mask -> (options of attend, formals, arguments, parameters)
MASKS = {
    "none": ("mask = none", "", "", ""),
    "causal": ("mask = causal", "", "", ""),
    "window": ("mask = window(5)", "", "", ""),
    "keep": ("mask = none, keep = keep", ", keep: bool[B, S, T]", ", keep", ""),
    "keep_keys": ("mask = causal, keep = keep", ", keep: bool[B, T]", ", keep", ""),
    "bias": ("mask = causal, bias = bias", "", "", ", bias[K, G, S, T]"),
    "sinks": ("mask = window(5), sinks = sinks", "", "", ", sinks[H]"),
    "softcap": ("mask = causal, softcap = 2.0", "", "", ""),
    "segments": ("mask = causal, segments = ids", ", ids: i32[B, S]", ", ids", ""),
    "dropout": ("mask = causal, dropout = 0.3", "", "", ""),
}

# form -> (mesh, axes that split S, form lines)
FORMS = {
    "free": ("cp = 4", "cp", ""),
    "gather": ("cp = 4", "cp", "form attn: gather over cp;"),
    "ring": ("cp = 4", "cp", "form attn: ring over cp;"),
    "heads": ("cp = 4", "cp", "form attn: heads over cp;"),
    "heads_ring": ("cr = 2, cu = 2", "cr, cu", "form attn: ring over cr; form attn: heads over cu;"),
}

HEADS = {1: (8, 1), 4: (2, 4), 8: (1, 8)}  # query heads a key head -> K, G


def plan_of(form: str, zigzag: bool) -> str:
    mesh, axes, lines = FORMS[form]
    if not zigzag:
        return f"mesh {mesh}; shard act, input S over {axes}; {lines}"
    first, _, rest = axes.partition(", ")
    more = f"shard act, input S over {rest};" if rest else ""
    return f"mesh {mesh}; shard act, input S over {first} zigzag; {more} {lines}"


def cases() -> list[tuple[str, str]]:
    out = []
    for mask, form, zigzag, group in itertools.product(MASKS, FORMS, (False, True), HEADS):
        options, formals, arguments, params = MASKS[mask]
        keys, queries = HEADS[group]
        text = MODEL.format(keys=keys, group=queries, mask=options, formals=formals, arguments=arguments, params=params,
                            plan=plan_of(form, zigzag))
        out.append((f"{mask}_{form}_{'zigzag' if zigzag else 'contiguous'}_{group}", text))
    return out


def run(name: str, text: str, arguments: argparse.Namespace, folder: pathlib.Path) -> str:
    """The empty text, or what went wrong."""
    path = folder / f"{name}.shard"
    path.write_text(text)
    command = [arguments.shardc, "verify", str(path), "--plan", "p", *(["--compiled"] if arguments.compiled else [])]
    if arguments.target:
        command += ["--target", arguments.target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    return "" if done.returncode == 0 else f"{name}: exit {done.returncode}, {path}\n{done.stdout[-800:]}{done.stderr[-800:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--compiled", action="store_true", help="the emitted code")
    parser.add_argument("--target", help="of --compiled: cuda:sm_90a, ..")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has it")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.only in case[0]]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attention-forms-"))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failures = [text for text in pool.map(lambda case: run(*case, arguments, folder), chosen) if text]
    print("\n".join(failures[:MOST_SHOWN]), end="\n" if failures else "")
    print(f"{len(chosen) - len(failures)} of {len(chosen)} cases equal")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
