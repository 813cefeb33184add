#!/usr/bin/env bash
# flwr 1.42.0: FedAvgM moves a model that every client returns unchanged.
#
# One expects: the server's momentum step subtracts, for each array, the average from the model's array
# of the same name. Where all clients return the model as it is, nothing moves.
# It happens: model and replies are paired by position. If a client's record lists the names in another
# order than the initial record (a state_dict of modules that were registered in another order), arrays of
# equal shape are subtracted from one another without an error, and momentum carries the model away.
# Why it matters: federated runs mix scripts and versions on devices; the loss explodes without a cause
# that anybody sees. Arrays of other shapes raise an error, equal ones (two layers of one width) do not.
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


server = strategy.FedAvgM(server_momentum=0.9)
server.current_arrays = ArrayRecord({"b": Array(np.array([10.0])), "a": Array(np.array([1.0]))})
for number in (1, 2):
    replies = [Reply({"a": np.array([1.0]), "b": np.array([10.0])}, 1) for _ in range(2)]
    model, _ = server.aggregate_train(number, replies)
    seen = {name: float(array.numpy()[0]) for name, array in model.items()}
    print("round", number, seen)
assert abs(seen["a"] + 7.1) < 1e-9 and abs(seen["b"] - 18.1) < 1e-9, "it pairs by name now"
END
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
