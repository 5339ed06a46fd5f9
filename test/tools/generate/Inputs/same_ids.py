"""same_ids.py SHARDC PROG TOKENIZER CHATML: what PROG generates of a text is what it generates of the ids that `shardc tokenize` gives for the
text, with a template for the text with its turns."""
import json
import subprocess
import sys

TURN = '<|im_start|>user\ntime<|im_end|>\n<|im_start|>assistant\n'


def run(*command, **more):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout)


def ids_of(shardc, tokenizer, text, *options):
    return run(shardc, 'tokenize', '-', '--tokenizer', tokenizer, '--format', 'json', *options, input=json.dumps({'text': text}))['ids']


def generate(program, *options):
    return run(program, 'generate', '--max-tokens', '6', '--format', 'json', *options)['tokens'][0]


def main():
    shardc, program, tokenizer, chatml = sys.argv[1:]
    ids = ids_of(shardc, tokenizer, 'The water is')
    want = generate(program, '--prompt', ' '.join(map(str, ids)))
    assert generate(program, '--tokenizer', tokenizer, '--prompt', 'The water is') == want, want
    ids = ids_of(shardc, chatml, TURN, '--no-special')
    want = generate(program, '--prompt', ' '.join(map(str, ids)))
    assert generate(program, '--tokenizer', chatml, '--template', 'chatml', '--prompt', 'time') == want, want
    print('the same ids')


if __name__ == '__main__':
    main()
