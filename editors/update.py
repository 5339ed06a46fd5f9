#!/usr/bin/env python3
"""Writes the words of the language into the editors' grammar: update.py [ROOT [FILE]].

The words come from the tables that the compiler is built from: words.def, ops.def, lang_ops.def, dtypes.def, optimizers.def. They replace the
alternatives of the patterns named below in editors/shardc.tmLanguage.json; everything else of the grammar is written by hand. FILE: where
to write instead. test/editors fails if the grammar is not what this writes."""
import os
import re
import sys


def source(root, *name):
    with open(os.path.join(root, *name)) as file:
        return file.read()


def words_of(root):
    """By a word that a pattern has had from the start: the words that belong into it."""
    rows = re.findall(r'^(WORD|KIND|PLAN_LINE)\((\w+), \w+(?:, ([\w| ]+))?\)', source(root, 'frontend', 'syntax', 'words.def'), re.M)
    # words with a place of their own in the grammar: links of a mesh, lines of weights
    elsewhere = {'inter', 'intra', 'ignore'}
    plan = [word for macro, word, traits in rows if macro == 'PLAN_LINE' or (macro == 'WORD' and 'SC_WORD_IN_PLAN' in traits)]
    ops = re.findall(r'^LANG(?:_TO)?\((\w+), \w+, \w+, (\w+)', source(root, 'frontend', 'elaborate', 'lang_ops.def'), re.M)
    ops += [(name, '0') for name in re.findall(r'^OP\((\w+),.* (?:number|numbers|bools), ', source(root, 'ir', 'ops', 'ops.def'), re.M)]
    optimizers = re.findall(r'^OPTIMIZER\((\w+)', source(root, 'program', 'optimizers.def'), re.M)
    rates = re.search(r'sc_rate_names\[.*?\] = \{(.*?)\};', source(root, 'program', 'optimizer.c'), re.S).group(1)
    return {'accumulate': [word for word in plan if word not in elsewhere],
            'metric': [word for _, word, traits in rows if 'SC_WORD_LATER' in traits],
            'softmax': [name for name, dims in ops if dims != '0'],
            # without brackets these two are elementwise
            'sigmoid': [name for name, dims in ops if dims == '0'] + ['min', 'max'],
            # these two are refused by name
            'bf16': re.findall(r'^DTYPE\((\w+)', source(root, 'support', 'dtypes.def'), re.M) + ['f8e4m3', 'f8e5m2'],
            'adamw': optimizers + re.findall(r'"(\w+)"', rates)}


def updated(root):
    text = source(root, 'editors', 'shardc.tmLanguage.json')
    for key, words in words_of(root).items():
        pattern = re.compile(r'\(\?:((?:\w+\|)*%s(?:\|\w+)*)\)' % key)
        found = pattern.findall(text)
        if len(found) != 1:
            raise SystemExit('%d patterns have %s among their words, wanted one' % (len(found), key))
        listed = found[0].split('|')
        # the longest first, as for words of which one begins with another; patterns that end a word have them in alphabetical order
        by_length = listed == sorted(listed, key=lambda word: (-len(word), word))
        text = pattern.sub('(?:%s)' % '|'.join(sorted(words, key=lambda word: (-len(word) if by_length else 0, word))), text)
    return text


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, 'editors', 'shardc.tmLanguage.json')
    text = updated(root)
    with open(path, 'w') as file:
        file.write(text)


if __name__ == '__main__':
    main()
