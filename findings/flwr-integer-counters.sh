#!/usr/bin/env bash
# flwr 1.42.0: FedAvg turns integer arrays into float64.
#
# One expects: num_batches_tracked, an int64 counter of every batch norm in PyTorch, is int64 after a round.
# It happens: 3 of one example and 4 of three examples become 3.75, a float64.
# Why it matters: the averaged record is not what the clients' modules hold. Whoever compares types, saves
# a checkpoint or uses the counter as an index gets an error or a fraction of a batch.
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


replies = [Reply({"batches": np.array([3])}, 1), Reply({"batches": np.array([4])}, 3)]
model, _ = strategy.FedAvg().aggregate_train(1, replies)
counter = model["batches"].numpy()
print("int64 counters became", counter, counter.dtype)
assert counter.dtype == np.float64 and counter[0] == 3.75, "counters keep their type now"
END
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
