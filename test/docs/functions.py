#!/usr/bin/env python3
"""functions.py ROOT: docs/language.md names every op of the language in its tables of operations."""
import os
import re
import sys


def source(root, *name):
    with open(os.path.join(root, *name)) as file:
        return file.read()


def main():
    root = sys.argv[1]
    names = re.findall(r'^LANG(?:_TO)?\((\w+),', source(root, 'frontend', 'elaborate', 'lang_ops.def'), re.M)
    names += re.findall(r'^OP\((\w+),.* (?:number|numbers|bools), ', source(root, 'ir', 'ops', 'ops.def'), re.M)
    rows = re.findall(r'^\| .*', source(root, 'docs', 'language.md'), re.M)
    words = set(re.findall(r'\w+', ' '.join(code for row in rows for code in re.findall(r'`([^`]*)`', row))))
    missing = [name for name in names if name not in words]
    for name in missing:
        print('docs/language.md: no table of operations names %s' % name)
    print('%d ops, %d missing' % (len(names), len(missing)))
    return len(missing) > 0


if __name__ == '__main__':
    sys.exit(main())
