#!/usr/bin/env python3
"""format.py CLANG_FORMAT ROOT: C is formatted as .clang-format says. CUDA headers (.cu.h) are texts of their own and stay as they are."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CHUNK = 40


def files(root):
    names = subprocess.run(['git', '-C', root, 'ls-files', '*.c', '*.h', '*.inc'], capture_output=True, text=True, check=True).stdout
    return [name for name in names.splitlines() if not name.endswith('.cu.h') and os.path.exists(os.path.join(root, name))]


def faults(tool, root, arguments, text=None):
    """The lines that clang-format would change, as FILE:LINE."""
    ran = subprocess.run([tool, '--style=file', '--dry-run', '--Werror', *arguments], cwd=root, input=text, capture_output=True, text=True)
    found = sorted({':'.join(line.split(':')[:2]) for line in ran.stderr.splitlines() if '[-Wclang-format-violations]' in line})
    if ran.returncode != 0 and not found:
        sys.exit(ran.stderr)
    return found


def main():
    tool, root = sys.argv[1], os.path.abspath(sys.argv[2])
    assert faults(tool, root, ['--assume-filename=planted.c'], 'int right;\nint  wrong;\n') == ['planted.c:2']
    names = files(root)
    chunks = [names[i:i + CHUNK] for i in range(0, len(names), CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = sum(pool.map(lambda chunk: faults(tool, root, chunk), chunks), [])
    if wrong:
        sys.exit('\n'.join([*wrong, 'clang-format -i FILE mends these']))
    print('%d files' % len(names))


if __name__ == '__main__':
    main()
