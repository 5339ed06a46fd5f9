#!/usr/bin/env python3
"""many_views.py SHARDC-OPT COUNT: a value is widened, renamed COUNT times and rounded back, on a stack that has no room for a frame each."""
import resource
import subprocess
import sys

STACK = 512 << 10


def module(count):
    lines = ['shardc.ir 1', 'states shapes placed reshards_explicit', 'dim S', 'dim T = alias S', '', 'func @f {',
             '  %0 = input {name = "x"} : bf16[S=4]', '  %1 = cast %0 : f32[S=4]']
    for i in range(count):
        old, new = ('S', 'T') if i % 2 == 0 else ('T', 'S')
        lines.append('  %%%d = rename[%s -> %s] %%%d : f32[%s=4]' % (i + 2, old, new, i + 1, new))
    lines += ['  %%%d = cast %%%d : bf16[S=4]' % (count + 2, count + 1), '  return %%%d' % (count + 2), '}', '']
    return '\n'.join(lines)


def main():
    opt, count = sys.argv[1], int(sys.argv[2])
    result = subprocess.run([opt, '--passes', 'fold-views,drop-dead', '-'], input=module(count), capture_output=True, text=True,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK)))
    casts, views = result.stdout.count('cast'), result.stdout.count('rename[')
    if result.returncode != 0 or casts != 0 or views != count:
        sys.exit('exit code %d, %d casts, %d views\n%s' % (result.returncode, casts, views, result.stderr))


if __name__ == '__main__':
    main()
