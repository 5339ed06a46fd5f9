"""pytorch.py SHARDC INPUTS FOLDER: each schedule is read as _PipelineScheduleRuntime._load_csv(.., format="compute_only") reads it, is given
sends and receives by _add_send_recv, and run to its end by _simulate_comms_compute; and the orders of PyTorch's own schedules, as _dump_csv
writes them, are read by `file(..)`. Skipped where PyTorch is not installed."""

import csv
import os
import subprocess
import sys

shardc, inputs, folder = sys.argv[1:]
try:
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))
os.makedirs(folder, exist_ok=True)
RANKS, MICRO_BATCHES = 4, 8
NAMES = ["gpipe", "one_f_one_b", "interleaved(2)", "looped_bfs(2)", "zero_bubble", "zero_bubble_v", "dual_pipe_v"]
# with the chunks that rank 0 has
CLASSES = [("ScheduleInterleaved1F1B", [0, 4]), ("ScheduleLoopedBFS", [0, 4]), ("ScheduleInterleavedZeroBubble", [0, 4]),
           ("ScheduleZBVZeroBubble", [0, 7]), ("ScheduleDualPipeV", [0, 7])]
model, order = os.path.join(folder, "model.shard"), os.path.join(folder, "order.csv")


class Stage(_PipelineStageBase):
    """What a schedule asks of a stage to compute its order: no module, no processes."""

    def __init__(self, chunk: int) -> None:
        self.stage_index, self.num_stages, self.group_size, self.group_rank = chunk, 2 * RANKS, RANKS, 0
        self.group, self.device, self.submod, self.has_backward = None, "cpu", None, True

    def _prepare_forward_infra(self, *_) -> None:
        pass

    def _prepare_backward_infra(self, *_) -> None:
        pass

    def _create_grad_recv_info(self, *_) -> None:
        pass


def write_model(schedule: str) -> None:
    with open(os.path.join(inputs, "deep.shard")) as text, open(model, "w") as file:
        file.write(text.read() + "plan p for m { mesh pp = %d; stage layers over pp: schedule = %s, microbatches = %d, batch = B; }\n" %
                   (RANKS, schedule, MICRO_BATCHES))


for name in NAMES:
    write_model(name)
    subprocess.run([shardc, "schedule", model, "--format", "csv", "-o", order], check=True)
    with open(order) as file:
        rows = [[schedules._Action.from_str(cell) for cell in line.strip().split(",")] for line in file]
    is_v = name.endswith("_v")
    chunks = 8 if is_v or "(" in name else 4
    rank_of = {c: (c if c < 4 else 7 - c) if is_v else c % 4 for c in range(chunks)}
    lowered = schedules._add_send_recv(dict(enumerate(rows)), stage_to_rank=rank_of.get, num_stages=chunks)
    simulated = schedules._simulate_comms_compute(lowered, stage_to_rank=rank_of.get, num_stages=chunks)
    assert sorted(simulated) == [0, 1, 2, 3], name
for name, chunks in CLASSES:
    schedule = getattr(schedules, name)([Stage(chunk) for chunk in chunks], MICRO_BATCHES, loss_fn=lambda *_: None)
    with open(order, "w", newline="") as file:
        csv.writer(file).writerows(schedule.pipeline_order[rank] for rank in range(RANKS))
    write_model('file("%s")' % order)
    read = subprocess.run([shardc, "schedule", model, "--format", "csv"], check=True, capture_output=True, text=True).stdout
    # the same actions in the same order, a rank a row
    for line, row in zip(read.splitlines(), (schedule.pipeline_order[rank] for rank in range(RANKS)), strict=True):
        flat = [part for action in row if action is not None for part in (action.sub_actions or [action])]
        assert [cell for cell in line.split(",") if cell] == [str(action) for action in flat], (name, line, row)
print("%d schedules run, %d read" % (len(NAMES), len(CLASSES)))
