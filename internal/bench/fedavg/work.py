"""What the programs of this folder share: samples, network, local steps, and how they tell that a round is over.

The environment says how much is done, so that it reaches the processes that a tool starts:
DATA (a prepared file of data.py's samples), CLIENTS, COHORT, K (local steps), ROUNDS, MARKS (a file that gets a
line when a round has been aggregated) and, where the outcome is wanted, KEEP (a file for the model).
"""
import os

for library in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(library, "1")  # a client trains on one core in every tool

import torch
from torch import nn

import prepared

torch.set_num_threads(1)
CLIENTS, COHORT, K, ROUNDS = (int(os.environ.get(name, 0)) for name in ("CLIENTS", "COHORT", "K", "ROUNDS"))
BATCH = 32
RATE = 0.05
SEED = 1


class Network(nn.Sequential):
    """FEMNIST's network. It is a class without arguments, because NVFLARE makes a model anew from its class."""

    def __init__(self):
        super().__init__(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62))


def network():
    """The network with the weights that every tool starts from."""
    torch.manual_seed(SEED)
    return Network()


class Samples:
    """Inputs and labels by client, read when they are first asked for."""

    def __init__(self):
        self.file = prepared.Set(os.environ["DATA"])
        self.read = {}

    def of(self, client):
        if client not in self.read:
            self.read[client] = self.file.samples(client)
        return self.read[client]


def minibatches(x, y, count):
    """So many minibatches, in a new order each epoch."""
    while True:
        for chosen in torch.randperm(len(x)).split(BATCH):
            if count == 0:
                return
            count -= 1
            yield x[chosen], y[chosen]


def local_steps(net, x, y):
    """K steps of SGD, as one usually writes them. Returns the loss of the last."""
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for inputs, labels in minibatches(x, y, K):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def mark():
    """Says that a round is over."""
    with open(os.environ["MARKS"], "a", encoding="utf-8") as marks:
        marks.write("round\n")


def keep(state):
    """Keeps a model, a state_dict, if it is wanted."""
    if os.environ.get("KEEP"):
        torch.save({name: torch.as_tensor(value) for name, value in state.items()}, os.environ["KEEP"])
