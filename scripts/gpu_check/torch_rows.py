"""The same figures by PyTorch, where it is installed, and ours beside them. Each has a limit of its own, so that a slow torch.compile takes
no other's time; what needs no compiling comes first."""
import os
import sys

from .common import Failed, LeftOut, lines_of_json, run

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'in_torch.py')
# What in_torch.py is asked, seconds, which of ours it is beside.
TOKENS = (('gpt2', (), 40, 'gpt2'), ('llama', (), 50, 'llama'), ('decode', (), 25, 'gpt2-decode'), ('gpt2', ('--compile',), 80, 'gpt2'),
          ('decode', ('--compile',), 60, 'gpt2-decode'), ('llama', ('--compile',), 80, 'llama'))


def ask(check, what, more, limit):
    """By the Python and the libraries that PyTorch was installed for: nothing of ours is put before them."""
    small = ('--device', 'cpu', '--small') if check.quick else ()
    return lines_of_json(run([sys.executable, PROGRAM, what, *more, *small], check.left(limit), cwd=check.work))[-1]


def versions(check):
    try:
        found = ask(check, 'versions', (), 30)
    except Failed as why:
        if "No module named 'torch'" in str(why):
            raise LeftOut('PyTorch is not installed') from None
        raise
    if not found['gpu'] and not check.quick:
        raise LeftOut('PyTorch %s sees no GPU' % found['torch'])
    words = 'PyTorch %s, CUDA %s, cuDNN %s' % (found['torch'], found['cuda'], found['cudnn'])
    check.row('compared with', words)
    return words


def beside(check, name, theirs):
    ours = check.ours.get(name)
    return '; ours is %.2f times that' % (ours / theirs) if ours else '; ours was not measured'


def tokens(check, what, more, limit, name):
    got = ask(check, what, more, limit)
    rate = got['tokens_per_second']
    words = '%.0f tokens/s%s%s' % (rate, ', %.1f GiB' % (got['memory'] / 2**30) if got.get('memory') else '', beside(check, name, rate))
    check.row('PyTorch: %s, %s' % (what, 'torch.compile' if more else 'eager'), words)
    return words


def attention(check):
    for key, rate in ask(check, 'attention', (), 40).items():
        head, way, backend = key.split('-')
        words = rate if isinstance(rate, str) else '%.4g TFLOP/s%s' % (rate, beside(check, 'attention-%s-%s' % (head, way), rate))
        check.row('PyTorch: attention, head_dim %s, %s, %s' % (head, way, backend), words)


def matmul(check):
    for sizes, rate in ask(check, 'matmul', (), 30).items():
        check.row('PyTorch: bf16 matmul %s' % sizes, '%.4g TFLOP/s' % rate)


def step(check):
    if not check.step('figure', 'PyTorch', lambda: versions(check))['ok']:
        return
    check.step('figure', 'PyTorch: attention', lambda: attention(check))
    check.step('figure', 'PyTorch: matmul', lambda: matmul(check))
    for what, more, limit, name in TOKENS:
        check.step('figure', 'PyTorch: %s%s' % (what, ', compiled' if more else ''),
                   lambda row=(what, more, limit, name): tokens(check, *row))
