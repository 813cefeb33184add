#!/usr/bin/env bash
# nvflare 2.9.0: FedAvg counts a client that took no step as one that took a step.
#
# One expects: in a mean weighted by the steps of the round, a client that says it took 0 steps weighs 0.
# It happens: a number of steps that is 0 counts as 1. Of a client with 1 step that sends 3 and one with
# 0 steps that sends the model as it was, 0, the mean is 1.5, not 3.
# Why it matters: clients without time or samples pull the model back to where it was.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'EOF'
import logging

logging.disable(logging.CRITICAL)
import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.workflows.base_fedavg import BaseFedAvg


def update(value, steps):
    meta = {"NUM_STEPS_CURRENT_ROUND": steps, "client_name": f"client of {steps} steps"}
    return FLModel(params={"w": np.array([value])}, meta=meta, current_round=0)


mean = float(BaseFedAvg.aggregate_fn([update(3.0, 1), update(0.0, 0)]).params["w"][0])
print("one client took 1 step and sends 3, one took 0 steps and sends 0: the mean by steps is", mean)
assert mean == 1.5, "it weighs the client without steps otherwise now"
EOF
uv run --quiet --no-project --python 3.11 --with nvflare==2.9.0 python play.py
