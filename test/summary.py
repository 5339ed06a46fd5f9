#!/usr/bin/env python3
"""Adds up ctest's JUnit files in single tests: summary.py RESULTS.xml..

A ctest entry is a whole lit run, a cmocka program or a prefix of acceptance cases; what it printed says how many tests it held.
An entry that failed without saying so (a crash, a time limit) counts as one failure. A file that is missing is one too. What skips itself
counts as neither; its reason is printed. The slowest entries are listed: the whole has to stay short."""

import re
import sys
import xml.etree.ElementTree as xml

SLOWEST = 10
PASSED = (r"^ +Passed *: *(\d+)", r"^\[  PASSED  \] (\d+) test", r"^(\d+) passed, \d+ failed$")
FAILED = (r"^ +Failed *: *(\d+)", r"^ +Timed Out *: *(\d+)", r"^ +Unresolved *: *(\d+)", r"^ +Unexpectedly Passed *: *(\d+)",
          r"^\[  FAILED  \] (\d+) test", r"^\d+ passed, (\d+) failed$")


def total(patterns, text):
    return sum(int(n) for p in patterns for n in re.findall(p, text, re.M))


def has_skipped_itself(case):
    skipped = case.find("skipped")  # also there when the executable is missing
    return skipped is not None and (skipped.get("message") or "").startswith("SKIP_RETURN_CODE=")


def count(case):
    text = case.findtext("system-out") or ""
    passed, failed = total(PASSED, text), total(FAILED, text)
    if case.get("status") != "run" and failed == 0:
        failed = 1
    if case.get("status") == "run" and passed + failed == 0:
        passed = 1
    return passed, failed


def print_slowest(times):
    print("slowest:")
    for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.0f} s  {name}")


def main(paths):
    passed = failed = 0
    times = []
    for path in paths:
        try:
            cases = xml.parse(path).getroot().findall("testcase")
        except (OSError, xml.ParseError) as error:
            print(f"{path}: {error}")
            failed += 1
            continue
        if not cases:
            print(f"{path}: no tests ran")
            failed += 1
        preset = path.rsplit("/", 1)[-1].removesuffix(".xml")
        for case in cases:
            times.append((float(case.get("time") or 0), f"{preset}: {case.get('name')}"))
            if has_skipped_itself(case):
                print(f"SKIPPED {preset}: {case.get('name')}: {(case.findtext('system-out') or '').strip()}")
                continue
            p, f = count(case)
            passed, failed = passed + p, failed + f
            if f:
                print(f"FAILED {preset}: {case.get('name')} ({f} of {p + f})")
    if times:
        print_slowest(times)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
