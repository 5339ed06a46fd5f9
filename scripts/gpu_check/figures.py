"""How fast: programs beside a copy on the same GPU and cuBLASLt alone, one at a time."""
import json
import time

from . import programs
from .common import Failed, lines_of_json

# Goals: a kernel's share of the rate of a copy, a matmul's of cuBLASLt's alone; TFLOP/s; tokens/s. Kernels that move less than
# LEAST_BYTES a call say more of launches than of memory: they have no goal. No kernel is faster than MOST_SHARE of a copy: a larger share
# means that its bytes are counted wrongly, or that it finds them in the cache.
COPY_GOAL, GEMM_GOAL, ATTENTION_GOAL, GPT2_GOAL = 0.85, 0.95, 330, 400e3
MOST_SHARE = 1.1
LEAST_BYTES = 32 << 20
LEAST_SHARE = 0.002  # of the time: what takes less is no row


def tune(check, name):
    """Where programs measure algorithms of their matmuls and keep the fastest, they have done so."""
    if name not in check.tuned and '\n  tune ' in check.program(name, '--help'):
        check.program(name, 'tune', limit=60)
    check.tuned.add(name)


def bench(check, name, *more, limit=60):
    tune(check, name)
    return lines_of_json(check.program(name, 'bench', '--json', *more, limit=limit))[-1]


def measure_rates(check, seconds, *more):
    words = ['--seconds', '0.002' if check.quick else seconds, *more]
    return json.loads(check.command(check.tool('bench', 'cuda_rates'), *words, limit=60))


def copy_rate(check):
    """Bytes read and written a second; measured once."""
    if check.copied is None:
        check.copied = measure_rates(check, '1', '--copy', '1' if check.quick else '2048')['copy']
    return check.copied


def rates(check):
    def work():
        words = '%.1f GB/s' % (copy_rate(check) / 1e9)
        check.row('copy of 2 GiB on the GPU, read and written' if not check.quick else 'copy of 1 MiB', words)
        return words

    check.step('figure', 'rate of a copy', work)


def profile(check, name, limit=60):
    """Rows of what takes the time: its kind, what, its share of it, seconds a call, bytes and operations a call."""
    rows, items = [], bench(check, name, '--profile', '--steps', '2' if check.quick else '6', limit=limit)['profile']['all']
    total = sum(item['total'] for item in items)
    for item in items:
        rows.append({'kind': item['kind'], 'what': item['what'], 'share': item['total'] / total, 'seconds': item['total'] / item['calls'],
                     'bytes': item.get('bytes', 0), 'flops': item.get('flops', 0)})
    return rows


def profile_rows(check, name, limit=60):
    rows = [row for row in profile(check, name, limit) if check.quick or row['share'] >= LEAST_SHARE]
    gemms = [row for row in rows if row['kind'] == 'gemm']
    for row in rows:
        if row['kind'] == 'kernel':
            kernel_row(check, name, row)
    if gemms:
        for row, alone in zip(gemms, measure_rates(check, '0.1', *(row['what'] for row in gemms))['gemms']):
            gemm_row(check, name, row, alone)
    return '%d rows, %.0f %% of the time' % (len(rows), 100 * sum(row['share'] for row in rows))


def time_of(row):
    return '%.1f us, %.1f %% of the time' % (1e6 * row['seconds'], 100 * row['share'])


def verdict(share, goal, bytes_moved, quick):
    """(goal, reached) of a kernel's row."""
    if bytes_moved < (0 if quick else LEAST_BYTES):
        return None, None
    return 'at least %.2f' % goal, 'suspicious: a copy is slower' if share > MOST_SHARE else share >= goal


def kernel_row(check, name, row):
    share = row['bytes'] / row['seconds'] / copy_rate(check)
    check.row('%s: `%s`, %.1f MB' % (name, row['what'], row['bytes'] / 1e6), '%.2f of a copy; %s' % (share, time_of(row)),
              *verdict(share, COPY_GOAL, row['bytes'], check.quick))


def gemm_row(check, name, row, alone):
    if 'seconds' not in alone:
        check.row('%s: `%s`' % (name, row['what']), '%s; cuBLASLt alone: %s' % (time_of(row), alone['refused']))
        return
    share = alone['seconds'] / row['seconds']
    rate = alone['flops'] / row['seconds'] / 1e12
    check.row('%s: `%s`' % (name, row['what']), '%.2f of cuBLASLt alone, %.4g TFLOP/s; %s' % (share, rate, time_of(row)),
              'at least %.2f' % GEMM_GOAL, share >= GEMM_GOAL)


def kernels(check):
    if check.has('kernels'):
        check.step('figure', 'kernels by a copy', lambda: profile_rows(check, 'kernels'))


def attention(check):
    for name in ('attention-128', 'attention-64', 'attention-128-step', 'attention-64-step'):
        if check.has(name):
            check.step('figure', name, lambda name=name: attention_rows(check, name))


def attention_flops(sizes, is_forward):
    """Of a query as many keys count as it sees, (S + 1) / 2 of S; forward are two matmuls, backward five."""
    return 2 * sizes['B'] * sizes['H'] * sizes['S'] * (sizes['S'] + 1) / 2 * sizes['E'] * (2 if is_forward else 5)


def attention_rows(check, name):
    sizes = programs.MEASURED[name].sizes(check.quick)
    found = 0
    for row in profile(check, name):
        if row['what'] not in ('attend', 'attend_grad'):
            continue
        found += 1
        is_forward = row['what'] == 'attend'
        rate = attention_flops(sizes, is_forward) / row['seconds'] / 1e12
        has_goal = name == 'attention-128' and is_forward
        check.row('%s, head_dim %d, S %d, causal' % (name, sizes['E'], sizes['S']) + (', forward' if is_forward else ', backward'),
                  '%.4g TFLOP/s' % rate, 'at least %d TFLOP/s' % ATTENTION_GOAL if has_goal else None,
                  rate >= ATTENTION_GOAL if has_goal else None)
        check.ours['attention-%d-%s' % (sizes['E'], 'forward' if is_forward else 'backward')] = rate
    if not found:
        raise Failed('the profile has no attention')


def tokens_rows(check, name, what, steps, goal, unit, turns=2):
    """With graphs and without, in turns, so that what the machine does falls on both: the better of `turns` each."""
    best, failed = {}, {}
    for _ in range(1 if check.quick else turns):
        for more in ((), ('--no-graph',)):
            try:
                got = bench(check, name, *steps, *more, limit=60)
            except Failed as failure:
                failed[more] = '%s: %s' % ('without graphs' if more else 'with graphs', failure)
                continue
            if more not in best or got['tokens_per_second'] > best[more]['tokens_per_second']:
                best[more] = got
    for more, got in best.items():
        tokens_row(check, '%s, %s' % (name + ', small' if check.quick else what, 'without graphs' if more else 'with graphs'), got,
                   None if more else goal, unit)
        check.ours[name] = max(check.ours.get(name, 0), got['tokens_per_second'])
    if failed:
        raise Failed('; '.join(failed.values()))


def tokens_row(check, what, got, goal, unit):
    rate = got['tokens_per_second']
    words = ['%.0f tokens/s' % rate, '%.4g ms a %s' % (1e3 * got['median'], unit)]
    if 'tflops' in got:
        words.append('%.4g TFLOP/s' % got['tflops'])
    if 'parameter_rate' in got:
        words.append('parameters are read at %.2f of a copy\'s rate' % (got['parameter_rate'] / copy_rate(check)))
    check.row(what, ', '.join(words), 'at least %.0f' % goal if goal else None, rate >= goal if goal else None)


def train_rows(check, name, what, goal=None, steps=21, turns=2):
    words = ('--steps', 3 if check.quick else steps)
    if check.has(name):
        check.step('figure', name + ': steps', lambda: tokens_rows(check, name, what, words, goal, 'step', turns))
        check.step('figure', name + ': what takes the time', lambda: profile_rows(check, name))


def gpt2(check):
    train_rows(check, 'gpt2', 'GPT-2 124M trains, B 32, S 1024, bf16', GPT2_GOAL)


def llama(check):
    train_rows(check, 'llama', 'Llama 3.2 1B trains, B 4, S 2048, bf16', steps=11, turns=1)  # most of the time draws 1.2e9 numbers


def decode(check):
    steps = ('--steps', 1, '--max-tokens', 8 if check.quick else 256)
    for name, what in (('gpt2-decode', 'GPT-2 124M decodes, a row'), ('llama-decode', 'Llama 3.2 1B decodes, a row')):
        if not check.has(name):
            continue
        check.step('figure', name, lambda name=name, what=what: tokens_rows(check, name, what, steps, None, 'token'))
        check.step('figure', name + ', sampling', lambda name=name, what=what: sampling_row(check, name, what))


def sampling_row(check, name, what):
    """Tokens that are drawn, not the likeliest: what `generate` takes for its tokens, without its start."""
    tokens = [4, 12] if check.quick else [64, 960]
    seconds = [generate_seconds(check, name, count) for count in tokens]
    rate = (tokens[1] - tokens[0]) / max(seconds[1] - seconds[0], 1e-9)
    check.row('%s, sampling (temperature 0.8, top-k 40)' % (name + ', small' if check.quick else what), '%.0f tokens/s' % rate)


def generate_seconds(check, name, tokens):
    best = None
    for _ in range(1 if check.quick else 2):
        begin = time.monotonic()
        check.program(name, 'generate', '--prompt', '1', '--max-tokens', tokens, '--temperature', '0.8', '--top-k', '40', '--format', 'json')
        taken = time.monotonic() - begin
        best = taken if best is None else min(best, taken)
    return best
