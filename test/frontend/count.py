#!/usr/bin/env python3
"""How many mistakes the tests beside this file hold with their exact diagnostics: count.py AT_LEAST prints the number, and fails below it.

A mistake is an expected line `error: .. [id]`; that the message has the words it should is FileCheck's part."""

import pathlib
import re
import sys

EXPECTED = re.compile(r"^(?://|#) [A-Z0-9]+(?:-NEXT)?: .*\berror: .+ \[[a-z_0-9]+\]$", re.M)


def main(least):
    here = pathlib.Path(__file__).parent
    tests = [p for p in sorted(here.rglob("*")) if p.suffix in (".shard", ".test") and "Inputs" not in p.parts]
    found = sum(len(EXPECTED.findall(p.read_text(errors="replace"))) for p in tests)
    print(f"{found} mistakes with exact diagnostics in {len(tests)} tests")
    return 0 if found >= least else 1


sys.exit(main(int(sys.argv[1])))
