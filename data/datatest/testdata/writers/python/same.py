"""Writes one table with every writer, and in every layout of folders that they have.

    python same.py FOLDER

Each entry of FOLDER is the table: 8 clients with 20 rows each, sorted by client.
"""
import os
import sys

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1]
os.chdir(folder)
rng = np.random.default_rng(1)
n = 160
y = rng.integers(0, 3, n)
frame = pd.DataFrame({
    "client": [f"{i // 20:03d}" for i in range(n)],
    "x1": rng.normal(size=n) + y,
    "x2": (rng.normal(size=n) * 100).round(2),
    "flag": (rng.random(n) < 0.5),
    "count": rng.integers(-(2**31), 2**31, n),
    "y": y,
})

for version in ("1.0", "2.0"):
    pq.write_table(pa.Table.from_pandas(frame), f"pyarrow-{version[0]}.parquet", data_page_version=version)
frame.to_parquet("pandas.parquet")
pl.from_pandas(frame).write_parquet("polars.parquet")
con = duckdb.connect(config={"threads": 1})
for version in ("v1", "v2"):
    con.execute(f"copy (select * from frame) to 'duckdb-{version}.parquet' (format parquet, parquet_version {version})")
fastparquet.write("fastparquet.parquet", frame)
import datasets

datasets.disable_progress_bars()
datasets.Dataset.from_pandas(frame).to_parquet("datasets.parquet")

frame.to_parquet("pandas-folder", partition_cols=["client"])
con.execute("copy (select * from frame) to 'duckdb-folder' (format parquet, partition_by (client))")
pl.from_pandas(frame).write_parquet("polars-folder/", partition_by="client")

frame.to_csv("comma.csv", index=False)
frame.to_csv("excel.csv", index=False, sep=";", decimal=",")
