#!/usr/bin/env python3
"""Attacks on saved states: states.py SHARDC FAULT_LIBRARY [PART..] [--every N] [--kills N] [--flips N] [--seed N]. Parts: kills, background,
random, exchange, errors, host, weights, flips, mixtures, others; of the attacks of a part every N-th is made. The suite makes 40 kills at
random times and 100 random flips; `states.py SHARDC FAULT_LIBRARY random flips --kills 200 --flips 300` makes as many as that.

A run writes a state every step. It is ended at every system call that changes something under the folder of its states (fault.c), or the
call fails; after that the same folder has to have a whole state, and a run that goes on from it has to come to the same parameters, to the
bit, as a run that nothing happened to. Then bits of every file of a state are flipped, and files of two states mixed: what is damaged is
refused by name, or what is read is right all the same. Files of host memory that cannot be written end a run, and it goes on from its last
state. The last line says how many of each."""
import argparse
import concurrent.futures
import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "tools", "train", "Inputs", "lm.shard")
OFFLOAD = os.path.join(os.path.dirname(MODEL), "offload.shard")
PARTS = ["kills", "background", "random", "exchange", "errors", "host", "weights", "flips", "mixtures", "others"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("shardc")
parser.add_argument("library")
parser.add_argument("--every", type=int, default=1)
parser.add_argument("--kills", type=int, default=40)
parser.add_argument("--flips", type=int, default=100)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("parts", nargs="*", help="all of them without")
options = parser.parse_args()
SHARDC, LIBRARY = os.path.abspath(options.shardc), os.path.abspath(options.library)
STEPS = 5
WORKERS = 2
USERS = {"notes.txt": b"mine\n", "X.old": b"mine, too\n", "tmp-mine": b"not yours\n", "tmp-0123456789abcdef": b"nor this\n"}
counts = {}


def train(folder, *more, faults=None, plan="dp"):
    environment = dict(os.environ)
    if faults is not None:
        preload = [LIBRARY] + environment.get("LD_PRELOAD", "").split()
        environment.update(LD_PRELOAD=" ".join(preload), **faults)
        sanitizer = environment.get("ASAN_OPTIONS")  # its runtime minds to be loaded second
        environment["ASAN_OPTIONS"] = "verify_asan_link_order=0" + (":" + sanitizer if sanitizer else "")
    command = [SHARDC, "train", MODEL, "--plan", plan, "--data", os.path.join(os.path.dirname(folder), "data"), "--seed", "5", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    return done.returncode, done.stdout, done.stderr


def check(fine, *what):
    if not fine:
        sys.exit("states.py: " + " ".join(map(str, what)))


def content(path):
    with open(path, "rb") as file:
        return file.read()


def step_of(folder):
    return int(content(os.path.join(folder, "latest")).decode()[5:])


class Folder:
    """A copy of a folder of states with files of a user's in it."""

    def __init__(self, root, name, base):
        self.root = os.path.join(root, name)
        self.path = os.path.join(self.root, "states")
        os.mkdir(self.root)
        if base is not None:
            shutil.copytree(base, self.path)
        else:
            os.mkdir(self.path)
        for name, text in USERS.items():
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(text)

    def goes_on(self, want, *context):
        """A run that goes on from what is there comes to the reference's parameters and leaves the folder in order."""
        saved = os.path.join(self.root, "saved.safetensors")
        there = glob.glob(os.path.join(self.path, "step-*"))
        more = ["--resume", self.path] if there else []
        code, _, text = train(self.path, "--steps", str(STEPS), "--state", self.path, "--save", saved, *more)
        check(code == 0, "a run after it fails:", *context, text)
        check(content(saved) == want, "other parameters:", *context)
        for name, mine in USERS.items():
            check(content(os.path.join(self.path, name)) == mine, "a user's file:", name, *context)
        left = {n for n in os.listdir(self.path) if n not in USERS and not n.startswith("step-")}
        check(left <= {"latest", "shardc.lock"}, "left over:", left, *context)
        check(step_of(self.path) == STEPS, "latest names another step:", *context)

    def whole(self):
        """The steps of the states that have all their files."""
        states = glob.glob(os.path.join(self.path, "step-*"))
        return {int(os.path.basename(path)[5:]) for path in states if len(os.listdir(path)) == 4}

    def drop(self):
        shutil.rmtree(self.root)


def spread(jobs, work):
    jobs = list(jobs)[:: options.every]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(lambda job: work(*job), jobs):
            pass


class States:
    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, "data"), "wb") as file:
            file.write(bytes((i * i * 7 + i // 5) % 61 + 32 for i in range(300)))
        for name in ("base", "reference"):
            os.mkdir(os.path.join(root, name))
        os.symlink(os.path.join(root, "data"), os.path.join(root, "base", "data"))
        self.base = os.path.join(root, "base", "states")
        saved = os.path.join(root, "reference.safetensors")
        code, _, text = train(self.base, "--steps", str(STEPS), "--save", saved)
        check(code == 0, text)
        self.want = content(saved)
        code, _, text = train(self.base, "--steps", "3", "--state", self.base, "--state-every", "1")
        check(code == 0, text)

    def folder(self, name, base):
        folder = Folder(self.root, name, base)
        os.symlink(os.path.join(self.root, "data"), os.path.join(folder.root, "data"))
        return folder

    def disturb(self, name, base, how, call, run, faults=None):
        folder = self.folder("%s-%s-%d" % (name, how, call), base)
        before = step_of(folder.path) if base is not None else 0
        code, _, text = train(folder.path, *[m.replace("DIR", folder.root) for m in run],
                              faults={"SHARDC_FAULT_AT": folder.path, "SHARDC_FAULT": how, "SHARDC_FAULT_CALL": str(call), **(faults or {})})
        if how in ("kill", "half"):
            check(code == -signal.SIGKILL, "it was not killed:", name, how, call, code, text)
        else:
            check(code in (0, 7) and (code == 0 or "cannot write" in text), name, how, call, code, text)
        if base is not None:
            there = folder.whole()
            check("--resume" not in run or max(there) >= before, "the last state is lost:", name, how, call)
            if faults == {"SHARDC_FAULT_EXCHANGE": "no"}:  # then for a moment both states have no name
                check(len(there) >= 1, "no state is left:", name, how, call)
            else:
                check(there >= {2, 3} if "--keep" in run else len(there) >= 2, "a state is lost:", name, how, call)
        folder.goes_on(self.want, name, how, call)
        folder.drop()
        counts[name] = counts.get(name, 0) + 1

    def kills(self):
        on = ["--steps", str(STEPS), "--state", "DIR/states", "--state-every", "1", "--resume", "DIR/states"]
        new = ["--steps", "2", "--state", "DIR/states", "--state-every", "1"]
        for name, base, run in (("kills", self.base, on), ("first kills", None, new)):
            total = self.count(base, run)
            jobs = [(name, base, "kill", call, run) for call in range(1, total + 1)]
            jobs += [(name, base, "half", call, run) for call in range(1, total + 1, 4)]
            spread(jobs, self.disturb)

    def background(self):
        """--state-async: a thread writes, and the run ends or its calls fail meanwhile."""
        on = ["--steps", str(STEPS), "--state", "DIR/states", "--state-every", "1", "--resume", "DIR/states", "--state-async"]
        total = self.count(self.base, on)
        jobs = [("background kills", self.base, "kill", call, on) for call in range(1, total + 1, 2)]
        jobs += [("background errors", self.base, how, call, on) for how, first in (("ENOSPC", 1), ("EIO", 3)) for call in range(first, total + 1, 4)]
        spread(jobs, self.disturb)

    def random(self):
        """A run that saves all the time is ended at random times; every other one in the background."""
        rng = random.Random(options.seed)
        jobs = [(number, rng.random(), number % 2 == 1) for number in range(options.kills)]
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            for _ in pool.map(lambda job: self.kill_at(*job), jobs):
                pass

    def kill_at(self, number, part, is_async):
        folder = self.folder("random-%d" % number, self.base)
        command = [SHARDC, "train", MODEL, "--plan", "dp", "--data", os.path.join(folder.root, "data"), "--steps", "100000", "--state", folder.path,
                   "--state-every", "1", "--resume", folder.path] + ["--state-async"] * is_async
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        begin = time.monotonic()
        while step_of(folder.path) < 4 and run.poll() is None and time.monotonic() - begin < 60:
            time.sleep(0.002)
        time.sleep(part * 0.2)
        done = step_of(folder.path)
        run.kill()
        _, text = run.communicate(timeout=60)
        check(run.returncode == -signal.SIGKILL, "it ended by itself:", run.returncode, text)
        reached = max(folder.whole(), default=0)
        check(reached >= done, "the last state is lost:", number, part, done, reached)
        code, _, text = train(folder.path, "--steps", str(reached + 1), "--resume", folder.path, "--state", folder.path)
        check(code == 0 and step_of(folder.path) == reached + 1, "it does not load:", number, part, code, text)
        left = {n for n in os.listdir(folder.path) if n not in USERS and not n.startswith("step-")}
        check(left <= {"latest", "shardc.lock"}, "left over:", left, number, part)
        folder.drop()
        counts["kills at random times"] = counts.get("kills at random times", 0) + 1

    def exchange(self):
        """A run that begins anew writes states of the same names; also where names cannot be exchanged."""
        run = ["--steps", "3", "--state", "DIR/states", "--state-every", "1", "--keep", "9"]
        for can in ("yes", "no"):
            faults = {"SHARDC_FAULT_EXCHANGE": can}
            total = self.count(self.base, run, faults)
            spread([("same names", self.base, "kill", call, run, faults) for call in range(1, total + 1, 3)], self.disturb)

    def errors(self):
        run = ["--steps", str(STEPS), "--state", "DIR/states", "--state-every", "1", "--resume", "DIR/states"]
        total = self.count(self.base, run)
        spread([("errors", self.base, ("ENOSPC", "EIO")[call % 2], call, run) for call in range(1, total + 1)], self.disturb)

    def count(self, base, run, faults=None):
        folder = self.folder("count", base)
        path = os.path.join(folder.root, "count")
        code, _, text = train(folder.path, *[m.replace("DIR", folder.root) for m in run],
                              faults={"SHARDC_FAULT_AT": folder.path, "SHARDC_FAULT_COUNT": path, **(faults or {})})
        check(code == 0, "an undisturbed run fails:", text)
        total = int(content(path))
        folder.drop()
        check(total > 10, "no calls are counted")
        return total

    def host(self):
        """A disk of host memory that fails: the run ends, its last state is whole."""
        run = ["--plan-file", OFFLOAD, "--steps", str(STEPS), "--state", "DIR/states", "--state-every", "1", "--resume", "DIR/states", "--host-memory",
               "DIR/host"]

        def disturbed(name, faults):
            folder = self.folder(name, self.base)
            os.mkdir(os.path.join(folder.root, "host"))
            code, _, text = train(folder.path, *[m.replace("DIR", folder.root) for m in run], plan="dp_host",
                                  faults={"SHARDC_FAULT_AT": os.path.join(folder.root, "host"), **{k: v.replace("DIR", folder.root) for k, v in faults.items()}})
            check(os.listdir(os.path.join(folder.root, "host")) == [], "files of host memory are left:", name)
            return folder, code, text

        def fail(how, call):
            folder, code, text = disturbed("host-%s-%d" % (how, call), {"SHARDC_FAULT": how, "SHARDC_FAULT_CALL": str(call)})
            check(code == 7 and "of host memory" in text and "[run_failed]" in text, "host memory", how, call, code, text)
            check(max(folder.whole()) >= 3, "the last state is lost: host memory", how, call)
            folder.goes_on(self.want, "host memory", how, call)
            folder.drop()
            counts["errors of host memory"] = counts.get("errors of host memory", 0) + 1

        folder, code, text = disturbed("host", {"SHARDC_FAULT_COUNT": "DIR/count"})
        check(code == 0 and step_of(folder.path) == STEPS, "an undisturbed run fails:", text)
        total = int(content(os.path.join(folder.root, "count")))
        check(total > 50, "no writes are counted:", total)
        folder.drop()
        spread([(how, call) for how, first in (("ENOSPC", 1), ("EIO", 2)) for call in range(first, total + 1, 9)], fail)

    def weights(self):
        """--save: the file that was there, or the new one."""
        folder = self.folder("weights", None)
        file = os.path.join(folder.root, "w.safetensors")
        run = ["--steps", str(STEPS), "--save", file]
        old = self.want[:-4] + b"old!"
        count = os.path.join(folder.root, "count")
        code, _, text = train(folder.path, *run, faults={"SHARDC_FAULT_AT": "w.safetensors", "SHARDC_FAULT_COUNT": count})
        check(code == 0, text)
        for call in range(1, int(content(count)) + 1, options.every):
            for how in ("kill", "half", "ENOSPC"):
                with open(file, "wb") as there:
                    there.write(old)
                code, _, text = train(folder.path, *run, faults={"SHARDC_FAULT_AT": "w.safetensors", "SHARDC_FAULT": how, "SHARDC_FAULT_CALL": str(call)})
                check(code in ((7, 0) if how == "ENOSPC" else (-signal.SIGKILL,)), "--save", how, call, code, text)
                check(content(file) in (old, self.want), "--save leaves half a file:", how, call)
                counts["weights"] = counts.get("weights", 0) + 1
        code, _, text = train(folder.path, *run)
        check(code == 0 and content(file) == self.want, text)
        left = glob.glob(file + ".*")
        check(left == [], "--save leaves", left)
        folder.drop()

    def resumes(self, folder, name, context, harmless):
        """Goes on from a damaged state: refused by name, or right."""
        saved = os.path.join(folder.root, "saved.safetensors")
        code, _, text = train(folder.path, "--steps", str(STEPS), "--resume", folder.path, "--save", saved)
        if code == 0:
            check(harmless and content(saved) == self.want, "damage is not seen:", *context)
        else:
            check(code == 7 and name in text and "[bad_state]" in text, "it is not named:", *context, code, text)
        return code, text

    def flip(self, name, position, bit):
        folder = self.folder("flip-%s-%d-%d" % (name.replace("/", "-"), position, bit), self.base)
        path = os.path.join(folder.path, name)
        data = bytearray(content(path))
        data[position] ^= 1 << bit
        with open(path, "wb") as file:
            file.write(data)
        code, text = self.resumes(folder, os.path.basename(name), ("flip", name, position, bit), name == "latest")
        counts["flips"] = counts.get("flips", 0) + 1
        counts["harmless flips"] = counts.get("harmless flips", 0) + (code == 0)
        if name != "latest":
            check("step-000002 continues from it" in text, "the older state is not named:", text)
        folder.drop()

    def flips(self):
        rng = random.Random(options.seed)
        jobs = [("latest", position, bit) for position in range(len("step-000003\n")) for bit in (0, 2, 5, 7)]
        names = sorted(os.listdir(os.path.join(self.base, "step-000003")))
        for _ in range(options.flips):
            name = rng.choice(names)
            jobs.append(("step-000003/" + name, rng.randrange(os.path.getsize(os.path.join(self.base, "step-000003", name))), rng.randrange(8)))
        for name in ("index.json", "state.json", "rank-00000.safetensors", "rank-00001.safetensors"):
            size = os.path.getsize(os.path.join(self.base, "step-000003", name))
            positions = sorted({0, 7, 8, 13, 14, 29, 30, 31, size - 1} | {rng.randrange(size) for _ in range(16)})
            jobs += [("step-000003/" + name, position, rng.randrange(8)) for position in positions]
        spread(jobs, self.flip)

    def mixtures(self):
        for name in ("index.json", "state.json", "rank-00000.safetensors", "rank-00001.safetensors"):
            for what in ("copy", "cut", "gone"):
                folder = self.folder("mix-%s-%s" % (what, name), self.base)
                path = os.path.join(folder.path, "step-000003", name)
                if what == "copy":
                    shutil.copy(os.path.join(folder.path, "step-000002", name), path)
                elif what == "cut":
                    os.truncate(path, os.path.getsize(path) // 2)
                else:
                    os.remove(path)
                _, text = self.resumes(folder, name, (what, name), False)
                check("step-000002 continues from it" in text, "the older state is not named:", text)
                code, _, text = train(folder.path, "--steps", "4", "--resume", os.path.join(folder.path, "step-000002"))
                check(code == 0, "the older state:", text)
                folder.drop()
                counts["mixtures"] = counts.get("mixtures", 0) + 1
        folder = self.folder("mix-folder", self.base)
        shutil.rmtree(os.path.join(folder.path, "step-000003"))
        shutil.copytree(os.path.join(folder.path, "step-000002"), os.path.join(folder.path, "step-000003"))
        self.resumes(folder, "step-000003/index.json", ("a copied folder",), False)
        folder.drop()

    def others(self):
        """Two runs with one folder; a folder that is a link; states of a run before."""
        folder = self.folder("others", self.base)
        link = os.path.join(folder.root, "link")
        os.symlink(folder.path, link)
        log = os.path.join(folder.root, "log")
        first = subprocess.Popen([SHARDC, "train", MODEL, "--plan", "one", "--data", os.path.join(folder.root, "data"), "--steps", "100000000", "--seed",
                                  "5", "--state", link, "--resume", link, "--log", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            begin = time.time()
            while not os.path.exists(log) or os.path.getsize(log) == 0:
                check(first.poll() is None and time.time() - begin < 120, "the first run does not begin")
                time.sleep(0.02)
            code, _, text = train(folder.path, "--steps", "9", "--state", folder.path, "--resume", folder.path)
            check(code == 7 and "process %d on " % first.pid in text and "[state_in_use]" in text, "two runs:", code, text)
        finally:
            first.terminate()
            _, text = first.communicate(timeout=120)
        check(first.returncode == 0, "the first run:", text)
        check(os.path.islink(link), "the link is gone")
        done = step_of(folder.path)
        code, out, text = train(folder.path, "--steps", str(done), "--resume", link)
        check(code == 0 and "nothing to do" in out, code, out, text)
        folder.drop()
        folder = self.folder("full", self.base)
        log = os.path.join(folder.root, "log")
        for free, more in ((600000, ["--state", folder.path, "--state-every", "1", "--resume", folder.path]), (8192, ["--save", folder.path + "/w"])):
            code, _, text = train(folder.path, "--steps", str(STEPS), "--log", log, *more, faults={"SHARDC_FAULT_AT": folder.path, "SHARDC_FAULT_FREE": str(free)})
            if free > 500000:
                check(code == 0, "there is room for one state more than stay:", text)
                os.remove(log)
                free = 65536
                code, _, text = train(folder.path, "--steps", "9", "--log", log, "--state", folder.path, "--resume", folder.path,
                                      faults={"SHARDC_FAULT_AT": folder.path, "SHARDC_FAULT_FREE": str(free)})
            check(code == 7 and "but the disk has %d free" % free in text and not os.path.exists(log), "no room:", code, text)
        folder.drop()
        folder = self.folder("anew", self.base)
        code, _, text = train(folder.path, "--steps", "1", "--state", folder.path)
        check(code == 0 and "[other_states]" in text, text)
        folder.goes_on(self.want, "anew")
        folder.drop()


def main():
    root = tempfile.mkdtemp(prefix="shardc-states-")
    try:
        states = States(root)
        for part in options.parts or PARTS:
            begin = time.time()
            getattr(states, part)()
            print("%s: %.1f s" % (part, time.time() - begin), flush=True)
        print(", ".join("%d %s" % (number, name) for name, number in counts.items()))
    finally:
        shutil.rmtree(root, ignore_errors=True)


main()
