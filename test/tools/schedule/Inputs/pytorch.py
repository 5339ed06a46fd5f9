"""pytorch.py SHARDC INPUTS FOLDER: _PipelineScheduleRuntime._load_csv(.., format="compute_only") reads each schedule, lowers it to sends and
receives, and _simulate_comms_compute runs it to its end. Skipped where PyTorch is not installed."""

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
    actions = {rank: schedules._add_unshard_reshard(row) for rank, row in enumerate(rows)}
    lowered = schedules._add_send_recv(actions, stage_to_rank=lambda c: rank_of[c], num_stages=chunks)
    simulated = schedules._simulate_comms_compute(lowered, lambda c: rank_of[c], chunks)
    assert simulated, name
print("%d schedules run" % len(NAMES))
