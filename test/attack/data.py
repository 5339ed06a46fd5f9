#!/usr/bin/env python3
"""data.py SHARDC: files of data that are no files, that change while a run reads them, and ids that a model has no row for. Nothing waits for
ever, nothing ends by a signal: each is a message that names the file, and exit code 7."""
import os
import struct
import subprocess
import sys
import tempfile
import time

MODEL = '''lang 1;
dim B = 2, S = 4, D = 4, V = 100;
model m {
  param tok[V, D], head[D, V];
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] { return mean[B, S](xent[V](dot[D](gather[V](tok, t), head), y)); }
}
minimize m.loss with sgd(lr = 0.1);
plan one for m { }
plan dp for m { mesh dp = 2; shard B over dp; accumulate 1 over B; }
'''


def safetensors(path, tensors):
    header, data = '', b''
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += struct.pack('<%di' % len(values), *values)
        header += '%s"%s":{"dtype":"I32","shape":%s,"data_offsets":[%d,%d]}' % (',' if header else '', name, list(shape), begin, len(data))
    header = ('{%s}' % header).encode()
    header += b' ' * (-len(header) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(header)) + header + data)


class Place:
    def __init__(self, shardc, folder):
        self.shardc, self.folder, self.count = os.path.abspath(shardc), folder, 0

    def start(self, *options, command='train'):
        return subprocess.Popen([self.shardc, command, 'm.shard', '--plan', 'one', *options], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=dict(os.environ, SHARDC_CFLAGS='-O1'))

    def refused(self, wanted, *options, command='train', during=None):
        process = self.start(*options, command=command)
        if during is not None:
            during()
        try:
            out, error = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            sys.exit('%s waits for ever' % (options,))
        if process.returncode != 7 or wanted not in error:
            sys.exit('%s: exit code %d, not 7 with "%s"\n%s%s' % (options, process.returncode, wanted, out, error))
        self.count += 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        p = Place(sys.argv[1], folder)

        def path(name):
            return os.path.join(folder, name)

        def write(name, data):
            with open(path(name), 'wb') as file:
                file.write(data)

        with open(path('m.shard'), 'w') as file:
            file.write(MODEL)
        os.mkfifo(path('pipe'))
        os.mkdir(path('folder'))
        write('empty', b'')
        for name, why in (('pipe', 'not a regular file'), ('/dev/zero', 'not a regular file'), ('/dev/tty', ''), ('folder', ''), ('empty', 'empty'),
                          ('none', 'No such file')):
            p.refused(why, '--data', name, '--steps', '1')
            p.refused(why, '--data', name, command='eval')
            p.refused('', '--input', 't=' + name, '--input', 'y=' + name, command='eval')
            p.refused('', '--data', 'm.shard', '--weights', name, command='eval')
        with open(path('imports.shard'), 'w') as file:
            file.write('lang 1;\nimport "pipe.shard";\n')
        os.mkfifo(path('pipe.shard'))
        for name in ('imports.shard', 'pipe.shard'):
            result = subprocess.run([p.shardc, 'check', name], cwd=folder, capture_output=True, text=True, timeout=60)
            if result.returncode not in (1, 2, 7) or 'pipe.shard' not in result.stderr:
                sys.exit('%s: %d %s' % (name, result.returncode, result.stderr))

        # an id beyond the table: before the first step, with its place
        good = bytes(i % 100 for i in range(4001))
        write('late', good[:3000] + b'\xc8' + good[3001:])
        p.refused("late: token 3000 is 200, but input 't' takes ids of at least 0 and less than 100", '--data', 'late', '--steps', '1')
        p.refused("late: token 3000 is 200", '--data', 'late', command='eval')
        write('good', good)
        p.refused("late: token 3000 is 200", '--data', 'good', '--eval-data', 'late', '--eval-every', '5', '--steps', '9')
        write('wide.bin', struct.pack('<20H', *([5] * 16 + [100] + [5] * 3)))
        p.refused("wide.bin: token 16 is 100, but input 'y'", '--data', 'wide.bin', '--steps', '1')
        safetensors(path('steps'), {'t': ((3, 2, 4), [1] * 20 + [-1] + [1] * 3), 'y': ((2, 4), [2] * 8)})
        p.refused("tensor 't', for step 3: element 4 is -1, but input 't' takes ids", '--input', 't=steps', '--input', 'y=steps', '--steps', '3')

        # files that become shorter while they are read
        def cut(name):
            def during():
                while not os.path.exists(path('log')) or os.path.getsize(path('log')) < 100:
                    time.sleep(0.01)
                os.truncate(path(name), 100)
            return during

        write('shrinks', good)
        p.refused('shrinks, for step', '--data', 'shrinks', '--steps', '100000000', '--log', 'log', during=cut('shrinks'))
        os.remove(path('log'))
        write('held', good * 100)
        p.refused('held, for step', '--data', 'good', '--eval-data', 'held', '--eval-every', '1', '--steps', '100000000', '--log', 'log',
                  during=cut('held'))
        os.remove(path('log'))
        steps = 200000
        safetensors(path('tensors'), {'t': ((steps, 2, 4), [1] * 8 * steps), 'y': ((2, 4), [2] * 8)})
        p.refused("tensor 't' cannot be read: it has become shorter", '--input', 't=tensors', '--input', 'y=steps', '--steps', str(steps), '--log',
                  'log', during=cut('tensors'))
        print('%d runs refused' % p.count)


if __name__ == '__main__':
    main()
