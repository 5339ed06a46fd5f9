"""A folder of transformers as `shardc import` makes a model file of it: its logits, and training under plans of its own and others."""

from __future__ import annotations

import array
import dataclasses
import json
import pathlib
import struct
import subprocess

from tensor_files import read_tensors

B, S, Y, STEPS = 4, 8, 6, 5
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.8, 0.95), 1e-7, 0.1, 0.5
OPTIMIZER = f"adamw(lr = {LR}, beta1 = {BETAS[0]}, beta2 = {BETAS[1]}, eps = {EPS}, decay = {DECAY}, clip = {CLIP})"
PRECISION = "precision param = f64, act = f64, grad = f64, opt = f64, cache = f64, reduce = f64;"


@dataclasses.dataclass(frozen=True)
class Run:
    losses: list[float]
    norms: list[float]
    params: dict[str, array.array]


class Failure(Exception):
    pass


def run_shardc(command: list[str], expected: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != expected:
        raise Failure(f"{' '.join(command)}: exits {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def more_plans(model: str, text: str, stacks: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    split = next((line for line in lines if line.endswith(" over tp;")), "")
    free = next((line for line in lines if line.endswith(" over tp if free;")), "shard act S over tp if free;")
    return f"""
plan fsdp2_tp2 for {model} {{
  mesh fsdp = 2, tp = 2;
  shard B over fsdp;
  {split}
  {free}
  shard param, grad, opt * over fsdp;
  {PRECISION}
}}
plan pp2 for {model} {{
  mesh pp = 2;
  stage {stacks} over pp: schedule = one_f_one_b, microbatches = 2, batch = B;
  {PRECISION}
}}
"""


class Imported:
    def __init__(self, shardc: str, folder: pathlib.Path) -> None:
        self.shardc, self.folder = shardc, folder
        self.file = folder / "model.shard"
        run_shardc([shardc, "import", str(folder), "--precision", "f64", "-o", str(self.file)])
        text = self.file.read_text()
        self.model = next(line.split()[3] for line in text.splitlines() if line.startswith("plan one for "))
        begin = text.index("\nminimize ")
        end = text.index(";", begin) + 1
        text = f"{text[:begin]}\nminimize {self.model}.loss with {OPTIMIZER};{text[end:]}"
        encodes = json.loads((folder / "config.json").read_text()).get("is_encoder_decoder", False)
        self.text = text + more_plans(self.model, text, "encoder, decoder" if encodes else "layers")
        self.file.write_text(self.text)
        self.sizes = ["--bind", f"B={B},S={S},Y={Y}" if encodes else f"B={B},S={S}"]

    def check_logits(self, path: pathlib.Path, *options: str) -> str:
        command = [self.shardc, "import", str(self.folder), "--precision", "f64", "-o", "/dev/null", "--check", str(path)]
        return run_shardc(command + list(options)).stderr.strip().splitlines()[-1]

    def train(self, plan: str, tokens: pathlib.Path, *options: str) -> Run:
        log, saved = self.folder / "log", self.folder / "saved.safetensors"
        log.unlink(missing_ok=True)
        command = [self.shardc, "train", str(self.file), "--plan", plan, "--steps", str(STEPS), "--log", str(log), "--save", str(saved)]
        command += ["--weights", str(self.folder / "model.safetensors"), "--input", f"t={tokens}:t", "--input", f"y={tokens}:y"]
        run_shardc(command + self.sizes + list(options))
        steps = [line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]
        return Run([s["loss"] for s in steps], [s["grad_norm"] for s in steps], read_tensors(saved))


def header_of(path: pathlib.Path) -> dict[str, list[int]]:
    """Shapes by name."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return {name: entry["shape"] for name, entry in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"}
