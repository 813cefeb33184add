"""Writes partitions of flwr-datasets as Parquet, a file for each client."""
import os
from flwr_datasets import FederatedDataset
from flwr_datasets.partitioner import DirichletPartitioner

parts = DirichletPartitioner(num_partitions=5, partition_by="label", alpha=0.5, seed=1)
digits = FederatedDataset(dataset="./digits", partitioners={"train": parts})
for part in ("train", "test"):
    os.makedirs(f"clients/{part}", exist_ok=True)
for i in range(5):
    digits.load_partition(i).to_parquet(f"clients/train/client_{i}.parquet")
digits.load_split("test").to_parquet("clients/test/all.parquet")
