"""Writes the samples that all programs of this folder train on, as Parquet, and the weights that they start from.

    data.py measured|check FILE.parquet WEIGHTS.safetensors

The measured set has 300 clients of 224 to 384 samples, a multiple of 32, so that all minibatches of 32 are full,
however a tool ends an epoch. The check set has 4 clients of 32 samples or fewer: each minibatch has all of a
client's samples, so that no tool's draw of minibatches has a part in what comes out.
A sample has 784 numbers around the mean of its class, one of 62. A client has its own mix of classes.
"""
import sys

import numpy
import pyarrow
import pyarrow.parquet
import safetensors.torch

import work

SEED = 1
FEATURES = 784
CLASSES = 62
CHECK_SIZES = [32, 24, 16, 8]
HELD_OUT = 64  # samples of client 0 that nothing trains on: fedpace wants some


def main(which, table, weights):
    rng = numpy.random.default_rng(SEED)
    sizes = CHECK_SIZES if which == "check" else 32 * rng.integers(7, 13, 300)
    means = rng.standard_normal((CLASSES, FEATURES), dtype="float32") / 2
    labels = []
    for size in [*sizes, HELD_OUT]:
        mix = rng.dirichlet(numpy.full(CLASSES, 0.3))
        labels.append(rng.choice(CLASSES, size, p=mix))
    labels = numpy.concatenate(labels)
    features = means[labels] + rng.standard_normal((len(labels), FEATURES), dtype="float32")
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(features.reshape(-1)), FEATURES)
    clients = [f"c{client:03d}" for client, size in enumerate(sizes) for _ in range(size)]
    columns = {
        "x": lists.cast(pyarrow.list_(pyarrow.float32())),
        "y": labels,
        "client": clients + ["c000"] * HELD_OUT,
        "split": [0] * len(clients) + [1] * HELD_OUT,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), table)
    safetensors.torch.save_file(work.network().state_dict(), weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
