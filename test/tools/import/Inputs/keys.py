"""keys.py SHARDC MODELS: of every config.json in MODELS, each key in turn is deleted, given another value, and joined by one that nobody knows.

A deleted key is an error that names it, changes nothing, or is one of those that published files leave out. Another value is an error that
names the key, or changes nothing. An unknown key is an error that names it. The spelling of transformers 4 gives the same file."""
import json
import pathlib
import subprocess
import sys
import tempfile

# What published files leave out, and what the absence means is in every version of transformers the same.
MAY_MISS = {
    "head_dim", "num_key_value_heads", "attention_bias", "mlp_bias", "sliding_window", "tie_word_embeddings", "pad_token_id", "dtype", "n_inner",
    "scale_attn_weights", "use_parallel_residual", "hidden_act", "activation_function", "attention_dropout", "hidden_dropout",
    "attn_logit_softcapping", "final_logit_softcapping", "q_lora_rank", "partial_rotary_factor", "beta_fast", "beta_slow", "truncate", "mscale",
    "mscale_all_dim", "num_decoder_layers", "relative_attention_max_distance",
}


class Importer:
    def __init__(self, shardc, folder):
        self.shardc, self.folder = shardc, pathlib.Path(folder)

    def run(self, config):
        (self.folder / "config.json").write_text(json.dumps(config))
        done = subprocess.run([self.shardc, "import", str(self.folder)], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, done.stdout, done.stderr


def paths(config):
    for key, value in config.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key,) + path for path in paths(value))


def changed(config, path, *value):
    """A copy with another value at the path, or without it."""
    copy = json.loads(json.dumps(config))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return copy


def old_spelling(config):
    old = dict(config)
    rope = dict(old.pop("rope_parameters"))
    old["torch_dtype"] = old.pop("dtype")
    partial = rope.pop("partial_rotary_factor", None)
    old["rotary_emb_base" if old["model_type"] == "gpt_neox" else "rope_theta"] = rope.pop("rope_theta")
    if partial is not None:
        old["rotary_pct" if old["model_type"] == "gpt_neox" else "partial_rotary_factor"] = partial
    old["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return old


def check(importer, config):
    faults, counts = [], {"errors": 0, "same": 0}
    code, text, messages = importer.run(config)
    if code != 0:
        return [messages], counts
    for path in list(paths(config)):
        name = ".".join(path)
        code, without, messages = importer.run(changed(config, path))
        counts["errors" if code else "same"] += 1
        if code != 0 and path[-1] not in messages:
            faults.append(f"without {name}: {messages}")
        if code == 0 and without != text and path[-1] not in MAY_MISS:
            faults.append(f"without {name} the file is another:\n{without}")
        for odd in ("odd", [["odd"]]):
            code, other, messages = importer.run(changed(config, path, odd))
            if code != 0 and path[-1] not in messages or code == 0 and other != text:
                faults.append(f"with {name} = {odd}: exits {code}\n{messages}{other}")
    for outer in [()] + [path for path in paths(config) if isinstance(config.get(path[0]), dict) and len(path) == 1]:
        code, _, messages = importer.run(changed(config, outer + ("surprise",), 1))
        if code != 1 or "surprise" not in messages:
            faults.append(f"{outer} with a key that nobody knows: exits {code} {messages}")
    if "rope_parameters" in config and "rope_theta" in config["rope_parameters"]:
        code, old, messages = importer.run(old_spelling(config))
        if old != text:
            faults.append(f"in the spelling of transformers 4: exits {code}\n{messages}{old}")
        for path in (("rope_parameters",), ("rope_parameters", "rope_theta"), ("rope_parameters", "rope_type")):
            if importer.run(changed(config, path))[0] != 1:
                faults.append(f"without {'.'.join(path)} something is assumed")
    return faults, counts


def main():
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(pathlib.Path(sys.argv[2]).glob("*/config.json")):
            config = json.loads(source.read_text())
            faults, counts = check(Importer(sys.argv[1], folder), config)
            total += len(faults)
            print(f"{source.parent.name}: {counts['errors']} keys are needed, {counts['same']} are not", *faults, sep="\n")
    sys.exit(1 if total else 0)


main()
