"""Writes Parquet files with Spark, and what Spark reads back of them, as write.py does.

    python spark.py columns FOLDER [SEED]
    python spark.py same FOLDER

The first writes files of one part each with a column of each type and pattern. Columns called when_...
hold dates and times. The second writes FOLDER/pandas.parquet anew, in the folders that Spark makes: in
parts, by client, and in its legacy format. Needs Java.
"""
import datetime
import glob
import os
import random
import shutil
import sys

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from columns import BOOL, PATTERNS, blobs, counts, decimals, drawn, integers, keep, lists, real, texts

i16, i32, f32 = integers(16, True), integers(32, True), real(np.float32)
day = lambda rng: datetime.date(1900, 1, 1) + datetime.timedelta(rng.randint(0, 90000))
moment = lambda rng: datetime.datetime(1900, 1, 1) + datetime.timedelta(microseconds=rng.randint(0, 6 * 10**15))
KINDS = {
    "bool": (t.BooleanType(), BOOL),
    "i8": (t.ByteType(), integers(8, True)),
    "i16": (t.ShortType(), i16),
    "i32": (t.IntegerType(), i32),
    "i64": (t.LongType(), integers(64, True)),
    "f32": (t.FloatType(), f32),
    "f64": (t.DoubleType(), real(np.float64)),
    "dec9": (t.DecimalType(9, 2), decimals(9, 2)),
    "dec18": (t.DecimalType(18, 3), decimals(18, 3)),
    "dec38": (t.DecimalType(38, 10), decimals(38, 10)),
    "text": (t.StringType(), texts),
    "bytes": (t.BinaryType(), blobs),
    "list_f32": (t.ArrayType(t.FloatType()), lists(f32)),
    "list_dense": (t.ArrayType(t.DoubleType(), False), lists(real(np.float64))),
    "list_null": (t.ArrayType(t.IntegerType()), lists(lambda rng: None if rng.random() < 0.3 else i32(rng))),
    "list_bool": (t.ArrayType(t.BooleanType()), lists(BOOL)),
    "list_text": (t.ArrayType(t.StringType()), lists(texts)),
    "lists": (t.ArrayType(t.ArrayType(t.ShortType())), lists(lists(i16))),
    "image": (t.ArrayType(t.ArrayType(t.ArrayType(t.ShortType(), False), False), False), lists(lists(lists(i16, 3, 3), 2, 2), 2, 2)),
    "when_day": (t.DateType(), day),
    "when": (t.TimestampType(), moment),
    "when_local": (t.TimestampNTZType(), moment),
}
POINT = t.StructType([t.StructField("x", t.DoubleType()), t.StructField("n", t.IntegerType()), t.StructField("v", t.ArrayType(t.FloatType()))])
CODECS = ["uncompressed", "snappy", "gzip", "zstd", "lz4", "lz4_raw"]


def session():
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    build = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    # Spark's faster reader takes other bytes for texts in pages of version 2 that are not compressed.
    build = build.config("spark.sql.parquet.enableVectorizedReader", "false")
    return build.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "ERROR").getOrCreate()


def columns(spark, folder, rng):
    """Both versions of pages, both formats of lists and decimals, dictionaries or none, and small pages."""
    number = 0
    for version in ("v1", "v2"):
        for legacy in (False, True):
            for turn in range(3):
                fields, values = [], []
                for name, (kind, draw) in KINDS.items():
                    for pattern in PATTERNS:
                        fields.append(t.StructField(f"{name}_{pattern}", kind))
                        values.append(drawn(draw, pattern, rng))
                point = lambda r: {"x": real(np.float64)(r), "n": i32(r), "v": lists(f32)(r)}
                fields.append(t.StructField("point", POINT))
                values.append(drawn(point, "nulls", rng))
                options = {
                    "compression": CODECS[number % len(CODECS)],
                    "parquet.writer.version": version,
                    "parquet.enable.dictionary": ["true", "false", "true"][turn],
                    "parquet.page.size": [1 << 20, 200, 100][turn],
                    "parquet.page.row.count.limit": [20000, 20000, 23][turn],
                    "parquet.page.size.row.check.min": 5,
                    "parquet.dictionary.page.size": [1 << 20, 1 << 20, 300][turn],
                    "parquet.block.row.count.limit": [20000, 97, 97][turn],
                    "parquet.page.write-checksum.enabled": turn != 1,
                    "parquet.bloom.filter.enabled": turn == 2,
                    "parquet.bloom.filter.max.bytes": 1024,
                }
                spark.conf.set("spark.sql.parquet.writeLegacyFormat", str(legacy).lower())
                spark.conf.set("spark.sql.parquet.outputTimestampType", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"][number % 3])
                number += 1
                name = f"spark-{version}-{'legacy' if legacy else 'standard'}-{turn}"
                frame = spark.createDataFrame(list(zip(*values)), t.StructType(fields)).coalesce(1)
                made = os.path.join(folder, name)
                frame.write.options(**{k: str(v) for k, v in options.items()}).parquet(made)
                rows = spark.read.parquet(made).collect()
                [part] = glob.glob(f"{made}/part-*.parquet")
                os.rename(part, os.path.join(folder, name + ".parquet"))
                shutil.rmtree(made)
                read = {f.name: [row[f.name] for row in rows] for f in fields if not f.name.startswith(("when", "point"))}
                for f in POINT.names:
                    read[f"point.{f}"] = [row["point"] and row["point"][f] for row in rows]
                keep("spark", folder, name, read)


def same(spark, folder):
    frame = spark.read.parquet(os.path.join(folder, "pandas.parquet")).coalesce(1)
    # Parts of 40 rows keep the order of the rows.
    frame.write.option("maxRecordsPerFile", 40).parquet(os.path.join(folder, "spark"))
    frame.write.partitionBy("client").parquet(os.path.join(folder, "spark-folder"))
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    frame.write.option("parquet.writer.version", "v2").option("compression", "zstd").parquet(os.path.join(folder, "spark-legacy"))
    frame.write.option("header", "true").csv(os.path.join(folder, "spark-csv"))


def main():
    what, folder = sys.argv[1:3]
    spark = session()
    if what == "same":
        same(spark, folder)
    else:
        columns(spark, folder, random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1))
    for writer, (files, n) in counts.items():
        print(f"{writer:12} {files} files, {n} columns")


if __name__ == "__main__":
    main()
