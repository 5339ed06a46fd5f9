#!/usr/bin/env python3
"""hf_tokenizers.py --shardc PROG [--seed N] [--lines N] [--only NAME] [--keep DIR]: ids and text as Hugging Face's `tokenizers` gives them, on
random lines of UTF-8, for tokenizers trained here on random text with every normalizer, pre-tokenizer, model, decoder and post-processor
that is supported. Skipped (77) where the library cannot be imported. `--golden DIR` writes the tokenizers of GOLDEN with cases instead."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print('skipped: the Python package tokenizers is not installed')
    sys.exit(77)

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
O200K = '|'.join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there "
         "can an your which their said if do will each about how up out them then she many some so these would other into has more her two "
         "like him see time could no make than first been its who now people my made over did down only way find use may water long little "
         "very after words called just where most know naïve façade Köln Straße don't we're I'll it's you've state shard plan mesh param "
         "def return for in range self import print x1 y2 100 2024 3.14 http://a.b/c?d=e&f=g user@example.org ABC McDonald's").split()
SCRIPTS = [(0x20, 0x7e), (0xa0, 0x17f), (0x180, 0x24f), (0x370, 0x3ff), (0x400, 0x52f), (0x531, 0x58f), (0x590, 0x6ff), (0x900, 0x97f),
           (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x20cf), (0x2100, 0x218f), (0x2460, 0x24ff),
           (0x2500, 0x27bf), (0x3000, 0x30ff), (0x3400, 0x34ff), (0x4e00, 0x4fff), (0xac00, 0xacff), (0xf900, 0xf9ff), (0xfb00, 0xfb4f),
           (0xfe00, 0xfe6f), (0xff00, 0xffef), (0x1d400, 0x1d4ff), (0x1f100, 0x1f2ff), (0x1f300, 0x1f6ff), (0x1f900, 0x1f9ff),
           (0x20000, 0x200ff), (0x31350, 0x313af), (0x10d40, 0x10d8f), (0x11f00, 0x11f5f), (0x1c80, 0x1c8f), (0x2b920, 0x2b9ff)]
MARKS = [(0x300, 0x36f), (0x591, 0x5c7), (0x610, 0x61a), (0x64b, 0x65f), (0x93c, 0x94d), (0x1ab0, 0x1ace), (0x1dc0, 0x1dff),
         (0x20d0, 0x20f0), (0xfe20, 0xfe2f)]
SPACES = ' \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u180e\u200b\u200c\u200d\u2060\ufeff'
EMOJI = ['👩‍👩‍👧‍👦', '🏳️‍🌈', '👍🏽', '🇩🇪', '❤️', '☃', '1️⃣', '𝔘𝔫𝔦', '🤷🏿‍♀️']
TOKENS = ['<|begin|>', '<|end|>', '<s>', '</s>', '<unk>', '[MASK]', '[UNK]', '[CLS]', '<0x41>', '<0xE2>', '##ing', '▁', '▁▁', 'Ġ', '<mask>',
          'TOOL', 'Déjà']


def character(rng, ranges):
    first, last = rng.choice(ranges)
    return chr(rng.randint(first, last))


def part(rng):
    kind = rng.random()
    if kind < 0.35:
        return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(1, 8)))
    if kind < 0.5:
        script = [rng.choice(SCRIPTS)]
        return ''.join(character(rng, script) for _ in range(rng.randint(1, 8)))
    if kind < 0.58:
        return rng.choice(SPACES) * rng.randint(1, 3) + rng.choice(SPACES)
    if kind < 0.64:
        return rng.choice('aeioucnsAEOdq') + ''.join(character(rng, MARKS) for _ in range(rng.randint(1, 4)))
    if kind < 0.7:
        return rng.choice(EMOJI)
    if kind < 0.76:
        return chr(rng.randint(0, 0x1f)) if rng.random() < 0.5 else chr(rng.randint(0x7f, 0xa0))
    if kind < 0.84:
        return rng.choice(TOKENS)
    if kind < 0.9:
        return ''.join(rng.choice('0123456789٣४²½Ⅷ,.') for _ in range(rng.randint(1, 7)))
    if kind < 0.95:
        return ''.join(rng.choice('!?.,;:\'"-–—…«»()[]{}<>|\\/@#$%^&*_+=~`') for _ in range(rng.randint(1, 5)))
    while True:
        c = rng.randint(0, 0x10ffff)
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def line(rng):
    parts = [part(rng) for _ in range(rng.randint(0, 7))]
    return rng.choice(['', ' ']).join(parts)


def corpus(rng, count):
    """Text to train on; without zeros, which no key of jansson's objects may have."""
    return [line(rng).replace('\0', '') for _ in range(count)] + [' '.join(WORDS)] * 40


def template(first='<s>', last='</s>', ids=(1, 2)):
    return processors.TemplateProcessing(single=' '.join(x for x in (first, '$A', last) if x),
                                         special_tokens=[(x, i) for x, i in zip((first, last), ids) if x])


SPECIAL = ['<unk>', '<s>', '</s>', '<mask>']
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def bpe_bytes(pre, normalizer=None, post=None, ignore_merges=False, decoder=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre, decoder or decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    if post:
        t.post_processor = post
    return t, trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL, initial_alphabet=sorted(ALPHABET), show_progress=False)


def bpe_characters(normalizer, pre, decoder, post=None, fuse=True, fallback=True, unk='<unk>', **more):
    t = Tokenizer(models.BPE(unk_token=unk, fuse_unk=fuse, byte_fallback=fallback, **more))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    if decoder:
        t.decoder = decoder
    if post:
        t.post_processor = post
    special = SPECIAL + (['<0x%02X>' % i for i in range(256)] if fallback else [])
    return t, trainers.BpeTrainer(vocab_size=1100, special_tokens=special, limit_alphabet=200, show_progress=False,
                                  **({'end_of_word_suffix': more['end_of_word_suffix']} if 'end_of_word_suffix' in more else {}),
                                  **({'continuing_subword_prefix': more['continuing_subword_prefix']}
                                     if 'continuing_subword_prefix' in more else {}))


def wordpiece(normalizer, pre, decoder=None, post=None, longest=100):
    t = Tokenizer(models.WordPiece(unk_token='[UNK]', max_input_chars_per_word=longest))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder or decoders.WordPiece()
    if post:
        t.post_processor = post
    return t, trainers.WordPieceTrainer(vocab_size=900, special_tokens=['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], limit_alphabet=250,
                                        show_progress=False)


N, P, D = normalizers, pre_tokenizers, decoders


def bytes_after(*steps):
    return P.Sequence(list(steps) + [P.ByteLevel(add_prefix_space=False, use_regex=False)])


LLAMA_DECODER = D.Sequence([D.Replace('▁', ' '), D.ByteFallback(), D.Fuse(), D.Strip(' ', 1, 0)])


def metaspaces():
    """Tokenizers with a Metaspace, by scheme."""
    out = {}
    for scheme in ('always', 'first', 'never'):
        for split in (True, False):
            out['metaspace_%s_%s' % (scheme, 'split' if split else 'whole')] = lambda scheme=scheme, split=split: bpe_characters(
                N.NFKC() if split else None, P.Metaspace(prepend_scheme=scheme, split=split), D.Metaspace(prepend_scheme=scheme))
    return out


def behaviors():
    """Every behaviour of Split, upright and inverted."""
    out = {}
    for behavior in ('removed', 'isolated', 'merged_with_previous', 'merged_with_next', 'contiguous'):
        for invert in (False, True):
            for name, pattern in (('regex', Regex(r'[aeiou\s]+|\d')), ('string', ' '), ('empty', Regex('x*'))):
                out['split_%s_%s%s' % (name, behavior, '_inverted' if invert else '')] = \
                    lambda pattern=pattern, behavior=behavior, invert=invert: bpe_bytes(
                        bytes_after(P.Split(pattern, behavior, invert=invert)))
    return out


CONFIGURATIONS = {
    'gpt2': lambda: bpe_bytes(P.ByteLevel(add_prefix_space=False), post=processors.ByteLevel(trim_offsets=False)),
    'roberta': lambda: bpe_bytes(P.ByteLevel(add_prefix_space=True),
                                 post=processors.RobertaProcessing(('</s>', 2), ('<s>', 1))),
    'llama3': lambda: bpe_bytes(bytes_after(P.Split(Regex(LLAMA3), 'isolated')), ignore_merges=True,
                                post=processors.Sequence([processors.ByteLevel(), template(last=None)])),
    'qwen2': lambda: bpe_bytes(bytes_after(P.Split(Regex(QWEN2), 'isolated')), normalizer=N.NFC()),
    'cl100k': lambda: bpe_bytes(bytes_after(P.Split(Regex(CL100K), 'isolated'))),
    'o200k': lambda: bpe_bytes(bytes_after(P.Split(Regex(O200K), 'isolated'))),
    'deepseek': lambda: bpe_bytes(bytes_after(P.Split(Regex(r'\p{N}{1,3}'), 'isolated'), P.Split(Regex('[一-龥぀-ゟ゠-ヿ]+'), 'isolated'),
                                              P.Split(Regex(DEEPSEEK), 'isolated'))),
    'olmo2': lambda: bpe_bytes(bytes_after(P.Split(Regex(CL100K), 'removed', invert=True))),
    'granite': lambda: bpe_bytes(P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])),
    'digits': lambda: bpe_bytes(P.Sequence([P.Digits(individual_digits=False), P.ByteLevel(add_prefix_space=True)])),
    'words_regex': lambda: bpe_bytes(bytes_after(P.Split(Regex(r'\w+|\W'), 'isolated'))),
    'boundary_regex': lambda: bpe_bytes(bytes_after(P.Split(Regex(r'\b\w{2,4}\b|[^\W\d]{1,3}+|[\S\d]'), 'contiguous'))),
    'negated_regex': lambda: bpe_bytes(bytes_after(P.Split(Regex(r'[^\P{Lu}a-z]+|[\P{L}x]'), 'isolated'))),
    'lines_regex': lambda: bpe_bytes(bytes_after(P.Split(Regex(r'^.{,3}|(?m:a.b)|.$|\h+'), 'isolated'))),
    'llama2': lambda: bpe_characters(N.Sequence([N.Prepend('▁'), N.Replace(' ', '▁')]), None, LLAMA_DECODER, template(last=None)),
    'gemma': lambda: bpe_characters(N.Replace(' ', '▁'), P.Split(' ', 'merged_with_previous'),
                                    D.Sequence([D.Replace('▁', ' '), D.ByteFallback(), D.Fuse()]), template(last=None)),
    'phi3': lambda: bpe_characters(N.Sequence([N.Prepend('▁'), N.Replace(' ', '▁')]), None, LLAMA_DECODER, fuse=False),
    'unknown': lambda: bpe_characters(N.NFKD(), P.Whitespace(), None, fallback=False),
    'unknown_apart': lambda: bpe_characters(N.NFD(), P.WhitespaceSplit(), None, fallback=False, fuse=False),
    'dropped': lambda: bpe_characters(N.Lowercase(), P.Punctuation(), D.Fuse(), fallback=False, unk=None),
    'strip': lambda: bpe_characters(N.Sequence([N.Strip(), N.NFKC(), N.StripAccents()]), P.Metaspace(prepend_scheme='first'), LLAMA_DECODER),
    'strip_left': lambda: bpe_characters(N.Sequence([N.Strip(right=False), N.Lowercase(), N.Replace(Regex('[0-9]+'), '')]),
                                         P.Metaspace(prepend_scheme='first'), D.Sequence([D.Strip('▁', 0, 1), D.Fuse()])),
    'suffix': lambda: bpe_characters(N.Lowercase(), P.WhitespaceSplit(), D.BPEDecoder('</w>'), fallback=False, end_of_word_suffix='</w>'),
    'prefix': lambda: bpe_characters(None, P.BertPreTokenizer(), D.WordPiece(), fallback=False, continuing_subword_prefix='##'),
    'bert': lambda: wordpiece(N.BertNormalizer(), P.BertPreTokenizer(),
                              post=processors.BertProcessing(('[SEP]', 3), ('[CLS]', 2))),
    'bert_cased': lambda: wordpiece(N.BertNormalizer(lowercase=False), P.BertPreTokenizer(), D.WordPiece(cleanup=False),
                                    template('[CLS]', '[SEP]', (2, 3))),
    'bert_accents': lambda: wordpiece(N.BertNormalizer(strip_accents=False, handle_chinese_chars=False), P.BertPreTokenizer(), longest=6),
    'bert_unclean': lambda: wordpiece(N.BertNormalizer(clean_text=False, lowercase=False, strip_accents=True), P.Whitespace()),
    **metaspaces(), **behaviors()}

GOLDEN = ['gpt2', 'llama3', 'qwen2', 'deepseek', 'granite', 'llama2', 'gemma', 'metaspace_first_split', 'bert', 'unknown']


def add_tokens(t, rng):
    """Added tokens of every kind, besides those that training put in. The library panics where a token of spaces follows one that strips
    what is right of it, so a tokenizer has either."""
    strips = rng.random() < 0.5
    flags = lambda: dict({k: rng.random() < 0.4 for k in ('single_word', 'lstrip', 'normalized')}, rstrip=strips and rng.random() < 0.6)
    t.add_special_tokens([AddedToken('<|begin|>', normalized=False), AddedToken('<|end|>', **flags())])
    t.add_tokens([AddedToken('TOOL', **flags()), AddedToken('Déjà', **flags()), AddedToken('[MASK]', **flags()),
                  AddedToken('the', **dict(flags(), single_word=True))])
    if not strips:
        t.add_tokens([AddedToken('  ', normalized=rng.random() < 0.5)])


def make(name, seed):
    rng = random.Random('%s %s' % (name, seed))
    t, trainer = CONFIGURATIONS[name]()
    t.train_from_iterator(corpus(rng, 400), trainer)
    add_tokens(t, rng)
    return t, rng


def convert(program, path, lines, *options):
    """Lines through shardc; the objects of its answer."""
    with tempfile.NamedTemporaryFile('w', suffix='.jsonl', encoding='utf-8') as file:
        file.writelines(json.dumps(x, ensure_ascii=False) + '\n' for x in lines)
        file.flush()
        run = subprocess.run([program, 'tokenize', file.name, '--tokenizer', path, '--format', 'json', *options], capture_output=True)
    if run.returncode:
        sys.exit('%s: shardc exits %d: %s' % (path, run.returncode, run.stderr.decode()[:400]))
    return [json.loads(x) for x in run.stdout.decode().split('\n')[:-1]]


def compare(what, texts, got, want):
    """Prints the first differences; returns their number."""
    wrong = [i for i in range(len(want)) if want[i] is not None and (i >= len(got) or got[i] != want[i])]
    for i in wrong[:2]:
        print('%s differs on %s:\n  shardc %s\n  HF     %s' % (what, ascii(texts[i]), ascii(got[i] if i < len(got) else None), ascii(want[i])))
    return len(wrong)


def each(function, items):
    """function of each item; None where the library panics, which it does on a few texts."""
    out = []
    for item in items:
        try:
            out.append(function(item))
        except BaseException as error:
            if type(error).__name__ != 'PanicException':
                raise
            out.append(None)
    return out


def check(program, name, seed, count, folder):
    t, rng = make(name, seed)
    path = os.path.join(folder, name + '.json')
    t.save(path)
    t = Tokenizer.from_file(path)
    texts = [line(rng) for _ in range(count)]
    wrong = 0
    for special in (True, False):
        options = [] if special else ['--no-special']
        want = each(lambda x: t.encode(x, add_special_tokens=special).ids, texts)
        got = [x['ids'] for x in convert(program, path, [{'text': x} for x in texts], *options)]
        wrong += compare(name + ' encoding', texts, got, want)
        ids = [x for x in want[:count // 2] if x is not None] + [[rng.randrange(t.get_vocab_size()) for _ in range(rng.randint(0, 12))] for _ in range(count // 2)]
        decoded = each(lambda x: t.decode(x, skip_special_tokens=not special), ids)
        back = [x['text'] for x in convert(program, path, [{'ids': x} for x in ids], '--decode', *options)]
        wrong += compare(name + ' decoding', ids, back, decoded)
    return wrong


def write_golden(folder):
    for name in GOLDEN:
        t, rng = make(name, 1)
        t.save(os.path.join(folder, name + '.json'), pretty=False)
        with open(os.path.join(folder, name + '.jsonl'), 'w', encoding='utf-8') as file:
            for text in [line(rng) for _ in range(60)]:
                ids = t.encode(text).ids
                file.write(json.dumps({'text': text, 'ids': ids, 'decoded': t.decode(ids, skip_special_tokens=False)}) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--shardc')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--lines', type=int, default=100000)
    parser.add_argument('--only', default='')
    parser.add_argument('--keep')
    parser.add_argument('--golden')
    arguments = parser.parse_args()
    if arguments.golden:
        write_golden(arguments.golden)
        return
    names = [x for x in CONFIGURATIONS if arguments.only in x]
    each = -(-arguments.lines // len(names))
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        wrong = {x: check(arguments.shardc, x, arguments.seed, each, folder) for x in names}
    bad = {x: n for x, n in wrong.items() if n}
    if bad:
        sys.exit('%d of %d tokenizers differ: %s' % (len(bad), len(names), bad))
    print('%d tokenizers, %d lines: equal to tokenizers %s' % (len(names), each * len(names), tokenizers.__version__))


if __name__ == '__main__':
    main()
