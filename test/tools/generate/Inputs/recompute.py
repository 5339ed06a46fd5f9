"""recompute.py SHARDC MODEL TOKENS.json PROMPT..: what generate gave is what the whole text, computed anew for every token, gives."""
import json
import os
import struct
import subprocess
import sys
import tempfile


def write_tokens(path, ids):
    header = json.dumps({'t': {'dtype': 'I32', 'shape': [1, len(ids)], 'data_offsets': [0, 4 * len(ids)]}}).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(header)) + header + struct.pack('<%di' % len(ids), *ids))


def last_logits(path):
    data = open(path, 'rb').read()
    size, = struct.unpack('<Q', data[:8])
    entry = json.loads(data[8:8 + size])['out0']
    assert entry['dtype'] == 'F32', entry
    values = struct.unpack('<%df' % ((len(data) - 8 - size) // 4), data[8 + size:])
    return values[-entry['shape'][-1]:]


shardc, model, made, *prompts = sys.argv[1:]
rows = json.load(open(made, encoding='utf-8'))['tokens']
assert len(rows) == len(prompts)
with tempfile.TemporaryDirectory() as folder:
    given, got = os.path.join(folder, 'in.safetensors'), os.path.join(folder, 'out.safetensors')
    for prompt, row in zip(prompts, rows):
        ids = list(prompt.encode())
        assert row
        for token in row:
            write_tokens(given, ids)
            subprocess.run([shardc, 'eval', model, '--plan', 'none', '--entry', 'whole', '--interpret', '--bind', 'B=1,S=%d' % len(ids),
                            '--input', 't=' + given, '-o', got], check=True, stdout=subprocess.DEVNULL)
            logits = last_logits(got)
            wanted = max(range(len(logits)), key=lambda i: (logits[i], -i))
            assert token == wanted, (prompt, row, token, wanted)
            ids.append(token)
