#!/usr/bin/env bash
# appfl 1.12.0: FedBuff measures an update against the present model, and divides by the population.
#
# One expects: x + (1/K) sum of (x_c - x_tau), with x_tau the model from which client c started and K the
# size of the buffer (Nguyen et al. 2022, Algorithm 1). Two clients start from 0 and send 1, each a buffer
# of its own: the model becomes 1, then 2.
# It happens: the difference is from the present model, and its weight is 1 by the number of clients. The
# model becomes 0.5, then 0.75.
# Why it matters: a stale update takes back what the model has learned since, and the more clients there
# are, the smaller are the steps.
#
# It needs a python3 with PyTorch (Debian: python3-torch), which it does not install.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'EOF'
import torch
from appfl.algorithm.aggregator import FedBuffAggregator
from omegaconf import OmegaConf


class Weight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))


server = FedBuffAggregator(Weight(), OmegaConf.create({"K": 1, "alpha": 1.0, "num_clients": 2, "staleness_fn": "constant"}), None)
for client in ("a", "b"):
    assert server.get_parameters(client_id=client)["w"].item() == 0  # both start from the first model
models = [round(server.aggregate(client, {"w": torch.ones(1)})["w"].item(), 4) for client in ("a", "b")]
print("two clients start from 0 and send 1: FedBuff of the paper makes 1.0 and 2.0, appfl", *models)
assert models == [0.5, 0.75], "it makes other models now"
EOF
python=$(for p in python3 /usr/bin/python3; do if "$p" -c 'import torch' 2> /dev/null; then echo "$p"; break; fi; done)
uv venv --quiet --system-site-packages --python "${python:?no python3 with PyTorch}" venv
VIRTUAL_ENV=$work/venv uv pip install --quiet --no-deps appfl==1.12.0 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 \
	pyyaml==6.0.2 packaging==26.4 opacus==1.4.0 opt-einsum==3.3.0 scipy==1.11.4
venv/bin/python play.py 2> stderr || { cat stderr; exit 1; }
