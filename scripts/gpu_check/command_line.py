"""The steps in their order, and the arguments."""
import argparse
import math
import os
import sys
import tempfile

from . import compared, figures, several, suites, tools, torch_rows, versions
from .check import Check
from .common import ROOT, Failed
from .prepare import Carrier

# Name, seconds that it may take, what it does.
STEPS = (
    ('versions', 30, versions.step),
    ('smoke', 90, compared.smoke),
    ('cases', 90, compared.cases),
    ('acceptance', 90, compared.acceptance),
    ('training', 120, compared.training),
    ('rates', 20, figures.rates),
    ('kernels', 40, figures.kernels),
    ('attention', 60, figures.attention),
    ('gpt2', 90, figures.gpt2),
    ('llama', 120, figures.llama),
    ('decode', 60, figures.decode),
    ('torch', 180, torch_rows.step),
    ('tools', 90, tools.step),
    ('ops', 150, compared.ops),
    ('several', 150, several.step),
)
NAMES = [name for name, _, _ in STEPS]
ALSO = 'cuda:sm_80,cuda:sm_89,cuda:sm_90a,cuda:sm_100a,cuda:sm_120'


def words(text):
    return [word for word in text.split(',') if word]


def parse(about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', metavar='DIR')
    parser.add_argument('--prepare', action='store_true', help='fill DIR, here')
    parser.add_argument('--target', default='cuda:sm_90a', help='of all that is prepared')
    parser.add_argument('--also', type=words, help='targets that smoke and cases are prepared for, too (%s)' % ALSO)
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'), help='the release build that is carried')
    parser.add_argument('--quick', action='store_true', help='prepare few programs of small sizes, for stubs of the libraries')
    parser.add_argument('--only', default=NAMES, type=words, help='steps')
    parser.add_argument('--out', metavar='FILE', help='the table, and all of it as FILE.json, after every row')
    parser.add_argument('--within', metavar='SECONDS', type=float, help='what is not done by then is left out, and said')
    parser.add_argument('--jobs', metavar='N', type=int, default=min(12, os.cpu_count() or 1), help='checks at a time; figures are taken alone')
    options = parser.parse_args()
    for name in options.only:
        if name not in NAMES:
            parser.error('there is no step %s; there are %s' % (name, ', '.join(NAMES)))
    if options.also is None:
        options.also = [] if options.quick else words(ALSO)
    options.also = [target for target in options.also if target != options.target]
    if options.jobs < 1 or not (options.within is None or options.within < math.inf):
        parser.error('--jobs takes a positive number, --within a finite one')
    if not options.prepare and not os.path.exists(os.path.join(options.folder, 'manifest.json')):
        parser.error('%s was not prepared: scripts/gpu-check --prepare %s' % (options.folder, options.folder))
    return options


def check_here(options, work):
    check = Check(options, work)
    try:
        check.about_gpu()
    except Failed as failure:
        print('gpu-check: no GPU answers: %s' % failure, file=sys.stderr)
        return 1
    print('%s, compute capability %s' % (check.about['gpu'], check.about['capability']), flush=True)
    for name, seconds, step in STEPS:
        if name in options.only:
            check.begin(seconds)
            step(check)
    print('\n' + check.table())
    check.save()
    return 1 if any(r['ok'] is False for r in check.results) else 0


def main(about):
    if sys.argv[1:2] == ['--as-shardc']:
        suites.as_shardc(sys.argv[2], sys.argv[3], sys.argv[4:])
    options = parse(about)
    if options.prepare:
        try:
            Carrier(options).prepare()
        except Failed as failure:
            sys.exit('gpu-check: %s' % failure)
        return 0
    with tempfile.TemporaryDirectory() as work:
        return check_here(options, work)
