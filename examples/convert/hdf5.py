"""Writes TensorFlow Federated's HDF5 as Parquet."""
import os, h5py, pyarrow as pa, pyarrow.parquet as pq

os.makedirs("emnist", exist_ok=True)
for part in ("train", "test"):
    with h5py.File(f"fed_emnist_{part}.h5") as file:
        clients = file["examples"]
        owner = [name for name in clients for _ in clients[name]["label"]]
        x = [image.ravel() for name in clients for image in clients[name]["pixels"]]
        y = [int(label) for name in clients for label in clients[name]["label"]]
    pq.write_table(pa.table({"client": owner, "x": x, "y": y}), f"emnist/{part}.parquet")
