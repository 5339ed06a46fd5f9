"""contraction.py SOURCE BUILD: no file of the interpreter may fuse a multiplication with an addition, whatever the machine has: it is what
compiled programs are compared with."""
import json
import os
import re
import sys

INTERPRETER = re.compile(r"ir/(interp/\w+|ops/eval_\w+|ops/round)\.c")

source, build = sys.argv[1:]
commands = json.load(open(os.path.join(build, "compile_commands.json")))
mine = [c for c in commands if INTERPRETER.fullmatch(os.path.relpath(c["file"], source))]
if not mine:
    sys.exit("compile_commands.json has no file of the interpreter")
contracted = []
for command in mine:
    said = re.findall(r"-ffp-contract=(\w+)", command["command"])
    if not said or said[-1] != "off":
        contracted.append(command["file"])
if contracted:
    sys.exit("compiled without -ffp-contract=off:\n" + "\n".join(sorted(set(contracted))))
