"""Compares flwr's arrays as fedpace reads and writes them with flwr's own, byte for byte.

    flwr_arrays.py

Arrays of all plain kinds, shapes and orders, those that go flwr's own way, and data that are damaged.
It needs flwr and the package fedpace, and prints how many arrays it has compared.
"""

import copy
import pathlib
import pickle
import sys

import numpy as np
from flwr.app import Array, ArrayRecord

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from fedpace import flower_arrays  # noqa: E402

DTYPES = ("?", "u1", "<i2", ">i4", "<i8", "<f2", "<f4", ">f4", "<f8", "<c8", "<c16")
SHAPES = ((), (0,), (1,), (3,), (3, 0, 2), (5, 7), (2, 3, 4))
SPECIAL = (
    np.asfortranarray(np.arange(20.0).reshape(4, 5)),
    np.arange(36.0).reshape(6, 6)[::2, 1:],
    np.zeros((2, 1, 3), "f4").transpose(1, 0, 2),
    np.array(["a", "bc"]),
    np.array([b"xy"]),
    np.zeros(3, dtype=[("a", "f4"), ("b", "i2")]),
    np.arange(3).astype("M8[s]"),
    np.array([np.nan, np.inf, -0.0]),
    np.arange(300_000.0),
)


def outcome(load, data):
    """Returns what comes of data, as bytes, or the error."""
    try:
        return load(Array("float32", (1,), "numpy.ndarray", data)).tobytes()
    except Exception as error:  # noqa: BLE001  (whatever it is, both must raise it)
        return repr(error)


def main():
    """Compares, each array three times, as the first time goes another way."""
    draws = np.random.default_rng(1)
    arrays = [np.asarray(np.asarray(100 * draws.random(shape)).astype(dtype)) for dtype in DTYPES for shape in SHAPES]
    arrays += SPECIAL
    save, load = Array.from_numpy_ndarray, Array.numpy
    theirs = [save(array) for array in arrays]
    loaded = [load(array) for array in theirs]
    flower_arrays.quicken()
    for _ in range(3):
        for array, their, want in zip(arrays, theirs, loaded):
            ours = Array(array)
            assert type(ours.data) is bytes
            assert (ours.dtype, ours.shape, ours.stype, ours.data) == (their.dtype, their.shape, their.stype, their.data)
            got = ours.numpy()
            assert got.dtype.str == want.dtype.str and got.strides == want.strides and got.shape == want.shape
            assert got.tobytes() == want.tobytes() and got.flags.writeable
            if got.size:
                got[...] = got.flat[0]
            assert ours.numpy().tobytes() == want.tobytes()
    good = save(np.ones(3, "f4")).data
    for data in (b"", b"abc", good[:-1], good + b"x", good[:6] + b"\x02" + good[7:], good[:200]):
        assert outcome(Array.numpy, data) == outcome(load, data), data
    lent(arrays, theirs)
    print(len(arrays))


def lent(arrays, theirs):
    """Compares arrays whose data are lent: they give their bytes where those are asked for, and then the memory back."""
    ended = []
    for number, (array, their) in enumerate(zip(arrays, theirs)):
        memory = bytearray(their.data)
        view = memoryview(memory)

        def make():
            text, data = flower_arrays.lend([memoryview(b"text"), view], number, ended)
            assert text == b"text"
            return flower_arrays.make(their.dtype, their.shape, their.stype, data)

        for read in (lambda a: a, copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))):
            assert read(make()).numpy().tobytes() == array.tobytes()
            assert read(make()) == their and repr(read(make())) == repr(their)
        ours = make()
        del ended[:]
        assert ArrayRecord({"a": ours}) == ArrayRecord({"a": their}) and type(ours.data) is bytes
        assert ended == [number], "bytes of its own need no memory that is lent"
        ours = make()
        ours.data = theirs[0].data
        assert ours.numpy().tobytes() == arrays[0].tobytes() or ours.stype != theirs[0].stype
        assert not hasattr(make(), "other")


if __name__ == "__main__":
    main()
