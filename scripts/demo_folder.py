#!/usr/bin/env python3
"""demo_folder.py OUT TEXT: a model folder as Hugging Face has them, for scripts/demo: config.json of a small Llama, and a tokenizer.json whose merges
are learned from the text (byte-level BPE)."""

import collections
import json
import os
import re
import sys

MERGES = 256
# The words of the pattern that the tokenizer splits text by.
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


def letters():
    """The characters that stand for bytes: printable ones for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def learn(text, alphabet, count):
    """Merges of the pairs that are most frequent in words; of several, the least."""
    words = collections.Counter(tuple(alphabet[b] for b in w.encode()) for w in re.findall(PATTERN, text))
    merges = []
    for _ in range(count):
        pairs = collections.Counter()
        for word, often in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += often
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        words = collections.Counter({merged(word, best): often for word, often in words.items()})
    return merges


def merged(word, pair):
    out, i = [], 0
    while i < len(word):
        joins = word[i : i + 2] == pair
        out.append("".join(pair) if joins else word[i])
        i += 2 if joins else 1
    return tuple(out)


def main():
    out, path = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    alphabet = letters()
    merges = learn(text, alphabet, MERGES)
    tokens = [*alphabet, *("".join(m) for m in merges)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [" ".join(m) for m in merges]},
    }
    for name, value in ("config.json", {**CONFIG, "vocab_size": len(tokens)}), ("tokenizer.json", tokenizer):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
