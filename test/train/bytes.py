#!/usr/bin/env python3
"""Trains examples/tiny.shard on a real text and says whether it has learnt: bytes.py SHARDC [TEXT] [--target T] [--steps N] [--only PLAN]
[--list].

The last tenth of the text is held out. The model has to beat a table of bigrams, counted on the rest with one added to every count, on
the same bytes: once over all 256 bytes, as the model sees them, and once over those alone that the text has, which is a better table. Then
the first steps must have the same losses on one device and on meshes: in f64 to 1e-10, in f32 to 1e-6 of the loss.

With a target (--target, or $SHARDC_TEST_TARGET; cuda:sm_90a) all that runs there, and the first steps must also have the CPU's
losses, within the same bounds. --steps N: of these alone so many, without the text being learnt; --only PLAN: of this plan (`none`:
of none).

--list: nothing runs; what shardc would be asked is printed instead, a JSON list a line."""
import argparse
import collections
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
MODEL = os.path.join(ROOT, 'examples', 'tiny.shard')
EXACT = os.path.join(ROOT, 'test', 'train', 'Inputs', 'exact.shard')
STEPS, FIRST = 200, 20
BATCH, WINDOW = 8, 64  # B and S of the model: held-out bytes are read in whole batches


def bigram_loss(known, held, symbols):
    """Mean of -log p(b | a) over the pairs of `held`, p from counts in `known` plus one."""
    pairs, first = collections.Counter(zip(known, known[1:])), collections.Counter(known[:-1])
    terms = [math.log((first[a] + symbols) / (pairs[a, b] + 1)) for a, b in zip(held, held[1:])]
    return sum(terms) / len(terms)


class Run:
    def __init__(self, shardc, folder, known, held, lists):
        self.shardc, self.folder, self.lists = shardc, folder, lists
        self.known, self.held = os.path.join(folder, 'known.txt'), os.path.join(folder, 'held.txt')
        open(self.known, 'wb').write(known)
        open(self.held, 'wb').write(held)

    def train(self, model, plan, steps, target, *more):
        more += ('--target', target) if target else ()
        log = os.path.join(self.folder, plan + '.log')
        if self.lists:
            print(json.dumps(['train', model, '--plan', plan, *more]))
            return [{'loss': 1, 'eval_loss': 1}]
        command = [self.shardc, 'train', model, '--plan', plan, '--data', self.known, '--steps', str(steps), '--log', log, *more]
        ran = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            sys.exit('%s of %s: exit status %d: %s' % (plan, os.path.basename(model), ran.returncode, ran.stderr.strip()[-400:]))
        return [json.loads(line) for line in open(log)]

    def losses(self, model, plan, steps, target):
        return [line['loss'] for line in self.train(model, plan, steps, target)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('shardc')
    parser.add_argument('text', nargs='?', default=os.path.join(ROOT, 'LICENSE'))
    parser.add_argument('--target', default=os.environ.get('SHARDC_TEST_TARGET'))
    parser.add_argument('--steps', type=int, default=0)
    parser.add_argument('--only', metavar='PLAN')
    parser.add_argument('--list', action='store_true')
    arguments = parser.parse_args()
    shardc, target, first_steps = os.path.abspath(arguments.shardc), arguments.target, arguments.steps or FIRST
    text = open(arguments.text, 'rb').read()
    known, held = text[:len(text) * 9 // 10], text[len(text) * 9 // 10:]
    read = (len(held) - 1) // (BATCH * WINDOW) * BATCH * WINDOW + 1
    outcomes = []

    def check(passed, what):
        outcomes.append(passed)
        if not arguments.list:
            print('%s %s' % ('ok  ' if passed else 'FAIL', what))

    with tempfile.TemporaryDirectory() as folder:
        run = Run(shardc, folder, known, held, arguments.list)
        if not arguments.steps:
            lines = run.train(MODEL, 'one', STEPS, target, '--eval-data', run.held, '--eval-every', str(STEPS))
            reached = lines[-1]['eval_loss']
            for symbols, of in ((256, 'all bytes'), (len(set(text)), "the text's own bytes")):
                table = bigram_loss(known, held[:read], symbols)
                check(reached < table, 'held-out loss %.4f after %d steps, bigrams of %s %.4f' % (reached, STEPS, of, table))
        for model, first, others, within in ((EXACT, 'one_f64', ('fsdp_f64', 'tp_f64', 'both_f64', 'stages_f64'), 1e-10),
                                             (MODEL, 'one', ('fsdp2', 'tp2', 'pp2'), 1e-6)):
            plans = [plan for plan in ((first,) if target else ()) + others if arguments.only in (None, plan)]
            wanted = run.losses(model, first, first_steps, None) if plans else []
            for plan in plans:
                apart = max(abs(a - b) / a for a, b in zip(wanted, run.losses(model, plan, first_steps, target)))
                where = ' on %s' % target if target else ''
                check(apart <= within, '%s%s: losses of %d steps within %.1e of those of %s' % (plan, where, first_steps, apart, first))
    if arguments.list:
        return 0
    print('%d passed, %d failed' % (sum(outcomes), len(outcomes) - sum(outcomes)))
    return 0 if all(outcomes) else 1


if __name__ == '__main__':
    sys.exit(main())
