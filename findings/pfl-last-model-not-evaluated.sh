#!/usr/bin/env bash
# pfl 0.6.0: users never evaluate the last model.
#
# One expects: with evaluation_frequency=1 every model is evaluated, the one that run returns included.
# It happens: an iteration evaluates the model that it begins with. Three iterations evaluate those of 0, 1
# and 2 updates, and return that of 3.
# Why it matters: the last value of a curve is of another model than the one that is kept.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'EOF'
import logging

logging.disable(logging.CRITICAL)
import asyncio

asyncio.set_event_loop(asyncio.new_event_loop())
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.hyperparam import ModelHyperParams
from pfl.metrics import Metrics


class Model:
    """Counts the updates that have made it."""

    updates = 0

    def apply_model_update(self, statistics):
        self.updates += 1
        return self, Metrics()


class Statistics:
    def average(self):
        pass


class Backend:
    """Notes which models pfl has users evaluate."""

    evaluated = []

    async def async_gather_results(self, model, training_algorithm, central_context):
        if central_context.do_evaluation:
            self.evaluated.append(model.updates)
        return Statistics(), Metrics()


backend = Backend()
params = NNAlgorithmParams(central_num_iterations=3, evaluation_frequency=1, train_cohort_size=1, val_cohort_size=None)
model = FederatedAveraging().run(params, backend, Model(), ModelHyperParams(), ModelHyperParams(), send_metrics_to_platform=False)
print("pfl returns the model of", model.updates, "updates, and evaluated those of", backend.evaluated)
assert model.updates == 3 and model.updates not in backend.evaluated, "the last model is evaluated now"
EOF
uv run --quiet --no-project --python 3.11 --with pfl==0.6.0 python play.py
