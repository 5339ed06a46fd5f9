#!/usr/bin/env python3
"""damage.py SHARDC [FLIPS]: single bits of every kind of file that is read are changed, at places drawn over the whole file and at every byte
of its headers. A changed program never gives a result; a changed file of weights or tokens is refused, or is another file of its kind, whose
values are read as they are; an index of such files is refused, or gives the same; what is kept of compiles and measurements is made anew, and
nothing of it is used; nothing is a crash of ours. What the system's loader stumbles over before a program begins is counted. States are
attacked by test/fault/states.py."""
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

MODEL = '''lang 1;
dim B = 2, S = 4, D = 4, V = 256;
model m {
  param tok[V, D] = normal(0.5), head[D, V] = normal(0.5);
  entry loss(t: i32[B, S], y: i32[B, S]) -> [] { return mean[B, S](xent[V](dot[D](gather[V](tok, t), head), y)); }
}
minimize m.loss with sgd(lr = 0.1);
plan one for m { }
'''


INDEX = os.path.join('split', 'model.safetensors.index.json')


def run(folder, *command, **more):
    variables = dict(os.environ, SHARDC_CFLAGS='-O1', OMP_NUM_THREADS='1', **more)
    result = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, env=variables)
    return result.returncode, result.stdout.decode('utf-8', 'replace'), result.stderr.decode('utf-8', 'replace')


def needs(folder, *command):
    code, out, error = run(folder, *command)
    if code != 0:
        sys.exit('%s: %d\n%s%s' % (' '.join(command), code, out, error))
    return out


def flips(rng, data, count, header):
    """All bytes of the header, one bit each, and bits anywhere."""
    for byte in range(min(header, len(data))):
        yield byte, rng.randrange(8)
    for _ in range(count):
        yield rng.randrange(len(data)), rng.randrange(8)


def changed(data, byte, bit):
    return data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1:]


def attack_program(folder, rng, count):
    wanted = needs(folder, './prog', 'eval', '--data', 'tokens.bin', '--weights', 'w.safetensors')
    data = open(os.path.join(folder, 'prog'), 'rb').read()
    path, said = os.path.join(folder, 'damaged'), {}
    for byte, bit in [(len(data) - 1 - i, rng.randrange(8)) for i in range(48)] + list(flips(rng, data, count, 0)):
        with open(path, 'wb') as file:
            file.write(changed(data, byte, bit))
        os.chmod(path, 0o755)
        try:
            code, out, error = run(folder, path, 'eval', '--data', 'tokens.bin', '--weights', 'w.safetensors')
        except OSError:  # no executable any more
            code, out, error = 'not started', '', 'damaged'
        if code == 0 or wanted in out:
            sys.exit('prog, byte %d, bit %d: exit code %s\n%s' % (byte, bit, code, out))
        if code == 7 and 'damaged' not in error and 'not a complete program' not in error:
            sys.exit('prog, byte %d, bit %d: %s' % (byte, bit, error))
        kind = 'refused' if code == 7 else 'not loaded by the system'
        said[kind] = said.get(kind, 0) + 1
    refused, total = said.get('refused', 0), sum(said.values())
    if refused < 0.9 * total:
        sys.exit('only %d of %d damaged programs are refused by themselves' % (refused, total))
    return 'prog: %s' % ', '.join('%d %s' % (number, kind) for kind, number in sorted(said.items()))


def attack_input(folder, rng, name, count, header, command, wanted=None):
    """`wanted`: what a changed file that is taken has to give."""
    data = open(os.path.join(folder, name), 'rb').read()
    codes = {}
    for byte, bit in flips(rng, data, count, header):
        changed_name = os.path.join('changed', os.path.basename(name))
        with open(os.path.join(folder, changed_name), 'wb') as file:
            file.write(changed(data, byte, bit))
        code, out, error = run(folder, *(changed_name if word == name else word for word in command))
        if code not in (0, 7):
            sys.exit('%s, byte %d, bit %d: exit code %d\n%s%s' % (name, byte, bit, code, out, error))
        if code == 0 and wanted is not None and out != wanted:
            sys.exit('%s, byte %d, bit %d: another result\n%s' % (name, byte, bit, out))
        if code == 7 and 'error: ' not in error:
            sys.exit('%s, byte %d, bit %d: no message' % (name, byte, bit))
        codes[code] = codes.get(code, 0) + 1
    return '%s: %d refused, %d %s' % (name, codes.get(7, 0), codes.get(0, 0), 'another file' if wanted is None else 'the same')


def change_entry(rng, path, how, others):
    with open(path, 'rb') as file:
        data = file.read()
    if how == 'cut':
        data = data[:rng.randrange(len(data))]
    elif how == 'other':
        with open(rng.choice(others), 'rb') as file:
            data = file.read()
    else:
        data = changed(data, 0 if how == 'title' else len(data) - 1 - rng.randrange(24) if how == 'sum' else rng.randrange(min(64, len(data))) if how == 'head' else
                       rng.randrange(len(data)), rng.randrange(8))
    with open(path, 'wb') as file:
        file.write(data)


def attack_cache(folder, shardc, rng, name, target, variables):
    """Every entry in every way; where a later entry makes the others needless, it is taken away."""
    cache = os.path.join(folder, 'cache.' + name)
    variables = dict(variables, SHARDC_CACHE=cache)
    command = [shardc, 'eval', 'm.shard', '--plan', 'one', '--data', 'tokens.bin', '--weights', 'w.safetensors'] + target
    code, wanted, error = run(folder, *command, **variables)
    if code != 0:
        sys.exit('%s: %d\n%s%s' % (name, code, wanted, error))
    entries = {path: open(path, 'rb').read() for path in glob.glob(os.path.join(cache, '*.*'))}
    kinds, count = {os.path.splitext(path)[1] for path in entries}, 0
    for path in sorted(entries):
        others = [other for other in entries if other != path and os.path.splitext(other)[1] == os.path.splitext(path)[1]]
        for how in ['title', 'head', 'bit', 'sum', 'cut'] + (['other'] if others else []):
            for other, data in entries.items():
                if other.endswith('.so') and other != path:
                    if os.path.exists(other):
                        os.remove(other)
                elif not os.path.exists(other) or open(other, 'rb').read() != data:
                    with open(other, 'wb') as file:
                        file.write(data)
                    os.chmod(other, 0o600)
            change_entry(rng, path, how, others)
            code, out, error = run(folder, *command, **variables)
            if code != 0 or out != wanted:
                sys.exit('cache, %s, %s of %s: exit code %d\n%s%s' % (name, how, path, code, out, error))
            with open(path, 'rb') as file:
                if path.endswith(('.cuda', '.gemms', '.version')) and file.read() != entries[path]:
                    sys.exit('cache, %s, %s of %s: it is not made anew' % (name, how, path))
            count += 1
    return '%d entries of a cache (%s): 0 used' % (count, ', '.join(sorted(kinds)))


def stubs(shardc):
    """Of CUDA's libraries: what is needed to compile and run for a GPU on any machine."""
    place = os.path.join(os.path.dirname(shardc), 'test', 'cuda_stub', 'libsc_%s_stub.so')
    names = {'SHARDC_NVRTC': 'nvrtc', 'SHARDC_LIBCUDA': 'cuda', 'SHARDC_CUBLASLT': 'cublaslt'}
    return {variable: place % name for variable, name in names.items() if os.path.exists(place % name)}


def main():
    shardc = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 80
    rng = random.Random(15)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'm.shard'), 'w') as file:
            file.write(MODEL)
        with open(os.path.join(folder, 'tokens.bin'), 'wb') as file:
            ids = [i * 7 % 256 for i in range(60)]
            file.write(struct.pack('<256i', 20240520, 1, len(ids), *[0] * 253) + struct.pack('<60H', *ids))
        needs(folder, shardc, 'build', 'm.shard', '--plan', 'one', '-o', 'prog')
        needs(folder, './prog', 'train', '--data', 'tokens.bin', '--steps', '2', '--save', 'w.safetensors')
        evaluate = ['./prog', 'eval', '--data', 'tokens.bin', '--weights', 'w.safetensors']
        for place in ('changed', 'split'):
            os.mkdir(os.path.join(folder, place))
            shutil.copy(os.path.join(folder, 'w.safetensors'), os.path.join(folder, place, 'part.safetensors'))
        with open(os.path.join(folder, INDEX), 'w') as file:
            json.dump({'metadata': {'total_size': 8192}, 'weight_map': {'tok': 'part.safetensors', 'head': 'part.safetensors'}}, file)
        print(attack_program(folder, rng, count))
        print(attack_input(folder, rng, 'w.safetensors', count // 5, 8, evaluate))
        print(attack_input(folder, rng, 'tokens.bin', count // 5, 16, evaluate))
        wanted = needs(folder, *evaluate)
        print(attack_input(folder, rng, INDEX, count // 2, 0, evaluate[:-1] + [INDEX], wanted))
        print(attack_cache(folder, shardc, rng, 'cpu', [], {}))
        libraries = stubs(shardc)
        if len(libraries) == 3:
            print(attack_cache(folder, shardc, rng, 'cuda', ['--target', 'cuda:sm_80'], libraries))
        else:
            print('cache, cuda: skipped: there are no stubs of its libraries')


if __name__ == '__main__':
    main()
