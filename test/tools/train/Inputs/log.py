"""log.py check FILE STEPS EVERY: the lines of a log are those of so many steps, with a held-out loss after every so many (0: none).
log.py losses FILE..: the files have the same steps and losses, to the bit.
log.py close TOLERANCE FILE..: the same within a relative tolerance."""

import json
import sys

KEYS = ["step", "loss", "grad_norm", "lr", "tokens", "seconds", "tokens_per_second", "tflops", "metrics", "data_wait", "data_bytes"]


def lines(path):
    return [json.loads(line) for line in open(path)]


def check(path, steps, every):
    wanted = []
    for step in range(1, steps + 1):
        wanted.append((step, KEYS))
        if every and (step % every == 0 or step == steps):
            wanted.append((step, ["step", "eval_loss"]))
    got = [(line["step"], list(line)) for line in lines(path)]
    assert got == wanted, "got %s" % got
    for line in lines(path):
        if "loss" in line:
            assert 0 <= line["data_wait"] <= line["seconds"] and line["data_bytes"] == 4 * 9, line
            assert line["tokens"] == 32 and line["lr"] == 0.01 and list(line["metrics"]) == ["out2", "right"] and line["metrics"]["out2"] == line["metrics"]["right"], line
            assert abs(line["tokens_per_second"] * line["seconds"] - line["tokens"]) < 1e-6, line
            # of a token, twice: up, down in two layers and the head, 4 D F + V D; the backward pass has two products for each
            assert abs(line["tflops"] * line["seconds"] * 1e12 - 6 * 32 * (4 * 16 * 32 + 256 * 16)) < 1, line


def losses(paths, tolerance):
    first, *others = [[(line["step"], line["loss"], line["grad_norm"]) for line in lines(path) if "loss" in line] for path in paths]
    for other in others:
        assert len(first) == len(other), "%d and %d steps" % (len(first), len(other))
        for a, b in zip(first, other):
            assert a[0] == b[0] and all(abs(x - y) <= tolerance * abs(x) for x, y in zip(a[1:], b[1:])), "%s and %s" % (a, b)


if sys.argv[1] == "check":
    check(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[1] == "losses":
    losses(sys.argv[2:], 0)
else:
    losses(sys.argv[3:], float(sys.argv[2]))
