"""Each parameter's largest and smallest values are left out: trimmed_mean of fedpace."""
import math

import fedpace


class TrimmedMean(fedpace.Combination):
    def __init__(self, liars=0.2):
        self.liars = liars

    def combine(self, now, updates, combined):
        n = len(updates)
        trimmed = min(math.ceil(self.liars * n - 1e-9), (n - 1) // 2)
        for i, values in enumerate(zip(*updates)):
            total = 0.0
            for value in sorted(values)[trimmed : n - trimmed]:
                total += float(value)
            combined[i] = round(total / (n - 2 * trimmed))
