#!/usr/bin/env bash
# flwr-datasets 0.6.1: IidPartitioner deals a sorted data set into clients of one class each.
#
# One expects: "IID" partitions have about the same mix of classes.
# It happens: rows are dealt as contiguous blocks, without a shuffle. Of 2,000 rows sorted by label, as
# many files are, each of ten clients has a single class: the most skewed partition there is.
# Why it matters: a study of client heterogeneity compares "IID" with skew, and both are skewed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
from datasets import Dataset
from flwr_datasets.partitioner import IidPartitioner

data = Dataset.from_dict({"x": list(range(2000)), "label": [row // 200 for row in range(2000)]})
partitioner = IidPartitioner(num_partitions=10)
partitioner.dataset = data
classes = [len(set(partitioner.load_partition(client)["label"])) for client in range(10)]
print("classes of each client:", classes)
assert classes == [1] * 10, "rows are shuffled now"
END
uv run --quiet --no-project --python 3.11 --with flwr-datasets==0.6.1 python play.py
