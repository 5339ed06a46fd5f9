#!/usr/bin/env python3
"""op_names.py ROOT: only the op table (ir/ops) knows an op by name.

Counts, in each file of the compiler and its tools, the lines' comparisons with a kind of op (`== SC_OP_x`, `!=`, `case`) and the entries of
tables by hand (`[SC_OP_x] =`), and holds them to test/lint/op_names.txt: `FILE: COUNT reason`. Creating an op is no such use. In a switch
over kinds of ops or of kernel nodes, `default:` must not stand for one of the kinds: it refuses (`return false` or another word for none) or
goes on with all kinds alike."""
import os
import re
import sys

FOLDERS = ('support', 'program', 'ir', 'frontend', 'passes', 'codegen', 'runtime', 'tools')
TABLE = 'ir/ops/'
USE = re.compile(r'[=!]=\s*SC_OP_\w+|\bSC_OP_\w+\s*[=!]=|\bcase\s+SC_OP_\w+|\[SC_OP_\w+\]\s*=')
NO_USE = ('SC_OP_COUNT',)
SWITCH = re.compile(r'\bswitch\s*\(')
NONE = re.compile(r'\s*(?:return (?:false|NULL|-1|SC_NONE);|break;)')


def sources(root):
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(('.c', '.h', '.inc', '.y', '.l')):
                    path = os.path.join(place, name)
                    with open(path) as file:
                        yield os.path.relpath(path, root), re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)


def block(text, start):
    """From the first brace after `start` to the one that closes it."""
    start = text.index('{', start)
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == '{') - (text[at] == '}')
        if depth == 0:
            return text[start:at]
    return text[start:]


def allowed(root):
    found = {}
    with open(os.path.join(root, 'test', 'lint', 'op_names.txt')) as file:
        for line in file:
            if line.strip() and not line.startswith('#'):
                path, count, reason = re.fullmatch(r'(\S+): (\d+) (.+)\n', line).groups()
                found[path] = int(count)
    return found


def faults_of_uses(path, text, limit):
    uses = [use for use in USE.findall(text) if not any(no_use in use for no_use in NO_USE)]
    if len(uses) < limit:
        return ['%s: %d names of ops, %d allowed: lower the number in test/lint/op_names.txt' % (path, len(uses), limit)]
    if len(uses) > limit:
        return ['%s: %d names of ops, %d allowed (%s): the op table is missing a column. Add one to ir/ops/ops.def, or a line with the reason '
                'to test/lint/op_names.txt' % (path, len(uses), limit, ', '.join(sorted(set(uses))))]
    return []


def faults_of_defaults(path, text):
    faults = []
    for switch in SWITCH.finditer(text):
        cases = block(text, switch.end())
        label = re.search(r'\bdefault:', cases)
        if label and re.search(r'\bcase SC_(?:OP|NODE)_', cases):
            rest = cases[label.end():]
            # what is passed the kind or the node treats all kinds alike
            if not NONE.match(rest) and not re.search(r'\b(?:kind|node|id|k, n)\b', rest):
                faults.append('%s: a default stands for one kind of op or node:%s' % (path, rest.rstrip()))
    return faults


def main():
    root = sys.argv[1]
    planted = 'switch (op->kind) { case SC_OP_dot: return x; default: return erf(x); }'
    assert len(faults_of_uses('planted.c', planted, 0) + faults_of_defaults('planted.c', planted)) == 2
    limits, faults, count = allowed(root), [], 0
    for path, text in sources(root):
        faults += faults_of_defaults(path, text)
        if not path.startswith(TABLE):
            faults += faults_of_uses(path, text, limits.pop(path, 0))
            count += 1
    faults += ['%s: not a source any more; remove its line from test/lint/op_names.txt' % path for path in limits]
    for fault in faults:
        print(fault)
    print('%d files, %d faults' % (count, len(faults)))
    return len(faults) > 0


if __name__ == '__main__':
    sys.exit(main())
