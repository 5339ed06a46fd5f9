"""Results of a program here beside those of the interpreter elsewhere."""
import json
import struct

from .common import Failed

CODES = {'F64': 'd', 'F32': 'f', 'I32': 'i', 'I64': 'q', 'U8': 'B', 'F16': 'e'}


def tensors(path):
    with open(path, 'rb') as file:
        data = file.read()
    begin = 8 + struct.unpack('<Q', data[:8])[0]
    result = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name == '__metadata__':
            continue
        raw = data[begin + entry['data_offsets'][0]:begin + entry['data_offsets'][1]]
        if entry['dtype'] == 'BF16':
            result[name] = struct.unpack('<%df' % (len(raw) // 2), b''.join(b'\0\0' + raw[i:i + 2] for i in range(0, len(raw), 2)))
        else:
            code = CODES[entry['dtype']]
            result[name] = struct.unpack('<%d%s' % (len(raw) // struct.calcsize(code), code), raw)
    return result


def log_values(path):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return {'step %d, %s' % (line['step'], key): [line[key]] for line in lines if 'step' in line for key in ('loss', 'grad_norm')
            if key in line}


def same(wanted, got):
    with open(wanted) as a, open(got) as b:
        if json.load(a) != json.load(b):
            raise Failed('the results are not the same')
    return 0


def compare(kind, wanted, got, tolerance):
    """The largest difference by the largest element of its tensor."""
    if kind == 'same':
        return same(wanted, got)
    read = tensors if kind == 'tensors' else log_values
    a, b = read(wanted), read(got)
    if not a or a.keys() != b.keys():
        raise Failed('%s, and not %s' % (', '.join(b) or 'nothing', ', '.join(a) or 'nothing'))
    worst = 0
    for name, values in a.items():
        scale = max(map(abs, values), default=0) or 1
        if len(values) != len(b[name]):
            raise Failed('%s has %d elements, not %d' % (name, len(b[name]), len(values)))
        for i, (x, y) in enumerate(zip(values, b[name])):
            if not abs(x - y) <= tolerance * scale:
                raise Failed('%s, element %d: %.9g, not %.9g; allowed is %.1e' % (name, i, y, x, tolerance * scale))
            worst = max(worst, abs(x - y) / scale)
    return worst
