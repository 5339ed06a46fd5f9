#!/usr/bin/env python3
"""caches.py SHARDC: what others put into a cache of compiled kernels, and what is left of compiles that were killed. The numbers are right in
every case; what is not the user's alone is not used; nothing outside the cache is written or removed; caches do not grow without end."""
import glob
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

MODEL = '''lang 1;
dim B = 4, D = 8;
model m {
  param w[D] = normal(0.5);
  entry f(t: i32[B]) -> [B, D] { x = cast(t, f32) * 0.25 + w; return tanh(x) * 1.5 + exp(x * %s); }
}
'''


class Place:
    def __init__(self, shardc, folder):
        self.shardc, self.folder = os.path.abspath(shardc), folder
        self.models = 0
        self.wanted = {}
        with open(os.path.join(folder, 'data'), 'wb') as file:
            file.write(bytes(range(64)))

    def model(self):
        """The path of one that was not compiled before."""
        self.models += 1
        path = os.path.join(self.folder, 'm%d.shard' % self.models)
        with open(path, 'w') as file:
            file.write(MODEL % (0.01 * self.models))
        return path

    def start(self, model, cache, cwd=None, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith('SHARDC_')}
        env.update({'SHARDC_CFLAGS': '-O1', 'SHARDC_CACHE': cache}, **more)
        return subprocess.Popen([self.shardc, 'eval', model, '--data', os.path.join(self.folder, 'data'), '-o', model + '.out'],
                                cwd=cwd or self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, model, cache, code=0, **more):
        process = self.start(model, cache, **more)
        out, error = process.communicate()
        if process.returncode != code:
            sys.exit('exit code %d, not %d\n%s%s' % (process.returncode, code, out, error))
        if code == 0:
            with open(model + '.out', 'rb') as file:
                found = file.read()
            if self.wanted.setdefault(model, found) != found:
                sys.exit('%s has other numbers' % model)
        return '\n'.join(line for line in error.splitlines() if '[initial_weights]' not in line)

    def cache(self, mode=0o700):
        path = tempfile.mkdtemp(dir=self.folder)
        os.chmod(path, mode)
        return path


def entries(cache, ending=''):
    return sorted(path for path in glob.glob(os.path.join(cache, '*' + ending)) if len(os.path.basename(path).split('.')[0]) == 32)


def expect(condition, what):
    if not condition:
        sys.exit('not so: ' + what)


def foreign_entries(p):
    """Each kept file in turn is a link, may be written by others, belongs to somebody else, is a folder or a pipe, or damaged."""
    model, cache = p.model(), p.cache()
    p.run(model, cache)
    kept = entries(cache)
    expect(len(kept) >= 3 and all(os.stat(path).st_mode & 0o777 == 0o600 for path in kept), 'kept files are the user\'s alone')
    victim = os.path.join(p.folder, 'victim')

    def link(path):
        shutil.copy(path, victim)
        os.remove(path)
        os.symlink(victim, path)

    def pipe(path):
        os.remove(path)
        os.mkfifo(path)

    def folder(path):
        os.remove(path)
        os.mkdir(path)

    def flip(path):
        with open(path, 'r+b') as file:
            data = bytearray(file.read())
            data[len(data) // 3] ^= 4
            file.seek(0)
            file.write(data)

    def remove_linked(but):
        """Where the linked object is kept, nobody reads the others."""
        for path in entries(cache, '.so'):
            if path != but:
                os.remove(path)

    ways = [link, pipe, folder, flip, lambda path: os.chmod(path, 0o666), lambda path: os.truncate(path, 10)]
    if os.geteuid() == 0:
        ways.append(lambda path: os.chown(path, 12345, 12345))
    count = 0
    for way in ways:
        for index in range(len(kept)):
            with open(victim, 'wb') as file:
                file.write(b'')
            remove_linked(kept[index])
            way(kept[index])
            before = open(victim, 'rb').read()
            p.run(model, cache)
            expect(open(victim, 'rb').read() == before, 'nothing is written through a link')
            count += 1
            if os.path.isdir(kept[index]):  # what is in the way stays, and is not used
                os.rmdir(kept[index])
                remove_linked(kept[index])
                p.run(model, cache)
            about = os.lstat(kept[index])
            expect(stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_mode & 0o022 == 0, 'it is made anew')
    return count


def foreign_folders(p):
    model = p.model()
    cache = p.cache(0o777)
    expect('other users may write it' in p.run(model, cache) and not os.listdir(cache), 'a folder that others may write is not used')
    if os.geteuid() == 0:
        cache = p.cache()
        os.chown(cache, 12345, 12345)
        expect('belongs to another user' in p.run(model, cache) and not os.listdir(cache), 'a folder of somebody else is not used')
    missing = os.path.join(p.cache(), 'a', 'b')
    expect(p.run(model, missing) == '' and os.stat(missing).st_mode & 0o777 == 0o700, 'a folder that is made is the user\'s alone')
    os.mkdir(os.path.join(p.folder, 'here'))
    for name in ('-oevil', '@evil', '--help'):
        expect(p.run(p.model(), name, cwd=os.path.join(p.folder, 'here')) == '', 'a folder may be called %s' % name)
    expect(sorted(os.listdir(os.path.join(p.folder, 'here'))) == ['--help', '-oevil', '@evil'], 'no option came of it')


def killed_compiles(p):
    """The compiler waits; its parent is killed."""
    cache, slow = p.cache(), os.path.join(p.folder, 'slow')
    with open(slow, 'w') as file:
        file.write('#!/bin/sh\ncase "$*" in *--version*) ;; *) touch %s.began; sleep 2;; esac\nexec cc "$@"\n' % slow)
    os.chmod(slow, 0o755)
    process = p.start(p.model(), cache, SHARDC_CC=slow)
    while not os.path.exists(slow + '.began'):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    expect(glob.glob(os.path.join(cache, 'shardc-*')), 'a kill leaves a folder')
    other = p.start(p.model(), cache, SHARDC_CC=slow)  # one that lives must not be taken for a leftover
    p.run(p.model(), cache)
    expect(len(glob.glob(os.path.join(cache, 'shardc-*'))) <= 1, 'the leftover goes')
    out, error = other.communicate()
    expect(other.returncode == 0, 'a compile that lives is left alone: ' + error)
    p.run(p.model(), cache)
    expect(not glob.glob(os.path.join(cache, '*shardc-*')), 'nothing is left')


def sizes(p):
    model, cache = p.model(), p.cache()
    p.run(model, cache, SHARDC_CACHE_SIZE='0')
    expect(entries(cache) == [], 'nothing is kept where nothing may be')
    old, new, foreign = (os.path.join(cache, name) for name in ('0' * 32 + '.o', '1' * 32 + '.o', 'precious'))
    for path, age in ((old, 1000), (new, 10), (foreign, 5000)):
        with open(path, 'wb') as file:
            file.truncate(700 << 10)
        os.utime(path, (time.time() - age, time.time() - age))
    p.run(model, cache, SHARDC_CACHE_SIZE='1')
    expect(not os.path.exists(old) and os.path.exists(new) and os.path.exists(foreign), 'what was not used for longest goes, and nothing else')
    expect(sum(os.path.getsize(path) for path in entries(cache)) <= 1 << 20, 'the size is a limit')
    for wrong in ('-1', '1x', '99999999999999999999', '1.5'):
        expect("SHARDC_CACHE_SIZE is '%s'" % wrong in p.run(p.model(), cache, code=7, SHARDC_CACHE_SIZE=wrong), 'numbers do not wrap')


def together(p):
    """Compiles of the same and of other models, in a cache that drops everything at once."""
    cache, models = p.cache(), [p.model() for _ in range(3)]
    for model in models:
        p.run(model, p.cache())
    for size in ('0', '4096'):
        running = [p.start(model, cache, SHARDC_CACHE_SIZE=size) for model in models for _ in range(2)]
        for process in running:
            out, error = process.communicate()
            expect(process.returncode == 0, error)
        for model in models:
            p.run(model, cache, SHARDC_CACHE_SIZE=size)


def main():
    with tempfile.TemporaryDirectory() as folder:
        p = Place(sys.argv[1], folder)
        count = foreign_entries(p)
        foreign_folders(p)
        killed_compiles(p)
        sizes(p)
        together(p)
    print('%d files of a cache changed by others, 0 used' % count)


if __name__ == '__main__':
    main()
