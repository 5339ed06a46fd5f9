"""svg.py logs FOLDER: writes logs: long.log of 3000 steps, short.log of 40 with a resumed end, odd.log with losses that are no numbers,
one.log of a step, 'a&<b>".log' with a name that XML minds.
svg.py check SVG LINES: the picture is XML; texts are in it and do not overlap; ticks are round and evenly spaced; there are so many lines of
losses."""
import json
import math
import os
import re
import sys
import xml.etree.ElementTree as ET

NS = '{http://www.w3.org/2000/svg}'


def line(step, **more):
    values = {'step': step, 'loss': 2 + 9 * math.exp(-step / 300) + 0.1 * math.sin(step), 'grad_norm': 1 + 50 * math.exp(-step / 20), 'lr': 0.1,
              'tokens': 8, 'seconds': 1.0, 'tokens_per_second': 1e5 + 100 * math.cos(step), 'tflops': 1.0, 'metrics': {}, 'data_wait': 0.0}
    return json.dumps(dict(values, **more)) + '\n'


def logs(folder):
    def write(name, text):
        with open(os.path.join(folder, name), 'w') as file:
            file.write(text)

    write('long.log', ''.join(line(s) + ('{"step":%d,"eval_loss":%r}\n' % (s, 3.0 + 1 / s) if s % 500 == 0 else '') for s in range(1, 3001)))
    # a run that was resumed at step 20, and is writing its last line
    write('short.log', ''.join(line(s, loss=100.0) for s in range(1, 31)) + ''.join(line(s) for s in range(20, 41)) + '{"step":41,"lo')
    write('odd.log', ''.join(line(s, loss=loss, grad_norm='inf', skipped=True) if loss else line(s) for s, loss in
                             ((1, None), (2, 'nan'), (3, None), (4, 'inf'), (5, '-inf'), (6, None), (7, None))))
    write('one.log', line(1))
    write('a&<b>".log', line(1) + line(2))


def box(text):
    """An estimate that a usual font keeps to: seven tenths of its size a letter."""
    size = 13 if 'title' in text.get('class') else 12
    width, x, y = 0.56 * size * len(''.join(text.itertext())), float(text.get('x')), float(text.get('y'))
    x -= {'end': width, 'middle': width / 2}.get(text.get('text-anchor'), 0)
    return x, y - 0.8 * size, x + width, y + 0.25 * size


def number(label):
    return float(label.rstrip('kMGT')) * {'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}.get(label[-1], 1)


def is_round(step):
    return abs(round(step / 10 ** math.floor(math.log10(step) + 1e-9)) - step / 10 ** math.floor(math.log10(step) + 1e-9)) < 1e-6 and \
        round(step / 10 ** math.floor(math.log10(step) + 1e-9)) in (1, 2, 5)


def check(path, lines):
    root = ET.parse(path).getroot()
    width, height = float(root.get('width')), float(root.get('height'))
    texts = root.findall(NS + 'text')
    boxes = [box(t) for t in texts]
    for i, a in enumerate(boxes):
        assert 0 <= a[0] and a[2] <= width and 0 <= a[1] and a[3] <= height, (texts[i].text, a, width, height)
        for j, b in enumerate(boxes[:i]):
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3], (texts[i].text, texts[j].text)
    ticks = [t for t in texts if t.get('class') == 'soft']
    steps = [number(t.text) for t in ticks if t.get('text-anchor') == 'middle']
    assert 2 <= len(steps) <= 12 and is_round(steps[1] - steps[0]), steps
    assert all(abs((b - a) - (steps[1] - steps[0])) < 1e-6 for a, b in zip(steps, steps[1:])), steps
    panels, last = [[]], math.inf
    for tick in (t for t in ticks if t.get('text-anchor') == 'end'):
        y = float(tick.get('y'))
        if y > last:
            panels.append([])
        panels[-1].append(number(tick.text))
        last = y
    for values in panels:
        assert 2 <= len(values) <= 10, values
        differences = [b - a for a, b in zip(values, values[1:])]
        is_linear = max(differences) - min(differences) < 1e-6 * abs(values[-1]) + 1e-9
        assert (is_linear and is_round(differences[0])) or all(is_round(v) for v in values), values
    style = root.find(NS + 'style').text
    assert 'prefers-color-scheme:dark' in style
    top = min(float(re.match(r'M\S+ (\S+)V', p.get('d'))[1]) for p in root.findall(NS + 'path') if p.get('class') == 'frame')
    drawn = [p for p in root.findall(NS + 'path') if re.fullmatch(r'c\d line( held)?', p.get('class')) and 'L' in p.get('d') and
             all(top - 0.01 <= float(y) <= top + 320.01 for y in re.findall(r'[ML]\S+? (\d+\.\d+)', p.get('d')))]
    assert len(drawn) == lines, len(drawn)
    for p in drawn:
        assert len(re.findall('[ML]', p.get('d'))) < 2000


if sys.argv[1] == 'logs':
    logs(sys.argv[2])
else:
    check(sys.argv[2], int(sys.argv[3]))
