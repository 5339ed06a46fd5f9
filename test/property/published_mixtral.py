#!/usr/bin/env python3
"""A Mixtral trained under expert parallelism is what Hugging Face's MixtralForCausalLM becomes under torch.optim.

Inputs/mixtral.shard reads the file that the model was saved to before its first step: 2 layers, grouped heads, 4 experts of which a token
takes 2, an untied head, random gains. A few steps of adamw and of sgd, with clipping that acts, on other random tokens in each: the losses,
the norms of the gradients and every parameter after the last step agree to 1e-11, on one device and for experts split over ep, alone, with
dp, and with tp and fsdp, each with the forms gather and dispatch; and where dispatch has too little room at first.

All is f64. The published model rounds some values to f32 whatever its dtype is (norms, attention's and the router's softmax, angles, logits);
`Widened` makes these f64, and the losses without it have to be the same to rounding. Variants that define one thing otherwise must not agree.

  published_mixtral.py --shardc build/shardc

Exit status 77: PyTorch or transformers is not installed.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import dataclasses
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from torch.overrides import TorchFunctionMode
    from transformers import MixtralConfig, MixtralForCausalLM
except ImportError as error:
    print(f"skipped: it takes PyTorch and transformers ({error})")
    sys.exit(77)

from tensor_files import read_tensors, write_integers

MODEL = pathlib.Path(__file__).resolve().parent / "Inputs" / "mixtral.shard"
B, S, V, STEPS = 8, 8, 24, 6
WITHIN = 1e-11  # of the tensor's largest
ROUNDED = 1e-5  # with values of f32
FORMS = ("gather", "dispatch")
PLANS = ["one"] + [f"{form}_{axes}" for form in FORMS for axes in ("ep", "ep_dp", "ep_tp_fsdp")] + ["dispatch_tight"]
CLIP = 0.5
DECAY = 0.1
# Each as shardc's and as PyTorch's. Norms' gains do not decay, which is the default of the one and two groups in the other.
OPTIMIZERS = {
    "adamw": (
        "adamw(lr = 1e-2, beta1 = 0.8, beta2 = 0.95, eps = 1e-7, ",
        lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.95), eps=1e-7),
    ),
    "sgd": ("sgd(lr = 0.2, momentum = 0.9, nesterov = 1, ", lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9, nesterov=True)),
}
# What the model and the optimizer say, and what they must not say.
VARIANTS = {
    "gates that are not divided by their sum": ("p / sum[Q](p)", "p"),
    "rotary pairs of neighbours": ("theta = 1e6)", "theta = 1e6, pairs = interleaved)"),
    "another base of the angles": ("theta = 1e6)", "theta = 1e4)"),
    "another eps of the norms": ("+ 1e-5", "+ 1e-6"),
    "heads grouped the other way": ("H = (K, G)", "H = (G, K)"),
    "gains that decay": (f"decay = {DECAY}", f"decay = {DECAY}, decay_all = 1"),
    "gradients that are not clipped": (f", clip = {CLIP}", ""),
}


@dataclasses.dataclass(frozen=True)
class Run:
    losses: list[float]
    norms: list[float]
    params: dict[str, array.array]


class Widened(TorchFunctionMode):
    """What is asked for as f32 is f64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(widen, args), **{name: widen(value) for name, value in (kwargs or {}).items()})


# ---- the published model ----
def draw_model(seed: int) -> MixtralForCausalLM:
    """Weights wide enough that routers prefer experts and gradients are clipped."""
    config = MixtralConfig(
        vocab_size=V, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=4,
        num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-5, tie_word_embeddings=False, output_router_logits=False,
        attn_implementation="eager", experts_implementation="eager",
    )
    model = MixtralForCausalLM(config).double()
    random_numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for param in model.parameters():
            drawn = torch.randn(param.shape, generator=random_numbers, dtype=torch.float64)
            param.copy_(1 + 0.2 * drawn if param.dim() == 1 else 0.3 * drawn)
    return model.train()


def save(model: MixtralForCausalLM, folder: pathlib.Path) -> pathlib.Path:
    model.save_pretrained(folder)
    return folder / "model.safetensors"


def train_published(optimizer: str, tokens: list, folder: pathlib.Path, rounding: contextlib.AbstractContextManager) -> Run:
    """tokens: S + 1 a row. The model itself shifts labels, so the last token of a row is only a target."""
    losses, norms = [], []
    with rounding:
        model = draw_model(seed=1)
        save(model, folder / "before")
        decayed = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        made = OPTIMIZERS[optimizer][1]([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}])
        for step in range(STEPS):
            ids = torch.tensor(tokens[step])
            made.zero_grad()
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
            made.step()
            losses.append(loss.item())
        return Run(losses, norms, read_tensors(save(model, folder / "after")))


# ---- ours ----
def write_tokens(path: pathlib.Path, tokens: list) -> None:
    rows = [row for step in tokens for row in step]
    parts = {"t": [id for row in rows for id in row[:-1]], "y": [id for row in rows for id in row[1:]]}
    write_integers(path, (STEPS, B, S), parts)


def model_text(optimizer: str) -> str:
    return f"{MODEL.read_text()}\nminimize lm.loss with {OPTIMIZERS[optimizer][0]}decay = {DECAY}, clip = {CLIP});\n"


class Trainer:
    def __init__(self, shardc: str, folder: pathlib.Path) -> None:
        self.shardc, self.folder = shardc, folder

    def train(self, plan: str, text: str) -> Run:
        source, data, log, saved = (self.folder / name for name in ("m.shard", "tokens.safetensors", "log", "saved.safetensors"))
        source.write_text(text)
        log.unlink(missing_ok=True)
        command = [self.shardc, "train", str(source), "--plan", plan, "--steps", str(STEPS), "--log", str(log), "--save", str(saved)]
        command += ["--weights", str(self.folder / "before" / "model.safetensors"), "--input", f"t={data}:t", "--input", f"y={data}:y"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exits {done.returncode}\n{done.stderr}")
        if plan == "dispatch_tight" and "[more_capacity]" not in done.stderr:
            raise SystemExit(f"{plan} has room for all rows, so no step is repeated")
        steps = [line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]
        return Run([s["loss"] for s in steps], [s["grad_norm"] for s in steps], read_tensors(saved))


# ---- comparison ----
def difference(got, want) -> float:
    """The largest, of the largest wanted."""
    if len(got) != len(want) or not all(map(math.isfinite, got)):
        return math.inf
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def differences(got: Run, want: Run) -> dict[str, float]:
    assert got.params.keys() == want.params.keys() and len(want.params) > 30 and len(want.losses) == STEPS
    found = {"losses": difference(got.losses, want.losses), "norms of gradients": difference(got.norms, want.norms)}
    return found | {name: difference(got.params[name], values) for name, values in want.params.items()}


def compare_plans(trainer: Trainer, optimizer: str, want: Run, plans: list[str]) -> list[str]:
    faults = []
    for plan in plans:
        found = differences(trainer.train(plan, model_text(optimizer)), want)
        print(f"{optimizer}, {plan}: largest difference {max(found.values()):.1e}", flush=True)
        faults += [f"{optimizer}, {plan}: {name} by {value:.1e}" for name, value in found.items() if not value <= WITHIN]
    return faults


def compare_variants(trainer: Trainer, optimizer: str, want: Run) -> list[str]:
    """Each must differ by more than rounding would, or the comparison shows nothing."""
    faults, text = [], model_text(optimizer)
    for name, (before, after) in VARIANTS.items():
        assert before in text, name
        found = differences(trainer.train("one", text.replace(before, after)), want)
        print(f"{optimizer}, {name}: largest difference {max(found.values()):.1e}", flush=True)
        faults += [f"{optimizer}, {name}: no difference"] if max(found.values()) < 1e4 * WITHIN else []
    return faults


def check_published(optimizer: str, want: Run, rounded: Run, before: dict[str, array.array]) -> list[str]:
    """Clipping acts in each step, each parameter moves, and widening the model's f32 changes nothing but rounding."""
    faults = [f"{optimizer}: step {i + 1} is not clipped" for i, norm in enumerate(want.norms) if norm < 2 * CLIP]
    faults += [f"{optimizer}: {name} stays" for name, values in want.params.items() if difference(values, before[name]) < 1e-3]
    worst = difference(rounded.losses, want.losses)
    print(f"{optimizer}, the published model with its f32: losses differ by {worst:.1e}")
    return faults + ([f"{optimizer}, the published model with its f32: losses by {worst:.1e}"] if not worst <= ROUNDED else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardc", required=True)
    parser.add_argument("--only", default="", metavar="NAME", help="plans whose names begin so")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    numbers = random.Random(3)
    tokens = [[[numbers.randrange(V) for _ in range(S + 1)] for _ in range(B)] for _ in range(STEPS)]
    plans = [plan for plan in PLANS if plan.startswith(arguments.only)]
    faults, runs = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tokens(folder / "tokens.safetensors", tokens)
        trainer = Trainer(arguments.shardc, folder)
        for optimizer in OPTIMIZERS:
            rounded = train_published(optimizer, tokens, folder, contextlib.nullcontext())
            want = train_published(optimizer, tokens, folder, Widened())
            faults += check_published(optimizer, want, rounded, read_tensors(folder / "before" / "model.safetensors"))
            faults += compare_plans(trainer, optimizer, want, plans)
            runs += len(plans)
            if optimizer == "sgd":
                faults += compare_variants(trainer, optimizer, want)
    versions = f"transformers {transformers.__version__} and PyTorch {torch.__version__}"
    print("\n".join(faults) if faults else f"{runs} runs are those of {versions}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
