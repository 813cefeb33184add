#!/usr/bin/env bash
# safetensors 0.8.0: an array that numpy has transposed is saved scrambled.
#
# One expects: load(save(a.T)) equals a.T. Version 0.7.0 did so.
# It happens: the bytes of the array underneath are written in their own order under the shape of the
# transposed one: [[0, 1], [2, 3], [4, 5]] comes back for [[0, 3], [1, 4], [2, 5]], without an error.
# Why it matters: start models of federated runs are often exported from other frameworks with W.T. The
# run trains from scrambled weights, learns a little slower, and nobody sees why. np.ascontiguousarray
# before saving is right in all versions.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
import numpy as np
from safetensors.numpy import load, save

weight = np.arange(6, dtype=np.float32).reshape(2, 3).T
read = load(save({"weight": weight}))["weight"]
print("saved", weight.tolist(), "read", read.tolist())
assert not np.array_equal(weight, read), "transposed arrays come back as they were now"
right = load(save({"weight": np.ascontiguousarray(weight)}))["weight"]
assert np.array_equal(weight, right)
END
uv run --quiet --no-project --python 3.11 --with safetensors==0.8.0 --with numpy==2.3.5 python play.py
