#!/usr/bin/env python3
"""mutations.py SHARDC BUILD [--all] [--seed N] [-v]: PTX that NVRTC made, broken in one line, is noticed on the interpreter: a launch ends with a
report, or a result has another bit. Programs are attention, forward and a step, and fused kernels of a block; a kind of mutation is tried in as many
places as MUTATIONS says, --all: in all of them. What is drawn depends on the seed. Exit status 1: a mutation went unnoticed; 77: there is no NVRTC."""
import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ATTENTION = "bench/attention.shard --plan halves"
PROGRAMS = {  # name: what builds it, and what runs it: {out} has its results
    "forward": (ATTENTION + " --entry forward --bind B=1,S=200,H=1,E=64", "eval -o {out}"),
    "step": (ATTENTION + " --bind B=1,S=200,H=1,E=64", "train --steps 1 --save {out}"),
    "fused": ("bench/kernels.shard --plan halves --bind N=40,M=33,R=50,D=768,P=7,V=3000,Q=9,W=1001,S=30,H=4,E=64", "eval -o {out}"),
    "rows": ("bench/kernels.shard --plan halves --bind N=8,M=9,R=10,D=64,P=7,V=80,Q=9,W=81,S=5,H=2,E=16", "eval -o {out}"),
}


def swap(a, b):
    """The line with two groups of the match exchanged."""
    def change(match):
        line, (first, last) = match.string, sorted((match.span(a), match.span(b)))
        return line[: first[0]] + line[slice(*last)] + line[first[1] : last[0]] + line[slice(*first)] + line[last[1] :]
    return change


def become(template):
    return lambda match: match.string[: match.start()] + match.expand(template) + match.string[match.end() :]


def executed(match):
    """What is reported wherever it is done."""
    return "st.global.u32 [0], 0;"


def zeros(match):
    """Zeros are the results of the instruction: where they matter, whatever else they are matters, too."""
    results = re.match(r"\s*\S+\s+(\{.*?\}|%\w+)", match.string).group(1)
    return " ".join("mov.b%d %s, 0;" % (64 if r.startswith(("%rd", "%fd")) else 16 if r.startswith("%rs") else 32, r) for r in re.findall(r"%\w+", results))


def orders_memory(lines, number):
    """Whether what is touched between the barrier in front and this one is touched behind it, too, before the next, and stored to on one side:
    in shared memory, or by way of one register. Others, which NVRTC leaves where the results of lanes are registers, order nothing."""
    def accesses(some):
        loaded, stored = set(), set()
        for line in some:
            if re.search(r"bar\.(warp\.)?sync", line):
                break
            match = re.search(r"\b(st|cp\.async\.cg|ld|ldmatrix)\.(\S*).*?\[(%\w+)", line)
            if match and "global.nc" not in match[2]:
                (loaded if match[1].startswith("ld") else stored).add("shared" if "shared" in match[2] else match[3])
        return loaded, stored
    (loaded, stored), (loaded_behind, stored_behind) = accesses(reversed(lines[: number - 1])), accesses(lines[number:])
    return bool(stored & (loaded_behind | stored_behind) or loaded & stored_behind)


REGISTER = r"(%\w+)"
MMA = r"mma\.sync\S+ \{(.*?)\}, \{%s, %s, %s, %s\}, \{%s, %s\}" % ((REGISTER,) * 6)
ALL = "forward step fused rows"
# A kind, the programs, a pattern of the line, what becomes of it, in how many places of each program, and the probe: the mutation is done only
# where that is noticed, too. Code for other sizes is not executed, and parts of tiles are masked.
MUTATIONS = [
    ("a barrier is removed", "forward step fused", r"bar\.sync\s+0;", become(""), 6, executed),
    ("a warp's barrier is removed", "forward step", r"bar\.warp\.sync\s+-1;", become(""), 3, executed),
    ("a wait for copies is removed", "forward step", r"cp\.async\.wait_group \d;", become(""), 3, executed),
    ("a wait for copies is for one group less", "forward step", r"cp\.async\.wait_group 0;", become("cp.async.wait_group 1;"), 3, executed),
    ("a group of copies is not committed", "forward step", r"cp\.async\.commit_group;", become(""), 3, executed),
    ("a copy is half as long", "forward step", r"(cp\.async\S+ \[%r\d+\], \[%rd\d+\], 16), %r\d+;", become(r"\1, 8;"), 3, executed),
    ("rows of a fragment of A are exchanged", "forward step", MMA, swap(2, 3), 3, zeros),
    ("columns of a fragment of A are exchanged", "forward step", MMA, swap(2, 4), 3, zeros),
    ("rows of a fragment of B are exchanged", "forward step", MMA, swap(6, 7), 3, zeros),
    ("matrices are loaded transposed", "forward step", r"(ldmatrix\S+x4)\.shared", become(r"\1.trans.shared"), 3, zeros),
    ("matrices are not loaded transposed", "forward step", r"\.trans\.shared", become(".shared"), 3, zeros),
    ("loaded matrices are exchanged", "forward step", r"ldmatrix\S+ \{%s, %s, %s, %s\}" % ((REGISTER,) * 4), swap(2, 3), 3, zeros),
    ("lanes exchange with themselves", ALL, r"(shfl\.sync\.bfly\.b32 \t?\S+, %r\d+), %r\d+,", become(r"\1, 0,"), 3, zeros),
    ("a word of shared memory is stored beside", "fused", r"(st\.shared\.\w+ \t?\[%r\w+)\]", become(r"\1+4]"), 3, executed),
    ("a guard is negated", ALL, r"@(%p\d+) bra", become(r"@!\1 bra"), 3, executed),
    ("an element of global memory is another", ALL, r"(ld\.global\S*f32 \t?\S.*\[%rd\d+)\]", become(r"\1+16]"), 3, zeros),
    ("an address is not aligned", ALL, r"((?:ld|st)\.global\S*v4\S* .*\[%rd\d+)\]", become(r"\1+4]"), 2, executed),
    ("a register is not written", ALL, r"mul\.f32 \t?(%f\d+), (?!.*\1;).*;", become(""), 3, executed),
    ("a sum is a difference", ALL, r"add\.f32 (\s*%f\d+, %f\d+, %f\d+;)", become(r"sub.f32 \1"), 3, zeros),
]


def texts_of(program):
    """The PTX in it, by the first kernel's name."""
    data = open(program, "rb").read()
    found = {}
    for text in re.findall(rb"//\n// Generated by NVIDIA NVVM.*?\0", data, re.S):
        text = text.rstrip(b"\0").decode()
        found[re.search(r"\.entry (\w+)", text).group(1)] = text
    return found


class Runner:
    def __init__(self, options, folder):
        self.o, self.folder, self.expected = options, folder, {}

    def start(self, name, *command, **more):
        environment = {**os.environ, **more, "SHARDC_CACHE": os.environ.get("SHARDC_CACHE", os.path.join(self.folder, "cache"))}
        done = subprocess.run([sys.executable, os.path.join(HERE, "on_ptx.py"), self.o.build, *command], cwd=ROOT, env=environment,
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 77:
            print(done.stdout.strip())
            sys.exit(77)
        return done

    def path(self, name):
        return os.path.join(self.folder, name)

    def prepare(self, name):
        done = self.start(name, self.o.shardc, "build", *PROGRAMS[name][0].split(), "--target", "cuda:compute_80", "-o", self.path(name))
        if done.returncode != 0:
            sys.exit("%s: %s" % (name, done.stderr.strip()))
        out = self.path(name + ".out")
        done = self.run(name, out)
        if done.returncode != 0:
            sys.exit("%s, as it is: %s" % (name, done.stderr.strip()))
        self.expected[name] = open(out, "rb").read()
        return {k: t for k, t in texts_of(self.path(name)).items() if self.is_launched(name, k, t)}

    def is_launched(self, name, kernel, text):
        """A program also has kernels of entries that are not run."""
        kernels = text.split("\n")
        first = next(i for i, line in enumerate(kernels) if "%tid.x" in line or "%ctaid.x" in line)
        return self.notices(0, name, kernel, first + 1, re.sub(r"(%r\d+), %\w+\.x", r"\1, \1", kernels[first])) is not None

    def run(self, name, out, edit="", seed=0):
        return self.start(name, self.path(name), *PROGRAMS[name][1].format(out=out).split(), SHARDC_STUB_EDIT=edit, SHARDC_STUB_SEED=str(seed))

    def notices(self, number, name, kernel, line, text):
        """How; or None. In two orders of blocks and warps, with both times of copies."""
        out = self.path("mutated.%d" % number)
        for seed in (0, 3):
            done = self.run(name, out, "%s:%d:%s" % (kernel, line, text), seed)
            if done.returncode != 0:
                return done.stderr.strip().splitlines()[-1]
            if open(out, "rb").read() != self.expected[name]:
                return "results are others"
        return None


def places(texts, pattern):
    for kernel, text in sorted(texts.items()):
        for number, line in enumerate(text.split("\n"), 1):
            match = re.search(pattern, line)
            if match:
                yield kernel, number, line, match


def drawn(runner, texts, name, row):
    """The places of a program where a kind of mutation is done."""
    kind, _, pattern, _, count, probe = row
    found = [p for p in places(texts, pattern) if "barrier" not in kind or orders_memory(texts[p[0]].split("\n"), p[1])]
    if "wait" in kind:  # the first of a kernel: behind its loop it waits once more, for nothing
        found = list({p[0]: p for p in reversed(found)}.values())
    random.Random("%d %s %s" % (runner.o.seed, kind, name)).shuffle(found)
    for kernel, number, line, match in found:
        if count == 0 and not runner.o.all:
            return
        if runner.notices(0, name, kernel, number, probe(match)):
            count -= 1
            yield kernel, number, line, match


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shardc", type=os.path.abspath)
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, folder)
        texts = {name: runner.prepare(name) for name in PROGRAMS}
        tasks = []
        for row in MUTATIONS:
            kind, names, _, change, _, _ = row
            for name in names.split() if options.only in kind else []:
                before = len(tasks)
                tasks += [(kind, name, kernel, number, line, change(match)) for kernel, number, line, match in drawn(runner, texts[name], name, row)]
                if len(tasks) == before:
                    sys.exit("%s: there is no place in %s" % (kind, name))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            seen = list(pool.map(lambda t: runner.notices(t[0], *t[1]), enumerate((t[1], t[2], t[3], t[5]) for t in tasks)))
    for (kind, name, kernel, number, line, _), how in zip(tasks, seen):
        if how is None or options.v:
            print("%s: %s, %s, line %d, `%s`: %s" % ("ok  " if how else "MISSED", kind, kernel, number, line.strip(), how or "unnoticed in " + name))
    print("%d passed, %d failed" % (sum(how is not None for how in seen), seen.count(None)))
    sys.exit(1 if None in seen else 0)


if __name__ == "__main__":
    main()
