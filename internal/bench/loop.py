"""FedAvg as a plain loop in PyTorch on one core, the peer of a fedpace run.

    loop.py '{"data": "femnist.fedpace", "model": "femnist", "cohort": 60, "k": 80,
              "batch": 32, "rate": 0.3, "rounds": 6, "seed": 1}'

It prints the processor time of the rounds behind the first, and each round's
training loss: the mean of the clients' first minibatches' losses, as fedpace has it.
"""
import json
import os
import pathlib
import re
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch
from torch import nn

import prepared


class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(79, 8)
        self.gru = nn.GRU(8, 128, 2, batch_first=True)
        self.linear = nn.Linear(128, 79)

    def forward(self, x):
        return self.linear(self.gru(self.embedding(x))[0][:, -1])


def cnn(pad, flat, hidden):
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=pad), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=pad), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, 100),
    )


MODELS = {
    "femnist": lambda: nn.Sequential(
        nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62)
    ),
    "cifar100": lambda: cnn(0, 2304, 512),
    "padded": lambda: cnn(1, 4096, 128),
    "shakespeare": Characters,
}


def local_steps(model, parameters, x, y, k, batch, rate):
    """K steps of SGD on a client's samples, in a new order each epoch; the first step's loss."""
    first, todo, batch = None, [], min(batch, len(x))
    for _ in range(k):
        if not todo:
            order = torch.randperm(len(x))
            todo = list(torch.cat([order, order[: -len(x) % batch]]).split(batch))
        minibatch = todo.pop(0)
        loss = nn.functional.cross_entropy(model(x[minibatch]), y[minibatch])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p.sub_(g, alpha=rate)
        first = loss.item() if first is None else first
    return first


def blas():
    """The library behind libblas.so.3, which PyTorch's dense layers go through."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    found = sorted({os.path.basename(os.path.realpath(m)) for m in re.findall(r"/\S*(?:blas|mkl_core)\S*", maps)})
    if not any("open" in name or "mkl" in name for name in found):
        sys.exit(f"PyTorch multiplies by {found}, which is slow: install libopenblas0-pthread")
    return found[-1]


def main(data, model, cohort, k, batch, rate, rounds, seed):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # they would slow it, and ours never meets them
    data, model = prepared.Set(data), MODELS[model]()
    parameters = list(model.parameters())
    cohorts = [torch.randperm(data.clients)[:cohort].tolist() for _ in range(rounds + 1)]
    samples = {c: data.samples(c) for clients in cohorts for c in clients}  # loading is not timed
    losses = []
    for r, clients in enumerate(cohorts):
        if r == 1:  # the first round warms up
            cpu = time.process_time()
        base = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in base]
        losses.append(0)
        for c in clients:
            losses[-1] += local_steps(model, parameters, *samples[c], k, batch, rate) / cohort
            with torch.no_grad():
                for p, b, t in zip(parameters, base, total):
                    t.add_(p)
                    p.copy_(b)
        with torch.no_grad():
            for p, t in zip(parameters, total):
                p.copy_(t / cohort)
    print(json.dumps({"cpu": time.process_time() - cpu, "losses": losses, "torch": torch.__version__,
                      "onednn": torch.backends.mkldnn.is_available(), "blas": blas()}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
