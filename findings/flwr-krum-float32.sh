#!/usr/bin/env bash
# flwr 1.42.0: Krum chooses another client where updates are small beside the model.
#
# One expects: Krum takes the update whose nearest neighbours are closest, by squared distances of the
# same float32 values computed exactly.
# It happens: distances are taken of whole models in float32. Around parameters of 1e4, differences of
# 1e-3 are near the resolution of float32, and rounding decides: client 1 in place of client 6.
# Why it matters: late in training updates are small beside the weights, and the rule that shall keep
# Byzantine clients out chooses by rounding.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
import logging

logging.disable(logging.CRITICAL)
import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import strategy


class Reply:
    """What aggregate_train reads of a client's message: arrays by name, and its number of examples."""

    def __init__(self, arrays, examples):
        record = ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})
        self.content = RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": examples})})

    def has_error(self):
        return False

    def has_content(self):
        return True


draws = np.random.default_rng(1)
models = [(np.float32(1e4) + draws.normal(size=50) * 1e-3).astype(np.float32) for _ in range(8)]
byzantine = 2
exact = np.array(models, dtype=np.float64)
distances = ((exact[:, None] - exact[None]) ** 2).sum(-1)
neighbours = len(models) - byzantine - 2
scores = [np.sort(np.delete(distances[i], i))[:neighbours].sum() for i in range(len(models))]
right = int(np.argmin(scores))
server = strategy.Krum(num_malicious_nodes=byzantine)
server.current_arrays = ArrayRecord({"weight": Array(models[0])})
model, _ = server.aggregate_train(1, [Reply({"weight": m}, 1) for m in models])
chosen = next(i for i, m in enumerate(models) if np.array_equal(m, model["weight"].numpy()))
print("exact distances choose client", right, "and flwr chose", chosen)
assert chosen != right, "it chooses the client of exact distances now"
END
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
