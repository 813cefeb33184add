"""The linear regression of this example in PyTorch: fedpace reads the CSV by the run's
mapping, and lends the columns to this process.
"""
import fedpace
from torch import nn
from torch.nn.functional import mse_loss


def loss(model, x, y):
    return mse_loss(model(x), y)


def metrics(model, x, y):
    return {"mean_absolute_error": ((model(x) - y).abs().sum(), y.numel())}


fedpace.serve(lambda: nn.Linear(4, 1), loss, metrics, lower=["mean_absolute_error"])
