"""bench.py PROG: the lines that its bench prints, as bench/gpt2_vs_torch.py reads them; info as JSON."""
import json
import subprocess
import sys


def lines(*args):
    run = subprocess.run([sys.argv[1], *args], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{')]


got = lines('bench', '--json', '--steps', '3', '--gemms-only')
steps = [line for line in got if 'seconds' in line]
assert [line['step'] for line in steps] == [0, 1, 2], got
assert all(line['seconds'] > 0 and line['cpu'] > 0 for line in steps)
assert all(0 < line['gemm_seconds'] < line['seconds'] + 1 for line in steps)
assert 4 < steps[0]['loss'] < 7, steps[0]
assert got[-1]['steps'] == 2 and got[-1]['least'] <= got[-1]['median'] and got[-1]['peak_rss'] > 1 << 20, got[-1]
(speed,) = lines('bench', '--json', '--calibrate')
assert speed['gflops'] > 0.01, speed
run = subprocess.run([sys.argv[1], 'info', '--format', 'json'], capture_output=True, text=True, check=True)
info = json.loads(run.stdout)
assert info['ranks'] == 2 and info['trains'] and info['mesh'] == [{'axis': 'dp', 'size': 2}], info
assert {state['name'] for state in info['states']} >= {'tok', 'tok.m', 'tok.v', 'layers[1].w2', 'optimizer0.lr'}, info
