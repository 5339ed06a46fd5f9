#!/usr/bin/env python3
"""words.py ROOT: one term a thing, the field's own (docs/glossary.md). Code, names of files, messages, tests and pages use none of the words
below. A word is also one between the underscores of a name."""
import os
import re
import subprocess
import sys

BANNED = [
    ('card', 'GPU; device, where it may be a CPU'), ('cards', 'GPUs'),
    ('processor', 'CPU'), ('processors', 'CPUs'),
    ('atom', 'sub-axis'), ('atoms', 'sub-axes'),
    ('dear', 'expensive'), ('dearer', 'more expensive'), ('dearest', 'most expensive'),
    ('rider', 'fused reduction'), ('riders', 'fused reductions'),
    ('standin', 'stub'), ('standins', 'stubs'), ('stand-in', 'stub'), ('stand-ins', 'stubs'),
    ('held against', 'compared with'),
    ('made again', 'recomputed'), ('computed again', 'recomputed'), ('done again', 'repeated'),
    ('products of matrices', 'matmuls'), ('product of matrices', 'matmul'),
    ('pending sum', 'partial sum'), ('pending sums', 'partial sums'), ('pending reduction', 'partial reduction'),
]
# What others named.
ALLOWED = re.compile(r'CMAKE_SYSTEM_PROCESSOR|PROCESSORS|multiprocessors?|sound card|ROOT\(atom,|\* atom\{|'
                     r'post.?processors?|[ "([=,]processors[.,"]')
EXCEPT = ('LICENSE', 'test/lint/words.py')
WORDS = re.compile(r'(?<![a-z])(%s)(?![a-z])' % '|'.join(re.escape(word) for word, _ in sorted(BANNED, key=lambda row: -len(row[0]))), re.I)


def faults(text):
    for number, line in enumerate(text.split('\n'), 1):
        for found in WORDS.finditer(ALLOWED.sub('', line)):
            yield number, found[1], dict(BANNED)[found[1].lower()]


def main():
    root = sys.argv[1]
    assert [word for _, word, _ in faults('a sc_card_list of multiprocessors, atomic wildcards; held against\nDEAR')] == ['card', 'held against', 'DEAR']
    names = subprocess.run(['git', '-C', root, 'ls-files'], capture_output=True, text=True, check=True).stdout.splitlines()
    wrong = []
    for name in names:
        wrong += ['%s: the name has "%s": %s' % (name, word, instead) for _, word, instead in faults(name)]
        path = os.path.join(root, name)
        if name in EXCEPT or os.path.islink(path) or not os.path.exists(path):
            continue
        with open(path, 'rb') as file:
            data = file.read()
        if b'\0' not in data:
            wrong += ['%s:%d: "%s": %s' % (name, line, word, instead) for line, word, instead in faults(data.decode('utf-8', 'replace'))]
    if wrong:
        sys.exit('\n'.join(wrong))
    print('%d files' % len(names))


if __name__ == '__main__':
    main()
