#!/usr/bin/env python3
"""loops.py ROOT: the header of a `for` only iterates. Its condition names no flag of failure (`ok`, `status`, `error`..: the body breaks), and
no variable that the loop does not change (a guard, which stands before the loop). A search that stops at what it finds iterates:
`i < n && !found`, `at > 0 && order[at - 1] > x`."""
import os
import re
import subprocess
import sys

FLAG = re.compile(r'^!?(?:[\w.>-]*\b)?(?:ok|fine|good|failed|has_failed)$|\b(?:status|error|errors|reason|wrong|problem|fault)\b')
GUARD = re.compile(r'^!?\w+$|^\w+ [!=]= [\w-]+$|^[\w.>-]+ != NULL$')
SKIPPED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
NAME = re.compile(r'[A-Za-z_]\w*')
FOLDERS = ('support', 'program', 'ir', 'passes', 'frontend', 'codegen', 'runtime', 'tools')


def end_of_bracket(text, at):
    depth = 0
    for at in range(at, len(text)):
        depth += (text[at] in '({[') - (text[at] in ')}]')
        if depth == 0:
            return at
    return at


def end_of_statement(text, at):
    """Far enough: of an unbraced statement, the first `;` or `}` at its level."""
    while at < len(text) and text[at] != ';':
        if text[at] in '({[':
            is_block = text[at] == '{'
            at = end_of_bracket(text, at)
            if is_block:
                return at
        at += 1
    return at


def split(text, separator):
    parts, depth, begin = [], 0, 0
    for at in range(len(text)):
        depth += (text[at] in '({[') - (text[at] in ')}]')
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[begin:at].strip())
            begin = at + len(separator)
    return parts + [text[begin:].strip()]


def is_changed(target, body):
    name = r'(?<![\w.>])' + re.escape(target)
    return re.search(name + r'(?:\[[^\]]*\])?\s*(?:=(?!=)|[-+*/|&^]=|\+\+|--)|(?:\+\+|--|&)' + name + r'\b', body) is not None


def faults(text):
    """[(line, conjunct)]"""
    text = SKIPPED.sub(lambda found: re.sub(r'[^\n]', '0', found[0]), text)
    for found in re.finditer(r'\bfor \(', text):
        end = end_of_bracket(text, found.end() - 1)
        parts = split(re.sub(r'\s+', ' ', text[found.end():end]), ';')
        if len(parts) != 3:
            continue
        init, condition, step = parts
        own = set(NAME.findall(step)) | set(re.findall(r'(\w+) =(?!=)', init))
        conjuncts = [c for c in split(condition, '&&') if c]
        body = text[end:end_of_statement(text, end + 1)]
        for conjunct in conjuncts if len(conjuncts) > 1 else []:
            if own & set(NAME.findall(conjunct)) or re.search(r'\+\+|--| = ', conjunct):
                continue
            target = re.sub(r'^!| [!=]= .*$', '', conjunct)
            if FLAG.search(conjunct) or GUARD.match(conjunct) and not is_changed(target, body):
                yield text.count('\n', 0, found.start()) + 1, conjunct


def main():
    root = sys.argv[1]
    planted = ('for (i = 0; ok && i < n; i++)\n x();\nfor (int i = 0; p != NULL && i < p->n; i++) { x(); }\nfor (; at > 0 && a[at] > b; at--)\n x();\n'
               'for (int i = 0; i < n && !found; i++)\n found = a[i] == b;\nfor (int i = 0; i < n && is_new; i++)\n x();\n')
    assert list(faults(planted)) == [(1, 'ok'), (3, 'p != NULL'), (8, 'is_new')], list(faults(planted))
    names = subprocess.run(['git', '-C', root, 'ls-files', '*.c', '*.h', '*.inc'], capture_output=True, text=True, check=True).stdout.splitlines()
    wrong, count = [], 0
    for name in names:
        if name.startswith(tuple(folder + '/' for folder in FOLDERS)) and os.path.exists(os.path.join(root, name)):
            count += 1
            with open(os.path.join(root, name)) as file:
                wrong += ['%s:%d: `%s` does not iterate' % (name, line, conjunct) for line, conjunct in faults(file.read())]
    if wrong:
        sys.exit('\n'.join(wrong))
    print('%d files' % count)


if __name__ == '__main__':
    main()
