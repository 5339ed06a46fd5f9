"""texts.py tokenizer FILE [END]: a tokenizer.json of bytes and a few merges, whose special token <|end|> has the id END (default 259: the first).
texts.py corpus FOLDER: a.txt, b.jsonl (key "text", and "body" of another text), c.jsonl of many documents, and sub/d.txt.
texts.py ids OUT.bin FOLDER NAME.. [--field KEY] [--end ID]: OUT.bin and OUT.json are what the texts of these files are, each followed by the id.
texts.py equal A.bin B.bin: the same ids."""
import json
import os
import re
import struct
import sys

MERGES = [('t', 'h'), ('th', 'e'), ('Ġ', 'the')]


def byte_letters():
    """The letters that byte-level BPE has for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(printable))
    return letters


LETTERS = byte_letters()
VOCABULARY = {LETTERS[b]: b for b in range(256)}
for a, b in MERGES:
    VOCABULARY[a + b] = len(VOCABULARY)


def tokenizer(path, end=259):
    # ids of added tokens follow those of the model
    vocabulary = dict(VOCABULARY, **{'filler%d' % i: i for i in range(len(VOCABULARY), int(end))})
    with open(path, 'w') as file:
        json.dump({'version': '1.0', 'truncation': None, 'padding': None,
                   'added_tokens': [{'id': int(end), 'content': '<|end|>', 'single_word': False, 'lstrip': False, 'rstrip': False,
                                     'normalized': False, 'special': True}],
                   'normalizer': None, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False},
                   'decoder': {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True, 'use_regex': True},
                   'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None, 'end_of_word_suffix': None,
                             'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False, 'vocab': vocabulary,
                             'merges': [list(m) for m in MERGES]}}, file)


def encode(text):
    ids = []
    for part in re.split(r'(<\|end\|>)', text):
        if part == '<|end|>':
            ids.append(259)
            continue
        letters = [LETTERS[b] for b in part.encode()]
        for pair in MERGES:
            i = 0
            while i + 1 < len(letters):
                if (letters[i], letters[i + 1]) == pair:
                    letters[i:i + 2] = [letters[i] + letters[i + 1]]
                i += 1
        ids += [VOCABULARY[letter] for letter in letters]
    return ids


def corpus(folder):
    os.makedirs(os.path.join(folder, 'sub'), exist_ok=True)

    def write(name, text, mode='w'):
        with open(os.path.join(folder, name), mode, newline='') as file:
            file.write(text)

    write('a.txt', 'the cat and the dog\näöü <|end|> the end\n')
    write('b.jsonl', '\n{"text": "the first\\u0000line", "body": "one"}\r\n  \n{"body": "two", "text": "\\u65e5\\u672c the"}\n{"text": "", "body": ""}')
    write('c.jsonl', ''.join('%s\n' % json.dumps({'text': 'document %d of the corpus ' % i * (i % 40), 'n': i}) for i in range(1000)) +
          json.dumps({'text': 'the longest ' * 8000}) + '\n')
    write('sub/d.txt', 'the folder in the folder is not read')
    write('e.md', 'neither is this')


def documents(path, field):
    with open(path, newline='') as file:
        if not path.endswith('.jsonl'):
            return [file.read()]
        return [json.loads(line)[field] for line in file.read().split('\n') if line.strip()]


def ids(out, folder, *rest):
    names, options = [], {'--field': 'text', '--end': None}
    rest = list(rest)
    while rest:
        word = rest.pop(0)
        if word in options:
            options[word] = rest.pop(0)
        else:
            names.append(word)
    paths = [os.path.join(folder, name) for name in names]
    texts = [text for path in paths for text in documents(path, options['--field'])]
    expected, end = [], options['--end']
    for text in texts:
        expected += encode(text) + ([int(end)] if end else [])
    with open(out[:-4] + '.json') as file:
        about = json.load(file)
    with open(out, 'rb') as file:
        data = file.read()
    width = {'u16': 2, 'u32': 4}[about['dtype']]
    got = list(struct.unpack('<%d%s' % (len(data) // width, 'H' if width == 2 else 'I'), data))
    assert got == [int(end) if i == 259 and end else i for i in expected], (len(got), len(expected))
    assert about['tokens'] == len(got) and about['documents'] == len(texts) and about.get('eos') == (int(end) if end else None), about
    assert about['bytes'] == sum(map(os.path.getsize, paths)) and about['vocabulary'] > max(got), about


def equal(a, b):
    assert open(a, 'rb').read() == open(b, 'rb').read()


{'tokenizer': tokenizer, 'corpus': corpus, 'ids': ids, 'equal': equal}[sys.argv[1]](*sys.argv[2:])
