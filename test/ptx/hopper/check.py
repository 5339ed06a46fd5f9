#!/usr/bin/env python3
"""check.py BUILD [--variants] [-v]: matmul.cu, compiled by NVRTC for compute_90a, computes C = A B on the interpreter, and broken in one line
it is noticed: a launch ends with a report, or C is wrong. --variants: all swizzles and layouts, and A in registers, without mutations. Exit
status 1: C is wrong, or a mutation went unnoticed; 77: there is no NVRTC."""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from compile import library, to_ptx

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED, REGISTERS = "128 bytes", "A in registers"
REGISTER = r"(%\w+)"
WGMMA = r"(wgmma\.mma_async\S+ \{.*?\}, %rd\d+, %rd\d+, adds, )"
# A kind, the variant, a pattern of the line, what becomes of it, and in how many places, from the first or
# (negative) the last on, for waits that others cover are no faults: all of them are noticed.
MUTATIONS = [
    ("the barrier behind the mbarriers' initialization is removed", SHARED, r"bar\.sync\s+0;", "", 1),
    ("an mbarrier counts an arrival more", SHARED, r"(mbarrier\.init\S+ \[%r\d+\]), %r\d+;", r"\1, 9;", 2),
    ("an mbarrier counts one arrival of eight", SHARED, r"(mbarrier\.init\S+ \[%r\d+\]), %r\d+;", r"\1, 1;", -1),
    ("16 bytes more are expected", SHARED, r"(mbarrier\.arrive\.expect_tx\S+ _, \[%r\d+\]), %r\d+;", r"\1, 32784;", 1),
    ("16 bytes less are expected", SHARED, r"(mbarrier\.arrive\.expect_tx\S+ _, \[%r\d+\]), %r\d+;", r"\1, 32752;", 1),
    ("a wait is removed", SHARED, r"mbarrier\.try_wait\S+ done.*;", "setp.eq.u32 done, 0, 0;", -2),
    ("a wait is for the other phase", SHARED, r"(mbarrier\.try_wait\S+ done, \[%r\d+\]), %r\d+;", r"\1, 1;", -1),
    ("a stage is not given back", SHARED, r"mbarrier\.arrive\.release\S+ _.*;", "", 1),
    ("all lanes load", SHARED, r"selp\.b32 (%r\d+), 1, 0, p;", r"mov.u32 \1, 1;", 1),
    ("no lane loads", SHARED, r"selp\.b32 (%r\d+), 1, 0, p;", r"mov.u32 \1, 0;", 1),
    ("coordinates are exchanged", SHARED, r"(complete_tx::bytes \[%r\d+\], \[%rd\d+, )\{(%r\d+), (%r\d+)\}", r"\1{\3, \2}", 3),
    ("a tile is loaded beside", SHARED, r"(complete_tx::bytes) \[(%r\d+)\]", r"\1 [\2+128]", 1),
    ("wgmma.fence is removed", SHARED, r"wgmma\.fence\.sync\.aligned;", "", 1),
    ("matmuls are not committed", SHARED, r"wgmma\.commit_group\.sync\.aligned;", "", 1),
    ("a stage is given back before it is read", SHARED, r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;", 1),
    ("the last matmul is not waited for", SHARED, r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;", 1),
    ("A is taken for M-major", SHARED, WGMMA + "1, 1, 0, 1;", r"\g<1>1, 1, 1, 1;", 2),
    ("B is taken for K-major", SHARED, WGMMA + "1, 1, 0, 1;", r"\g<1>1, 1, 0, 0;", 2),
    ("A is negated", SHARED, WGMMA + "1, 1, 0, 1;", r"\g<1>-1, 1, 0, 1;", 2),
    ("A and B are exchanged", SHARED, r"(wgmma\.mma_async\S+ \{.*?\}), (%rd\d+), (%rd\d+)", r"\1, \3, \2", 2),
    ("D is not added to", SHARED, r"setp\.ne\.b32 adds, %r\d+, 0;", "setp.ne.b32 adds, 0, 0;", 3),
    ("registers of D are exchanged", SHARED, r"(wgmma\.mma_async\S+ \{)(%f\d+), (%f\d+)", r"\1\3, \2", 2),
    ("more registers than there are", SHARED, r"setmaxnreg\.inc\S+ 232;", "setmaxnreg.inc.sync.aligned.u32 240;", 1),
    ("registers are not given back", SHARED, r"setmaxnreg\.dec\S+ 40;", "", 1),
    ("matrices are stored transposed", SHARED, r"(stmatrix\S+x4)\.shared", r"\1.trans.shared", 3),
    ("stored matrices are exchanged", SHARED, r"(stmatrix\S+ \[%r\d+\], \{)(%r\d+), (%r\d+)", r"\1\3, \2", 3),
    ("halves of a register are exchanged", SHARED, r"(cvt\.rn\.bf16x2\.f32 %r\d+), (%f\d+), (%f\d+);", r"\1, \3, \2;", 3),
    ("fence.proxy.async is removed", SHARED, r"fence\.proxy\.async\S*;", "", 2),
    ("a warp's barrier is removed", SHARED, r"bar\.warp\.sync\s+-?\w+;", "", 2),
    ("stores are not committed", SHARED, r"cp\.async\.bulk\.commit_group;", "", -1),
    ("stores are not waited for", SHARED, r"cp\.async\.bulk\.wait_group 0;", "", 1),
    ("a store is of other rows", SHARED, r"(bulk_group \[%rd\d+, \{%r\d+), %r\d+", r"\1, 0", 2),
    ("rows of a fragment of A are exchanged", REGISTERS, r"(wgmma\.mma_async\S+ \{.*?\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", 2),
    ("columns of a fragment of A are exchanged", REGISTERS, r"(wgmma\.mma_async\S+ \{.*?\}, \{%r\d+, )(%r\d+), (%r\d+)", r"\1\3, \2", 2),
    ("a fragment is written before wgmma.fence, which is removed", REGISTERS, r"wgmma\.fence\.sync\.aligned;", "", 1),
]


class Checker:
    def __init__(self, options, folder):
        self.o, self.folder, self.lib = options, folder, library(os.path.join(options.build, "nvrtc"))
        self.source = open(os.path.join(HERE, "matmul.cu")).read()

    def compile(self, swizzle, *macros):
        return to_ptx(self.lib, self.source, ["--gpu-architecture=compute_90a", "-DSWIZZLE=%d" % swizzle, *("-D" + m for m in macros)])

    def run(self, name, ptx, swizzle=128, a_m_major=0, b_k_major=0):
        """What it printed, and whether C is right."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(ptx)
        command = [os.path.join(self.o.build, "test/ptx/sc_hopper"), path, str(swizzle), str(a_m_major), str(b_k_major)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode not in (0, 1):
            sys.exit("%s: exit status %d: %s" % (name, done.returncode, done.stderr.strip()))
        return done.stdout.strip(), done.returncode == 0

    def variants(self):
        for swizzle in (128, 64, 32, 0):
            for a in (0, 1):
                for b in (0, 1):
                    macros = ["A_M_MAJOR"] * a + ["B_K_MAJOR"] * b
                    yield "swizzle %d %s" % (swizzle, " ".join(macros)), (swizzle, *macros), (swizzle, a, b)
        for b in (0, 1):
            yield "A in registers %d" % b, (128, "A_IN_REGISTERS", *["B_K_MAJOR"] * b), (128, 0, b)


def mutated(texts):
    for kind, variant, pattern, template, most in MUTATIONS:
        lines = texts[variant].split("\n")
        found = [n for n, line in enumerate(lines) if re.search(pattern, line)]
        found = found[:most] if most > 0 else found[most:]
        if not found:
            sys.exit("%s: there is no place" % kind)
        for n in found:
            yield kind, n, lines[n], "\n".join([*lines[:n], re.sub(pattern, template, lines[n], count=1), *lines[n + 1 :]])


def report(results, verbose):
    failed = 0
    for name, said, fine in results:
        failed += not fine
        if not fine or verbose:
            print("%s: %s: %s" % ("ok  " if fine else "FAIL", name, said))
    print("%d passed, %d failed" % (len(results) - failed, failed))
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(options, folder)
        if checker.lib is None:
            print("skipped: there is no NVRTC")
            sys.exit(77)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            if options.variants:
                made = [(name, checker.compile(*macros), given) for name, macros, given in checker.variants()]
                ran = pool.map(lambda t: (t[1][0], *checker.run("variant.%d" % t[0], t[1][1], *t[1][2])), enumerate(made))
                report(list(ran), options.v)
            texts = {SHARED: checker.compile(128), REGISTERS: checker.compile(128, "A_IN_REGISTERS")}
            for name, text in texts.items():
                said, fine = checker.run(name, text)
                if not fine:
                    sys.exit("%s, as it is: %s" % (name, said))
            tasks = list(mutated(texts))
            ran = pool.map(lambda t: checker.run("mutated.%d" % t[0], t[1][3]), enumerate(tasks))
            report([("%s (line %d, `%s`)" % (t[0], t[1] + 1, t[2].strip()[:60]), said, not fine) for t, (said, fine) in zip(tasks, ran)], options.v)


if __name__ == "__main__":
    main()
