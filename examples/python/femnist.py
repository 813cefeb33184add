"""The paper's model of FEMNIST: 784-200-200-62, dense layers with ReLU between them."""
import fedpace
from torch import nn
from torch.nn.functional import cross_entropy


def model():
    return nn.Sequential(
        nn.Linear(784, 200), nn.ReLU(),
        nn.Linear(200, 200), nn.ReLU(),
        nn.Linear(200, 62),
    )


def loss(model, x, y):
    return cross_entropy(model(x), y)


def metrics(model, x, y):
    scores = model(x)
    return {
        "loss": (cross_entropy(scores, y, reduction="sum"), len(y)),
        "accuracy": ((scores.argmax(1) == y).sum(), len(y)),
    }


fedpace.serve(model, loss, metrics)
