#!/usr/bin/env python3
"""Writes layers.json: what PyTorch makes of one batch by each layer and by small networks.

    /usr/bin/python3 layers.py > layers.json      (Debian: python3-torch)

Weights and batches come from the hash of golden.py, so that the file holds results only:
the loss, and of the gradient its norm and 16 sums with pseudo-random signs (sums.py). A network
with batch norms goes on from batch to batch: after each the file has its buffers and the loss of an
evaluation.
"""
import json
import os
import sys

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sums import hashes, summary, uniform  # noqa: E402

torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self, *body, shortcut=None):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = shortcut

    def forward(self, x):
        return self.body(x) + (x if self.shortcut is None else self.shortcut(x))


class States(nn.GRU):
    """A GRU of which the last state or all states go on."""

    def __init__(self, width, state, layers, last):
        super().__init__(width, state, layers, batch_first=True)
        self.last = last

    def forward(self, x):
        y = super().forward(x)[0]
        return y[:, -1] if self.last else y


class Mean(nn.Module):
    """The mean of all positions or of all steps."""

    def forward(self, x):
        return x.mean((2, 3), keepdim=True) if x.dim() == 4 else x.mean(1)


class StepNorm(nn.BatchNorm1d):
    """A batch norm of all steps of sequences."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def conv(i, o, size=3, pad=0, stride=1):
    return nn.Conv2d(i, o, size, stride, pad)


def block(i, o, groups, stride=1):
    shortcut = conv(i, o, 1, 0, stride) if i != o or stride > 1 else None
    return Residual(
        conv(i, o, 3, 1, stride), nn.GroupNorm(groups, o), nn.ReLU(), conv(o, o, 3, 1), nn.GroupNorm(groups, o),
        shortcut=shortcut,
    )


def resnet8(channels, classes):
    return nn.Sequential(
        conv(channels, 16, 3, 1), nn.GroupNorm(8, 16), nn.ReLU(),
        block(16, 16, 8), nn.ReLU(), block(16, 32, 8, 2), nn.ReLU(), block(32, 64, 8, 2), nn.ReLU(),
        Mean(), nn.Flatten(), nn.Linear(64, classes),
    )


def block_name(o, groups, stride=1):
    return f"residual([conv({o},3,1,{stride}),norm({groups}),relu,conv({o},3,1,1),norm({groups})])"


RESNET8 = (
    "conv(16,3,1,1),norm(8),relu," + block_name(16, 8) + ",relu," + block_name(32, 8, 2) + ",relu,"
    + block_name(64, 8, 2) + ",relu,average,flatten,dense(100)"
)

RESNET8_BATCH = (
    "conv(16,3,1,1),batch_norm,relu,residual([conv(16,3,1,1),batch_norm,relu,conv(16,3,1,1),batch_norm]),relu,"
    "residual([conv(32,3,1,2),batch_norm,relu,conv(32,3,1,1),batch_norm]),relu,average,flatten,dense(10)"
)


def resnet_batch(channels, classes):
    def block(i, o, stride=1):
        return Residual(
            conv(i, o, 3, 1, stride), nn.BatchNorm2d(o), nn.ReLU(), conv(o, o, 3, 1), nn.BatchNorm2d(o),
            shortcut=conv(i, o, 1, 0, stride) if i != o else None,
        )

    return nn.Sequential(
        conv(channels, 16, 3, 1), nn.BatchNorm2d(16), nn.ReLU(), block(16, 16), nn.ReLU(), block(16, 32, 2), nn.ReLU(),
        Mean(), nn.Flatten(), nn.Linear(32, classes),
    )


S, R, F = nn.Sequential, nn.ReLU, nn.Flatten
CASES = [
    # name in messages, module
    ("layers:values=23,classes=5;dense(5)", S(nn.Linear(23, 5))),
    ("layers:values=23,classes=5;dense(17),relu,dense(5)", S(nn.Linear(23, 17), R(), nn.Linear(17, 5))),
    ("layers:values=23,targets=3;dense(17),relu,dense(3)", S(nn.Linear(23, 17), R(), nn.Linear(17, 3))),
    ("layers:values=24,classes=5;norm(4),dense(5)", S(nn.GroupNorm(4, 24), nn.Linear(24, 5))),
    ("layers:values=23,classes=5;relu,dense(20),norm(5),relu,dense(5)",
     S(R(), nn.Linear(23, 20), nn.GroupNorm(5, 20), R(), nn.Linear(20, 5))),
    ("layers:values=24,classes=5;layer_norm,dense(5)", S(nn.LayerNorm(24), nn.Linear(24, 5))),
    ("layers:values=23,classes=5;dense(20),layer_norm,relu,dense(5)",
     S(nn.Linear(23, 20), nn.LayerNorm(20), R(), nn.Linear(20, 5))),
    ("layers:values=12,classes=5;residual([dense(9),relu,dense(12)]),relu,dense(5)",
     S(Residual(nn.Linear(12, 9), R(), nn.Linear(9, 12)), R(), nn.Linear(12, 5))),
    ("layers:values=12,classes=5;dense(12),relu,residual([dense(12),relu]),residual([relu,dense(12)]),relu,dense(5)",
     S(nn.Linear(12, 12), R(), Residual(nn.Linear(12, 12), R()), Residual(R(), nn.Linear(12, 12)), R(), nn.Linear(12, 5))),
    ("layers:values=12,classes=5;residual([residual([dense(12)]),relu,residual([dense(12)])]),dense(5)",
     S(Residual(Residual(nn.Linear(12, 12)), R(), Residual(nn.Linear(12, 12))), nn.Linear(12, 5))),
    ("layers:image=3x9x11,classes=5;flatten,dense(5)", S(F(), nn.Linear(297, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,3,0,1),flatten,dense(5)", S(conv(3, 7), F(), nn.Linear(441, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,3,1,1),relu,conv(6,3,1,2),relu,flatten,dense(5)",
     S(conv(3, 7, 3, 1), R(), conv(7, 6, 3, 1, 2), R(), F(), nn.Linear(180, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,5,2,3),conv(6,1,0,1),relu,conv(4,2,1,1),flatten,dense(5)",
     S(conv(3, 7, 5, 2, 3), conv(7, 6, 1), R(), conv(6, 4, 2, 1), F(), nn.Linear(80, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,3,1,1),relu,pool(2),conv(6,3,1,1),relu,pool(2),flatten,dense(5)",
     S(conv(3, 7, 3, 1), R(), nn.MaxPool2d(2), conv(7, 6, 3, 1), R(), nn.MaxPool2d(2), F(), nn.Linear(24, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,3,1,2),relu,pool(2),flatten,dense(5)",
     S(conv(3, 7, 3, 1, 2), R(), nn.MaxPool2d(2), F(), nn.Linear(42, 5))),
    ("layers:image=3x9x11,classes=5;conv(7,3,1,1),pool(2),conv(6,3,1,1),pool(3),flatten,dense(5)",
     S(conv(3, 7, 3, 1), nn.MaxPool2d(2), conv(7, 6, 3, 1), nn.MaxPool2d(3), F(), nn.Linear(6, 5))),
    ("layers:image=3x9x11,classes=5;conv(8,3,1,1),relu,average,flatten,dense(5)",
     S(conv(3, 8, 3, 1), R(), Mean(), F(), nn.Linear(8, 5))),
    ("layers:image=3x9x11,classes=5;conv(8,3,0,1),norm(4),relu,conv(5,1,0,1),average,flatten",
     S(conv(3, 8), nn.GroupNorm(4, 8), R(), conv(8, 5, 1), Mean(), F())),
    ("layers:image=4x9x11,classes=5;norm(2),pool(2),norm(1),flatten,dense(5)",
     S(nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.GroupNorm(1, 4), F(), nn.Linear(80, 5))),
    ("layers:image=3x9x11,classes=5;layer_norm,conv(4,3,0,2),layer_norm,relu,conv(5,1,0,1),average,flatten",
     S(nn.LayerNorm((3, 9, 11)), conv(3, 4, 3, 0, 2), nn.LayerNorm((4, 4, 5)), R(), conv(4, 5, 1), Mean(), F())),
    ("layers:image=3x9x11,classes=5;conv(4,3,0,1),relu,pool(2),layer_norm,flatten,dense(5)",
     S(conv(3, 4), R(), nn.MaxPool2d(2), nn.LayerNorm((4, 3, 4)), F(), nn.Linear(48, 5))),
    ("layers:image=4x9x11,classes=5;residual([conv(4,3,1,1),relu]),relu,residual([relu,conv(4,1,0,1)]),pool(2),flatten,dense(5)",
     S(Residual(conv(4, 4, 3, 1), R()), R(), Residual(R(), conv(4, 4, 1)), nn.MaxPool2d(2), F(), nn.Linear(80, 5))),
    ("layers:image=4x9x11,classes=5;residual([conv(6,3,1,2),relu,pool(2)]),relu,flatten,dense(5)",
     S(Residual(conv(4, 6, 3, 1, 2), R(), nn.MaxPool2d(2), shortcut=conv(4, 6, 1, 0, 5)), R(), F(), nn.Linear(36, 5))),
    ("layers:image=2x8x8,classes=5;residual([residual([conv(2,3,1,1)]),relu,conv(3,3,1,1)]),flatten,dense(5)",
     S(Residual(Residual(conv(2, 2, 3, 1)), R(), conv(2, 3, 3, 1), shortcut=conv(2, 3, 1)), F(), nn.Linear(192, 5))),
    ("layers:image=2x6x8,classes=5;residual([conv(3,3,1,4)]),flatten,dense(5)",
     S(Residual(conv(2, 3, 3, 1, 4), shortcut=conv(2, 3, 1, 0, 4)), F(), nn.Linear(12, 5))),
    ("layers:image=1x6x6,targets=2;conv(4,3,0,1),relu,flatten,dense(2)", S(conv(1, 4), R(), F(), nn.Linear(64, 2))),
    ("layers:image=3x16x16,classes=100;" + RESNET8, resnet8(3, 100)),
    ("layers:words=60,classes=4;dense(9),relu,dense(4)", S(nn.Linear(60, 9), R(), nn.Linear(9, 4))),
    ("layers:words=60,targets=2;dense(2)", S(nn.Linear(60, 2))),
    ("layers:tokens=7x13,classes=4;embedding(5),average,dense(4)", S(nn.Embedding(13, 5), Mean(), nn.Linear(5, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),flatten,dense(9),relu,dense(4)",
     S(nn.Embedding(13, 5), F(), nn.Linear(35, 9), R(), nn.Linear(9, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),gru(6,1,last),dense(4)",
     S(nn.Embedding(13, 5), States(5, 6, 1, True), nn.Linear(6, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),gru(6,2,all),average,dense(4)",
     S(nn.Embedding(13, 5), States(5, 6, 2, False), Mean(), nn.Linear(6, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),layer_norm,gru(6,1,all),layer_norm,relu,average,dense(4)",
     S(nn.Embedding(13, 5), nn.LayerNorm(5), States(5, 6, 1, False), nn.LayerNorm(6), R(), Mean(), nn.Linear(6, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),residual([layer_norm,gru(5,1,all)]),average,dense(4)",
     S(nn.Embedding(13, 5), Residual(nn.LayerNorm(5), States(5, 5, 1, False)), Mean(), nn.Linear(5, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),residual([gru(5,1,all)]),relu,average,dense(4)",
     S(nn.Embedding(13, 5), Residual(States(5, 5, 1, False)), R(), Mean(), nn.Linear(5, 4))),
    ("layers:tokens=7x13,classes=4;embedding(5),relu,gru(6,1,all),gru(4,1,last),relu,dense(4)",
     S(nn.Embedding(13, 5), R(), States(5, 6, 1, False), States(6, 4, 1, True), R(), nn.Linear(4, 4))),
    ("layers:values=24,classes=5;batch_norm,dense(5)", S(nn.BatchNorm1d(24), nn.Linear(24, 5))),
    ("layers:values=24,classes=5;dense(20),batch_norm,relu,dense(9),relu,batch_norm,dropout(0),dense(5)",
     S(nn.Linear(24, 20), nn.BatchNorm1d(20), R(), nn.Linear(20, 9), R(), nn.BatchNorm1d(9), nn.Dropout(0), nn.Linear(9, 5))),
    ("layers:values=24,targets=5;dense(20),norm(4),batch_norm,dense(5),batch_norm",
     S(nn.Linear(24, 20), nn.GroupNorm(4, 20), nn.BatchNorm1d(20), nn.Linear(20, 5), nn.BatchNorm1d(5))),
    ("layers:values=12,classes=5;residual([batch_norm,dense(12)]),residual([dense(12),batch_norm]),relu,dense(5)",
     S(Residual(nn.BatchNorm1d(12), nn.Linear(12, 12)), Residual(nn.Linear(12, 12), nn.BatchNorm1d(12)), R(), nn.Linear(12, 5))),
    ("layers:image=3x9x11,classes=5;batch_norm,conv(7,3,1,2),batch_norm,relu,pool(2),conv(6,2,0,1),relu,batch_norm,flatten,dense(5)",
     S(nn.BatchNorm2d(3), conv(3, 7, 3, 1, 2), nn.BatchNorm2d(7), R(), nn.MaxPool2d(2), conv(7, 6, 2), R(), nn.BatchNorm2d(6),
       F(), nn.Linear(12, 5))),
    ("layers:image=3x16x16,classes=10;" + RESNET8_BATCH, resnet_batch(3, 10)),
    ("layers:tokens=7x13,classes=4;embedding(5),batch_norm,gru(6,1,all),batch_norm,relu,average,dense(4)",
     S(nn.Embedding(13, 5), StepNorm(5), States(5, 6, 1, False), StepNorm(6), R(), Mean(), nn.Linear(6, 4))),
    ("layers:words=60,classes=4;dense(9),batch_norm,relu,dense(4)",
     S(nn.Linear(60, 9), nn.BatchNorm1d(9), R(), nn.Linear(9, 4))),
]


def fill(module):
    """Weights as layers_test.go has them."""
    with torch.no_grad():
        for t, p in enumerate(module.parameters()):
            fan = p[0].numel() if p.dim() > 1 else 16
            p.copy_((torch.tensor(uniform(1000 + t, p.numel())) * np.float32(1 / np.sqrt(fan))).view_as(p))
        for m in module.modules():
            if isinstance(m, (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)) and m.weight.dim() == 1:
                m.weight += 1


def batch(name, n):
    """Samples as layers_test.go has them."""
    samples, answers = name[len("layers:"):].split(";")[0].split(",")
    kind, sizes = samples.split("=")
    sizes = [int(v) for v in sizes.split("x")]
    if kind == "tokens":
        x = (hashes(2001, n * sizes[0]) % np.uint64(sizes[1])).astype(np.int64).reshape(n, sizes[0])
    elif kind == "words":
        x = np.zeros((n, sizes[0]), dtype=np.float32)
        h, v = hashes(2001, n), np.abs(uniform(2002, 3 * n)).reshape(n, 3)
        for s in range(n):
            x[s, int(h[s]) % 20 + 20 * np.arange(3)] = v[s]
    else:
        x = uniform(2001, n * int(np.prod(sizes))).reshape([n] + sizes)
    what, count = answers.split("=")
    if what == "targets":
        y = torch.tensor(uniform(2003, n * int(count)).reshape(n, int(count)))
    else:
        y = torch.tensor((hashes(2003, n) % np.uint64(int(count))).astype(np.int64))
    return torch.tensor(x), y


def loss(z, y):
    return nn.functional.mse_loss(z, y) if y.is_floating_point() else nn.functional.cross_entropy(z, y)


def main():
    results = []
    for name, module in CASES:
        fill(module)
        # Buffers lie behind what trains, those of integers last.
        buffers = sorted(module.named_buffers(), key=lambda item: not item[1].is_floating_point())
        names = [k for k, _ in module.named_parameters()] + [k for k, _ in buffers]
        result = {"name": name, "tensors": names, "batches": []}
        for n in (70, 5) if buffers else (37, 5):
            x, y = batch(name, n)
            module.zero_grad()
            value = loss(module(x), y)
            value.backward()
            gradient = np.concatenate([p.grad.numpy().ravel() for p in module.parameters()]).astype(np.float64)
            measured = {"n": n, "loss": float(value.detach()), "gradient": summary(gradient, 16)}
            if buffers:
                measured["buffers"] = [float(v) for _, b in buffers for v in b.flatten()]
                with torch.no_grad():
                    measured["evaluation"] = float(loss(module.eval()(x), y))
                module.train()
            result["batches"].append(measured)
        results.append(result)
    print("[" + ",\n".join(json.dumps(r) for r in results) + "]")


if __name__ == "__main__":
    main()
