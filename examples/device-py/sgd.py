"""Dense networks with ReLU between their layers, on made up data."""

import json

import numpy as np

SAMPLES = 64


def made_up(client, features, classes):
    """The data of a device with this number: of each class a pattern, the same for all, and some noise."""
    labels = np.arange(SAMPLES) % min(classes, 8)
    patterns = np.random.default_rng(1).random((8, features)) < 0.2
    noise = np.random.default_rng([2, client]).uniform(0.5, 1, (SAMPLES, features))
    return (patterns[labels] * noise).astype(np.float32), labels


def shape_of(model):
    """The widths of a model's layers, and the factor of the squared norm in its loss."""
    kind, numbers = model.split(":")
    *widths, last = numbers.split(",")
    if kind == "logistic":
        return [int(width) for width in widths], float(last)
    return [int(width) for width in (*widths, last)], 0


def unable(welcome):
    """Why this device cannot take the steps of a run; None if it can."""
    spec = welcome.spec
    if spec.model.split(":")[0] not in ("mlp", "linear", "logistic"):
        return f"it does not know the architecture {spec.model}"
    sizes, _ = shape_of(spec.model)
    if sum((a + 1) * b for a, b in zip(sizes, sizes[1:])) != welcome.params:
        return "some of the model is frozen"
    if spec.local or spec.noise_multiplier or spec.compression or welcome.kept:
        return "it takes plain steps of SGD and sends what comes of them"
    if welcome.schema.target_mean:
        return "it knows classes and no targets"
    name = json.loads(spec.algorithm or '{"algorithm": "fedavg"}')["algorithm"]
    if name not in ("fedavg", "fedprox", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "fednova"):
        return f"it does not know the algorithm {name}"
    return None


def local_steps(start, welcome, task):
    """Takes a task's steps from a model. Returns the next one, with the mean loss on the first minibatch
    before its step. Both are NaN where the steps do not stay finite."""
    spec, (sizes, norm) = welcome.spec, shape_of(welcome.spec.model)
    x, labels = made_up(welcome.client, sizes[0], sizes[-1])
    algorithm = json.loads(spec.algorithm or "{}")
    proximal = algorithm["mu"] if algorithm.get("algorithm") == "fedprox" else 0
    model, first = start.copy(), None
    for k in range(task.steps_done, task.steps_done + task.local_steps):
        batch = np.arange(k * spec.batch, (k + 1) * spec.batch) % SAMPLES
        loss, gradient = backward(model, sizes, x[batch], labels[batch])
        first = loss + norm / 2 * float(model @ model) if first is None else first
        gradient += np.float32(norm) * model + np.float32(proximal) * (model - start)
        model -= np.float32(task.learning_rate) * gradient
    if not np.isfinite(model).all():
        return np.full(1, np.nan, np.float32), np.nan
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
