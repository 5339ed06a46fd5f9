#!/usr/bin/env python3
"""Attacks on ranks that are processes: attacks.py SHARDC [NAME..] [--seed N] [--trials N]

A program for three ranks is built and trained while ranks are killed, stopped and cut off at random moments, are started differently, share
a port with another job, or with a hostile neighbour. What is held: nobody hangs; who did not do what it was requested ends with a failure's
code and says which rank or option it was; and no numbers come out that no single job asked for. Everything is on the loopback. Deadlines
are generous: a loaded machine makes it slower, not wrong."""

import argparse
import concurrent.futures
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 60  # seconds after which something hangs
SILENCE_MS = 8000
MODEL = """lang 1;
dim B = 6, S = 8, V = 258, D = 18, F = 24;
model m {
  param tok[V, D], up[D, F], head[F, V];
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] { return mean[B, S](xent[V](dot[F](relu(dot[D](gather[V](tok, t), up)), head), y)); }
}
weights w for m { tok = "tok"; up = "up" as [F, D]; head = "head" as [V, F]; }
minimize m.loss with adamw(lr = 1e-2);
plan three for m { mesh dp = 3; shard B over dp; shard param, grad, opt * over dp if free; }
plan two for m { mesh dp = 2; shard B over dp; }
"""
# a pipeline of each schedule, alone and with other axes before and after it
STACK = """lang 1;
dim B = 12, S = 4, V = 258, D = 16, F = 24, L = 8;
block layer(x[B, S, D]) -> [B, S, D] { param u[D, F], w[F, D]; return x + dot[F](tanh(dot[D](x, u)), w); }
model m {
  param tok[V, D];
  sub layers: layer * L;
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] {
    x = gather[V](tok, t);
    repeat L { x = layers(x); }
    return mean[B, S](xent[V](dot[D](x, tok), y));
  }
}
minimize m.loss with adamw(lr = 1e-2, clip = 1.0);
"""
STAGES = [("pp = 2", "gpipe", 3, ""), ("pp = 3", "one_f_one_b", 6, ""), ("dp = 2, pp = 2", "interleaved(2)", 3, "shard B over dp;"),
          ("pp = 2, tp = 2", "zero_bubble", 4, "shard F over tp;"), ("pp = 2", "zero_bubble_v", 4, ""), ("pp = 2", "dual_pipe_v", 6, ""),
          ("pp = 2, dp = 2", "looped_bfs(2)", 2, "shard B over dp; shard param, grad, opt * over dp if free;"), ("pp = 4", "one_f_one_b", 4, "")]


class Port:
    """A port that nobody else gets meanwhile: bound, and not listened on."""

    def __enter__(self):
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.number = self.holder.getsockname()[1]
        return self

    def __exit__(self, *_):
        self.holder.close()


class Job:
    """Ranks of one program. `own` has more arguments, `env` more variables, by rank."""

    def __init__(self, program, size, port, arguments, own=None, env=None, programs=None):
        self.ranks = []
        for rank in range(size):
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=str(port), OMP_NUM_THREADS="1")
            variables.update((env or {}).get("all", {}))
            variables.update((env or {}).get(rank, {}))
            command = [(programs or {}).get(rank, program)] + arguments + (own or {}).get(rank, [])
            self.ranks.append(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                               errors="replace"))
        self.results = [None] * size

    def finish(self, but=()):
        """[(code, stdout, stderr)]; of the ranks in `but`, which are stopped for ever, None."""
        end = time.monotonic() + PATIENCE
        try:
            for rank, process in enumerate(self.ranks):
                if rank in but:
                    continue
                try:
                    out, err = process.communicate(timeout=max(end - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    raise AssertionError("rank %d hangs" % rank) from None
                self.results[rank] = (process.returncode, out, err)
        finally:
            self.end()
        return self.results

    def end(self):
        for process in self.ranks:
            if process.poll() is None:
                process.kill()
                process.communicate()


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def wait_for_lines(path, count, job):
    end = time.monotonic() + PATIENCE
    while not (os.path.exists(path) and open(path).read().count("\n") >= count):
        check(time.monotonic() < end, "no step is done")
        check(all(process.poll() is None for process in job.ranks), "a rank ended before the first steps:",
              [process.communicate() for process in job.ranks if process.poll() is not None])
        time.sleep(0.02)


def find_process(program, variables):
    """The process of this program whose environment has these."""
    for entry in os.listdir("/proc"):
        try:
            if not entry.isdigit() or os.readlink("/proc/%s/exe" % entry) != os.path.realpath(program):
                continue
            with open("/proc/%s/environ" % entry, encoding="utf-8", errors="replace") as file:
                has = dict(one.split("=", 1) for one in file.read().split("\0") if "=" in one)
        except OSError:
            continue
        if all(has.get(name) == value for name, value in variables.items()):
            return int(entry)
    raise AssertionError("no process of %s has %s" % (program, variables))


def end_process(number):
    try:
        os.kill(number, signal.SIGKILL)
    except OSError:
        pass


def loss_of(results):
    found = re.search(r"^loss (\S+)$", results[0][1], re.M)
    return found.group(1) if found else None


class Attacks:
    def __init__(self, shardc, seed, trials):
        self.shardc, self.seed, self.trials = shardc, seed, trials
        self.fault = os.path.join(os.path.dirname(shardc), "test", "libsc_fault.so")
        self.mpirun = shutil.which("mpirun")
        self.modules = os.path.join(os.path.dirname(shardc), "lib", "shardc")
        self.folder = tempfile.mkdtemp(prefix="shardc_ranks_")
        self.model = self.path("m.shard")
        with open(self.model, "w") as file:
            file.write(MODEL)
        self.three, self.two = self.path("three"), self.path("two")
        for plan, program in (("three", self.three), ("two", self.two)):
            subprocess.run([shardc, "build", self.model, "--plan", plan, "-o", program], check=True, stdout=subprocess.DEVNULL)
        self.other = self.path("other")
        with open(self.model, "w") as file:
            file.write(MODEL.replace("relu", "silu"))
        subprocess.run([shardc, "build", self.model, "--plan", "three", "-o", self.other], check=True, stdout=subprocess.DEVNULL)
        draw = random.Random(seed)
        for name in ("data", "more"):
            with open(self.path(name), "wb") as file:
                file.write(bytes(draw.randrange(256) for _ in range(4000)))
        with open(self.path("data"), "rb") as file:
            bytes_of = bytearray(file.read())
        bytes_of[2000] ^= 1
        with open(self.path("changed"), "wb") as file:
            file.write(bytes_of)

    def path(self, name):
        return os.path.join(self.folder, name)

    def arguments(self, steps=12, seed=5):
        return ["train", "--data", self.path("data"), "--steps", str(steps), "--seed", str(seed)]

    def check_lost(self, results, lost, steps_are_endless=True):
        """Those who are left end with a failure's code and name the rank; nobody was asked to stop."""
        for rank, result in enumerate(results):
            if rank == lost or result is None:
                continue
            code, out, err = result
            check("stopped by" not in out, "rank", rank, "takes a loss for a signal:", out)
            check("not enough memory" not in err, "rank", rank, "takes a loss for a lack of memory:", err)
            check(code == 7 or (code == 0 and not steps_are_endless), "rank", rank, "ends with", code, out, err)
            # who comes only after the others have ended finds nobody, and cannot know why
            is_late = "before all ranks had joined" in err or "Connection refused" in err
            check(code == 0 or "rank %d" % lost in err or is_late, "rank", rank, "does not name rank", lost, ":", err)

    # ---- attacks: each a function of a trial's number; in parallel ----

    def kill(self, trial):
        """A rank is killed at any moment: while the ranks meet, between two steps, in one, and while files are written."""
        draw = random.Random(self.seed * 1000 + trial)
        lost, endless = draw.randrange(3), trial % 2 == 0
        arguments = self.arguments(10 ** 6 if endless else 30) + ["--state", self.path("kill%d" % trial), "--save",
                                                                  self.path("kill%d.safetensors" % trial)]
        with Port() as port:
            job = Job(self.three, 3, port.number, arguments, env={"all": {"SHARDC_JOIN_MS": "15000"}})
            time.sleep(draw.uniform(0, 1.5 if endless else 0.8))
            job.ranks[lost].kill()
            self.check_lost(job.finish(), lost, endless)

    def prepare_stages(self):
        """A program of each plan, and how many ranks it has."""
        self.staged = []
        for number, (mesh, schedule, micro_batches, lines) in enumerate(STAGES):
            text = STACK + "plan p for m { mesh %s; stage layers over pp: schedule = %s, microbatches = %d, batch = B; %s }\n" % (
                mesh, schedule, micro_batches, lines)
            size = 1
            for axis in mesh.split(","):
                size *= int(axis.split("=")[1])
            model, program = self.path("stages%d.shard" % number), self.path("stages%d" % number)
            with open(model, "w") as file:
                file.write(text)
            subprocess.run([self.shardc, "build", model, "--plan", "p", "-o", program], check=True, stdout=subprocess.DEVNULL)
            self.staged.append((program, size))

    def stages(self, trial):
        """A rank of any stage of any schedule is killed at any moment; those who are left name its stage once the run has begun."""
        draw = random.Random(self.seed * 1000 + trial)
        program, size = self.staged[trial % len(self.staged)]
        lost, log = draw.randrange(size), self.path("stages%d.log" % trial)
        with Port() as port:
            job = Job(program, size, port.number, self.arguments(10 ** 6) + ["--log", log], env={"all": {"SHARDC_JOIN_MS": "30000"}})
            begins = trial % 4 != 0  # one in four is killed while the ranks meet
            if begins:
                wait_for_lines(log, 2, job)
            time.sleep(draw.uniform(0, 0.3))
            job.ranks[lost].kill()
            results = job.finish()
            self.check_lost(results, lost)
            for rank, (_, _, err) in enumerate(results):
                check(rank == lost or not begins or "stage " in err, "rank", rank, "does not name the stage of rank", lost, ":", err)

    def prepare_saving(self):
        """A folder of states, and how many calls each rank makes to add one to it."""
        self.states = self.path("states")
        with Port() as port:
            results = Job(self.three, 3, port.number, self.arguments(2) + ["--state", self.states, "--state-every", "1"]).finish()
        check(all(code == 0 for code, _, _ in results), results)
        results, counts = self.save_once("counted", {r: {"SHARDC_FAULT_COUNT": self.path("count%d" % r)} for r in range(3)}), []
        check(all(code == 0 for code, _, _ in results), results)
        for rank in range(3):
            with open(self.path("count%d" % rank)) as file:
                counts.append(int(file.read()))
        check(min(counts) > 2, "a rank writes no part of a state:", counts)
        self.saving_calls, self.last_loss = counts, loss_of(self.go_on("counted"))

    def save_once(self, name, faults):
        folder = self.path(name)
        shutil.copytree(self.states, folder)
        sanitizer = os.environ.get("ASAN_OPTIONS")  # its runtime minds to be loaded second
        asan = "verify_asan_link_order=0" + (":" + sanitizer if sanitizer else "")
        preload = " ".join([self.fault] + os.environ.get("LD_PRELOAD", "").split())
        env = {rank: dict(more, LD_PRELOAD=preload, ASAN_OPTIONS=asan, SHARDC_FAULT_AT=folder) for rank, more in faults.items()}
        with Port() as port:
            return Job(self.three, 3, port.number, ["train", "--data", self.path("data"), "--steps", "3", "--state", folder, "--state-every", "1",
                                                    "--resume", folder], env=env).finish()

    def go_on(self, name):
        with Port() as port:
            results = Job(self.three, 3, port.number, ["train", "--data", self.path("data"), "--steps", "4", "--resume", self.path(name)]).finish()
        check(all(code == 0 for code, _, _ in results), results)
        return results

    def save(self, trial):
        """A rank is lost at some call of a save: the others say so, a state that was whole stays, and a run goes on from the folder."""
        lost, name = trial % 3, "save%d" % trial
        total = self.saving_calls[lost]
        call = 1 + (trial // 3) * (total - 1) // (self.SAVE_TRIALS // 3 - 1)
        results = self.save_once(name, {lost: {"SHARDC_FAULT": "kill", "SHARDC_FAULT_CALL": str(call)}})
        check(results[lost][0] == -signal.SIGKILL, "rank", lost, "is not lost at call", call, "of", total, results)
        self.check_lost(results, lost, lost != 0 or call < total)
        there = set(os.listdir(self.path(name)))
        check({"step-000001", "step-000002"} <= there or {"step-000002", "step-000003"} <= there, "a state is lost:", there)
        check(loss_of(self.go_on(name)) == self.last_loss, "another loss after call", call, "of rank", lost)

    def stop(self, trial):
        """A rank is stopped and never goes on: found without any deadline being asked for."""
        draw = random.Random(self.seed * 2000 + trial)
        lost, log = draw.randrange(3), self.path("stop%d.log" % trial)
        with Port() as port:
            job = Job(self.three, 3, port.number, self.arguments(10 ** 6), own={0: ["--log", log]},
                      env={"all": {"SHARDC_SILENCE_MS": str(SILENCE_MS)}})
            wait_for_lines(log, 1, job)
            time.sleep(draw.uniform(0, 0.3))
            job.ranks[lost].send_signal(signal.SIGSTOP)
            results = job.finish(but=(lost,))
        self.check_lost(results, lost)
        check(any(result and "nothing was received from it" in result[2] for result in results), results)

    def pause(self, trial):
        """A rank is stopped for a while, for less than would count as lost; then all goes on to the right result."""
        log = self.path("pause%d.log" % trial)
        with Port() as port:
            job = Job(self.three, 3, port.number, self.arguments(400), own={0: ["--log", log]})
            wait_for_lines(log, 1, job)
            job.ranks[trial % 3].send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            job.ranks[trial % 3].send_signal(signal.SIGCONT)
            results = job.finish()
        check(all(code == 0 for code, _, _ in results), results)

    SAVE_TRIALS = 12
    MIXTURES = [("--seed", ["--seed", "7"]), ("--steps", ["--steps", "13"]), ("--set", ["--set", "lr=0.5"]), ("--data", None),
                ("--save", ["--save", "elsewhere"]), ("--resume", None), ("--eval-data", None), ("program", None)]

    def mixture(self, trial):
        """One rank is started differently than the others: no mixture is trained, and the difference is named."""
        name, own = self.MIXTURES[trial]
        rank, programs = 1 + trial % 2, {}
        arguments = ["train", "--data", self.path("data"), "--steps", "12"] + (["--seed", "5"] if name != "--resume" else [])
        if name == "--data":
            own = ["--data", self.path("changed")]
            arguments = [a for a in arguments if a not in ("--data", self.path("data"))]
        if name == "--resume":
            state = self.path("resumed")
            subprocess.run([self.two] + self.arguments(2) + ["--state", state], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, OMP_NUM_THREADS="1"))
            own = ["--resume", state]
        if name == "--eval-data":
            own = ["--eval-data", self.path("more")]
        if name == "program":
            programs = {rank: self.other}
        others = {"--data": ["--data", self.path("data")]}.get(name, [])
        if own is not None and own[0] in arguments:
            at = arguments.index(own[0])
            others = arguments[at:at + 2]
            del arguments[at:at + 2]
        with Port() as port:
            job = Job(self.three, 3, port.number, arguments, own={r: (own or []) if r == rank else others for r in range(3)},
                      programs=programs)
            results = job.finish()
        for r, (code, out, err) in enumerate(results):
            check(code != 0, "rank", r, "trains a mixture of", name, out, err)
        said = "".join(err for _, _, err in results)
        check(re.search(r"rank %d has (no )?%s\b.*rank 0 has (no )?%s\b" % (rank, name, name), said), "the difference in", name,
              "is not named:", said)

    def two_jobs(self, trial):
        """Two jobs on one port: each trains what it was requested, or says that it cannot."""
        jobs = []
        with Port() as port:
            for seed in (5, 7):
                jobs.append(Job(self.three, 3, port.number, self.arguments(seed=seed), env={"all": {"SHARDC_JOIN_MS": "30000"}}))
            for job, seed in zip(jobs, (5, 7)):
                results = job.finish()
                codes = [code for code, _, _ in results]
                check(codes == [0] * 3 or all(codes), "seed", seed, "ends with", codes, results)
                check(any(codes) or loss_of(results) == self.losses[seed], "seed", seed, "has trained a mixture:", results[0][1])

    def neighbour(self, trial):
        """Strangers flood the port, send nonsense, half a message, nothing, slowly, or leave at once."""
        flooding = threading.Event()
        flooding.set()
        held = []

        def flood(port, kind):
            while flooding.is_set():
                try:
                    stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
                    if kind == 0:
                        stranger.send(b"GET / HTTP/1.0\r\n\r\n" * 20)
                    elif kind == 1:
                        stranger.send(struct.pack("<IIII", 0x73686472, 2, 1, 3) + b"\0" * 16)
                    elif kind == 2:
                        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        stranger.close()
                        continue
                    elif kind == 3:
                        stranger.send(struct.pack("<II", 0x73686472, 2) + os.urandom(200) + b"\0" * 9000)
                    held.append(stranger)
                    if len(held) > 400:
                        held.pop(0).close()
                except OSError:
                    time.sleep(0.005)

        with Port() as port:
            threads = [threading.Thread(target=flood, args=(port.number, kind)) for kind in range(5)]
            for thread in threads:
                thread.start()
            try:
                results = Job(self.three, 3, port.number, self.arguments()).finish()
            finally:
                flooding.clear()
                for thread in threads:
                    thread.join()
        check(all(code == 0 for code, _, _ in results), results)
        check(loss_of(results) == self.losses[5], results[0][1])

    def cut(self, trial):
        """The network between two ranks is cut: while they train, or while they meet."""
        log, passes = self.path("cut%d.log" % trial), threading.Event()
        ended = threading.Event()
        passes.set()

        def pump(source, target):
            try:
                while not ended.is_set():
                    source.settimeout(0.1)
                    try:
                        got = source.recv(65536)
                    except socket.timeout:
                        continue
                    while not passes.is_set() and not ended.is_set():
                        time.sleep(0.02)
                    if not got or ended.is_set():
                        return
                    target.settimeout(PATIENCE)
                    target.sendall(got)
            except OSError:
                pass

        def serve(listener, port):
            while not ended.is_set():
                listener.settimeout(0.1)
                try:
                    client, _ = listener.accept()
                except socket.timeout:
                    continue
                except OSError:
                    return
                while not ended.is_set():
                    try:
                        server = socket.create_connection(("127.0.0.1", port))
                        break
                    except OSError:
                        time.sleep(0.02)
                else:
                    return
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

        with Port() as port, socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(16)
            threading.Thread(target=serve, args=(listener, port.number), daemon=True).start()
            if trial % 2 == 1:
                passes.clear()
            env = {"all": {"SHARDC_SILENCE_MS": str(SILENCE_MS), "SHARDC_JOIN_MS": "8000" if trial % 2 == 1 else "60000"},
                   1: {"MASTER_PORT": str(listener.getsockname()[1])}}
            try:
                job = Job(self.two, 2, port.number, self.arguments(10 ** 6), own={0: ["--log", log]}, env=env)
                if trial % 2 == 0:
                    wait_for_lines(log, 1, job)
                    passes.clear()
                results = job.finish()
            finally:
                ended.set()
        for rank, (code, out, err) in enumerate(results):
            check(code == 7 and "rank %d" % (1 - rank) in err and "stopped by" not in out, "rank", rank, "ends with", code, out, err)

    def signals(self, trial):
        """A signal to one rank stops all of them cleanly, with a state that goes on; a second one ends it at once, as a failure."""
        asked, log, state = trial % 3, self.path("signal%d.log" % trial), self.path("signal%d" % trial)
        number = (signal.SIGTERM, signal.SIGINT)[trial % 2]
        with Port() as port:
            job = Job(self.three, 3, port.number, self.arguments(10 ** 6) + ["--state", state], own={0: ["--log", log]})
            wait_for_lines(log, 2, job)
            job.ranks[asked].send_signal(number)
            results = job.finish()
        check(all(code == 0 for code, _, _ in results), results)
        said = re.search(r"stopped by (\w+) after step (\d+)", results[0][1])
        check(said and said.group(1) == number.name and int(said.group(2)) == open(log).read().count("\n"), results[0][1])
        steps = int(said.group(2))
        self.check_second_signal(trial)
        with Port() as port:
            results = Job(self.three, 3, port.number, ["train", "--data", self.path("data"), "--steps", str(steps + 2), "--resume",
                                                       state]).finish()
        check(all(code == 0 for code, _, _ in results) and "%d steps" % (steps + 2) in results[0][1], results)

    def check_second_signal(self, trial):
        """Another rank is stopped meanwhile, so that the first signal cannot have ended the run."""
        log = self.path("second%d.log" % trial)
        with Port() as port:
            job = Job(self.three, 3, port.number, self.arguments(10 ** 6), own={0: ["--log", log]})
            wait_for_lines(log, 2, job)
            job.ranks[1].send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            job.ranks[0].send_signal(signal.SIGTERM)
            time.sleep(0.3)
            job.ranks[0].send_signal(signal.SIGINT)
            job.ranks[0].wait(PATIENCE)
            job.ranks[1].send_signal(signal.SIGCONT)
            results = job.finish()
        check(results[0][0] == -signal.SIGINT, "a second signal does not end rank 0 at once", results[0])
        for rank in (1, 2):
            check(results[rank][0] == 7 and "rank 0 is lost" in results[rank][2], results[rank])

    def mpi(self, trial):
        """Under mpirun: a rank that is stopped, a mixture of options, a signal to one rank."""
        log = self.path("mpi%d.log" % trial)
        variables = dict(os.environ, OMP_NUM_THREADS="1", SHARDC_SILENCE_MS=str(SILENCE_MS), SHARDC_MODULES=self.modules,
                         SHARDC_TEST_TRIAL=str(trial),
                         OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        common = [self.two, "train", "--data", self.path("data"), "--steps", "1000000"]
        own = [["--log", log], ["--seed", "7"] if trial == 1 else []]
        command = [self.mpirun] + ["-n", "1"] + common + own[0] + [":", "-n", "1"] + common + own[1]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        victim = None
        try:
            if trial != 1:
                wait_for_lines(log, 1, argparse.Namespace(ranks=[process]))
                victim = find_process(self.two, {"OMPI_COMM_WORLD_RANK": "1", "SHARDC_TEST_TRIAL": str(trial)})
                os.kill(victim, signal.SIGSTOP if trial == 0 else signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError("it hangs") from None
        finally:
            if trial == 0 and victim is not None:
                end_process(victim)
            if process.poll() is None:
                process.kill()
                process.communicate()
        if trial == 0:
            check(process.returncode == 7 and "rank 1 is lost: nothing was received from it" in err, process.returncode, out, err)
        elif trial == 1:
            check(process.returncode == 7 and "rank 1 has --seed 7, rank 0 has no --seed" in err, process.returncode, out, err)
        else:
            check(process.returncode == 0 and "stopped by SIGTERM" in out, process.returncode, out, err)

    def environment(self, trial):
        """Numbers of launchers that are none."""
        name, value = [("RANK", "1x"), ("WORLD_SIZE", "4294967299"), ("MASTER_PORT", "0"), ("SHARDC_PORT", "18446744073709551617"),
                       ("SHARDC_JOIN_MS", "-1"), ("SHARDC_SILENCE_MS", "4294967297"), ("LOCAL_RANK", " 1"),
                       ("OMPI_COMM_WORLD_RANK", "18446744073709551616")][trial]
        variables = dict(os.environ, RANK="1", WORLD_SIZE="3", MASTER_PORT="9", OMP_NUM_THREADS="1")
        variables[name] = value
        if name.startswith("OMPI"):
            variables["OMPI_COMM_WORLD_SIZE"] = "3"
        done = subprocess.run([self.three] + self.arguments(), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE)
        check(done.returncode in (2, 7) and "%s is '%s'" % (name, value) in done.stderr, name, done.returncode, done.stderr)

    def threads(self, trial):
        """More threads than a process can have."""
        variables = dict(os.environ, OMP_NUM_THREADS="99999" if trial == 0 else "2")
        more = [] if trial == 0 else ["--threads", "99999"]
        done = subprocess.run([self.two] + self.arguments() + more, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE)
        check(done.returncode == 0 and "too_many_threads" in done.stderr, done.returncode, done.stderr)

    # ---- the whole ----

    def run(self, names):
        counts = {"kill": self.trials, "stages": 2 * self.trials, "stop": 4, "pause": 1, "mixture": len(self.MIXTURES), "two_jobs": 4, "neighbour": 2, "cut": 2,
                  "signals": 4, "environment": 8, "threads": 2}
        if self.mpirun is not None and os.path.exists(os.path.join(self.modules, "shardc_mpi.so")):
            counts["mpi"] = 3
        else:
            print("mpi: skipped: there is no MPI here")
        if os.path.exists(self.fault):
            counts["save"] = self.SAVE_TRIALS
        else:
            print("save: skipped: %s is not built" % self.fault)
        self.losses = {}
        for seed in (5, 7):
            with Port() as port:
                results = Job(self.three, 3, port.number, self.arguments(seed=seed)).finish()
            check(all(code == 0 for code, _, _ in results), results)
            self.losses[seed] = loss_of(results)
        check(self.losses[5] != self.losses[7], "two seeds have the same loss")
        failures = 0
        for name, count in counts.items():
            if names and name not in names:
                continue
            begin = time.monotonic()
            if name in ("save", "stages"):
                (self.prepare_saving if name == "save" else self.prepare_stages)()
            with concurrent.futures.ThreadPoolExecutor(1 if name == "neighbour" else 8 if name == "mixture" else 4) as pool:
                tries = [pool.submit(getattr(self, name), trial) for trial in range(count)]
                wrong = []
                for trial, one in enumerate(tries):
                    try:
                        one.result()
                    except Exception as error:  # pylint: disable=broad-except
                        wrong.append("%s %d: %s" % (name, trial, error))
            failures += len(wrong)
            print("%-12s %2d of %2d hold, %4.1f s" % (name, count - len(wrong), count, time.monotonic() - begin), flush=True)
            for line in wrong:
                print("  " + line, flush=True)
        return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shardc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=12, help="kills")
    options = parser.parse_args()
    attacks = Attacks(os.path.abspath(options.shardc), options.seed, options.trials)
    try:
        failures = attacks.run(options.names)
    finally:
        shutil.rmtree(attacks.folder, ignore_errors=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
