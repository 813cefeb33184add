"""Dense networks with ReLU between their layers, on made up data."""

import json

import numpy as np

SAMPLES = 64


def made_up(features, classes):
    """The device's own data: of each class a pattern and some noise."""
    random = np.random.default_rng(1)
    labels = np.arange(SAMPLES) % min(classes, 8)
    patterns = random.random((8, features)) < 0.2
    return (patterns[labels] * random.uniform(0.5, 1, (SAMPLES, features))).astype(np.float32), labels


def local_steps(start, spec, task):
    """Takes a task's steps from a model. Returns the next one, with the mean loss on the first minibatch
    before its step."""
    if spec.local or spec.noise_multiplier or spec.compression:
        raise ValueError("this device takes plain steps of SGD, and the run wants other ones")
    algorithm = json.loads(spec.algorithm or '{"algorithm": "fedavg"}')
    if algorithm["algorithm"] not in ("fedavg", "fedprox", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "fednova"):
        raise ValueError(f"this device does not know the algorithm {algorithm['algorithm']}")
    kind, widths = spec.model.split(":")
    if kind not in ("mlp", "linear"):
        raise ValueError(f"this device does not know the architecture {spec.model}")
    sizes = [int(width) for width in widths.split(",")]
    x, labels = made_up(sizes[0], sizes[-1])
    model, first = start.copy(), None
    for k in range(task.steps_done, task.steps_done + task.local_steps):
        batch = np.arange(k * spec.batch, (k + 1) * spec.batch) % SAMPLES
        loss, gradient = backward(model, sizes, x[batch], labels[batch])
        first = loss if first is None else first
        proximal = algorithm.get("mu", 0) if algorithm["algorithm"] == "fedprox" else 0
        model -= np.float32(task.learning_rate) * (gradient + np.float32(proximal) * (model - start))
    return model, first


def layers_of(model, sizes):
    """Each layer's weights, a row for each output, and its biases, as views of the model."""
    at = 0
    for inputs, outputs in zip(sizes, sizes[1:]):
        weights, at = model[at : at + inputs * outputs].reshape(outputs, inputs), at + inputs * outputs
        biases, at = model[at : at + outputs], at + outputs
        yield weights, biases


def backward(model, sizes, x, labels):
    """The mean cross-entropy of a minibatch and its gradient."""
    gradient = np.empty_like(model)
    layers, gradients = list(layers_of(model, sizes)), list(layers_of(gradient, sizes))
    seen = [x]
    for i, (weights, biases) in enumerate(layers):
        y = seen[-1] @ weights.T + biases
        seen.append(np.maximum(y, 0) if i < len(layers) - 1 else y)
    logits = seen.pop()
    log_softmax = logits - logits.max(axis=1, keepdims=True)
    log_softmax -= np.log(np.exp(log_softmax).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    delta = np.exp(log_softmax)
    delta[rows, labels] -= 1
    delta /= len(labels)
    for (weights, _), (to_weights, to_biases), below in zip(reversed(layers), reversed(gradients), reversed(seen)):
        to_weights[:] = delta.T @ below
        to_biases[:] = delta.sum(axis=0)
        delta = (delta @ weights) * (below > 0)
    return -float(log_softmax[rows, labels].mean()), gradient
