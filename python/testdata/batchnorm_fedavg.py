"""A model with batch norm, as a trainer of fedpace and as a plain loop of FedAvg in PyTorch.

    fedpace run --trainer 'python3 batchnorm_fedavg.py' ...
    python3 batchnorm_fedavg.py FIRST.safetensors LAST.safetensors ROUNDS K ETA MU

By hand it prints how far the model after so many rounds is from that of the plain loop.
Every client has a minibatch of samples, so that the order of samples does not matter.
"""
import json
import os
import sys

import fedpace
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

CLIENTS, SAMPLES = 4, 8
draws = np.random.default_rng(1)
X = draws.normal(size=(CLIENTS + 1, SAMPLES, 6)).astype(np.float32) + np.arange(CLIENTS + 1, dtype=np.float32)[:, None, None]
Y = draws.integers(0, 3, (CLIENTS + 1, SAMPLES))


def model():
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def loss(model, x, y):
    return cross_entropy(model(x), y)


def read(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    types = {"F32": np.float32, "I64": np.int64}
    return {name: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"]).copy())
            for name, t in header.items() if name != "__metadata__"}


def fedavg(state, rounds, steps, rate, mu):
    """Rounds of all clients, who weigh the same; mu is FedProx's."""
    for _ in range(rounds):
        ends = []
        for c in range(CLIENTS):
            local = model()
            local.load_state_dict(state)
            start = [p.detach().clone() for p in local.parameters()]
            optimizer = torch.optim.SGD(local.parameters(), rate)
            for _ in range(steps):
                optimizer.zero_grad()
                away = sum(((p - s) ** 2).sum() for p, s in zip(local.parameters(), start))
                (loss(local, torch.from_numpy(X[c]), torch.from_numpy(Y[c])) + mu / 2 * away).backward()
                optimizer.step()
            ends.append(local.state_dict())
        stacked = {name: torch.stack([end[name] for end in ends]) for name in state}
        state = {name: s.mean(0) if s.is_floating_point() else s.amax(0) for name, s in stacked.items()}
    return state


if "FEDPACE_TRAINER" in os.environ:
    clients = {f"client{c}": (X[c], Y[c]) for c in range(CLIENTS)}
    fedpace.serve(model, loss, data=fedpace.Grouped(clients, held_out=(X[-1], Y[-1])))
else:
    first, last = read(sys.argv[1]), read(sys.argv[2])
    plain = fedavg(first, int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]))
    print(max((plain[name] - last[name]).abs().max().item() for name in last))
