"""documents.py write FILE.bin EOS ID..: u16 ids, and the .json beside them that names EOS (none if -).
documents.py segments LOG.json FILES EOS: eval's metrics are the sums over the first batch that documents of these files (A.bin+B.bin) have.
documents.py alike A.st B.st FIRST: the scores of two evals agree from this position of the row on, and only there."""
import json
import struct
import sys

B, S = 2, 8


def write(path, eos, *ids):
    with open(path, 'wb') as file:
        file.write(struct.pack('<%dH' % len(ids), *map(int, ids)))
    if eos != '-':
        with open(path[:-4] + '.json', 'w') as file:
            json.dump({'dtype': 'u16', 'eos': int(eos)}, file)


def segments(path, files, eos):
    ids, starts = [], set()
    for name in files.split('+'):
        data = open(name, 'rb').read()
        starts.add(len(ids))
        ids += struct.unpack('<%dH' % (len(data) // 2), data)
    parts = begins = 0
    for row in range(B):
        segment = position = 0
        for i in range(S):
            at = row * S + i
            if i > 0 and (ids[at - 1] == int(eos) or at in starts):
                segment, position = segment + 1, 0
            parts += segment * (i + 1)
            begins += position * (i + 1)
            position += 1
    outputs = json.load(open(path))['outputs']
    assert outputs[2:] == [parts, begins], (outputs, parts, begins)


def scores(path):
    data = open(path, 'rb').read()
    length, = struct.unpack('<Q', data[:8])
    return struct.unpack('<%df' % ((len(data) - 8 - length) // 4), data[8 + length:])


def alike(a, b, first):
    a, b = scores(a), scores(b)
    each = len(a) // (B * S)
    for i in range(S):
        same = a[i * each:(i + 1) * each] == b[i * each:(i + 1) * each]
        assert same == (i >= int(first)), i


{'write': write, 'segments': segments, 'alike': alike}[sys.argv[1]](*sys.argv[2:])
