"""fields.py SHARDC INPUTS FOLDER: the fields of `schedule --format json`."""

import json
import os
import subprocess
import sys

shardc, inputs, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "model.shard")
with open(os.path.join(inputs, "deep.shard")) as text, open(path, "w") as file:
    file.write(text.read() + "plan p for m { mesh pp = 2; stage enc, layers over pp: schedule = zero_bubble_v, microbatches = 8, batch = B, "
               "split(4, 2, 2, 2); }\n")
found = json.loads(subprocess.run([shardc, "schedule", path, "--format", "json"], capture_output=True, text=True, check=True).stdout)
assert list(found) == ["version", "schedule", "axis", "micro_batches", "chunks", "ranks", "unit", "work", "refused", "entry"], list(found)
assert (found["version"], found["schedule"], found["axis"], found["micro_batches"]) == (1, "zero_bubble_v", "pp", 8), found
for chunk in found["chunks"]:
    assert list(chunk) == ["chunk", "rank", "paths", "flops"] and chunk["flops"] > 0, chunk
    print("chunks", chunk["chunk"], chunk["rank"], *chunk["paths"])
assert found["ranks"][0][:4] == ["0F0", "0F1", "0F2", "3F0"] and len(found["ranks"]) == 2, found["ranks"]
print("unit", found["unit"]["makespan"], round(found["unit"]["bubble"], 6))
print("live", *found["unit"]["live"])
assert found["refused"] == []
assert found["entry"] == {"name": "loss", "trained": True, "micro_batches": 8, "why": None}, found["entry"]
print("work", *found["work"])
