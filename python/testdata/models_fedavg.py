"""Models with buffers of every kind, as trainers of fedpace and in a plain loop of FedAvg in PyTorch.

    fedpace run --trainer 'python3 models_fedavg.py NAME' ...
    python3 models_fedavg.py NAME FIRST.safetensors LAST.safetensors TASKS.json ETA
    python3 models_fedavg.py NAME TABLE.csv

With a table it writes the samples, for models of fedpace's own. By hand it plays the tasks that a run accepted, each from the model that it began with, and prints
how far the run's model is from the loop's. Both files are loaded strictly, by PyTorch's names.
A client's minibatch is all that it has, so that the order of samples does not matter.
"""
import json
import os
import sys

import fedpace
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

CLIENTS, SAMPLES, WORDS, WIDTH = 6, 8, 7, 12
draws = np.random.default_rng(1)


class Tied(nn.Module):
    """Predicts a word by an output layer that shares the weight of the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 5)
        self.output = nn.Linear(5, WORDS, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.output(self.embedding(x).mean(1))


class Images(nn.Sequential):
    """Layers that read the features as images."""

    def forward(self, x):
        return super().forward(x.view(-1, 1, 3, 4))


class Masked(nn.Module):
    """Attention with a constant mask of -inf, a boolean mask that steps change, and counts."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 5)
        self.output = nn.Linear(5, WORDS)
        self.register_buffer("later", torch.full((WIDTH, WIDTH), float("-inf")).triu(1))
        self.register_buffer("used", torch.zeros(WORDS, dtype=torch.bool))
        self.register_buffer("places", torch.arange(WIDTH))
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int32))

    def forward(self, x):
        if self.training:
            self.used[x] = True
            self.seen += torch.tensor([len(x), 1], dtype=torch.int32)
        x = self.embedding(x[:, self.places])
        attention = torch.softmax(x @ x.transpose(1, 2) + self.later, -1)
        return self.output((attention @ x).mean(1))


MODELS = {
    "batchnorm1d": lambda: nn.Sequential(nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, WORDS)),
    "raw": lambda: nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WORDS)),  # features of salaries
    "cumulative": lambda: nn.Sequential(nn.BatchNorm1d(WIDTH, momentum=None), nn.Linear(WIDTH, WORDS)),
    "batchnorm2d": lambda: nn.Sequential(nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(),
                                         nn.Linear(3 * 2 * 3, WORDS)),
    "groupnorm": lambda: nn.Sequential(nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(),
                                       nn.Linear(4 * 2 * 3, WORDS)),
    "images": lambda: Images(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 2 * 3, WORDS)),
    "tied": Tied,
    "masked": Masked,
}
name = sys.argv[1]
model = MODELS[name]
if name in ("tied", "masked"):
    X = draws.integers(0, WORDS, (CLIENTS + 1, SAMPLES, WIDTH))
else:
    scale = 30_000 if name == "raw" else 1
    X = (draws.normal(size=(CLIENTS + 1, SAMPLES, WIDTH)) + np.arange(CLIENTS + 1)[:, None, None]).astype(np.float32) * np.float32(scale)
Y = draws.integers(0, WORDS, (CLIENTS + 1, SAMPLES))
TYPES = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


def loss(model, x, y):
    return cross_entropy(model(x), y)


def load(path):
    """A model with the tensors of a safetensors file, all of them and no others."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    state = {key: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"]).copy())
             for key, t in header.items() if key != "__metadata__"}
    loaded = model()
    for key, value in loaded.state_dict().items():
        assert value.dtype == state[key].dtype, f"{key} is {state[key].dtype} in the file, and {value.dtype} in the model"
    loaded.load_state_dict(state, strict=True)
    return loaded.state_dict()


def local(state, client, steps, rate):
    """The state after a client's local steps."""
    module = model()
    module.load_state_dict(state)
    optimizer = torch.optim.SGD(module.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(module, torch.from_numpy(X[client]), torch.from_numpy(Y[client])).backward()
        optimizer.step()
    return module.state_dict()


def aggregate(states, tasks, rate):
    """The next state: updates of the newest model or of older ones, of which older ones weigh less."""
    now = states[-1]
    trained = {key for key, t in model().state_dict(keep_vars=True).items() if isinstance(t, nn.Parameter)}
    weights = np.array([(len(states) - t["model"]) ** -0.5 for t in tasks])
    weights /= weights.sum()
    ends = [local(states[t["model"]], t["client"], t["steps"], rate) for t in tasks]
    following = {}
    for key, before in now.items():
        if key in trained:
            moves = [w * (end[key].double() - states[t["model"]][key].double()) for w, t, end in zip(weights, tasks, ends)]
            following[key] = (before.double() + sum(moves)).float()
        elif before.is_floating_point():
            mean = sum(w * end[key].double() for w, end in zip(weights, ends)).float()
            following[key] = torch.where(before.isinf(), before, mean)
        elif before.dtype == torch.bool:
            share = sum(w * end[key].double() for w, end in zip(weights, ends))
            following[key] = torch.where((share - 0.5).abs() < 1e-9, before, share > 0.5)
        else:
            following[key] = torch.stack([before, *(end[key] for end in ends)]).amax(0)
    return following


def write_table(path):
    """Writes the samples of all clients, and the held-out ones, as a table."""
    with open(path, "w") as f:
        f.write("client,split," + ",".join(f"x{i}" for i in range(WIDTH)) + ",y\n")
        for c in range(CLIENTS + 1):
            client, split = (f"client{c}", "train") if c < CLIENTS else ("client0", "test")
            for x, y in zip(X[c], Y[c]):
                f.write(f"{client},{split},{','.join(repr(float(v)) for v in x)},{y}\n")


if "FEDPACE_TRAINER" in os.environ:
    clients = {f"client{c}": (X[c], Y[c]) for c in range(CLIENTS)}
    fedpace.serve(model, loss, data=fedpace.Grouped(clients, held_out=(X[-1], Y[-1])))
elif len(sys.argv) == 3:
    write_table(sys.argv[2])
else:
    states, last = [load(sys.argv[2])], load(sys.argv[3])
    with open(sys.argv[4]) as f:
        rounds = json.load(f)
    for tasks in rounds:
        states.append(aggregate(states, tasks, float(sys.argv[5])) if tasks else states[-1])
    off = 0.0
    for key, want in states[-1].items():
        got = last[key]
        if not want.is_floating_point():
            assert torch.equal(got, want), f"{key} is {got}, the loop's {want}"
            continue
        finite = want.isfinite()
        assert torch.equal(got[~finite], want[~finite]), key
        # Of numbers beyond 1, as the variances of raw features, the error is relative.
        off = max(off, ((got - want).abs() / want.abs().clamp(min=1))[finite].max().item())
    print(off)
