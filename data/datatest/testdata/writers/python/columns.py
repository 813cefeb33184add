"""What the scripts that write files share: how values are drawn, and how they are noted."""
import decimal
import json
import os
import random
import struct
import uuid

import numpy as np
import pandas as pd

ROWS = 300
PATTERNS = ["runs", "wide", "few", "nulls"]
counts = {}


def drawn(draw, pattern, rng, rows=ROWS):
    """A column of values: draw makes one of any size, as wide as the type."""
    if pattern == "wide":
        return [draw(rng) for _ in range(rows)]
    few = [draw(rng) for _ in range(3)]
    if pattern == "few":
        return [rng.choice(few) for _ in range(rows)]
    values = []
    while len(values) < rows:
        if pattern == "nulls":
            values.append(None if rng.random() < 0.4 else draw(rng))
        else:  # runs of lengths that are mostly no multiple of 8
            values += [rng.choice(few)] * rng.choice([1, 2, 3, 7, 8, 9, 13, 64, 100])
    return values[:rows]


def integers(bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda rng: rng.choice([rng.randint(low, high), low, high, rng.randint(max(low, -100), 100)])


def real(dtype):
    def draw(rng):
        return float(dtype(rng.choice([rng.uniform(-1, 1), rng.uniform(-1, 1) * 10 ** rng.randint(-4, 4), 0.0, float(rng.randint(-50, 50))])))

    return draw


def texts(rng):
    return rng.choice(["", "a", "ä", "client_"]) + "x" * rng.randint(0, 20) + str(rng.randint(0, 10**6))


def blobs(rng):
    return bytes(rng.randint(128, 255) for _ in range(rng.randint(1, 12)))


def fixed(rng):
    return bytes(rng.randint(128, 255) for _ in range(6))


def decimals(digits, scale):
    return lambda rng: decimal.Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale, decimal.Context(prec=80))


def lists(draw, low=0, high=5):
    return lambda rng: [draw(rng) for _ in range(rng.randint(low, high))]


BOOL = lambda rng: rng.random() < 0.5


def said(v):
    """A value as text, a list as a list of texts."""
    if v is None or v is pd.NA or v is pd.NaT:
        return None
    if isinstance(v, (bool, np.bool_)):
        return str(int(v))
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    if isinstance(v, decimal.Decimal):
        return struct.pack(">d", float(v)).hex()
    if isinstance(v, (float, np.floating)):
        return None if v != v else struct.pack(">d", float(v)).hex()
    if isinstance(v, str):
        return "t" + v
    if isinstance(v, uuid.UUID):
        return "t" + str(v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        return "b" + bytes(v).hex()
    if isinstance(v, dict):
        return {k: said(x) for k, x in v.items()}
    return [said(x) for x in v]


def keep(writer, folder, name, columns):
    """Notes what a writer has read back: columns by name, each a list of values."""
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump({c: [said(v) for v in values] for c, values in columns.items()}, file)
    files, n = counts.get(writer, (0, 0))
    counts[writer] = files + 1, n + len(columns)
