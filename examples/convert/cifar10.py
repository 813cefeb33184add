"""Writes CIFAR-10's Python version as Parquet."""
import glob, os, pickle, pyarrow as pa, pyarrow.parquet as pq

os.makedirs("cifar10", exist_ok=True)
for part, name in (("train", "data_batch_*"), ("test", "test_batch")):
    files = sorted(glob.glob(f"cifar-10-batches-py/{name}"))
    batches = [pickle.load(open(file, "rb"), encoding="bytes") for file in files]
    x = pa.array([row.tobytes() for b in batches for row in b[b"data"]], pa.binary(3072))
    y = [label for b in batches for label in b[b"labels"]]
    pq.write_table(pa.table({"x": x, "y": y}), f"cifar10/{part}.parquet")
