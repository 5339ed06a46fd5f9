#!/usr/bin/env python3
"""What gpu-check measures, by PyTorch: in_torch.py WHAT [--device cuda] [--compile] [--small] prints a line of JSON. WHAT:

    versions             of PyTorch and its libraries
    gpt2, llama          train steps as bench/gpt2_124m.shard (plan gpu) and bench/llama_1b.shard (plan step) have them: parameters in f32,
                         bf16 autocast, fused AdamW, clipped gradients
    attention            forward and backward of scaled_dot_product_attention by each of its back ends, B 2, S 8192, causal, in bf16
    matmul               bf16, of the sizes that GPT-2's step has, and 8192^3
    decode               GPT-2 in bf16, a row, a cache of fixed size

--small: sizes that a CPU does at once, for a test of this file."""
import argparse
import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:  # before 2.3
    SDPBackend = sdpa_kernel = None

# ---- models ----


class Sizes:
    def __init__(self, **sizes):
        self.__dict__.update(sizes)


GPT2 = Sizes(vocabulary=50304, positions=1024, layers=12, heads=12, width=768, batch=32, sequence=1024, decoded=1024)
SMALL_GPT2 = Sizes(vocabulary=128, positions=32, layers=2, heads=2, width=32, batch=2, sequence=16, decoded=32)
LLAMA = Sizes(vocabulary=128256, layers=16, width=2048, inner=8192, heads=32, kv_heads=8, head=64, batch=4, sequence=2048)
SMALL_LLAMA = Sizes(vocabulary=256, layers=2, width=32, inner=64, heads=4, kv_heads=2, head=8, batch=2, sequence=16)


class GPT2Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.ln1, self.ln2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
        self.qkv, self.out = nn.Linear(s.width, 3 * s.width), nn.Linear(s.width, s.width)
        self.up, self.down = nn.Linear(s.width, 4 * s.width), nn.Linear(4 * s.width, s.width)

    def split(self, x):
        batch, sequence, width = x.shape
        return self.qkv(self.ln1(x)).view(batch, sequence, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)

    def rest(self, x, mixed):
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate='tanh'))

    def forward(self, x):
        q, k, v = self.split(x)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def begin(self, s):
        """Caches are buffers, so that their addresses are constants for torch.compile."""
        for name in ('keys', 'values'):
            self.register_buffer(name, torch.zeros(1, s.heads, s.decoded, s.width // s.heads), persistent=False)

    def cached(self, x, at, mask):
        q, k, v = self.split(x)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        return self.rest(x, F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask))


class GPT2Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.sizes = s
        self.wte, self.wpe = nn.Embedding(s.vocabulary, s.width), nn.Embedding(s.positions, s.width)
        self.layers, self.norm = nn.ModuleList(GPT2Layer(s) for _ in range(s.layers)), nn.LayerNorm(s.width)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x), self.wte.weight).view(-1, self.sizes.vocabulary), targets.view(-1))

    def next_token(self, token, at, columns):
        x = self.wte(token) + self.wpe(at)
        mask = (columns <= at).view(1, 1, 1, -1)
        for layer in self.layers:
            x = layer.cached(x, at, mask)
        return F.linear(self.norm(x), self.wte.weight)[:, -1].argmax(-1, keepdim=True)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), 1e-5) if hasattr(F, 'rms_norm') else \
            x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * self.weight.to(x.dtype)


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.n1, self.n2 = RMSNorm(s.width), RMSNorm(s.width)
        self.wq = nn.Linear(s.width, s.heads * s.head, bias=False)
        self.wk, self.wv = (nn.Linear(s.width, s.kv_heads * s.head, bias=False) for _ in range(2))
        self.wo = nn.Linear(s.heads * s.head, s.width, bias=False)
        self.w1, self.w3 = (nn.Linear(s.width, s.inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(s.inner, s.width, bias=False)

    def forward(self, x, cos, sin):
        batch, sequence, _ = x.shape
        h = self.n1(x)
        q, k, v = (w(h).view(batch, sequence, -1, self.s.head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.wo(mixed.transpose(1, 2).reshape(batch, sequence, -1))
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


def llama_angles(s, device):
    """Llama 3's scaling of rope: factor 32, low 1, high 4, 8192 positions."""
    rates = 1 / 5e5 ** (torch.arange(0, s.head, 2, device=device).float() / s.head)
    turns = 8192 * rates / (2 * math.pi)
    smooth = ((turns - 1) / (4 - 1)).clamp(0, 1)
    rates = rates * (smooth + (1 - smooth) / 32)
    angles = torch.outer(torch.arange(s.sequence, device=device).float(), rates)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)


class LlamaModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.sizes = s
        self.tok = nn.Embedding(s.vocabulary, s.width)
        self.layers, self.norm = nn.ModuleList(LlamaLayer(s) for _ in range(s.layers)), RMSNorm(s.width)

    def forward(self, tokens, targets, cos, sin):
        x = self.tok(tokens).to(cos.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.cross_entropy(F.linear(self.norm(x), self.tok.weight).view(-1, self.sizes.vocabulary), targets.view(-1))


# ---- time ----


def finish(device):
    if device == 'cuda':
        torch.cuda.synchronize()


def seconds_of(call, device, warm, times, most=None):
    """The median of a call, at most so many seconds in all."""
    for _ in range(warm):
        call()
    finish(device)
    taken, begin = [], time.perf_counter()
    while len(taken) < times and (most is None or not taken or time.perf_counter() - begin < most):
        start = time.perf_counter()
        call()
        finish(device)
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2]


def best_of_events(call, device, times):
    """The least of a call, by events on the GPU, a few calls between two."""
    if device != 'cuda':
        return seconds_of(call, device, 1, 3)
    for _ in range(3):
        call()
    best = math.inf
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(4):
            call()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 4e3)
    return best


# ---- what is measured ----


def trainer(model, device, more=()):
    s = model.sizes
    groups = [{'params': [p for p in model.parameters() if p.dim() >= 2], 'weight_decay': 0.1},
              {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
    rows = torch.randint(s.vocabulary, (s.batch, s.sequence + 1), device=device)
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(forward):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = forward(tokens, targets, *more)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def train(model, options, more=()):
    s, step = model.sizes, trainer(model, options.device, more)
    forward = torch.compile(model) if options.compile else model
    first = step(forward).item()
    seconds = seconds_of(lambda: step(forward), options.device, 2, 20, 12)
    last = step(forward).item()
    if not last < first:
        raise SystemExit('the loss does not fall: %g, then %g' % (first, last))
    memory = torch.cuda.max_memory_allocated() if options.device == 'cuda' else 0
    return {'tokens_per_second': s.batch * s.sequence / seconds, 'seconds': seconds, 'memory': memory}


def initialise(model):
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=0.01 if name == 'wpe.weight' else 0.02)
        elif name.endswith('bias'):
            nn.init.zeros_(parameter)
    return model


def gpt2(options):
    return train(initialise(GPT2Model(SMALL_GPT2 if options.small else GPT2).to(options.device)), options)


def llama(options):
    s = SMALL_LLAMA if options.small else LLAMA
    return train(initialise(LlamaModel(s).to(options.device)), options, llama_angles(s, options.device))


def attention_once(backend, sizes, device, backward):
    q, k, v = (torch.randn(sizes, device=device, dtype=torch.bfloat16, requires_grad=backward) for _ in range(3))
    out_grad = torch.randn(sizes, device=device, dtype=torch.bfloat16)
    with sdpa_kernel(backend):
        if not backward:
            with torch.no_grad():
                return best_of_events(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), device, 5)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return best_of_events(lambda: torch.autograd.grad(out, (q, k, v), out_grad, retain_graph=True), device, 5)


def attention(options):
    result = {}
    for heads, head in ((2, 16), (2, 8)) if options.small else ((16, 128), (32, 64)):
        batch, sequence = (1, 32) if options.small else (2, 8192)
        for name in ('FLASH_ATTENTION', 'CUDNN_ATTENTION'):
            for backward in (False, True):
                key = '%d-%s-%s' % (head, 'backward' if backward else 'forward', name.split('_')[0].lower())
                try:
                    seconds = attention_once(getattr(SDPBackend, name), (batch, heads, sequence, head), options.device, backward)
                except (RuntimeError, AttributeError, TypeError) as why:
                    result[key] = str(why).splitlines()[0][:120] or 'not available'
                    continue
                flops = 2 * batch * heads * sequence * (sequence + 1) / 2 * head * (5 if backward else 2)
                result[key] = flops / seconds / 1e12
    return result


def matmul(options):
    result = {}
    for m, n, k in ((64, 64, 64),) if options.small else ((32768, 3072, 768), (32768, 768, 3072), (32768, 50304, 768), (8192, 8192, 8192)):
        a, b = (torch.randn(sizes, device=options.device).to(torch.bfloat16) for sizes in ((m, k), (k, n)))
        result['%dx%dx%d' % (m, n, k)] = 2 * m * n * k / best_of_events(lambda a=a, b=b: a @ b, options.device, 5) / 1e12
    return result


def decode(options):
    s, device = SMALL_GPT2 if options.small else GPT2, options.device
    model = initialise(GPT2Model(s)).eval()
    for layer in model.layers:
        layer.begin(s)
    model = model.to(device).to(torch.bfloat16)
    columns = torch.arange(s.decoded, device=device)
    next_token = torch.compile(model.next_token, mode='reduce-overhead', fullgraph=True) if options.compile else model.next_token
    token, at = torch.zeros(1, 1, dtype=torch.long, device=device), torch.zeros(1, dtype=torch.long, device=device)
    count = s.decoded - 8

    def some(times):
        for _ in range(times):
            token.copy_(next_token(token, at, columns))
            at.add_(1)

    with torch.no_grad():
        some(6)
        finish(device)
        at.zero_()
        begin, done = time.perf_counter(), 0
        while done + 8 <= count and time.perf_counter() - begin < 6:
            some(8)
            done += 8
        finish(device)
        return {'tokens_per_second': done / (time.perf_counter() - begin)}


def versions(options):
    on_gpu = torch.cuda.is_available()
    return {'torch': torch.__version__, 'cuda': torch.version.cuda, 'gpu': on_gpu,
            'cudnn': torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None}


WHAT = {f.__name__: f for f in (versions, gpt2, llama, attention, matmul, decode)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=WHAT)
    parser.add_argument('--device', default='cuda', choices=('cuda', 'cpu'))
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--small', action='store_true')
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision('highest')
    print(json.dumps(WHAT[options.what](options)), flush=True)


if __name__ == '__main__':
    sys.exit(main())
