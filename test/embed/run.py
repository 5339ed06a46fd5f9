#!/usr/bin/env python3
"""run.py BUILD: what an application sees. Installs the build into a folder of its own; a project finds it there by its CMake package, and a
plain compiler call by pkg-config; both run. The libraries give out what the public headers declare, and nothing else."""
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, '..', '..'))


def run(*command, env=None):
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    if result.returncode != 0:
        sys.exit('%s\n%s%s' % (' '.join(command), result.stdout, result.stderr))
    return result.stdout


def declared():
    names = set()
    for header in glob.glob(os.path.join(ROOT, 'include', 'shardc', '*.h')):
        text = re.sub(r'/\*.*?\*/', '', open(header).read(), flags=re.S)
        names |= set(re.findall(r'^SHARDC_API[^(;]*?(\w+)\(', text, re.M))
    return names


def foreign_names():
    """Names of the public headers that have the prefix of internal ones."""
    text = ''.join(open(header).read() for header in glob.glob(os.path.join(ROOT, 'include', 'shardc', '*.h')))
    return sorted(set(re.findall(r'\b(?:sc_|SC_)\w+', text)))


def examples_of_headers(prefix, folder, flags):
    """The examples in the headers' comments, which are whole functions, compile as they are."""
    count = 0
    for header in sorted(glob.glob(os.path.join(prefix, 'include', 'shardc', '*.h'))):
        lines = re.findall(r'^ \*(?:     (.*)|)$', open(header).read(), re.M)
        text = '\n'.join(lines)
        if '#include' not in text:
            continue
        source = os.path.join(folder, os.path.basename(header) + '.c')
        with open(source, 'w') as file:
            file.write(text[text.index('#include'):] + '\n')
        run('cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-c', source, '-o', source + '.o', *flags)
        count += 1
    return count


def given_out(library):
    return {line.split()[2] for line in run('nm', '-D', '--defined-only', library).splitlines()}


def check(what, got, wanted):
    if got != wanted:
        sys.exit('%s:\ngot    %s\nwanted %s' % (what, got, wanted))


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        prefix, project = os.path.join(folder, 'installed'), os.path.join(folder, 'project')
        run('cmake', '--install', build, '--prefix', prefix)
        lib = os.path.dirname(glob.glob(os.path.join(prefix, 'lib*', '**', 'libshardc.so'), recursive=True)[0])
        env = dict(os.environ, LD_LIBRARY_PATH=lib, PKG_CONFIG_PATH=os.path.join(lib, 'pkgconfig'))

        check('names of the public headers without their prefix', foreign_names(), [])
        share = os.path.join(prefix, 'share')
        for kind, source, pattern in (('doc/shardc/docs', 'docs', '*.md'), ('shardc/examples', 'examples', '*'), ('shardc/editors', 'editors', '*')):
            names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(ROOT, source, pattern)) if os.path.isfile(path))
            there = os.listdir(os.path.join(share, kind))
            check('share/%s lacks' % kind, [name for name in names if name not in there], [])
        run(os.path.join(prefix, 'bin', 'shardc'), 'check', os.path.join(share, 'shardc', 'examples', 'mlp.shard'))
        check('libshardc.so', sorted(given_out(os.path.join(lib, 'libshardc.so'))), sorted(declared()))
        compiler_only = {'shardc_compile', 'shardc_compile_free', 'shardc_version'}
        check('libshardc_runtime.so', sorted(given_out(os.path.join(lib, 'libshardc_runtime.so'))), sorted(declared() - compiler_only))

        run('cmake', '-S', HERE, '-B', project, '-DCMAKE_PREFIX_PATH=' + prefix, '-DEXAMPLES=' + os.path.join(ROOT, 'examples'))
        run('cmake', '--build', project)
        results = [run(os.path.join(project, 'infer'), env=env)]
        run(os.path.join(project, 'ring'), env=env)

        flags = run('pkg-config', '--cflags', '--libs', 'shardc', env=env).split()
        check('headers with an example', examples_of_headers(prefix, folder, flags), 2)
        program = os.path.join(folder, 'infer')
        run('cc', os.path.join(ROOT, 'examples', 'infer_embed.c'), '-o', program, *flags, env=env)
        results.append(run(program, env=env))
        for text in results:
            check('infer_embed', text.splitlines()[-1:], ['y = 112 120 128 136, 0 0 0 0'])
    print('embedded by CMake and by pkg-config; %d functions given out' % len(declared()))


if __name__ == '__main__':
    main()
