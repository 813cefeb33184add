#!/usr/bin/env bash
# flwr 1.42.0: adaptive clipping moves the bound away from its quantile.
#
# One expects: the bound follows a quantile of the updates' norms (Andrew et al. 2021): it grows while more
# updates are clipped than the quantile says, and the median of norms is where it stays for 0.5.
# It happens: it shrinks while all updates are clipped, and grows while none is. From 1, with norms of 10, it
# goes to 0; from 20 it goes on growing.
# Why it matters: updates are shortened to nothing, or the bound, and with it the noise, grows without end.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'EOF'
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
import logging

logging.disable(logging.CRITICAL)
import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import strategy


class Reply:
    """What aggregate_train reads of a client's message: arrays by name, and its number of examples."""

    def __init__(self, arrays):
        record = ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})
        self.content = RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 1})})

    def has_error(self):
        return False

    def has_content(self):
        return True


def bound_after(first, rounds=20):
    """The bound after rounds of four clients, each with an update of norm 10."""
    adaptive = strategy.DifferentialPrivacyServerSideAdaptiveClipping(
        strategy.FedAvg(), noise_multiplier=1e-9, num_sampled_clients=4, initial_clipping_norm=first, clipped_count_stddev=1e-9)
    adaptive.current_arrays = ArrayRecord({"w": Array(np.zeros(1))})
    for r in range(rounds):
        adaptive.aggregate_train(r + 1, [Reply({"w": np.array([10.0])}) for _ in range(4)])
        adaptive.current_arrays = ArrayRecord({"w": Array(np.zeros(1))})
    return adaptive.clipping_norm


small, large = bound_after(1.0), bound_after(20.0)
print(f"norms are 10: a bound that begins at 1 is {small:.3g} after 20 rounds, one that begins at 20 is {large:.3g}")
assert small < 1 and large > 20, "the bound moves towards the norms now"
EOF
uv run --quiet --no-project --python 3.11 --with flwr==1.42.0 python play.py
