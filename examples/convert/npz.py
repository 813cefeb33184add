"""Writes NumPy's own.npz as Parquet."""
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

data = np.load("own.npz")
x = list(data["x"].reshape(len(data["x"]), -1))
pq.write_table(pa.table({"client": data["client"], "x": x, "y": data["y"]}), "own.parquet")
