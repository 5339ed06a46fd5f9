#!/usr/bin/env python3
"""files_have_a_place.py ROOT: each source file is in one group of "Where things are" in docs/hacking.md, and each group has files. In a row
a name without a folder is in that of the name before it."""
import glob
import os
import re
import sys

FOLDERS = ['include/shardc', 'support', 'ir', 'frontend', 'passes', 'codegen', 'codegen/cuda', 'runtime', 'runtime/drive', 'runtime/mpi', 'tools',
           'tools/prog']


def groups(text):
    table = text.split('## Where things are', 1)[1].split('\n## ', 1)[0]
    for row in table.splitlines():
        folder = ''
        for name in re.findall(r'`([^`]+)`', row.split('|')[1]) if row.startswith('| `') else []:
            top, _, rest = name.partition('/')
            folder, name = (top, rest) if top in (f.split('/')[0] for f in FOLDERS) and rest else (folder, name)
            yield os.path.join(folder, name)


def main():
    root = sys.argv[1]
    patterns = list(groups(open(os.path.join(root, 'docs', 'hacking.md')).read()))
    found = {pattern: set(glob.glob(pattern, root_dir=root)) for pattern in patterns}
    files = {path for folder in FOLDERS for path in glob.glob(folder + '/*', root_dir=root) if os.path.isfile(os.path.join(root, path))}
    wrong = ['%s is in no group' % path for path in sorted(files - set().union(*found.values()))]
    wrong += ['%s: no file is called so' % pattern for pattern in patterns if not found[pattern]]
    for path in sorted(files):
        places = [pattern for pattern in patterns if path in found[pattern]]
        if len(places) > 1:
            wrong.append('%s is in %s' % (path, ' and in '.join(places)))
    if not patterns or wrong:
        sys.exit('\n'.join(wrong) or 'docs/hacking.md has no groups')


if __name__ == '__main__':
    main()
