"""Numbers that Go's tests have, too, and what a vector comes to in few of them."""
import numpy as np

SIGNS = 64


def hashes(stream, n):
    """SplitMix64 of stream·2^40 + i."""
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint64) + (np.uint64(stream) << np.uint64(40))
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform(stream, n):
    """float32 in [-1, 1)."""
    u = (hashes(stream, n) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
    return u * np.float32(2) - np.float32(1)


def flat(module):
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()]).astype(np.float64)


def summary(x, count=SIGNS):
    """The norm of x, and sums of x with pseudo-random signs: the mean square of the
    differences of two vectors' sums estimates the squared norm of their difference."""
    bits = hashes(1, len(x))
    signs = [float(np.where((bits >> np.uint64(j)) & np.uint64(1), x, -x).sum()) for j in range(count)]
    return {"norm": float(np.linalg.norm(x)), "signs": signs}
