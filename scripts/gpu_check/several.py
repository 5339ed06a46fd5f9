"""What only several GPUs show: ranks that have one each, NCCL between them."""
import os
import signal
import socket
import subprocess
import time

from .common import Failed, LeftOut, lines_of_json
from .compare import log_values

# Of a collective's bytes in a group of two, how many pass a GPU's link: NCCL's bus bandwidth.
BUS = {'all_reduce': 1.0, 'all_gather': 0.5, 'reduce_scatter': 0.5}
LOSSES = (('several-one', ('several-fsdp2', 'several-tp2', 'several-pp2')), ('several-lm-one', ('several-lm-dp',)))
TOLERANCE = 1e-5


def count_gpus(check):
    if check.about['gpus'] < 2:
        raise LeftOut('there is one GPU')
    return '%d' % check.about['gpus']


def losses(check, reference, name):
    logs = [os.path.join(check.work, n + '.log') for n in (reference, name)]
    for log, program in zip(logs, (reference, name)):
        if not os.path.exists(log):
            check.program(program, 'train', '--data', check.text, '--steps', 5, '--log', log, limit=60)
    wanted, got = map(log_values, logs)
    apart = max(abs(wanted[k][0] - got[k][0]) / abs(wanted[k][0]) for k in wanted if k.endswith('loss'))
    if not apart <= TOLERANCE:
        raise Failed('losses differ by %.1e of those of one GPU; allowed are %.0e' % (apart, TOLERANCE))
    return 'losses within %.1e of those of one GPU' % apart


def bandwidths(check, name):
    steps = ('--steps', '2' if check.quick else '8')
    profile = lines_of_json(check.program(name, 'bench', '--json', '--profile', *steps, limit=60))[-1]['profile']['all']
    told = []
    for item in profile:
        if item['kind'] == 'comm' and item['what'] in BUS and item.get('bytes', 0) >= (1 if check.quick else 1 << 20):
            seconds = item['least'] or item['total'] / item['calls']
            rate = BUS[item['what']] * item['bytes'] / max(seconds, 1e-12) / 1e9
            told.append('%s %.1f GB/s' % (item['what'], rate))
            check.row('two GPUs: %s of %.1f MB' % (item['what'], item['bytes'] / 1e6), '%.1f GB/s of bus bandwidth' % rate)
    if not told:
        raise Failed('the profile has no collective')
    return ', '.join(told)


def killed(check, name):
    """A process a rank; one is killed in the middle. The other has to end, by itself, with a message that names the lost one."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    words = [check.unpacked(name), 'train', '--data', check.text, '--steps', '1000000', '--deadline', '5000']
    ranks = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=check.work, start_new_session=True,
                              env=dict(check.env, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE='2', MASTER_ADDR='127.0.0.1',
                                       MASTER_PORT=str(port))) for rank in range(2)]
    try:
        time.sleep(6)
        if any(rank.poll() is not None for rank in ranks):
            raise Failed('a rank ended before it was killed: %s' % ' / '.join(r.stderr.read().strip()[-300:] for r in ranks if r.poll() is not None))
        os.kill(ranks[1].pid, signal.SIGKILL)
        begin = time.monotonic()
        _, text = ranks[0].communicate(timeout=check.left(40))
        if ranks[0].returncode == 0 or 'rank 1' not in text:
            raise Failed('rank 0 ends with %d and says: %s' % (ranks[0].returncode, text.strip()[-300:]))
        return 'rank 0 ends %.1f s later: %s' % (time.monotonic() - begin, text.strip().splitlines()[-1][:200])
    except subprocess.TimeoutExpired:
        raise Failed('rank 0 does not end when rank 1 is killed') from None
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()


def step(check):
    if not check.step('check', 'several GPUs', lambda: count_gpus(check))['ok']:
        return
    for reference, names in LOSSES:
        for name in names:
            if check.has(name) and check.has(reference):
                check.step('check', 'losses of %s on two GPUs' % name, lambda r=reference, n=name: losses(check, r, n))
    for name in ('several-all_reduce', 'several-all_gather'):
        if check.has(name):
            check.step('figure', name, lambda name=name: bandwidths(check, name))
    check.step('check', 'a rank is killed', lambda: killed(check, 'several-lm-dp'))
