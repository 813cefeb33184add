"""A dense model in numpy alone: 784-200-200-62 of FEMNIST, or other sizes.

Widths are the arguments. It tests the protocol without PyTorch.
"""
import sys

import fedpace
import numpy as np


class MLP(fedpace.Trainer):
    metrics = [fedpace.Metric("accuracy")]

    def __init__(self, widths):
        self.widths = widths
        self.tensors = [
            t for i, (n, m) in enumerate(zip(widths, widths[1:]))
            for t in (fedpace.Tensor(f"{2 * i}.weight", (m, n)), fedpace.Tensor(f"{2 * i}.bias", (m,)))
        ]

    def initialise(self, seed):
        draws = np.random.default_rng(seed)
        bounds = np.repeat(1 / np.sqrt(self.widths[:-1]), 2)
        return np.concatenate([draws.uniform(-b, b, t.size) for t, b in zip(self.tensors, bounds)]).astype(np.float32)

    def layers(self, model):
        """The weight and the bias of each layer."""
        ends = np.cumsum([t.size for t in self.tensors])[:-1]
        parts = [p.reshape(t.shape) for p, t in zip(np.split(model[: self.size], ends), self.tensors)]
        return list(zip(parts[::2], parts[1::2]))

    def forward(self, model, x, y):
        """The inputs of each layer, the probabilities, and the loss of each sample."""
        inputs, (*hidden, last) = [x], self.layers(model)
        for weight, bias in hidden:
            inputs.append(np.maximum(inputs[-1] @ weight.T + bias, 0))
        scores = inputs[-1] @ last[0].T + last[1]
        scores = scores - scores.max(1, keepdims=True)
        losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(y)), y]
        return inputs, np.exp(scores) / np.exp(scores).sum(1, keepdims=True), losses

    def gradient(self, model, x, y, draws):
        inputs, d, losses = self.forward(model, x, y)
        d[np.arange(len(y)), y] -= 1
        d /= len(y)
        parts = []
        for (weight, _), below in reversed(list(zip(self.layers(model), inputs))):
            parts += [d.sum(0), (d.T @ below).reshape(-1)]
            d = (d @ weight) * (below > 0)
        return losses.mean(), np.concatenate(parts[::-1])

    def measure(self, model, x, y):
        _, probabilities, losses = self.forward(model, x, y)
        return (losses.sum(dtype=np.float64), len(y)), [((probabilities.argmax(1) == y).sum(), len(y))]


if __name__ == "__main__":
    fedpace.run(MLP([int(n) for n in sys.argv[1:]] or [784, 200, 200, 62]))
