"""The noise that devices add together in secure aggregation, as docs/secure-protocol.md describes it.

It is made of whole random numbers alone, so that no rounding gives anything away (Canonne, Kamath,
Steinke 2020). below(n) draws a whole number below n, all with the same probability.
"""

from secrets import randbelow

import numpy as np

from secure import Refusal


def weighted(model, start, shift, clip, step, deviation, weight=1):
    """A weighted update with the device's noise, as words of 64 bits: whole numbers of steps, in units of 2^-44.
    The difference of the model from its start is shortened to the norm clip. The models' values are float32."""
    if not (0 < clip <= 1e4 and 1 <= step <= 2**44 and 1 <= deviation <= 2**24):
        raise Refusal(f"noise of the clip {clip}, the step {step} and the deviation {deviation}")
    difference = model.astype(np.float64) - start.astype(np.float64)
    if not np.isfinite(difference).all():
        raise Refusal("the steps did not stay finite")
    norm = np.sqrt((difference**2).sum())
    factor = clip / norm if norm > clip else 1
    rounded = np.rint(difference * (factor * (weight * 2.0 ** (44 - shift)) / step)).astype(np.int64)
    steps = np.array([int(n) + gaussian(deviation) for n in rounded], np.int64)
    return steps.view(np.uint64) * np.uint64(step)


def gaussian(deviation, below=randbelow):
    """A whole number z with a probability in proportion to exp(-z^2 / (2 deviation^2)) (Algorithm 3)."""
    while True:
        z = laplace(deviation, below)
        distance = abs(z) - deviation
        if bernoulli_exp(distance * distance, 2 * deviation * deviation, below):
            return z


def laplace(scale, below):
    """A whole number z with a probability in proportion to exp(-|z| / scale) (Algorithm 2)."""
    while True:
        low = below(scale)
        if not bernoulli_exp(low, scale, below):
            continue
        high = 0
        while bernoulli_exp(1, 1, below):
            high += 1
        size, negative = low + high * scale, below(2) == 1
        if size or not negative:  # zero has one sign
            return -size if negative else size


def bernoulli_exp(numerator, denominator, below):
    """True with the probability exp(-numerator / denominator) (Algorithm 1)."""
    while numerator > denominator:
        if not bernoulli_exp(1, 1, below):
            return False
        numerator -= denominator
    turn = 1
    while below(denominator * turn) < numerator:
        turn += 1
    return turn % 2 == 1
