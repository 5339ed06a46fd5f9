#!/usr/bin/env python3
"""tokenizer.py BUILD ROOT [--size MB]: the speed of BUILD/bench/tokenizer, MB/s on one thread, on English (the documentation of ROOT), on mixed
Unicode and on one piece without spaces, for tokenizers of several kinds, at the size and at twice it; beside Hugging Face's `tokenizers` on one
thread where that can be imported. The tokenizers are those of test/tools/tokenize/Inputs, with their small vocabularies."""
import argparse
import glob
import json
import os
import random
import subprocess
import tempfile
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
try:
    from tokenizers import Tokenizer
except ImportError:
    Tokenizer = None

RANGES = [(0x61, 0x7a), (0x61, 0x7a), (0xe0, 0xff), (0x3b1, 0x3c9), (0x430, 0x44f), (0x5d0, 0x5ea), (0x627, 0x64a), (0x905, 0x939), (0x3041, 0x3096),
          (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1f300, 0x1f64f)]


def english(root, size):
    text = ''.join(open(path, encoding='utf-8').read() for path in sorted(glob.glob(os.path.join(root, 'docs', '*.md'))))
    return (text * (size // len(text) + 1))[:size]


def mixed(size):
    rng, words, length = random.Random(1), [], 0
    while length < size:
        first, last = rng.choice(RANGES)
        word = ''.join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 9)))
        words.append(word + rng.choice(['', '', '', ',', '.', ' 12', '\n']))
        length += len(words[-1].encode()) + 1
    return ' '.join(words)


def one_piece(size):
    rng = random.Random(2)
    return ''.join(rng.choice('etaoinshrdlu') for _ in range(size))


def seconds_of(function):
    best = float('inf')
    for _ in range(3):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build')
    parser.add_argument('root')
    parser.add_argument('--size', type=float, default=1)
    parser.add_argument('--tokenizers', default='', help='a folder of other tokenizer.json files')
    arguments = parser.parse_args()
    size = int(arguments.size * 1e6)
    inputs = arguments.tokenizers or os.path.join(arguments.root, 'test', 'tools', 'tokenize', 'Inputs')
    texts = {'english': english(arguments.root, size), 'mixed': mixed(size), 'piece': one_piece(size)}
    print('%-24s %-8s %10s %10s %10s %10s' % ('tokenizer', 'text', 'encode', 'twice', 'decode', "HF encode"))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8', newline='') as file:
                file.write(text)
        for path in sorted(glob.glob(os.path.join(inputs, '*.json'))):
            command = [os.path.join(arguments.build, 'bench', 'tokenizer'), path] + [os.path.join(folder, x) for x in texts]
            rows = [json.loads(x) for x in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()]
            for row in rows[1:]:
                text = texts[os.path.basename(row['file'])]
                theirs = '-'
                if Tokenizer is not None:
                    t = Tokenizer.from_file(path)
                    theirs = '%.1f' % (len(text.encode()) / 1e6 / seconds_of(lambda: t.encode(text, add_special_tokens=False)))
                print('%-24s %-8s %10.1f %10.1f %10.1f %10s' % (os.path.basename(path)[:-5], os.path.basename(row['file']), row['encode'],
                                                                 row['encode_twice'], row['decode'], theirs), flush=True)


if __name__ == '__main__':
    main()
