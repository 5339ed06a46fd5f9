#!/usr/bin/env python3
"""comma_locale.py BUILD SOURCE: numbers are the same in every locale. Locales whose decimal point is a comma, and one of two bytes, are made
by localedef; a library that calls setlocale is loaded into the commands, as an application that embeds shardc would call it. Whatever the
commands print and write, sources, IR, JSON, logs, weights, results of training, must be the same to the byte as without; and so must what
the examples print, which embed the libraries. Only what a clock measured may differ, and it must be a number with a point."""
import filecmp
import os
import re
import subprocess
import sys
import tempfile

LOCALES = [('de_DE', 'UTF-8', ','), ('ps_AF', 'UTF-8', '\u066b')]

SHIM = r'''
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((constructor)) static void comma(void)
{
    char text[16];
    if (setlocale(LC_ALL, "") == NULL)
        abort();
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (strstr(text, getenv("EXPECTED_POINT")) == NULL)
        abort();
}
'''

MODEL = '''lang 1;
dim B = 4, S = 8, V = 32, D = 16, F = 48;
model m {
  param tok[V, D] = normal(0.02), w1[D, F] = normal(0.125), w2[F, D] = normal(1.5e-2), scale[D] = uniform(0.25, 1.75);
  entry loss(t: i32[B, S], y: i32[B, S]) -> f32[] {
    x = gather[V](tok, t) * 1.5 + 2.5e-3;
    h = dot[F](gelu(dot[D](x, w1) * 0.3333), w2) * scale;
    l = dot[D](h + x, tok);
    return mean[B, S](xent[V](l, y));
  }
}
minimize m.loss with adamw(lr = cosine(1.5e-2, warmup = 2, total = 9), decay = 0.1);
plan one for m { }
plan two for m { mesh dp = 2; shard B over dp; expect memory() <= 2 MiB; }
'''


# What the console of training measures: speeds, the time that is left, and lines before the last, which only a slow run prints.
MEASURED = re.compile(r', [0-9.]+(e\+[0-9]+)? tokens/s|, [0-9.]+ [kMGTPE]?FLOP/s|, ETA [0-9:]+|^step .*\n(?=step )', re.M)


def run(folder, env, *command, fails=False):
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    if (result.returncode != 0) != fails:
        sys.exit('%s ended with %d\n%s%s' % (' '.join(command), result.returncode, result.stdout, result.stderr))
    return MEASURED.sub('', result.stdout + result.stderr)


def tree(folder):
    return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)


def work(build, folder, env):
    """Everything that prints or reads numbers; what it printed, by command."""
    shardc, said = os.path.join(build, 'shardc'), {}
    os.makedirs(folder)
    with open(os.path.join(folder, 'm.shard'), 'w') as file:
        file.write(MODEL)
    with open(os.path.join(folder, 'tokens'), 'wb') as file:
        file.write(bytes((i * i * 7 + i // 3) % 32 for i in range(4000)))

    def say(*command, fails=False):
        said[' '.join(command)] = run(folder, env, *command, fails=fails)

    for plan in ('one', 'two'):
        say(shardc, 'ir', 'm.shard', '--plan', plan)
        say(shardc, 'kernels', 'm.shard', '--plan', plan, '-o', 'kernels_' + plan)
        say(shardc, 'kernels', 'm.shard', '--plan', plan, '--target', 'cuda:sm_80', '-o', 'cuda_' + plan)
        say(shardc, 'memory', 'm.shard', '--plan', plan, '--format', 'json')
    say(shardc, 'check', 'm.shard')
    say(shardc, 'fmt', 'm.shard')
    say(shardc, 'explain', 'm.shard', '--plan', 'two')
    say(shardc, 'comm', 'm.shard', '--plan', 'two', '--format', 'json')
    say(shardc, 'verify', 'm.shard', '--plan', 'two')
    with open(os.path.join(folder, 'final.shir'), 'w') as file:
        file.write(run(folder, env, shardc, 'ir', 'm.shard', '--plan', 'two'))
    say(os.path.join(build, 'shardc-opt'), '--verify-roundtrip', 'final.shir')
    say(shardc, 'train', 'm.shard', '--plan', 'two', '--data', 'tokens', '--steps', '4', '--set', 'decay=0.25,beta1=8.5e-1', '--save',
        'w.safetensors', '--format', 'json')
    say(shardc, 'train', 'm.shard', '--plan', 'one', '--data', 'tokens', '--steps', '2', '--set', 'decay=0,25', fails=True)
    say(shardc, 'train', 'm.shard', '--plan', 'one', '--interpret', '--data', 'tokens', '--steps', '3')
    say(shardc, 'eval', 'm.shard', '--plan', 'one', '--entry', 'loss', '--data', 'tokens', '--weights', 'w.safetensors')
    say(shardc, 'build', 'm.shard', '--plan', 'two', '-o', 'prog')
    say('./prog', 'info', '--format', 'json')
    say('./prog', 'train', '--data', 'tokens', '--steps', '4', '--weights', 'w.safetensors', '--set', 'decay=0.5', '--save', 'v.safetensors')
    for example in ('infer_embed', 'train_embed'):
        said[example] = run(folder, {k: v for k, v in env.items() if k != 'POSIXLY_CORRECT'}, os.path.join(build, 'examples', example))
    return said


def compare(name, plain, other, folders):
    # the examples are applications: what they print themselves has the locale's comma
    point = dict((n, p) for n, _, p in LOCALES)[name]
    for command, text in plain.items():
        found = other[command].replace(point, '.') if command.endswith('_embed') else other[command]
        wanted = text.replace(',', '.') if command.endswith('_embed') and point == ',' else text
        if found != wanted:
            sys.exit('%s says something else in %s:\n%s\nwithout:\n%s' % (command, name, other[command], text))
    if tree(folders[0]) != tree(folders[1]):
        sys.exit('other files in %s' % name)
    different = filecmp.cmpfiles(folders[0], folders[1], tree(folders[0]), shallow=False)
    if different[1] or different[2]:
        sys.exit('other bytes in %s: %s' % (name, ', '.join(different[1] + different[2])))
    return len(plain), len(different[0])


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        base = {k: v for k, v in os.environ.items() if not k.startswith('LC_') and k not in ('LANG', 'LANGUAGE')}
        # a cache of each run's own: kernels are compiled under the locale, too
        plain = work(build, os.path.join(folder, 'plain'), dict(base, LC_ALL='C', SHARDC_CACHE=os.path.join(folder, 'cache')))
        with open(os.path.join(folder, 'comma.c'), 'w') as file:
            file.write(SHIM)
        shim = os.path.join(folder, 'comma.so')
        run(folder, base, 'cc', '-shared', '-fPIC', '-o', shim, 'comma.c')
        counts = []
        for name, charset, point in LOCALES:
            full = '%s.%s' % (name, charset)
            run(folder, base, 'localedef', '-i', name, '-f', charset, os.path.join(folder, full))
            env = dict(base, LOCPATH=folder, LC_ALL=full, LD_PRELOAD=shim, EXPECTED_POINT=point,
                       SHARDC_CACHE=os.path.join(folder, 'cache'))
            here = os.path.join(folder, name)
            counts.append((name, compare(name, plain, work(build, here, env), (os.path.join(folder, 'plain'), here))))
        for name, (commands, files) in counts:
            print('%s: %d commands say the same, %d files are the same' % (name, commands, files))


if __name__ == '__main__':
    main()
