#!/usr/bin/env python3
"""tidy.py CLANG_TIDY BUILD ROOT [FILE..]: the checks of .clang-tidy find nothing in the C files that BUILD compiles, or in these.
test/unit is left out: the analyzer does not see that a failed assert of cmocka ends the test."""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# The analyzer stops in a function after so many states: a bound in work, so that every machine finds the same.
STATES = 20000
FOR_GCC = re.compile(r' (-fno-thread-jumps)\b')  # which clang refuses
FINDING = re.compile(r'^(.*:\d+:\d+: (?:error|warning): .*|error: .*)$', re.M)
PLANTED = 'int planted(int *p);\nint planted(int *p)\n{\n    return p == 0 ? *p : (*p | *p);\n}\n'


def commands(build, root):
    """What compiles each C file of ROOT that git knows."""
    known = subprocess.run(['git', '-C', root, 'ls-files', '*.c'], capture_output=True, text=True, check=True).stdout.splitlines()
    known, found = {os.path.join(root, name) for name in known if not name.startswith('test/unit/')}, {}
    with open(os.path.join(build, 'compile_commands.json')) as file:
        for command in json.load(file):
            if command['file'] in known:
                found.setdefault(command['file'], {**command, 'command': FOR_GCC.sub('', command['command'])})
    return found


def check(tool, root, folder, path):
    ran = subprocess.run([tool, '-p', folder, '--quiet', '--config-file=' + os.path.join(root, '.clang-tidy'), '--extra-arg=-Xclang',
                          '--extra-arg=-analyzer-config', '--extra-arg=-Xclang', '--extra-arg=max-nodes=%d' % STATES, path],
                         capture_output=True, text=True)
    found = FINDING.findall(ran.stdout)
    if ran.returncode != 0 and not found:
        return [ran.stdout + ran.stderr]
    # what a system's header is blamed for is of no use
    return [line.replace(root + os.sep, '') for line in found if not line.startswith('/usr/')]


def main():
    tool, build, root = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    table = commands(build, root)
    paths = [os.path.abspath(path) for path in sys.argv[4:]] or sorted(table)
    with tempfile.TemporaryDirectory() as folder:
        planted = os.path.join(folder, 'planted.c')
        with open(planted, 'w') as file:
            file.write(PLANTED)
        table[planted] = {'directory': folder, 'command': 'cc -c planted.c', 'file': planted}
        with open(os.path.join(folder, 'compile_commands.json'), 'w') as file:
            json.dump(list(table.values()), file)
        seen = '\n'.join(check(tool, root, folder, planted))
        assert 'core.NullDereference' in seen and 'misc-redundant-expression' in seen, seen
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = set(sum(pool.map(lambda path: check(tool, root, folder, path), paths), []))
    if found:
        sys.exit('\n'.join(sorted(found)))
    print('%d files' % len(paths))


if __name__ == '__main__':
    main()
