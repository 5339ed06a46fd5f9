"""cases.py SHARDC FOLDER: each FOLDER/NAME.json with the cases of NAME.jsonl, which hold text, ids and decoded text of Hugging Face's
`tokenizers` (test/property/hf_tokenizers.py --golden wrote them): encoding, decoding, and both as plain lines where these can be."""
import glob
import json
import os
import subprocess
import sys
import tempfile


def tokenize(program, text, tokenizer, *options):
    with tempfile.NamedTemporaryFile('wb') as file:
        file.write(text.encode())
        file.flush()
        run = subprocess.run([program, 'tokenize', file.name, '--tokenizer', tokenizer, *options], capture_output=True)
    if run.returncode:
        sys.exit('%s %s: exit %d: %s' % (tokenizer, options, run.returncode, run.stderr.decode()))
    return run.stdout.decode()


def lines(text):
    return text.split('\n')[:-1]


def check(program, path):
    with open(path + 'l', encoding='utf-8') as file:
        cases = [json.loads(x) for x in file]
    given = ''.join(json.dumps(x) + '\n' for x in cases)
    ids = [json.loads(x)['ids'] for x in lines(tokenize(program, given, path, '--format', 'json'))]
    texts = [json.loads(x)['text'] for x in lines(tokenize(program, given, path, '--format', 'json', '--decode'))]
    wrong = [x for x, i, t in zip(cases, ids, texts) if x['ids'] != i or x['decoded'] != t]
    if wrong or len(ids) != len(cases) or len(texts) != len(cases):
        sys.exit('%s: %d of %d cases differ, the first: %s' % (path, len(wrong), len(cases), wrong[:1]))
    plain = [x for x in cases if '\n' not in x['text']]
    got = lines(tokenize(program, ''.join(x['text'] + '\n' for x in plain), path))
    if got != [' '.join(map(str, x['ids'])) for x in plain]:
        sys.exit('%s: plain lines have other ids' % path)
    plain = [x for x in cases if '\n' not in x['decoded']]
    back = lines(tokenize(program, ''.join(' '.join(map(str, x['ids'])) + '\n' for x in plain), path, '--decode'))
    if back != [x['decoded'] for x in plain]:
        sys.exit('%s: plain lines have another text' % path)
    return len(cases)


def main():
    program, folder = sys.argv[1:]
    paths = sorted(glob.glob(os.path.join(folder, '*.json')))
    count = sum(check(program, x) for x in paths)
    if not count:
        sys.exit('no cases in ' + folder)
    print('%d tokenizers, %d cases' % (len(paths), count))


if __name__ == '__main__':
    main()
