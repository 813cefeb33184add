#!/usr/bin/env bash
# duckdb 2.0.1: Parquet of a column DOUBLE[3] with a null is not readable for PyArrow.
#
# One expects: a null array is one absent list, as a null DOUBLE[] is.
# It happens: the file has three entries for it, two of which go on with a list that is not there. DuckDB
# and Polars read a null; PyArrow 26.0.1, and with it pandas and Hugging Face's datasets, refuse the column.
# Why it matters: features of clients are often arrays of a fixed length, and one missing sample makes the
# whole table unreadable for most programs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

duckdb.sql("copy (select unnest([[1, 2, 3], null, [4, 5, 6]]::double[3][]) as a) to 'array.parquet'")
duckdb.sql("copy (select unnest([[1, 2, 3], null, [4, 5, 6]]::double[][]) as a) to 'list.parquet'")
want = [[1, 2, 3], None, [4, 5, 6]]
assert [row[0] for row in duckdb.sql("from 'list.parquet'").fetchall()] == want
assert pq.read_table("list.parquet")["a"].to_pylist() == want
assert [None if row[0] is None else list(row[0]) for row in duckdb.sql("from 'array.parquet'").fetchall()] == want
print("entries of a list:", pq.ParquetFile("list.parquet").metadata.row_group(0).column(0).num_values)
print("entries of an array:", pq.ParquetFile("array.parquet").metadata.row_group(0).column(0).num_values)
try:
    read = pq.read_table("array.parquet")["a"].to_pylist()
except (pa.ArrowException, OSError) as error:
    print("PyArrow:", error)
else:
    raise AssertionError(f"PyArrow reads {read} now")
END
uv run --quiet --no-project --python 3.11 --with duckdb==2.0.1 --with pyarrow==26.0.1 python play.py
