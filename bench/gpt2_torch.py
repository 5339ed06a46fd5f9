"""GPT-2 of 124 million parameters in PyTorch, as bench/gpt2_124m.shard has it, behind a pipe: gpt2_vs_torch.py starts it once for every
mode and asks for a few steps at a time. A request is a line on stdin: `step N`, `calibrate DTYPE` or `end`; each answer is a line of
JSON."""
import argparse
import json
import resource
import sys
import time

STARTED = time.perf_counter()

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, POSITIONS, LAYERS, HEADS, WIDTH = 50257, 1024, 12, 12, 768
BATCH, SEQUENCE = 4, 256


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, sequence, _ = x.shape
        heads = self.qkv(self.ln1(x)).view(batch, sequence, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate='tanh'))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.01 if name == 'wpe.weight' else 0.02)
            elif name.endswith('bias'):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class Trainer:
    def __init__(self, dtype, compiled):
        torch.manual_seed(0)
        self.dtype, self.model = dtype, GPT2()
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{'params': matrices, 'weight_decay': 0.1}, {'params': vectors, 'weight_decay': 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
        self.forward = torch.compile(self.model) if compiled else self.model

    def step(self):
        rows = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1))
        start, cpu = time.perf_counter(), time.process_time()
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=self.dtype == 'bf16'):
            loss = self.forward(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        return {'seconds': time.perf_counter() - start, 'cpu': time.process_time() - cpu, 'loss': value}


def calibrate(dtype, m=1024, k=768, n=3072, budget=1.0):
    """GFLOP/s of one matmul, the best of what fits into the budget."""
    kind = {'f32': torch.float32, 'bf16': torch.bfloat16}[dtype]
    a, b = torch.randn(m, k).to(kind), torch.randn(k, n).to(kind)
    best, end = float('inf'), time.perf_counter() + budget
    while True:
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > end:
            return 2e-9 * m * n * k / best


def answer(request, trainer):
    words = request.split()
    if words[0] == 'calibrate':
        return {'gflops': calibrate(words[1])}
    steps = [trainer.step() for _ in range(int(words[1]))]
    return {'steps': steps, 'peak_rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--dtype', choices=['f32', 'bf16'], default='f32')
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--threads', type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    trainer = Trainer(options.dtype, options.compile)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(json.dumps({'torch': torch.__version__, 'parameters': parameters, 'ready': time.perf_counter() - STARTED}), flush=True)
    for request in sys.stdin:
        if request.strip() == 'end':
            break
        print(json.dumps(answer(request, trainer)), flush=True)


if __name__ == '__main__':
    main()
