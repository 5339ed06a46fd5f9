"""memory.py REPORT KERNELS: what `memory` says of each stage is the arena of its program, byte for byte."""
import json
import os
import re
import sys

with open(sys.argv[1]) as file:
    stages = json.load(file)["stages"]
for number, stage in enumerate(stages):
    with open(os.path.join(sys.argv[2], "program.%d.txt" % number)) as file:
        arena = int(re.search(r"arena of (\d+) bytes", file.read()).group(1))
    assert stage["peak"] == arena, (number, stage, arena)
    assert sum(v for k, v in stage.items() if k not in ("peak", "host")) == stage["peak"], stage
