"""Files whose windows are numbered, for numbered.shard: window w of S = 4 tokens is the id w four times.

windows.py write FILE.bin FIRST COUNT [u32]: such a file. A last id ends the last window's targets.
windows.py bytes FILE FIRST COUNT: the same as bytes.
windows.py read LOG [MICRO_BATCHES]: prints a line a step with the windows that it read: both rows', or with micro-batches their sum.
windows.py once LOG WINDOWS EPOCHS: every epoch of the log reads windows 0 .. WINDOWS - 1 once, and in another order.
windows.py without LOG HELD WINDOWS: the log, of whole epochs, reads all windows but HELD, as often as each other.
windows.py mixed LOG FIRST:COUNT:SHARE..: parts are read by their shares, and each window of a part once in its epochs.
windows.py losses LOG..: the logs have the same losses within rounding."""
import collections
import json
import struct
import sys

S, B = 4, 2


def numbered(first, count):
    return [w for w in range(first, first + count) for _ in range(S)] + [first + count]


def lines(path):
    return [line for line in map(json.loads, open(path)) if 'loss' in line]


def rows(path):
    """The windows of each step, from the sums that the entry returns."""
    for line in lines(path):
        second = line['metrics']['second'] / S
        first = line['metrics']['read'] / S - second
        assert first == int(first) and second == int(second), line
        yield int(first), int(second)


def flat(path):
    return [window for pair in rows(path) for window in pair]


def once(path, windows, epochs):
    read = flat(path)
    assert len(read) == windows * epochs, len(read)
    orders = [tuple(read[e * windows:(e + 1) * windows]) for e in range(epochs)]
    for order in orders:
        assert sorted(order) == list(range(windows)), order
    assert len(set(orders)) == epochs
    for line, (first, second) in zip(lines(path), rows(path)):
        # the last target of a window is the first id of the next
        assert line['metrics']['targets'] == (S * first + 1) + 2 * (S * second + 1), line


def without(path, held, windows):
    counts = collections.Counter(flat(path))
    assert len(counts) == windows - held and len(set(counts.values())) == 1, counts


def mixed(path, parts):
    read, seen = flat(path), 0
    for part in parts:
        first, count, share = part.split(':')
        first, count, share = int(first), int(count), float(share)
        own = [window for window in read if first <= window < first + count]
        seen += len(own)
        assert abs(len(own) - share * len(read)) < 4 * (len(read) * share * (1 - share)) ** 0.5, (part, len(own))
        for epoch in range(len(own) // count):
            assert sorted(own[epoch * count:(epoch + 1) * count]) == list(range(first, first + count)), part
    assert seen == len(read)


def main(verb, path, *rest):
    if verb == 'write':
        with open(path, 'wb') as file:
            file.write(b''.join(struct.pack('<I' if 'u32' in rest else '<H', i) for i in numbered(int(rest[0]), int(rest[1]))))
    elif verb == 'bytes':
        with open(path, 'wb') as file:
            file.write(bytes(numbered(int(rest[0]), int(rest[1]))))
    elif verb == 'read' and rest:
        for line in lines(path):
            print('%d' % (line['metrics']['read'] * int(rest[0]) / S))
    elif verb == 'read':
        for pair in rows(path):
            print('%d %d' % pair)
    elif verb == 'once':
        once(path, int(rest[0]), int(rest[1]))
    elif verb == 'without':
        without(path, int(rest[0]), int(rest[1]))
    elif verb == 'mixed':
        mixed(path, rest)
    else:
        all_losses = [[line['loss'] for line in lines(p)] for p in (path, *rest)]
        assert all(abs(a - b) < 1e-5 for other in all_losses for a, b in zip(all_losses[0], other, strict=True)), all_losses


main(*sys.argv[1:])
