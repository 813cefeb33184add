"""Partitions by Flower Datasets' own partitioners, as a table that fedpace reads.

    python3 -m fedpace.flower_datasets own.csv 'DirichletPartitioner(num_partitions=20, partition_by="label", alpha=0.5)' --out parts.parquet
    fedpace init parts.parquet

The table has the columns of the data and one more, `client`, which numbers the partitions: each client
has the samples that the partitioner gives to the partition of its number. Rows that no partition
has are left out, and counted. Data are a CSV, a Parquet file or a folder that datasets.save_to_disk
has written. It needs flwr-datasets 0.6 and pyarrow.
"""

import argparse
import ast
import os
import sys


def partitioner(text):
    """Makes the partitioner that a text calls for: a class of flwr_datasets.partitioner with plain arguments."""
    import flwr_datasets.partitioner as partitioners

    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise SystemExit(f"{text!r} is no call of a partitioner: {error.msg}")
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise SystemExit(f"{text!r} is no call of a partitioner, as IidPartitioner(num_partitions=10)")
    made = getattr(partitioners, call.func.id, None)
    if made is None:
        known = ", ".join(name for name in partitioners.__all__ if name.endswith("Partitioner"))
        raise SystemExit(f"{call.func.id} is no partitioner of flwr_datasets ({known})")
    try:
        arguments = [ast.literal_eval(value) for value in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        raise SystemExit(f"{text!r}: arguments are numbers, texts, lists and maps alone")
    return made(*arguments, **named)


def load(path):
    """Reads the data at a path as a datasets.Dataset."""
    import datasets

    if os.path.isdir(path):
        return datasets.load_from_disk(path)
    kind = {".csv": "csv", ".parquet": "parquet", ".json": "json"}.get(os.path.splitext(path)[1])
    if kind is None:
        raise SystemExit(f"{path}: want a .csv, a .parquet, a .json or a folder of datasets.save_to_disk")
    return datasets.load_dataset(kind, data_files=path, split="train")


def partition(data, parts, column="client"):
    """Returns the rows of all partitions in their order, with the number of each row's partition in a column."""
    import datasets

    if column in data.column_names:
        raise SystemExit(f"the data have a column {column!r} already: name another with --column")
    parts.dataset = data
    lists = []
    for number in range(parts.num_partitions):
        rows = parts.load_partition(number)
        lists.append(rows.add_column(column, [number] * len(rows)))
    return datasets.concatenate_datasets(lists)


def main():
    """Reads the command line and writes the table."""
    parser = argparse.ArgumentParser(prog="python3 -m fedpace.flower_datasets", description=__doc__.split("\n")[0])
    parser.add_argument("data", help="CSV, Parquet or a folder of datasets.save_to_disk")
    parser.add_argument("partitioner", help="a call, as 'IidPartitioner(num_partitions=10)'")
    parser.add_argument("--out", required=True, help="the Parquet file to write")
    parser.add_argument("--column", default="client", help="the column of the partition's number")
    given = parser.parse_args()
    data = load(given.data)
    table = partition(data, partitioner(given.partitioner), given.column)
    table.to_parquet(given.out)
    left = len(data) - len(table)
    over = f", {left} left over" if left else ""
    print(f"{given.out}: {len(table)} rows of {len(set(table[given.column]))} clients{over}; next: fedpace init {given.out}")


if __name__ == "__main__":
    sys.exit(main())
