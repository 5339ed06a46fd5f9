#!/usr/bin/env python3
"""Runs the examples of the documentation: run_examples.py SHARDC FILE.md..

In a ```console block every line `$ shardc ARGS`, or `$ out/PROG ARGS`, is run from the project's root, and what it prints (results, then messages) must be the
lines that follow, up to the next `$` or the end of the block. A line `..` stands for any number of lines; a last line `(exit N)` asks for
that exit code. A block that begins with ````shard NAME` (or csv, json, jsonl, text) is a file that the commands may use under that name,
also in a list with commas and weights; what they write under out/ stays beside these files."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

EXIT = re.compile(r'\(exit \d+\)$')
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))


def blocks(text):
    for match in re.finditer(r'^```(\w+)[ \t]*(\S*)\n(.*?)^```', text, re.S | re.M):
        yield match.group(1), match.group(2), match.group(3)


def commands(block):
    """Pairs of a command line and the lines it must print."""
    found = []
    for line in block.splitlines():
        if line.startswith('$ '):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line.rstrip())
    return [(command, [line for line in wanted if line]) for command, wanted in found]


NUMBER = re.compile(r'-?\d+\.\d+(?:e[-+]?\d+)?')


def same(wanted, got):
    """Equal, up to the last digits of sums in f32: they depend on how wide the machine's vectors are."""
    if NUMBER.split(wanted) != NUMBER.split(got):
        return False
    pairs = [(float(a), float(b)) for a, b in zip(NUMBER.findall(wanted), NUMBER.findall(got))]
    return wanted == got or all(len(a) > 8 or a == b for a, b in zip(NUMBER.findall(wanted), NUMBER.findall(got))) and \
        all(abs(a - b) <= 2e-6 * max(abs(a), abs(b)) for a, b in pairs)


def matches(wanted, got):
    """Lines of `wanted` against lines of `got`, `..` standing for any number."""
    if not wanted:
        return not got
    if wanted[0] == '..':
        return any(matches(wanted[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and same(wanted[0], got[0]) and matches(wanted[1:], got[1:])


def place(word, files, folder):
    """Where the files of a word are: NAME, or NAME:WEIGHT,NAME:WEIGHT."""
    def one(part):
        name, colon, weight = part.partition(':')
        if part.startswith('out/'):
            return os.path.join(folder, part)
        return files[name] + colon + weight if name in files else part
    return ','.join(map(one, word.split(',')))


def run(shardc, command, files, folder):
    words = shlex.split(command)
    if words[0] not in ('shardc', 'build/shardc', 'tail') and not words[0].startswith('out/'):
        return None
    program = os.path.join(folder, words[0]) if words[0].startswith('out/') else 'tail' if words[0] == 'tail' else shardc
    args = [place(word, files, folder) for word in words[1:]]
    result = subprocess.run([program] + args, capture_output=True, text=True, cwd=ROOT, timeout=120)
    # How often a run says how far it is depends on the machine's speed: no example shows it.
    text = result.stdout + re.sub(r'^(training \w+, .* parameters?.*|step \d+ of \d+, loss .*|step \d+: its state saved .*)\n', '', result.stderr, flags=re.M)
    for name, path in files.items():
        text = text.replace(path, name)
    text = text.replace(os.path.join(folder, 'out'), 'out')
    return [line.rstrip() for line in text.splitlines()] + ['(exit %d)' % result.returncode]


def check(shardc, path, folder):
    files, ran, failed = {}, 0, 0
    os.makedirs(os.path.join(folder, 'out'), exist_ok=True)
    for kind, name, body in blocks(open(path).read()):
        if kind in ('shard', 'csv', 'json', 'jsonl', 'text') and name:
            files[name] = os.path.join(folder, name)
            os.makedirs(os.path.dirname(files[name]), exist_ok=True)
            open(files[name], 'w').write(body)
        for command, wanted in commands(body) if kind == 'console' else []:
            got = run(shardc, command, files, folder)
            if got is None:
                continue
            ran += 1
            if not EXIT.match(wanted[-1] if wanted else ''):
                got.pop()
            if not matches(wanted, [line for line in got if line]):
                failed += 1
                print('%s: $ %s\nwanted:\n%s\ngot:\n%s\n' % (path, command, '\n'.join(wanted), '\n'.join(got)))
    print('%s: %d examples, %d failed' % (os.path.relpath(path, ROOT), ran, failed))
    return failed


def main():
    shardc = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        return sum([check(shardc, path, folder) for path in sys.argv[2:]]) > 0


if __name__ == '__main__':
    sys.exit(main())
