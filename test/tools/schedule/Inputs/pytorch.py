"""pytorch.py SHARDC INPUTS FOLDER: each schedule is read as _PipelineScheduleRuntime._load_csv(.., format="compute_only") reads it, is given
sends and receives by _add_send_recv, and run to its end by _simulate_comms_compute. Skipped where PyTorch is not installed."""

import os
import subprocess
import sys

shardc, inputs, folder = sys.argv[1:]
try:
    from torch.distributed.pipelining import schedules
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))
os.makedirs(folder, exist_ok=True)
NAMES = ["gpipe", "one_f_one_b", "interleaved(2)", "looped_bfs(2)", "zero_bubble", "zero_bubble_v", "dual_pipe_v"]
for name in NAMES:
    model, csv = os.path.join(folder, "model.shard"), os.path.join(folder, "order.csv")
    with open(os.path.join(inputs, "deep.shard")) as text, open(model, "w") as file:
        file.write(text.read() + "plan p for m { mesh pp = 4; stage layers over pp: schedule = %s, microbatches = 8, batch = B; }\n" % name)
    subprocess.run([shardc, "schedule", model, "--format", "csv", "-o", csv], check=True)
    with open(csv) as file:
        rows = [[schedules._Action.from_str(cell) for cell in line.strip().split(",")] for line in file]
    is_v = name.endswith("_v")
    chunks = 8 if is_v or "(" in name else 4
    rank_of = {c: (c if c < 4 else 7 - c) if is_v else c % 4 for c in range(chunks)}
    lowered = schedules._add_send_recv(dict(enumerate(rows)), stage_to_rank=rank_of.get, num_stages=chunks)
    simulated = schedules._simulate_comms_compute(lowered, stage_to_rank=rank_of.get, num_stages=chunks)
    assert sorted(simulated) == [0, 1, 2, 3], name
print("%d schedules run" % len(NAMES))
