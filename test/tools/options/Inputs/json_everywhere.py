"""json_everywhere.py SHARDC SOURCE_DIR FOLDER: each command that `shardc --help` lists, with --format json, writes one JSON object with
"version": 1 to stdout, and so do the helps and --version; what a run says beside it goes to stderr."""

import json
import os
import re
import subprocess
import sys

shardc, root, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
MODEL = os.path.join(folder, "model.shard")
open(MODEL, "w").write("""lang 1;
dim B = 4, S = 8, T = alias S, V = 256, D = 16, H = 2, E = 8;
block attention(x[B, S, D]) -> [B, S, D] {
  param wq[D, H, E], wk[D, H, E], wv[D, H, E], wo[H, E, D];
  cache ck[B, T, H, E], cv[B, T, H, E];
  k = append[S -> T](ck, dot[D](x, wk));
  v = append[S -> T](cv, dot[D](x, wv));
  return dot[H, E](attend[T, E](dot[D](x, wq), k, v, mask = causal), wo);
}
model m {
  param tok[V, D], head[D, V];
  sub a: attention;
  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] { x = gather[V](tok, t); return dot[D](last[S](x + a(x)), head); }
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] { return mean[B, S](xent[V](dot[D](gather[V](tok, t), head), y)); }
}
minimize m.loss with sgd(lr = 0.1);
plan p for m { mesh tp = 2; bind T = 32; shard H, V over tp; expect count(all_gather, any) <= 9; expect memory() <= 1 GiB; }
plan q for m { mesh tp = 2; bind T = 32; shard H over tp; shard B over tp in loss; expect count(all_gather, any) == 99; }
""")
PIPELINE = os.path.join(folder, "pipeline.shard")
with open(PIPELINE, "w") as file:
    file.write("""lang 1;
dim B = 4, D = 8, L = 2;
block layer(x[B, D]) -> [B, D] { param g[D]; return x * g; }
model m { sub layers: layer * L; entry f(x: f32[B, D]) -> [B, D] { repeat L { x = layers(x); } return x; } }
plan p for m { mesh pp = 2; stage layers over pp: schedule = gpipe, microbatches = 2, batch = B; }
""")
LOG = os.path.join(folder, "log")
with open(LOG, "w") as file:
    file.write('{"step":1,"loss":2.5}\n')
P = ["--plan", "p"]
STATE = os.path.join(folder, "state")
subprocess.run([shardc, "train", MODEL, *P, "--data", MODEL, "--steps", "1", "--state", STATE], capture_output=True, check=True, timeout=600)
CASES = {
    "check": [[], P, ["--plan", "q"]],
    "ir": [P, P + ["--after", "build"], P + ["--dump-dir", os.path.join(folder, "dump")]],
    "explain": [P],
    "comm": [P],
    "verify": [P],
    "eval": [P + ["--entry", "loss", "--data", MODEL, "--steps", "1"]],
    "fmt": [[]],
    "memory": [P],
    "diff": [P + ["--plan", "q"]],
    "legal": [["H"] + P],
    "schedule": [P],
    "simulate": [P + ["--device", "h100"]],
    "kernels": [P, P + ["-o", os.path.join(folder, "kernels")], P + ["--target", "cuda:sm_90a"]],
    "train": [P + ["--data", MODEL, "--steps", "1"]],
    "generate": [P + ["--prompt", "a", "--max-tokens", "2", "--bind", "B=1"]],
    "convert": [[STATE, *P, "-o", os.path.join(folder, "converted.safetensors")]],
    "build": [P + ["-o", os.path.join(folder, "program")]],
    "data": [["-o", os.path.join(folder, "ids.bin"), "--eos", "0"]],
    "plot": [[]],
    "tokenize": [],  # lines of JSON, an object each
    "import": [["--precision", "f64"]],
    "help": [["train"], ["usage"], ["environment"]],
}


def run(*arguments):
    done = subprocess.run([shardc, *arguments, "--format", "json"], capture_output=True, text=True, timeout=600)
    try:
        result = json.loads(done.stdout)
    except ValueError as error:
        sys.exit("shardc %s: %s: %r, and on stderr %s" % (" ".join(arguments), error, done.stdout[:200], done.stderr))
    assert result["version"] == 1, arguments
    return result, done.returncode


listing, _ = run("--help")
commands = [command["name"] for command in listing["commands"]]
said = subprocess.run([shardc, "--help"], capture_output=True, text=True).stdout.split("\ncommands\n")[1].split("\n\n")[0]
assert commands == re.findall(r"^  (\S+)", said, re.M), commands
assert sorted(commands) == sorted(CASES), "a command has no case here"
assert run("--version")[0]["shardc"]
for command in commands:
    helped, code = run(command, "--help")
    assert code == 0 and helped["command"] == command and any(o["name"] == "--format" for o in helped["options"]), command
    for case in CASES[command]:
        file = {"schedule": PIPELINE, "plot": LOG, "import": os.path.join(root, "test/models/llama")}.get(command, MODEL)
        result, code = run(command, *(case if command == "help" else [file] + case))
        assert code == (3 if command == "check" and case != P else 0), (command, case, code)

# What the forms hold.
checked, _ = run("check", MODEL)
p, q = checked["plans"]
assert not checked["ok"] and p["ok"] and not q["ok"] and p["plan"] == "p", checked
assert [e["entry"] for e in p["entries"]] == ["decode", "loss"] and p["entries"][1]["trains"] and not p["entries"][1]["unbound"], p
assert [e["holds"] for e in p["expects"]] == [True, True] and [e["holds"] for e in q["expects"]] == [False], q
assert q["expects"][0]["text"] == "count(all_gather, any) == 99" and q["expects"][0]["found"] < 99 and q["expects"][0]["line"] == 18, q
ir, _ = run("ir", MODEL, *P)
assert ir["ir"] == subprocess.run([shardc, "ir", MODEL, *P], capture_output=True, text=True).stdout and ir["entry"] == "loss"
text = open(MODEL).read()
formatted, _ = run("fmt", MODEL)
assert formatted["changed"] == (formatted["text"] != text) and formatted["changed"]
open(MODEL, "w").write(formatted["text"])
assert run("fmt", MODEL)[0] == {"version": 1, "file": MODEL, "text": formatted["text"], "changed": False}
imported, _ = run("import", os.path.join(root, "test/models/llama"))
assert imported["dims"]["K"] == 2 and imported["arguments"]["theta"] == "50000" and imported["text"].startswith("lang 1;"), imported
kernels, _ = run("kernels", MODEL, *P, "-o", os.path.join(folder, "kernels"))
assert kernels["kernels"] and all(os.path.exists(k["file"]) for k in kernels["kernels"]), kernels
assert kernels["products"] and all(p["flops"] > 0 for p in kernels["products"]), kernels
assert run("ir", MODEL, *P, "--dump-dir", os.path.join(folder, "dump"))[0]["files"][0].endswith("00-build.shir")
open(MODEL, "w").write("lang 1; modle m { }")
broken, code = run("check", MODEL)
assert code == 1 and broken["ok"] is False and broken["plans"] == [], broken
print("%d commands" % len(commands))
