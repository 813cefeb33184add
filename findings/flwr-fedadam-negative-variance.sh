#!/usr/bin/env bash
# flwr 1.42.0: FedAdam makes the running variance of a batch norm negative.
#
# One expects: buffers such as running_var are averaged; every client sends a variance of 0.005, so the
# model has 0.005.
# It happens: the adaptive step is applied to every array of the record, trained or not. A step of eta in
# the direction of the change overshoots, and a variance of 0.01 becomes -0.015 in the first round.
# Why it matters: a model with batch norm then computes the root of a negative number: losses are NaN at
# the first evaluation, and a lower learning rate of the clients does not help.
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


server = strategy.FedAdam(eta=0.1)
server.current_arrays = {"weight": np.array([0.5]), "running_var": np.array([0.01])}
replies = [Reply({"weight": np.array([0.5]), "running_var": np.array([0.005])}, 1) for _ in range(2)]
model, _ = server.aggregate_train(1, replies)
variance = float(model["running_var"].numpy()[0])
print("clients sent 0.005, the model has", variance)
assert variance < 0, "the variance stays between the values that clients sent now"
END
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
