"""orders.py SHARDC INPUTS FOLDER: `schedule --format csv` of each named schedule is the reference order, cell by cell; and a plan that reads
the file back has the same order again."""

import os
import subprocess
import sys

shardc, inputs, folder = sys.argv[1:]
ORDERS = [("one_f_one_b", 2, 4, "1f1b_p2_m4"), ("one_f_one_b", 4, 8, "1f1b_p4_m8"), ("gpipe", 4, 8, "gpipe_p4_m8"),
          ("interleaved(2)", 2, 4, "interleaved_v2_p2_m4"), ("interleaved(2)", 4, 8, "interleaved_v2_p4_m8"),
          ("looped_bfs(2)", 4, 8, "looped_bfs_v2_p4_m8"), ("zero_bubble", 4, 8, "zb_h1_p4_m8"),
          ("zero_bubble_v", 4, 8, "zb_v_p4_m8"), ("dual_pipe_v", 4, 8, "dualpipe_v_p4_m8")]
os.makedirs(folder, exist_ok=True)


def order(schedule, ranks, count):
    path = os.path.join(folder, "model.shard")
    with open(os.path.join(inputs, "deep.shard")) as model, open(path, "w") as file:
        file.write(model.read() + "plan p for m { mesh pp = %d; stage layers over pp: schedule = %s, microbatches = %d, batch = B; }\n"
                   % (ranks, schedule, count))
    return subprocess.run([shardc, "schedule", path, "--format", "csv"], capture_output=True, text=True, check=True).stdout


for schedule, ranks, count, name in ORDERS:
    with open(os.path.join(inputs, name + ".csv")) as file:
        wanted = file.read().rstrip("\n") + "\n"
    got = order(schedule, ranks, count)
    if got != wanted:
        sys.exit("%s over %d: another order\n%s" % (schedule, ranks, got))
    with open(os.path.join(folder, "again.csv"), "w") as file:
        file.write(got)
    assert order('file("again.csv")', ranks, count) == got, name
print("%d orders" % len(ORDERS))
