#!/usr/bin/env python3
"""Every id of diag.def is explained by `shardc help ID`: in text below its head line, and in JSON with a meaning and a remedy:
every_id_has_a_paragraph.py SHARDC DIAG_DEF prints the number of ids, and fails on the first that is not."""

import json
import pathlib
import re
import subprocess
import sys


def help_on(shardc, *words):
    return subprocess.run([shardc, "help", *words], capture_output=True, text=True, check=True).stdout


def main(shardc, table):
    ids = re.findall(r"^DIAG\((\w+),", pathlib.Path(table).read_text(), re.M)
    for id in ids:
        head, *paragraph = help_on(shardc, id).splitlines()
        parts = json.loads(help_on(shardc, id, "--format", "json"))
        assert head.startswith(f"{id} (") and len(" ".join(paragraph).split()) >= 8, f"{id}: {head}"
        assert parts["id"] == id and all(parts[key].strip() for key in ("meaning", "remedy")), f"{id}: {parts}"
    listed = [d["id"] for d in json.loads(help_on(shardc, "--format", "json"))["diagnostics"]]
    assert sorted(listed) == sorted(ids), set(listed) ^ set(ids)
    print(f"{len(ids)} ids are explained")


main(*sys.argv[1:])
