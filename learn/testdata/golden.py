#!/usr/bin/env python3
"""Writes golden.json: what PyTorch makes of 50 steps of SGD on each model, and of the
optimizers on one.

    /usr/bin/python3 golden.py > golden.json      (Debian: python3-torch)

Weights and batches come from a hash that golden_test.go has too, so that the file
holds results only. Of the parameters it holds their norm, how far they moved, and
64 sums with pseudo-random signs (sums.py).

    golden.py SPEC < before > after

takes one step from each of the parameter vectors that it reads (float32, little-endian),
with the batch of that step, and writes where it leads: every parameter, for a test that
has PyTorch.
"""
import json
import os
import sys

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sums import flat, hashes, summary, uniform  # noqa: E402

torch.set_num_threads(1)


class Characters(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, hidden, layers, batch_first=True)
        self.linear = nn.Linear(hidden, vocabulary)

    def forward(self, x):
        return self.linear(self.gru(self.embedding(x))[0][:, -1])


MODELS = [
    # spec, module, input, classes, batch, rate
    ("linear:5000,2", nn.Linear(5000, 2), "sparse", 2, 8, 30.0),
    ("mlp:784,62", nn.Sequential(nn.Linear(784, 62)), (784,), 62, 32, 0.05),
    (
        "mlp:784,200,200,62",
        nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62)),
        (784,), 62, 32, 0.3,
    ),
    (
        "cnn:3x32x32,32,64,512,100",
        nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(), nn.Linear(512, 100),
        ),
        (3, 32, 32), 100, 32, 0.1,
    ),
    ("gru:80,79,8,128,2", Characters(79, 8, 128, 2), "tokens", 79, 32, 0.5),
]

# On a small MLP: how Go writes the optimizer, PyTorch's own, and the clipped norm.
OPTIMIZERS = [
    (
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": False, "weight_decay": 0, "clip": 0, "keep": False},
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), 0, 0.05,
    ),
    (
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "clip": 0.5, "keep": False},
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), 0.5, 0.05,
    ),
    (
        {"optimizer": "sgd", "momentum": 0, "nesterov": False, "weight_decay": 0.1, "clip": 0.25, "keep": False},
        lambda p: torch.optim.SGD(p, lr=0.3, weight_decay=0.1), 0.25, 0.3,
    ),
    (
        {"optimizer": "adam", "beta1": 0.9, "beta2": 0.999, "eps": 1e-08, "weight_decay": 0, "clip": 0, "keep": False},
        lambda p: torch.optim.Adam(p, lr=0.003), 0, 0.003,
    ),
    (
        {"optimizer": "adam", "beta1": 0.8, "beta2": 0.95, "eps": 1e-05, "weight_decay": 0.01, "clip": 0.5, "keep": False},
        lambda p: torch.optim.Adam(p, lr=0.003, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.01), 0.5, 0.003,
    ),
    (
        {"optimizer": "adamw", "beta1": 0.9, "beta2": 0.999, "eps": 1e-08, "weight_decay": 0.5, "clip": 0, "keep": False},
        lambda p: torch.optim.AdamW(p, lr=0.003, weight_decay=0.5), 0, 0.003,
    ),
]


def batch(stream, kind, classes, n):
    labels = torch.tensor((hashes(stream, n) % np.uint64(classes)).astype(np.int64))
    if kind == "tokens":
        x = torch.tensor((hashes(stream + 1, n * 80) % np.uint64(79)).astype(np.int64).reshape(n, 80))
    elif kind == "sparse":
        # Twelve words a sample, of which neighbours share some.
        x = np.zeros((n, 5000), dtype=np.float32)
        h = hashes(stream + 1, n)
        v = np.abs(uniform(stream + 2, n * 12)).reshape(n, 12)
        for s in range(n):
            x[s, (int(h[s]) % 40) * 7 + 400 * np.arange(12)] = v[s]
        x = torch.tensor(x)
    else:
        x = torch.tensor(uniform(stream + 1, n * int(np.prod(kind))).reshape((n,) + kind))
    return x, labels


def moved(x, start):
    return summary(x) | {"moved": float(np.linalg.norm(x - start))}


def train(spec, module, kind, classes, size, rate, optimiser, clip=0):
    with torch.no_grad():
        for t, p in enumerate(module.parameters()):
            fan = p[0].numel() if p.dim() > 1 else fan  # a bias follows its weight
            if spec.startswith("gru"):
                fan = 128
            p.copy_(torch.tensor(uniform(1000 + t, p.numel()) * np.float32(1 / np.sqrt(fan))).view_as(p))
    start = flat(module)
    optimiser = optimiser(module.parameters())
    result = {"spec": spec, "batch": size, "rate": rate, "losses": []}
    for step in range(50):
        n = size - 13 * size // 32 if step % 7 == 3 else size
        x, y = batch(10_000 + 3 * step, kind, classes, n)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimiser.step()
        result["losses"].append(float(loss.detach()))
        if step == 0:
            result["after1"] = moved(flat(module), start)
    result["after50"] = moved(flat(module), start)
    with torch.no_grad():
        x, y = batch(20_000, kind, classes, size)
        z = module(x)
        result["lossSum"] = float(nn.functional.cross_entropy(z, y, reduction="sum"))
        result["correct"] = int((z.argmax(1) == y).sum())
    return result


def load(module, values):
    """Sets all parameters, and returns what is left of the values."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor(values[: p.numel()]).view_as(p))
            values = values[p.numel():]
    return values


def single_steps(spec):
    _, module, kind, classes, size, rate = next(m for m in MODELS if m[0] == spec)
    optimiser = torch.optim.SGD(module.parameters(), lr=rate)
    left, step = np.frombuffer(sys.stdin.buffer.read(), dtype="<f4"), 0
    while len(left):
        left = load(module, left)
        optimiser.zero_grad()
        x, y = batch(10_000 + 3 * step, kind, classes, size)
        nn.functional.cross_entropy(module(x), y).backward()
        optimiser.step()
        sys.stdout.buffer.write(flat(module).astype("<f4").tobytes())
        step += 1


if len(sys.argv) > 1:
    single_steps(sys.argv[1])
    sys.exit()

results = [train(*m, lambda p: torch.optim.SGD(p, lr=m[-1])) for m in MODELS]
for written, optimiser, clip, rate in OPTIMIZERS:
    module = nn.Sequential(nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 62))
    result = train("mlp:784,20,62", module, (784,), 62, 32, rate, optimiser, clip)
    results.append({"optimizer": written} | result)
print(json.dumps(results, indent=1))
