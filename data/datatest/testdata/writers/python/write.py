"""Writes Parquet files with every writer, and what each writer reads back of them.

    python write.py FOLDER [SEED [WRITER]]

A file NAME.parquet has NAME.json beside it: for each column the values in an order of rows, each as
text that says its type, or a list of such texts. A number is its shortest decimal form, a float the
16 digits of its bits as a double, a text "t" and itself, bytes "b" and their hexadecimal digits.
Values are drawn with long runs, with the whole range of the type, with few different ones, and with
nulls. Each column is read by the writer that wrote it. Prints how many files and columns there are.
"""
import os
import random
import sys
import uuid

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from columns import BOOL, PATTERNS, ROWS, blobs, counts, decimals, drawn, fixed, integers, keep, lists, real, texts

SCALARS = {
    "bool": (pa.bool_(), BOOL),
    **{f"i{b}": (getattr(pa, f"int{b}")(), integers(b, True)) for b in (8, 16, 32, 64)},
    **{f"u{b}": (getattr(pa, f"uint{b}")(), integers(b, False)) for b in (8, 16, 32, 64)},
    "f16": (pa.float16(), real(np.float16)),
    "f32": (pa.float32(), real(np.float32)),
    "f64": (pa.float64(), real(np.float64)),
    "dec9": (pa.decimal128(9, 2), decimals(9, 2)),
    "dec18": (pa.decimal128(18, 3), decimals(18, 3)),
    "dec38": (pa.decimal128(38, 10), decimals(38, 10)),
    "dec76": (pa.decimal256(76, 20), decimals(76, 20)),
    "text": (pa.string(), texts),
    "bytes": (pa.binary(), blobs),
    "fixed": (pa.binary(6), fixed),
    "uuid": (pa.uuid() if hasattr(pa, "uuid") else pa.binary(16), lambda rng: uuid.UUID(int=rng.getrandbits(128)).bytes),
}
NESTED = {
    "list_f32": (pa.list_(pa.float32()), lists(real(np.float32))),
    "list_bool": (pa.list_(pa.bool_()), lists(BOOL)),
    "list_i32": (pa.list_(pa.int32()), lists(integers(32, True))),
    "list_text": (pa.list_(pa.string()), lists(texts)),
    "fixed_list": (pa.list_(pa.float64(), 3), lists(real(np.float64), 3, 3)),
    "lists": (pa.list_(pa.list_(pa.int16())), lists(lists(integers(16, True)))),
    "image": (pa.list_(pa.list_(pa.list_(pa.uint8()))), lists(lists(lists(integers(8, False), 3, 3), 2, 2), 2, 2)),
}


def as_uuid(column, values):
    return [None if v is None else v if isinstance(v, uuid.UUID) else uuid.UUID(bytes=v) for v in values] if column.startswith("uuid") else values


def table(types, rng):
    """A table of PyArrow with a column of each type and pattern."""
    columns = {}
    for name, (kind, draw) in types.items():
        for pattern in PATTERNS:
            values = drawn(draw, pattern, rng)
            storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
            array = pa.array(values, storage)
            columns[f"{name}_{pattern}"] = pa.ExtensionArray.from_storage(kind, array) if storage is not kind else array
    return pa.table(columns)


def pyarrow_files(folder, rng):
    """Every encoding that fits a type, in pages of both versions, under every codec."""
    codecs = ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"]
    fits = {
        "RLE": ["bool"],
        "DELTA_BINARY_PACKED": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"],
        "DELTA_LENGTH_BYTE_ARRAY": ["text", "bytes"],
        "DELTA_BYTE_ARRAY": ["text", "bytes", "fixed", "dec9", "dec38", "uuid", "f16"],
        "BYTE_STREAM_SPLIT": ["f16", "f32", "f64", "i32", "i64", "u32", "u64", "fixed", "dec9", "uuid"],
        "PLAIN": list(SCALARS),
        "dictionary": list(SCALARS),
        "default": list(SCALARS) + list(NESTED),
    }
    number = 0
    for version in ("1.0", "2.0"):
        for encoding, names in fits.items():
            for turn in range(2):
                codec = codecs[number % len(codecs)]
                number += 1
                written = table({n: (SCALARS | NESTED)[n] for n in names}, rng)
                options = dict(data_page_version=version, compression=codec, version=["2.6", "2.4", "1.0"][number % 3])
                options["row_group_size"] = [ROWS, 97][turn]
                options["data_page_size"] = [1 << 20, 100][turn]
                options["write_batch_size"] = [1024, 7][turn]
                options["write_page_checksum"] = turn == 1
                if encoding == "dictionary":
                    options["use_dictionary"] = [c for c in written.column_names if not c.startswith("bool")]
                    options["dictionary_pagesize_limit"] = [1 << 20, 64][turn]
                elif encoding != "default":
                    options["use_dictionary"] = False
                    options["column_encoding"] = {c: encoding for c in written.column_names}
                name = f"pyarrow-v{version[0]}-{encoding.lower()}-{turn}"
                path = os.path.join(folder, name + ".parquet")
                try:
                    pq.write_table(written, path, **options)
                except (OSError, pa.ArrowException, NotImplementedError):
                    one_by_one(folder, name, written, options)
                    continue
                back(folder, name, path)


def back(folder, name, path):
    read = pq.ParquetFile(path).read()
    keep("pyarrow", folder, name, {c: as_uuid(c, read[c].to_pylist()) for c in read.column_names})


def one_by_one(folder, name, written, options):
    """Writes the columns that the writer can write so, each in a file of its own."""
    options = dict(options)
    for column in written.column_names:
        if "column_encoding" in options:
            options["column_encoding"] = {column: next(iter(options["column_encoding"].values()))}
        path = os.path.join(folder, f"{name}-{column}.parquet")
        try:
            pq.write_table(written.select([column]), path, **options)
        except (OSError, pa.ArrowException, NotImplementedError):
            if os.path.exists(path):
                os.remove(path)
            continue
        back(folder, f"{name}-{column}", path)
    leftover = os.path.join(folder, name + ".parquet")
    if os.path.exists(leftover):
        os.remove(leftover)


def pandas_files(folder, rng):
    for turn, codec in enumerate(["snappy", "gzip", None, "zstd"]):
        names = ["bool", "i8", "i16", "i32", "i64", "u8", "u32", "u64", "f32", "f64", "text", "bytes"]
        columns = {}
        for n in names:
            for pattern in PATTERNS:
                values = drawn(SCALARS[n][1], pattern, rng)
                dtype = {"bool": "boolean", "text": "str", "f32": "Float32", "f64": "float64", "bytes": object}.get(n, n.replace("i", "Int").replace("u", "UInt") if n[0] in "iu" else n)
                columns[f"{n}_{pattern}"] = pd.array(values, dtype=dtype) if dtype is not object else pd.Series(values, dtype=object)
        frame = pd.DataFrame(columns)
        frame["category"] = pd.Categorical(drawn(lambda r: r.choice("abc"), "runs", rng))
        name = f"pandas-{codec}"
        path = os.path.join(folder, name + ".parquet")
        frame.to_parquet(path, compression=codec, **({"data_page_version": "2.0"} if turn % 2 else {}))
        read = pd.read_parquet(path, dtype_backend="numpy_nullable")
        keep("pandas", folder, name, {c: list(read[c]) for c in read.columns})


def polars_files(folder, rng):
    kinds = {
        "bool": (pl.Boolean, BOOL), "i8": (pl.Int8, integers(8, True)), "i16": (pl.Int16, integers(16, True)), "i32": (pl.Int32, integers(32, True)), "i64": (pl.Int64, integers(64, True)),
        "u8": (pl.UInt8, integers(8, False)), "u16": (pl.UInt16, integers(16, False)), "u32": (pl.UInt32, integers(32, False)), "u64": (pl.UInt64, integers(64, False)),
        "f32": (pl.Float32, real(np.float32)), "f64": (pl.Float64, real(np.float64)), "text": (pl.String, texts), "bytes": (pl.Binary, blobs), "dec": (pl.Decimal(18, 3), decimals(18, 3)),
        "cat": (pl.Categorical, lambda r: r.choice("abc")), "list_f32": (pl.List(pl.Float32), lists(real(np.float32))), "list_bool": (pl.List(pl.Boolean), lists(BOOL)),
        "array": (pl.Array(pl.Float64, 3), lists(real(np.float64), 3, 3)), "lists": (pl.List(pl.List(pl.Int32)), lists(lists(integers(32, True)))),
    }
    for turn, codec in enumerate(["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"]):
        series = [pl.Series(f"{n}_{p}", drawn(draw, p, rng), dtype=kind) for n, (kind, draw) in kinds.items() for p in PATTERNS]
        frame = pl.DataFrame(series)
        name = f"polars-{codec}"
        path = os.path.join(folder, name + ".parquet")
        frame.write_parquet(path, compression=codec, row_group_size=[None, 97][turn % 2], data_page_size=[None, 100][turn % 2])
        read = pl.read_parquet(path)
        keep("polars", folder, name, {c: read[c].to_list() for c in read.columns})


def duckdb_files(folder, rng):
    kinds = {
        "bool": ("BOOLEAN", BOOL), "i8": ("TINYINT", integers(8, True)), "i16": ("SMALLINT", integers(16, True)), "i32": ("INTEGER", integers(32, True)), "i64": ("BIGINT", integers(64, True)),
        "u8": ("UTINYINT", integers(8, False)), "u16": ("USMALLINT", integers(16, False)), "u32": ("UINTEGER", integers(32, False)), "u64": ("UBIGINT", integers(64, False)),
        "f32": ("FLOAT", real(np.float32)), "f64": ("DOUBLE", real(np.float64)), "text": ("VARCHAR", texts), "bytes": ("BLOB", blobs),
        "dec9": ("DECIMAL(9,2)", decimals(9, 2)), "dec18": ("DECIMAL(18,3)", decimals(18, 3)), "dec38": ("DECIMAL(38,10)", decimals(38, 10)),
        "uuid": ("UUID", lambda r: str(uuid.UUID(int=r.getrandbits(128)))), "enum": ("ENUM('a', 'b', 'c')", lambda r: r.choice("abc")),
        "list_f32": ("FLOAT[]", lists(real(np.float32))), "list_bool": ("BOOLEAN[]", lists(BOOL)), "array": ("DOUBLE[3]", lists(real(np.float64), 3, 3)), "lists": ("INTEGER[][]", lists(lists(integers(32, True)))),
    }
    con = duckdb.connect()
    number = 0
    for version in ("v1", "v2"):
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"):
            number += 1
            con.execute("drop table if exists t")
            con.execute("create table t (" + ", ".join(f'"{n}_{p}" {kind}' for n, (kind, _) in kinds.items() for p in PATTERNS) + ")")
            columns = [drawn(draw, p, rng) for _, draw in kinds.values() for p in PATTERNS]
            con.executemany("insert into t values (" + ", ".join("?" * len(columns)) + ")", [list(row) for row in zip(*columns)])
            name = f"duckdb-{version}-{codec}"
            path = os.path.join(folder, name + ".parquet")
            limit = ["", ", dictionary_size_limit 1", ", string_dictionary_page_size_limit 64"][number % 3]
            con.execute(f"copy t to '{path}' (format parquet, parquet_version {version}, compression {codec}{limit})")
            result = con.execute(f"select * from read_parquet('{path}')")
            names = [d[0] for d in result.description]
            keep("duckdb", folder, name, dict(zip(names, zip(*result.fetchall()))))


def fastparquet_files(folder, rng):
    """Pages of both versions, small and large, of columns that may lack values or may not."""
    objects = {"bool": "bool", "int": "i64", "int32": "i32", "float": "f64", "decimal": "dec9"}
    whole = {"bool": "bool"} | {n: n.replace("u", "uint").replace("i", "int", 1) if n[0] == "i" else n.replace("u", "uint") for n in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")}
    for turn, codec in enumerate(("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4_RAW", "BROTLI") * 2):
        columns, kinds, fixed_text = {}, {}, {}
        for n, dtype in {"bool": "boolean", "i8": "Int8", "i16": "Int16", "i32": "Int32", "i64": "Int64", "u8": "UInt8", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64", "f32": "float32", "f64": "float64", "text": object, "bytes": object}.items():
            for p in PATTERNS:
                columns[f"{n}_{p}"] = pd.Series(drawn(SCALARS[n][1], p, rng), dtype=dtype)
                if dtype is object:
                    kinds[f"{n}_{p}"] = {"bytes": "bytes", "text": "utf8"}[n]
        for n, dtype in whole.items():
            for p in ("runs", "wide", "few"):
                columns[f"whole_{n}_{p}"] = pd.Series(drawn(SCALARS[n][1], p, rng), dtype=dtype)
        for kind, n in objects.items():
            for p in ("runs", "wide", "few"):
                name = f"object_{kind}_{p}"
                columns[name] = pd.Series(drawn(SCALARS[n][1], p, rng), dtype=object)
                kinds[name] = kind
        columns["fixed_wide"] = pd.Series(drawn(fixed, "wide", rng), dtype=object)
        kinds["fixed_wide"] = "bytes"
        fixed_text["fixed_wide"] = 6
        frame = pd.DataFrame(columns)
        frame["category"] = pd.Categorical(drawn(lambda r: r.choice("abc"), "runs", rng))
        version = 1 + turn // 6
        name = f"fastparquet-v{version}-{codec.lower()}"
        path = os.path.join(folder, name + ".parquet")
        # The environment says these two in its users' programs.
        fastparquet.writer.DATAPAGE_VERSION = version
        # Of small pages of version 2 fastparquet cannot read its own.
        fastparquet.writer.MAX_PAGE_SIZE = 300 if version == 1 and turn % 2 else 500 << 20
        fastparquet.write(path, frame, compression=codec, row_group_offsets=97, object_encoding=kinds, fixed_text=fixed_text)
        read = fastparquet.ParquetFile(path).to_pandas()
        keep("fastparquet", folder, name, {c: list(read[c]) for c in read.columns})


def datasets_files(folder, rng):
    import datasets
    from datasets import Dataset, Features, List, Value

    datasets.disable_progress_bars()
    kinds = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64", "text": "string", "bytes": "binary"}
    for turn in range(3):
        columns, features = {}, {}
        for n, kind in kinds.items():
            for p in PATTERNS:
                # from_dict takes no integer of 64 bits.
                columns[f"{n}_{p}"] = drawn(integers(63, False) if n == "u64" else SCALARS[n][1], p, rng)
                features[f"{n}_{p}"] = Value(kind)
        for p in PATTERNS:
            columns[f"list_{p}"] = drawn(lists(real(np.float32)), p, rng)
            features[f"list_{p}"] = List(Value("float32"))
        columns["image"] = drawn(lists(lists(lists(integers(8, False), 3, 3), 4, 4), 4, 4), "wide", rng)
        features["image"] = datasets.Array3D((4, 4, 3), "uint8")
        name = f"datasets-{turn}"
        path = os.path.join(folder, name + ".parquet")
        Dataset.from_dict(columns, features=Features(features)).to_parquet(path, batch_size=[None, 97, 20][turn])
        read = Dataset.from_parquet(path, cache_dir=os.path.join(folder, f"cache{turn}"))
        keep("datasets", folder, name, {c: list(read[c]) for c in read.column_names})


def main():
    folder = sys.argv[1]
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    writers = (pyarrow_files, pandas_files, polars_files, duckdb_files, fastparquet_files, datasets_files)
    for write in writers:
        if len(sys.argv) < 4 or write.__name__ == sys.argv[3] + "_files":
            write(folder, rng)
    for writer, (files, columns) in counts.items():
        print(f"{writer:12} {files} files, {columns} columns")


if __name__ == "__main__":
    main()
