#!/usr/bin/env bash
# flwr 1.42.0: the model depends on the order in which clients answer.
#
# One expects: FedAvg of the same 20 replies is the same model, however they are ordered in the list.
# It happens: float32 arrays are added one after another. 20 replies in the opposite order give other
# bits in about three quarters of the parameters.
# Why it matters: replies come in the order of arrival, so two runs with all seeds set differ, and the
# differences grow with every round; an experiment cannot be repeated to the bit.
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


draws = np.random.default_rng(0)
replies = [Reply({"weight": draws.normal(size=1000).astype(np.float32)}, int(n)) for n in draws.integers(1, 100, 20)]
models = []
for ordered in (replies, replies[::-1]):
    model, _ = strategy.FedAvg().aggregate_train(1, ordered)
    models.append(model["weight"].numpy())
different = int((models[0] != models[1]).sum())
print(different, "of 1000 parameters differ, by at most", float(np.abs(models[0] - models[1]).max()))
assert different > 100, "the order of replies does not matter any more"
END
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
