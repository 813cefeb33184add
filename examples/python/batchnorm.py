"""A small convolutional network with batch norm for FEMNIST's images.

The running means and variances travel behind the parameters and are averaged.
"""
import fedpace
from torch import nn
from torch.nn.functional import cross_entropy


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


def model():
    return nn.Sequential(*block(1, 8), *block(8, 16), nn.Flatten(), nn.Linear(16 * 7 * 7, 62))


def loss(model, x, y):
    return cross_entropy(model(x), y)


def metrics(model, x, y):
    return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}


fedpace.serve(model, loss, metrics, shape=(1, 28, 28))
