#!/usr/bin/env python3
"""memory.py SHARDC: every command under limits of its address space, from what hardly loads it to what is plenty. A command ends with code 0
and the same result, or with code 7 or 70 and a message: never by a signal, never with code 0 and another result."""
import os
import resource
import subprocess
import sys
import tempfile

MODEL = '''lang 1;
dim B = 2, S = 16, D = 32, V = 256, L = 8;
block layer(x[B, S, D]) -> [B, S, D] { param w[D, D2]; return x + dot[D2](tanh(dot[D](x, w)), w); }
dim D2 = 32;
model m {
  param tok[V, D] = normal(0.5), head[D, V] = normal(0.5);
  sub layers: layer * L;
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] {
    x = gather[V](tok, t);
    repeat L { x = layers(x); }
    return mean[B, S](xent[V](dot[D](x, head), y));
  }
}
minimize m.loss with adamw(lr = 0.01);
plan two for m { mesh dp = 2; shard B over dp; }
'''

# MiB; below the first nothing but the system's loader speaks
STEPS = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 28, 32, 64]


def run(folder, mib, command):
    def limit():
        if mib:
            resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
    env = dict(os.environ, SHARDC_CFLAGS='-O1', OMP_NUM_THREADS='2')
    result = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, preexec_fn=limit, env=env)
    return result.returncode, result.stdout, result.stderr.decode('utf-8', 'replace')


def is_loader(code, error):
    """The system could not even load the program or one of its libraries, or start libgomp, which allocates 8 bytes before main begins."""
    return (code == 127 and 'error while loading shared libraries' in error) or (code == 1 and error.strip() == 'libgomp: Out of memory allocating 8 bytes')


def main():
    shardc = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'm.shard'), 'w') as file:
            file.write(MODEL)
        with open(os.path.join(folder, 'data'), 'wb') as file:
            file.write(bytes(i * 7 % 256 for i in range(4000)))
        commands = [[shardc, 'check', 'm.shard'], [shardc, 'ir', 'm.shard'], [shardc, 'comm', 'm.shard', '--format', 'json'],
                    [shardc, 'memory', 'm.shard'], [shardc, 'explain', 'm.shard'], [shardc, 'kernels', 'm.shard', '--target', 'cuda:sm_80'],
                    [shardc, 'verify', 'm.shard'], [shardc, 'verify', 'm.shard', '--compiled'], [shardc, 'eval', 'm.shard', '--entry', 'loss', '--data', 'data'],
                    [shardc, 'train', 'm.shard', '--data', 'data', '--steps', '3', '--format', 'json'],
                    [shardc, 'build', 'm.shard', '-o', 'prog'], ['./prog', 'info'], ['./prog', 'train', '--data', 'data', '--steps', '3']]
        wrong, counts = [], {}
        for command in commands:
            code, wanted, error = run(folder, 0, command)
            if code != 0:
                sys.exit('%s: %d\n%s' % (' '.join(command), code, error))
            for mib in STEPS:
                code, out, error = run(folder, mib, command)
                if is_loader(code, error):
                    continue
                counts[code] = counts.get(code, 0) + 1
                good = out == wanted if code == 0 else code in (7, 70) and error.strip() != ''
                if not good:
                    wrong.append('%s with %d MiB: %d\n%s%s' % (' '.join(command[:2]), mib, code, out[-200:], error[-600:]))
            run(folder, 0, [shardc, 'build', 'm.shard', '-o', 'prog'])
        print(', '.join('%d with code %s' % (counts[code], code) for code in sorted(counts)))
        if wrong:
            sys.exit('\n'.join(wrong))


if __name__ == '__main__':
    main()
