"""every_pair.py SHARDC PROG OPTIONS_DEF: each option with each command of shardc, and each verb of a program, is taken or refused with
exit code 2, by a message that names those that take it. Who takes what is read from the table and compared with what --help prints."""

import re
import subprocess
import sys

shardc, prog, table = sys.argv[1:]
text = open(table).read()
lists = dict(re.findall(r'#define (\w+) "([^"]*)"', text))
ROW = r'^(RUN|COMPILER|PROGRAM)(?:_SET)?\("(-[^"]+)", (\w+), [\w.]+, (?:\w+, )?(NULL|"[^"]*"), (NULL|\w+|"[^"]*"), (NULL|")'
RELATION = r'^(NEEDS|EXCLUDES)\((NULL|"[^"]*"), "(-[^"]+)", "([^"]+)",'
rows = [(owner, name, kind, argument, lists.get(takers, takers).strip('"'), summary != "NULL")
        for owner, name, kind, argument, takers, summary in re.findall(ROW, text, re.M)]
assert len(rows) == len(re.findall(r'^(?:RUN|COMPILER|PROGRAM)(?:_SET)?\("', text, re.M)), "a row that this test cannot read"
relations = re.findall(RELATION, text, re.M)
VALUES = {"JSON": "text", "NAMED": "a=b", "SHARE": "0.5", "JOINED": "lr=1"}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, text=True)
    return done.returncode, done.stdout, done.stderr


def names(help_text, heading):
    block = help_text.split("\n" + heading, 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  (\S+)", block.split("\n", 1)[1], re.M)


def arguments(row, value=None):
    _, name, kind, argument, _, _ = row
    if argument == "NULL":
        return [name]
    return [name, value or VALUES.get(kind, "a=2" if name in ("--bind", "--mesh") else "3")]


def check_program(program, owners, before):
    commands = names(run(program, "--help")[1], "commands")
    assert commands
    listed = {c: names(run(program, c, "--help")[1], "options") for c in commands}
    assert all(run(program, c, "-h") == run(program, c, "--help") for c in commands)
    for row in rows:
        owner, name, _, _, takers, is_listed = row
        if owner not in owners and any(r[0] in owners and r[1] == name for r in rows):
            continue  # both programs have one of this name
        takes = [c for c in commands if owner in owners and (takers == "NULL" or c in takers.split())]
        for command in commands:
            assert not is_listed or (name in listed[command]) == (command in takes), "%s --help and %s" % (command, name)
            if name in ("--help", "-h", "--version"):
                continue
            code, _, errors = run(program, command, *before, *arguments(row))
            refused = "'%s' does not take %s" % (command, name)
            if command in takes:
                assert refused not in errors, "%s %s: %s" % (command, name, errors)
                continue
            assert code == 2 and refused in errors, "%s %s exits with %d: %s" % (command, name, code, errors)
            others = takes if takes else [] if takers == "NULL" else takers.split()
            assert all(re.search(r"\b%s\b" % other, errors.replace(refused, "", 1)) for other in others), "%s: %s" % (others, errors)
    return commands, len(commands) * len(rows)


def check_again(program, owners, command, before):
    for row in rows:
        if row[0] not in owners or row[1] in ("-h", "--help", "--version"):
            continue
        code, _, errors = run(program, command, *before, *arguments(row), *arguments(row))
        collects = row[2] in ("TEXTS", "JOINED", "NAMED", "OWN_LIST")
        assert ("%s is given twice" % row[1] in errors) != collects and (collects or code == 2), "%s twice: %s" % (row[1], errors)


of_shardc, pairs = check_program(shardc, ("RUN", "COMPILER"), ["no_such_file"])
of_programs, more = check_program(prog, ("RUN", "PROGRAM"), [])
known = set(of_shardc) | set(of_programs)
for row in rows:
    assert row[4] == "NULL" or set(row[4].split()) <= known, "%s: %s" % (row[1], row[4])
for _, takers, option, others in relations:
    assert takers == "NULL" or set(takers.strip('"').split()) <= known, takers
    assert all(any(row[1] == name for row in rows) for name in [option, *others.split()]), (option, others)
check_again(shardc, ("RUN", "COMPILER"), "train", ["no_such_file"])
check_again(prog, ("RUN", "PROGRAM"), "bench", [])
print("%d pairs, %d relations" % (pairs + more, len(relations)))
