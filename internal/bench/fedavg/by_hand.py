"""FedAvg as one would write it by hand for speed: one process, one network, no optimizer object, fused updates.

    by_hand.py [bfloat16]

With bfloat16 products have operands of bfloat16 (autocast), which is another arithmetic than the other tools'.
"""
import random
import sys

import torch
from torch import nn

import work


def main(arithmetic="float32"):
    torch.set_flush_denormal(True)
    net = work.network()
    parameters = list(net.parameters())
    samples = work.Samples()
    for client in range(work.CLIENTS):
        samples.of(client)
    draw = random.Random(work.SEED)
    for _ in range(work.ROUNDS):
        start = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in parameters]
        weights = 0
        for client in draw.sample(range(work.CLIENTS), work.COHORT):
            x, y = samples.of(client)
            for inputs, labels in work.minibatches(x, y, work.K):
                with torch.autocast("cpu", torch.bfloat16, enabled=arithmetic == "bfloat16"):
                    loss = nn.functional.cross_entropy(net(inputs), labels)
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, gradients, alpha=-work.RATE)
            with torch.no_grad():
                torch._foreach_add_(total, parameters, alpha=len(x))
                torch._foreach_copy_(parameters, start)
            weights += len(x)
        with torch.no_grad():
            torch._foreach_div_(total, weights)
            torch._foreach_copy_(parameters, total)
        work.mark()
    work.keep(net.state_dict())


if __name__ == "__main__":
    main(*sys.argv[1:])
