#!/usr/bin/env python3
"""Applies editors/shardc.tmLanguage.json to files and checks the scopes: highlight.py ROOT.

An editor's tokenizer in small: at each place the pattern that matches first wins, in a tie the earlier one; what a begin pattern opens
lasts until its end pattern. Checked are chosen words of the examples, that no word or sign of them is left without a scope, and that
the grammar knows every keyword, op, dtype and optimizer, and that editors/update.py leaves it as it is."""
import filecmp
import glob
import json
import os
import re
import subprocess
import sys
import tempfile


class Grammar:
    def __init__(self, path):
        with open(path) as file:
            self.tree = json.load(file)
        self.repository = self.tree['repository']

    def flat(self, patterns):
        """The patterns in order, those of the repository in place of their names."""
        found = []
        for pattern in patterns:
            if 'include' in pattern:
                pattern = self.repository[pattern['include'][1:]]
            if 'match' in pattern or 'begin' in pattern:
                found.append(pattern)
            else:
                found += self.flat(pattern['patterns'])
        return found

    def tokens(self, text):
        """(line, column, text, scopes) of everything but blanks, scopes from the outside in."""
        stack = [{'patterns': self.tree['patterns']}]
        for number, line in enumerate(text.split('\n'), 1):
            at = 0
            while True:
                outer = [frame['name'] for frame in stack if 'name' in frame]
                best, chosen = None, None
                if 'end' in stack[-1]:
                    best, chosen = re.compile(stack[-1]['end']).search(line, at), 'end'
                for pattern in self.flat(stack[-1]['patterns']):
                    found = re.compile(pattern.get('match') or pattern['begin']).search(line, at)
                    if found and (best is None or found.start() < best.start()):
                        best, chosen = found, pattern
                if best is None:
                    yield from words(number, line, at, len(line), outer)
                    break
                yield from words(number, line, at, best.start(), outer)
                if chosen == 'end':
                    frame = stack.pop()
                    yield from pieces(number, line, best, outer, frame.get('endCaptures', {}))
                else:
                    scopes = outer + [chosen['name']] if 'name' in chosen else outer
                    yield from pieces(number, line, best, scopes, chosen.get('captures') or chosen.get('beginCaptures', {}))
                    if 'begin' in chosen:
                        stack.append(chosen)
                if best.end() == at and chosen != 'end':
                    raise SystemExit('line %d: a pattern matches nothing at column %d' % (number, at + 1))
                at = best.end()


def words(number, line, begin, end, scopes):
    for found in re.compile(r'\w+|[^\w\s]').finditer(line, begin, end):
        yield number, found.start() + 1, found.group(), scopes


def pieces(number, line, found, scopes, captures):
    """What a pattern matched, cut at its captures."""
    at = found.start()
    spans = sorted((found.span(int(group)), captures[group]['name']) for group in captures if found.span(int(group)) != (-1, -1))
    for (begin, end), name in spans:
        yield from words(number, line, at, begin, scopes)
        yield from words(number, line, begin, end, scopes + [name])
        at = max(at, end)
    yield from words(number, line, at, found.end(), scopes)


# A text, a word in it, and how its innermost scope must begin.
CHOSEN = [
    ('dim B = 2, H = (K, G), T = alias S;', {'dim': 'storage.type', 'B': 'variable.other.dim', '2': 'constant.numeric.integer', 'K': 'variable.other.dim',
                                              'alias': 'keyword.other', ';': 'punctuation.terminator'}),
    ('block norm[N](x[.., N], eps = 1e-5) -> [.., N] {', {'block': 'storage.type', 'norm': 'entity.name.function', 'N': 'variable.other.dim',
                                                            'eps': 'variable.parameter', '1e': 'constant.numeric.float'}),
    ('  o = attend[T, E](q, k, v, mask = causal);', {'attend': 'support.function', 'T': 'variable.other.dim', 'q': 'variable.other',
                                                      'mask': 'variable.parameter', 'causal': 'constant.language'}),
    ('  y = slice[e -> R](x);', {'slice': 'support.function', 'e': 'variable.other.dim', '-': 'keyword.operator.arrow', 'x': 'variable.other.shard'}),
    ('  h: f32[B@dp, S@(cp, tp)] = min(a, b);', {'f32': 'support.type.dtype', 'dp': 'variable.other.axis', 'cp': 'variable.other.axis',
                                                  'tp': 'variable.other.axis', 'min': 'support.function', 'S': 'variable.other.dim'}),
    ('  param w[D] = zeros(); // sum', {'zeros': 'support.function.initialiser', 'param': 'storage.type', 'sum': 'comment.line'}),
    ('  mesh = free + act; # shard', {'mesh': 'variable.other', 'free': 'variable.other', 'act': 'variable.other', 'shard': 'comment.line'}),
    ('minimize m.loss with adamw(lr = 1e-3);', {'minimize': 'keyword.other', 'adamw': 'support.function.optimizer', 'loss': 'variable.other.member'}),
    ('scan', {'scan': 'invalid.illegal'}),
    ('plan p for m { mesh dp = 2 inter; shard act, input S over cp in loss if free; }',
     {'plan': 'storage.type', 'p': 'entity.name.section', 'm': 'entity.name.class', 'mesh': 'keyword.control.plan', 'dp': 'variable.other.axis', 'inter': 'constant.language.link',
      'shard': 'keyword.control.plan', 'act': 'storage.modifier.kind', 'S': 'variable.other.dim', 'over': 'keyword.other', 'cp': 'variable.other.axis',
      'loss': 'variable.other', 'if': 'keyword.other', 'free': 'keyword.control.plan'}),
    ('plan p for m { style layers.act.w: rowwise(from = V) over tp; expect memory() <= 76 GiB; }',
     {'layers': 'variable.other.object', 'act': 'variable.other.member', 'rowwise': 'support.function.style', 'from': 'variable.parameter', 'V': 'variable.other.dim',
      'tp': 'variable.other.axis', 'memory': 'support.function.expect', '<': 'keyword.operator.comparison', 'GiB': 'constant.language.unit'}),
    ('weights hf for m { a.w = "x.{L}.w" as [0 of 3, D]; }', {'as': 'keyword.control.plan', 'of': 'keyword.control.plan', 'L': 'constant.other.placeholder',
                                                               'x': 'string.quoted', 'a': 'variable.other.object'}),
]


def innermost(grammar, text, word):
    for _, _, found, scopes in grammar.tokens(text):
        if found == word:
            return scopes[-1] if scopes else '(none)'
    return '(absent)'


def check_chosen(grammar):
    failed = 0
    for text, wanted in CHOSEN:
        for word, scope in wanted.items():
            got = innermost(grammar, text, word)
            if not got.startswith(scope):
                failed += 1
                print('%s\n  %s: wanted %s, got %s' % (text, word, scope, got))
    return failed


def check_all_scoped(grammar, path):
    failed = count = 0
    with open(path) as file:
        for line, column, word, scopes in grammar.tokens(file.read()):
            count += 1
            if not any(not scope.startswith('meta.') for scope in scopes):
                failed += 1
                print('%s:%d:%d: %s has no scope' % (path, line, column, word))
    print('%s: %d words and signs' % (os.path.basename(path), count))
    return failed


def check_vocabulary(grammar, root):
    """Words of the scanner, of the op table and of the dtype table, each in a place where it has its meaning."""
    def source(*name):
        with open(os.path.join(root, *name)) as file:
            return file.read()
    rows = re.findall(r'^(?:WORD|KIND|(PLAN_LINE))\((\w+), \w+(?:, ([\w| ]+))?\)', source('frontend', 'syntax', 'words.def'), re.M)
    inside = [word for line, word, traits in rows if line or 'SC_WORD_IN_PLAN' in traits]
    known = ('keyword.', 'storage.', 'invalid.', 'constant.language.')
    tries = [('%s' % word, word, known) for _, word, _ in rows if word not in inside]
    for word in inside:
        places = {'inter': 'plan p for m { mesh a = 2 %s; }', 'intra': 'plan p for m { mesh a = 2 %s; }', 'ignore': 'weights hf for m { %s "x"; }'}
        text = places.get(word, 'plan p for m { %s x; }')
        tries.append((text % word, word, known))
    ops = re.findall(r'^LANG(?:_TO)?\((\w+), \w+, \w+, (\w+)', source('frontend', 'elaborate', 'lang_ops.def'), re.M)
    ops += [(word, '0') for word in re.findall(r'^OP\((\w+),.* (?:number|numbers|bools), ', source('ir', 'ops', 'ops.def'), re.M)]
    for word, dims in ops:
        tries.append(('y = %s%s(x);' % (word, '' if dims == '0' else '[D]'), word, ('support.function.shard',)))
    tries += [('x: %s[B]' % word, word, ('support.type.dtype',)) for word in re.findall(r'^DTYPE\((\w+)', source('support', 'dtypes.def'), re.M)]
    tries += [('with %s(' % word, word, ('support.function.optimizer',))
              for word in re.findall(r'^OPTIMIZER\((\w+)', source('program', 'optimizers.def'), re.M)]
    failed = 0
    for text, word, scopes in tries:
        got = innermost(grammar, text, word)
        if not got.startswith(scopes):
            failed += 1
            print('%s: %s has scope %s' % (text, word, got))
    print('vocabulary: %d words' % len(tries))
    return failed


def check_updated(root):
    """Whether the grammar is what editors/update.py writes."""
    with tempfile.NamedTemporaryFile('r') as written:
        subprocess.run([sys.executable, os.path.join(root, 'editors', 'update.py'), root, written.name], check=True)
        if filecmp.cmp(written.name, os.path.join(root, 'editors', 'shardc.tmLanguage.json'), shallow=False):
            return 0
    print('editors/shardc.tmLanguage.json lacks words of the language: run editors/update.py')
    return 1


def main():
    root = sys.argv[1]
    grammar = Grammar(os.path.join(root, 'editors', 'shardc.tmLanguage.json'))
    failed = check_chosen(grammar) + check_vocabulary(grammar, root) + check_updated(root)
    for path in sorted(glob.glob(os.path.join(root, 'examples', '*.shard'))):
        failed += check_all_scoped(grammar, path)
    print('%d failed' % failed)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
