#!/usr/bin/env python3
"""Writes fedavg.json: a plain loop of FedAvg in PyTorch on CIFAR-100, of a ResNet of eight
layers with group norm, for three seeds.

    /usr/bin/python3 fedavg.py FOLDER > fedavg.json      (CIFAR-100's binary version)

Client c has the 50 samples from 50·c on. A round asks 5 of 20 clients for 5 steps on 16
samples each, all by the hash of sums.py, as fedavg_test.go does. The file also holds the
gradient of the first 32 samples (sums.py).
"""
import json
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layers import fill, resnet8  # noqa: E402
from sums import hashes, summary, uniform  # noqa: E402

CLIENTS, OWN, COHORT, STEPS, BATCH, ROUNDS, HELD, RATE = 20, 50, 5, 5, 16, 20, 200, 0.05


def images(path, count):
    """Pixels from -2 to 2, and fine labels."""
    raw = np.fromfile(path, dtype=np.uint8, count=count * 3074).reshape(count, 3074)
    x = raw[:, 2:].astype(np.float32) / np.float32(63.75) - np.float32(2)
    return torch.tensor(x.reshape(count, 3, 32, 32)), torch.tensor(raw[:, 1].astype(np.int64))


def first(stream, n, most):
    """The first n of a permutation of 0..most-1."""
    return np.argsort(hashes(stream, most), kind="stable")[:n]


def evaluate(model, x, y):
    with torch.no_grad():
        z = model(x)
        return float(torch.nn.functional.cross_entropy(z, y)), float((z.argmax(1) == y).float().mean())


def main():
    folder = sys.argv[1]
    x, y = images(os.path.join(folder, "train.bin"), CLIENTS * OWN)
    held = images(os.path.join(folder, "test.bin"), HELD)
    model = resnet8(3, 100)
    fill(model)
    torch.nn.functional.cross_entropy(model(x[:32]), y[:32]).backward()
    gradient = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]).astype(np.float64)
    result = {"gradient": summary(gradient), "runs": []}
    for seed in range(3):
        fill(model)
        with torch.no_grad():  # each seed starts elsewhere
            for t, p in enumerate(model.parameters()):
                if p.dim() > 1:
                    p.copy_((torch.tensor(uniform(5000 + 100 * seed + t, p.numel())) / np.float32(np.sqrt(p[0].numel()))).view_as(p))
        base = [p.detach().clone() for p in model.parameters()]
        losses, accuracies = [], []
        for r in range(ROUNDS):
            total = [torch.zeros_like(p, dtype=torch.float64) for p in base]
            for c in first(10_000 * (seed + 1) + r, COHORT, CLIENTS):
                with torch.no_grad():
                    for p, b in zip(model.parameters(), base):
                        p.copy_(b)
                for k in range(STEPS):
                    own = first(1_000_000 * (seed + 1) + (r * CLIENTS + int(c)) * STEPS + k, BATCH, OWN)
                    at = torch.tensor(int(c) * OWN + own)
                    model.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()
                    with torch.no_grad():
                        for p in model.parameters():
                            p -= RATE * p.grad
                for s, p, b in zip(total, model.parameters(), base):
                    s += (p.detach().double() - b.double()) / COHORT
            base = [(b.double() + s).float() for b, s in zip(base, total)]
            with torch.no_grad():
                for p, b in zip(model.parameters(), base):
                    p.copy_(b)
            loss, accuracy = evaluate(model, *held)
            losses.append(loss)
            accuracies.append(accuracy)
        result["runs"].append({"losses": losses, "accuracies": accuracies})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
