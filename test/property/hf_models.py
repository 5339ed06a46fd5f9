#!/usr/bin/env python3
"""Every family of models/ is what transformers makes of the same folder.

Of two small random configurations of each family transformers saves a folder, and `shardc import` writes its model file. In f64, the logits
agree to 1e-9 of the largest; losses, norms and parameters of five steps of AdamW to 1e-8, on one device, under tensor parallelism with
sequence parallelism, with fully sharded data parallelism besides, and in a pipeline of two stages. What `train --save` writes loads in
transformers without a missing, unexpected or reshaped tensor. An encoder and decoder reads texts of two lengths, some padded. The published models round some values to f32 whatever their dtype is; `Widened`
makes these f64, and the logits without it have to be the same to rounding.

  hf_models.py --shardc build/shardc [FAMILY..]

scripts/hf_venv makes a Python that has what it takes. Exit status 77: this one does not.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import pathlib
import random
import sys
import tempfile

# Files of this folder may have the name of a library that transformers imports: it is searched last.
sys.path.append(sys.path.pop(0))
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from torch.overrides import TorchFunctionMode
except ImportError as error:
    print(f"skipped: it takes PyTorch and transformers, which scripts/hf_venv installs ({error})")
    sys.exit(77)

from hf_families import FAMILIES
from imported import BETAS, CLIP, DECAY, EPS, LR, STEPS, B, Failure, Imported, Run, S, Y
from tensor_files import read_tensors

STEPS_WITHIN, ROUNDED = 1e-8, 1e-4  # of the largest; --check takes 1e-9 of logits


class Widened(TorchFunctionMode):
    """What is asked for as f32 is f64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(widen, args), **{name: widen(value) for name, value in (kwargs or {}).items()})


# ---- the published model ----
DRAWN: dict[tuple[str, int, int], list] = {}


def make_model(family: str, case: int, seed: int):
    """Weights wide enough that attention and routers prefer something, and exact in bf16, so that files of them are small."""
    config_class, model_class, cases = FAMILIES[family]
    torch.manual_seed(seed)
    config = getattr(transformers, config_class)(**cases[case])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = getattr(transformers, model_class)(config).double()
    if not getattr(config, "scale_decoder_outputs", True):
        # transformers 5 makes such a T5 with one table, but takes both from files that have two, as those of T5 1.1
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    with torch.no_grad():
        # what a constructor draws depends on the dtype that `Widened` gives it, so that the same model takes the same values
        saved = model.state_dict()
        values = list(model.parameters()) + [b for name, b in model.named_buffers() if name in saved and b.is_floating_point()]
        if (family, case, seed) not in DRAWN:
            DRAWN[family, case, seed] = [torch.randn(value.shape, dtype=torch.float64) for value in values]
        for param, drawn in zip(values, DRAWN[family, case, seed], strict=True):
            param.copy_((1 + 0.2 * drawn if param.dim() == 1 else 0.3 * drawn).bfloat16().double())
    return model.eval()


@dataclasses.dataclass(frozen=True)
class Batch:
    t: torch.Tensor
    y: torch.Tensor


def inputs_of(model, batch: Batch) -> dict:
    """What the published model is called with."""
    if not model.config.is_encoder_decoder:
        return {"input_ids": batch.t}
    kept = batch.t != model.config.pad_token_id
    return {"input_ids": batch.t, "attention_mask": kept, "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(batch.y)}


def loss_of(model, batch: Batch):
    logits = model(**inputs_of(model, batch)).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch.y.reshape(-1).long())


def train_published(model, batches: list[Batch], folder: pathlib.Path) -> Run:
    losses, norms = [], []
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    model.save_pretrained(folder)
    return Run(losses, norms, read_tensors(folder / "model.safetensors"))


def draw_batches(config, seed: int) -> list[Batch]:
    numbers = random.Random(seed)

    def draw(length: int) -> torch.Tensor:
        return torch.tensor([[numbers.randrange(config.vocab_size) for _ in range(length)] for _ in range(B)])

    if not config.is_encoder_decoder:
        return [Batch(ids[:, :-1], ids[:, 1:]) for ids in (draw(S + 1) for _ in range(STEPS))]
    batches = [Batch(draw(S), draw(Y)) for _ in range(STEPS)]
    for batch in batches:  # the last rows are short
        batch.t[-1, S // 2 :] = config.pad_token_id
        batch.y[-2, Y // 2 :] = -100
    return batches


def write_batches(path: pathlib.Path, batches: list[Batch]) -> None:
    save_file({name: torch.stack([getattr(batch, name) for batch in batches]).int() for name in ("t", "y")}, path)


def write_logits(path: pathlib.Path, model, batch: Batch):
    """The model's logits, and its inputs by the names that it gives them; the mask is that of the padding."""
    inputs = inputs_of(model, batch)
    with torch.no_grad():
        logits = model(**inputs).logits
    ids = {name: value.int().contiguous() for name, value in inputs.items() if name != "attention_mask"}
    save_file(ids | {"logits": logits.contiguous()}, path)
    return logits


# ---- comparison ----
def difference(got, want) -> float:
    """The largest, of the largest wanted."""
    if len(got) != len(want) or not all(map(math.isfinite, got)):
        return math.inf
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def differences(got: Run, want: Run) -> dict[str, float]:
    if got.params.keys() != want.params.keys():
        raise Failure(f"saved tensors differ: {sorted(got.params.keys() ^ want.params.keys())}")
    found = {"losses": difference(got.losses, want.losses), "norms of gradients": difference(got.norms, want.norms)}
    return found | {name: difference(got.params[name], values) for name, values in want.params.items()}


def check_loads(family: str, saved: pathlib.Path, config_folder: pathlib.Path, folder: pathlib.Path) -> None:
    """What we saved is a folder that transformers loads with nothing missing or left."""
    folder.mkdir()
    (folder / "config.json").write_bytes((config_folder / "config.json").read_bytes())
    os.link(saved, folder / "model.safetensors")
    model_class = getattr(transformers, FAMILIES[family][1])
    _, info = model_class.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    left = {name: keys for name, keys in info.items() if keys}
    if left:
        raise Failure(f"transformers does not load what was saved: {left}")


def check_case(shardc: str, family: str, case: int, plans: list[str]) -> list[str]:
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(family, case, seed=case + 1)
        model.save_pretrained(folder / "before")
        batches = draw_batches(model.config, seed=3 + case)
        write_batches(folder / "tokens.safetensors", batches)
        with torch.no_grad():
            plain = model(**inputs_of(model, batches[0])).logits
        with Widened():
            wide = write_logits(folder / "io.safetensors", make_model(family, case, seed=case + 1), batches[0])
        rounding = ((plain - wide).abs().max() / wide.abs().max()).item()
        if not rounding <= ROUNDED:
            faults.append(f"{family} {case}: the published model with its f32 differs by {rounding:.1e}")
        ours = Imported(shardc, folder / "before")
        print(f"{family} {case}: {ours.check_logits(folder / 'io.safetensors')}", flush=True)
        with Widened():
            want = train_published(make_model(family, case, seed=case + 1), batches, folder / "after")
        for plan in plans:
            found = differences(ours.train(plan, folder / "tokens.safetensors"), want)
            worst = max(found, key=found.get)
            print(f"{family} {case}, {plan}: largest difference {found[worst]:.1e} ({worst})", flush=True)
            faults += [f"{family} {case}, {plan}: {name} by {value:.1e}" for name, value in found.items() if not value <= STEPS_WITHIN]
        check_loads(family, ours.folder / "saved.safetensors", ours.folder, folder / "loaded")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--plans", default="one,tp2,fsdp2_tp2,pp2")
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    faults, count = [], 0
    for family in arguments.families:
        for case in range(len(FAMILIES[family][2])):
            count += 1
            try:
                faults += check_case(arguments.shardc, family, case, arguments.plans.split(","))
            except Failure as failure:
                faults.append(f"{family} {case}: {failure}")
    versions = f"transformers {transformers.__version__} and PyTorch {torch.__version__}"
    print("\n".join(faults) if faults else f"{count} models are those of {versions}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
