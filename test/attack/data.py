#!/usr/bin/env python3
"""data.py SHARDC: files of data that are no files, that change while a run reads them, and ids that a model has no row for. Nothing waits for
ever, nothing ends by a signal: each is a message that names the file, and exit code 7."""
import os
import resource
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

    def accepted(self, *options, limit=None):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        process = self.start(*options)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        out, error = process.communicate(timeout=120)
        if process.returncode != 0:
            sys.exit('%s: exit code %d\n%s%s' % (options, process.returncode, out, error))

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


def texts(p, path, write):
    """Lines of JSON, descriptions of ids, folders and patterns that are not what they seem."""
    steps = ('--steps', '1')
    good = b'{"text": "' + bytes(i % 26 + 65 for i in range(100)) + b'"}\n'
    for line, why in ((b'{"text": "a', 'it is no JSON'), (b'[]', 'it is not a JSON object'), (b'"text"', 'it is'), (b'{"body": "a"}', 'it has no "text"'),
                      (b'{"text": 5}', 'its "text" is not a string'), (b'{"text": null}', 'its "text" is not a string'), (b'{"text": "\xff"}', 'it is no JSON'),
                      (b'{"text": "\\ud800"}', 'it is no JSON'), (b'[' * 100000, 'it is no JSON'), (b'\x00', 'it is no JSON'), (b'{"text": "a"} {}', 'it is no JSON'),
                      (b'{"text": "a"' + b' ' * 3000000, 'it is no JSON')):
        write('lines.jsonl', good * 3 + b'\n' + line + b'\n' + good)
        p.refused('lines.jsonl:5: ' + why, '--data', 'lines.jsonl', *steps)
    write('lines.jsonl', good * 50 + b'\r\n  \n' + b'{"text": "' + b'THE' * 1000000 + b'"}')
    p.accepted('--data', 'lines.jsonl', *steps)
    write('lines.jsonl', b'\n \n')
    p.refused('lines.jsonl (ids of 16 bits): 0 tokens', '--data', 'lines.jsonl', *steps)
    write('lines.jsonl', b'{"a": "", "b": 5}\n' * 100)
    p.refused('0 tokens', '--data', 'lines.jsonl', '--field', 'a', *steps)
    for name in ('none.json', 'm.shard', 'folder', 'empty', 'pipe'):
        p.refused(name, '--data', 'good', '--tokenizer', name, *steps)

    # the description of ids
    write('ids.bin', struct.pack('<40H', *range(40)))
    p.accepted('--data', 'ids.bin', *steps)
    for text, why in ((b'', 'ids.json:'), (b'{', 'ids.json:'), (b'[]', 'it is not a JSON object'), (b'{"dtype": "u8"}', '"dtype" is not'), (b'{"dtype": 4}', '"dtype" is not'),
                      (b'{"dtype": "u16", "dtype": "u32"}', 'ids.json:'), (b'{"tokens": -1}', '"tokens" is not'), (b'{"eos": 1e3}', '"eos" is not an id'),
                      (b'{"eos": 4294967296}', '"eos" is not an id'), (b'{"tokens": 41}', 'says 41 tokens, but it has 40'),
                      (b'{"dtype": "u32", "tokens": 40}', 'says 40 tokens, but it has 20'), (b'{"a": "' + b'x' * (1 << 21) + b'"}', 'too large')):
        write('ids.json', text)
        p.refused(why, '--data', 'ids.bin', *steps)
    write('ids.json', b'{"more": [1, {}], "dtype": "u16", "tokens": 40, "eos": null}')
    p.accepted('--data', 'ids.bin', *steps)
    write('ids.bin.json', b'{}')
    p.refused('ids.bin.json and ids.json are beside it', '--data', 'ids.bin', *steps)
    os.remove(path('ids.bin.json'))
    os.remove(path('ids.json'))
    os.symlink('ids.json', path('ids.json'))
    p.refused('ids.json cannot be read', '--data', 'ids.bin', *steps)
    os.remove(path('ids.json'))
    os.mkfifo(path('ids.json'))
    p.refused('not a regular file', '--data', 'ids.bin', *steps)
    os.remove(path('ids.json'))
    write('odd.bin', struct.pack('<40H', *range(40))[:-1])
    p.refused('79 bytes are no whole number of 16-bit ids', '--data', 'odd.bin', *steps)

    # folders and patterns
    os.makedirs(path('deep/in/side'))
    os.symlink('..', path('deep/loop'))
    os.symlink('../deep', path('deep/more.txt'))
    p.refused('no .bin, .txt or .jsonl file', '--data', 'deep', *steps)
    os.symlink('self', path('self'))
    for name in ('self', 'deep/self.txt'):
        if name != 'self':
            os.symlink('self.txt', path(name))
        p.refused(os.strerror(40), '--data', os.path.dirname(name) or name, *steps)
    os.remove(path('deep/self.txt'))
    os.mkfifo(path('deep/pipe.bin'))
    p.refused('not a regular file', '--data', 'deep', *steps)
    os.remove(path('deep/pipe.bin'))
    p.refused('no file matches', '--data', 'deep/*.none', *steps)
    p.refused('no file matches', '--data', 'deep/[', *steps)
    p.refused('empty', '--data', 'good,,good', *steps)
    p.refused('empty', '--data', '', *steps)
    p.refused('', '--data', 'good,deep/*/*/*/*/*/*/*/none', *steps)
    write('deep/a.txt', b'A' * 50)
    p.accepted('--data', 'deep', *steps)
    p.accepted('--data', 'deep/loop/deep/loop/deep', *steps)


def many_files(p, path, write):
    """More files than may be open."""
    os.mkdir(path('many'))
    for i in range(300):
        write('many/%03d.txt' % i, bytes([i % 100]) * 10)
    p.accepted('--data', 'many', '--steps', '700', limit=200)


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
        texts(p, path, write)
        many_files(p, path, write)
        print('%d runs refused' % p.count)


if __name__ == '__main__':
    main()
