#!/usr/bin/env python3
"""environment.py SHARDC ROOT: docs/environment.md has the variables that the program lists, with the same words; and every variable that a
source reads under a name that begins with SHARDC_ is in the list, which has no others of that name."""
import glob
import json
import os
import re
import subprocess
import sys

FOLDERS = ['support', 'program', 'ir', 'frontend', 'passes', 'codegen', 'runtime', 'tools']


def main():
    shardc, root = sys.argv[1:]
    said = json.loads(subprocess.run([shardc, 'help', 'environment', '--format', 'json'], capture_output=True, check=True).stdout)
    listed = [(row['name'], row['values'], row['default'], row['meaning']) for row in said['environment']]
    page = open(os.path.join(root, 'docs', 'environment.md')).read()
    rows = [tuple(cell.strip().strip('`') for cell in line.strip('|').split('|')) for line in re.findall(r'^\| `.*$', page, re.M)]
    wrong = ['docs/environment.md lacks %s' % ' | '.join(row) for row in listed if row not in rows]
    wrong += ['docs/environment.md has a row of its own: %s' % ' | '.join(row) for row in rows if row not in listed]
    read = set()
    for folder in FOLDERS:
        for path in glob.glob(os.path.join(root, folder, '**', '*.[ch]'), recursive=True):
            read |= set(re.findall(r'"(SHARDC_[A-Z_]+)"', open(path).read()))
    ours = {row[0] for row in listed if row[0].startswith('SHARDC_')}
    wrong += ['support/environment.def lacks %s, which a source reads' % name for name in sorted(read - ours)]
    wrong += ['%s is in support/environment.def, but no source reads it' % name for name in sorted(ours - read)]
    if wrong or not rows:
        sys.exit('\n'.join(wrong) or 'docs/environment.md has no rows')


if __name__ == '__main__':
    main()
