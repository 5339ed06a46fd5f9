"""follow_advice.py FILE PLAN SHARDC..: does what `explain` advises for each collective, on the text of the file, and looks whether
`comm` still has it. Prints how many collectives there were, how many edits were followed, and what did not come out."""
import json
import os
import subprocess
import sys
import tempfile


def result(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return json.loads(done.stdout)['collectives']


def apply(text, advice):
    """At the byte where the statement, or the plan's closing brace, stands."""
    lines = text.split(b'\n')
    place = sum(len(line) + 1 for line in lines[:advice['line'] - 1]) + advice['column'] - 1
    new = (advice['new'] or '').encode()
    if advice['edit'] == 'add':
        assert text[place:place + 1] == b'}', text[place:place + 20]
        return text[:place] + new + b' ' + text[place:]
    old = advice['old'].encode()
    assert text[place:].startswith(old), (text[place:place + 40], old)
    return text[:place] + new + text[place + len(old):]


def key(row):
    return row['op'], row['scope'], row['value']


def main():
    path, plan, shardc = sys.argv[1], sys.argv[2], sys.argv[3:]
    text = open(path, 'rb').read()
    before = result(shardc + ['explain', path, '--plan', plan, '--format', 'json'])
    asked, followed = {}, 0
    for row in before:
        asked.setdefault(key(row), row['advice'])
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, 'edited.shard')
        for name, first in asked.items():
            for advice in [first, (first or {}).get('leaner')]:
                if advice is None:
                    continue
                open(copy, 'wb').write(apply(text, advice))
                after = result(shardc + ['comm', copy, '--plan', plan, '--format', 'json'])
                sent = None if after is None else round(sum(row['sent'] * row['count'] for row in after))
                if after is None or any(key(row) == name for row in after):
                    print('still there:', name, advice)
                elif abs(sent - advice['sent'][1]) > len(after):
                    print('sends %d:' % sent, name, advice)
                followed += 1
    print('%d collectives, %d without advice, %d edits followed' % (len(asked), sum(a is None for a in asked.values()), followed))


main()
