#!/usr/bin/env python3
"""What states and weights cost a rank: bounds.py SHARDC FAULT_LIBRARY.

A model of 4 million parameters (a state of 48 MiB) runs as one process and as two, which are ranks. Held, by the peak of resident memory
and by the bytes that pread gives (fault.c):

- saving and resuming need 4 MiB beside the program's own memory, with --state-async also a copy of the rank's shards (12 MiB where ranks
  are processes, whose connections take 8 MiB in some runs and not in others);
- a rank that resumes under the plan of the state reads its shards and blocks of 1 MiB at their ends; under another one, which cuts rows into
  pieces, no more than its shards and its share of the check of all blocks;
- a rank reads its part of a weights file, whether rows or columns, and of each file 1 MiB by which ranks compare it;
- convert needs the largest tensor (8 MiB) and 8 MiB, both ways.

Nothing depends on time."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

SHARDC, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:3])
MIB = 1 << 20
MODEL = """lang 1;
dim B = 2, D = 4096, F = 512;
model m {
  param w1[D, F], w2[F, D];
  entry loss(x: f32[B, D]) -> [] { y = x - dot[F](relu(dot[D](x, w1)), w2); return mean[B, D](y * y); }
}
weights w for m { w1 = "up" as [F, D]; w2 = "down" as [F, D]; }
minimize m.loss with adamw(lr = 1e-3);
plan one for m { }
plan fsdp for m { mesh fsdp = 2; shard B over fsdp; shard param, grad, opt * over fsdp; }
plan tp for m { mesh tp = 2; shard F over tp; }
"""
PARAMETERS = 2 * 4096 * 512
STATE, TENSOR = 12 * PARAMETERS, 2 * PARAMETERS


def check(fine, *what):
    if not fine:
        sys.exit("bounds.py: " + " ".join(map(str, what)))


def free_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]


def run(root, commands, watched=""):
    """[(peak bytes, bytes read)] of commands that run at the same time, as ranks if there are several."""
    port, started = free_port(), []
    for rank, command in enumerate(commands):
        count = os.path.join(root, "read-%d" % rank)
        environment = dict(os.environ, OMP_NUM_THREADS="1", SHARDC_FAULT_AT=watched, SHARDC_FAULT_READ=count, MALLOC_ARENA_MAX="1",
                           LD_PRELOAD=" ".join([LIBRARY] + os.environ.get("LD_PRELOAD", "").split()))
        if len(commands) > 1:
            environment.update(RANK=str(rank), WORLD_SIZE=str(len(commands)), MASTER_PORT=str(port))
        with open(os.path.join(root, "errors-%d" % rank), "w") as errors:
            started.append((subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors), count, errors.name))
    results = []
    for process, count, errors in started:
        process.wait()
        with open(errors) as text:
            check(process.returncode == 0, " ".join(process.args), text.read())
        with open(count) as text:
            read, peak = map(int, text.read().split())
        check(peak > 0, "the peak is not known")
        results.append((peak * 1024, read))
    return results


def at_most(what, got, most):
    print("%-58s %7.2f MiB, at most %7.2f" % (what, got / MIB, most / MIB))
    check(got <= most, what)


def main():
    root = tempfile.mkdtemp(prefix="shardc-bounds-")
    try:
        model, data = os.path.join(root, "m.shard"), os.path.join(root, "x.safetensors")
        with open(model, "w") as file:
            file.write(MODEL)
        header = b'{"x":{"dtype":"F32","shape":[2,4096],"data_offsets":[0,32768]}}'
        with open(data, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + bytes(range(1, 65)) * 512)
        programs = {}
        for plan in ("one", "fsdp", "tp"):
            programs[plan] = os.path.join(root, plan)
            done = subprocess.run([SHARDC, "build", model, "--plan", plan, "-o", programs[plan]], capture_output=True, text=True)
            check(done.returncode == 0, done.stderr)

        def train(plan, ranks, *more, watched=""):
            return run(root, [[programs[plan], "train", "--input", "x=" + data, *more]] * ranks, watched)

        for plan, ranks in (("one", 1), ("fsdp", 2)):
            noise = 4 * MIB if ranks == 1 else 12 * MIB
            state, own = os.path.join(root, "state-" + plan), STATE // ranks
            plain = train(plan, ranks, "--steps", "2")
            saving = train(plan, ranks, "--steps", "1", "--state", state)
            resuming = train(plan, ranks, "--steps", "2", "--resume", state, watched=state)
            behind = train(plan, ranks, "--steps", "2", "--state", state + "-async", "--state-every", "1", "--state-async")
            for rank in range(ranks):
                name = "%s, rank %d: " % (plan, rank)
                check(plain[rank][0] > own, name, "its memory is not seen:", plain[rank][0])
                at_most(name + "memory to save", saving[rank][0] - plain[rank][0], noise)
                at_most(name + "memory to resume", resuming[rank][0] - plain[rank][0], noise)
                at_most(name + "memory to save in the background", behind[rank][0] - plain[rank][0], own + noise)
                check(resuming[rank][1] >= own, name, "its reads are not seen:", resuming[rank][1])
                at_most(name + "read to resume", resuming[rank][1], own + 3 * MIB)
        state = os.path.join(root, "state-fsdp-async")
        for rank, (_, read) in enumerate(train("tp", 2, "--steps", "3", "--resume", state, watched=state)):
            at_most("fsdp as tp, rank %d: read to resume" % rank, read, STATE + 3 * MIB)
        weights = os.path.join(root, "weights")
        converting = run(root, [[SHARDC, "convert", model, state, "--plan", "one", "-o", weights, "--max-shard", "8MiB"]])
        back = run(root, [[SHARDC, "convert", model, weights, "--plan", "one", "-o", os.path.join(root, "back")]])
        plain = run(root, [[SHARDC, "check", model, "--plan", "one"]])
        at_most("convert to weights: memory", converting[0][0] - plain[0][0], TENSOR + 8 * MIB)
        at_most("convert to a state: memory", back[0][0] - plain[0][0], TENSOR + 8 * MIB)
        for plan in ("fsdp", "tp"):
            for rank, (_, read) in enumerate(train(plan, 2, "--steps", "1", "--weights", weights, watched=weights)):
                at_most("%s, rank %d: read of weights" % (plan, rank), read, 4 * PARAMETERS // 2 + 3 * MIB)
    finally:
        shutil.rmtree(root, ignore_errors=True)


main()
