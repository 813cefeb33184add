"""Prints the mean loss of models on all samples of DATA, one a line.

    loss.py MODEL...

A model is a file that work.keep wrote, or a model.safetensors.
"""
import sys

import safetensors.torch
import torch

import work


def main(models):
    file = work.Samples().file
    clients = [file.samples(client) for client in range(file.clients)]
    x = torch.cat([inputs for inputs, _ in clients])
    y = torch.cat([labels for _, labels in clients])
    net = work.network()
    for model in models:
        read = safetensors.torch.load_file if model.endswith(".safetensors") else torch.load
        net.load_state_dict(read(model))
        with torch.no_grad():
            print(torch.nn.functional.cross_entropy(net(x), y).item())


if __name__ == "__main__":
    main(sys.argv[1:])
