"""Tests of what fedpace.results reads: without pandas, with it where it is installed, and with stand-ins for readers of Parquet."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]

import fedpace
from fedpace import results

CSV = """round,virtual_seconds,accepted,validation_loss
1,2.5,60,
2,4.25,58,3.5
"""


def has(module):
    """Makes a module importable that is not, or the other way round (None)."""
    return unittest.mock.patch.dict(sys.modules, module)


def safetensors(path, tensors):
    """Writes a file as its format is described, with metadata first."""
    header, values = {"__metadata__": {"which": "final"}}, b""
    for name, v in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [len(values), len(values) + v.nbytes]}
        values += v.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + values)


class StartModels(unittest.TestCase):
    def test_buffers_of_a_trainer(self):
        """Types besides float32, by the bytes that the format gives them; -2.5 is 0xc020 in bfloat16."""
        values = {
            "count": ("I64", np.int64(12).tobytes(), 12), "used": ("BOOL", b"\1", True), "level": ("I8", b"\xfd", -3),
            "half": ("F16", np.float16(1.5).tobytes(), 1.5), "brain": ("BF16", b"\x20\xc0", -2.5), "double": ("F64", np.float64(1 / 3).tobytes(), 1 / 3)}
        header, data = {}, b""
        for name, (kind, raw, _) in values.items():
            header[name] = {"dtype": kind, "shape": [], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            path.write_bytes(len(text).to_bytes(8, "little") + text + data)
            read = results._safetensors(path)
        for name, (_, _, want) in values.items():
            self.assertEqual((read[name].shape, read[name].item()), ((), want), name)
        self.assertEqual((read["count"].dtype, read["used"].dtype), (np.int64, np.bool_))

    def test_any_layout(self):
        """Transposed, sliced and Fortran's arrays are saved by their values; the file is compared with the format."""
        weight = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensors = {
            "0.weight": weight.T,
            "0.bias": weight[:, ::2],
            "1.weight": np.asfortranarray(weight),
            "scale": np.float64(2.5),
            "list": [1, 2],
        }
        with tempfile.TemporaryDirectory() as folder:
            ours, expected = Path(folder, "ours"), Path(folder, "expected")
            fedpace.save_model(ours, tensors)
            # As lists, arrays have no layout in memory.
            plain = {name: np.array(np.asarray(v).tolist(), np.float32) for name, v in tensors.items()}
            safetensors(expected, plain)
            read, want = results._safetensors(ours), results._safetensors(expected)
            self.assertEqual(list(read), list(want))
            for name in want:
                np.testing.assert_array_equal(read[name], want[name])
                self.assertEqual(read[name].shape, want[name].shape)
        np.testing.assert_array_equal(read["0.weight"], [[0, 3], [1, 4], [2, 5]])


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("b", "a/rounds"):
            (self.root / name).mkdir(parents=True)
            (self.root / name / "rounds.csv").write_text(CSV)
        self.run = fedpace.Run(self.root / "b")

    def test_runs(self):
        found = fedpace.runs(str(self.root))
        self.assertEqual([run.name for run in found], ["rounds", "b"])
        self.assertEqual([run.path for run in fedpace.runs(self.root / "b")], [self.root / "b"])
        (self.root / "none").mkdir()
        with self.assertRaisesRegex(FileNotFoundError, "none: no run is in it or below it"):
            fedpace.runs(self.root / "none")
        with self.assertRaisesRegex(FileNotFoundError, "none: not the folder of a run"):
            fedpace.Run(self.root / "none")

    def test_summary(self):
        self.assertEqual(self.run.summary, {})  # it goes on
        (self.root / "a/rounds/summary.json").write_text('{"seed": 18446744073709551615}')
        self.assertEqual(fedpace.Run(self.root / "a/rounds").summary, {"seed": 2**64 - 1})

    def test_changed(self):
        run = self.root / "b"
        self.assertEqual(self.run.changed, [])  # it goes on
        rounds = hashlib.sha256(CSV.encode()).hexdigest()
        text = '{"files": [{"name": "rounds.csv", "sha256": "%s"}], "summary_sha256": "%s"}'
        seal = hashlib.sha256((text % (rounds, "0" * 64)).encode()).hexdigest()
        (run / "summary.json").write_text(text % (rounds, seal))
        self.assertEqual(fedpace.Run(run).changed, [])
        (run / "rounds.csv").write_text(CSV.replace("3.5", "0.5"))
        self.assertEqual(fedpace.Run(run).changed, ["rounds.csv"])
        (run / "rounds.csv").write_text(CSV)
        (run / "summary.json").write_text(text.replace("files", "FILES") % (rounds, seal))
        self.assertEqual(fedpace.Run(run).changed, ["summary.json"])

    def test_rounds_in_numpy(self):
        with has({"pandas": None}):
            rounds = self.run.rounds
        self.assertEqual([rounds.dtype[name] for name in rounds.dtype.names], [np.int64, np.float64, np.int64, np.float64])
        self.assertEqual(rounds["accepted"].tolist(), [60, 58])
        np.testing.assert_array_equal(rounds["validation_loss"], [np.nan, 3.5])

    def test_a_last_line_under_way(self):
        for text, rows in ((CSV + "3,5.0,6", 2), (CSV + "3,5.0,60,\n", 3), (CSV[: CSV.index("\n") + 1], 0), ("round,virt", 0)):
            (self.root / "b/rounds.csv").write_text(text)
            with has({"pandas": None}):
                self.assertEqual(len(fedpace.Run(self.root / "b").rounds), rows)

    def test_rounds_in_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        rounds = self.run.rounds
        self.assertIsInstance(rounds, pandas.DataFrame)
        self.assertEqual(list(rounds.columns), CSV.split("\n")[0].split(","))
        self.assertEqual(rounds["validation_loss"].dropna().tolist(), [3.5])

    def test_parquet_without_a_reader(self):
        (self.root / "b/clients.parquet").touch()
        with has({"pyarrow.parquet": None, "polars": None, "duckdb": None}), self.assertRaisesRegex(ImportError, "needs pyarrow, polars or duckdb"):
            self.run.clients

    def test_parquet_with_a_reader(self):
        """The last reader is asked where the first two are not there, and what it masks is NaN."""
        (self.root / "b/clients.parquet").touch()
        reader = types.ModuleType("duckdb")
        columns = {"client": np.array([0, 1]), "loss": np.ma.array([0.5, 0.0], mask=[False, True])}
        reader.from_parquet = lambda path: types.SimpleNamespace(fetchnumpy=lambda: columns)
        with has({"pandas": None, "pyarrow.parquet": None, "polars": None, "duckdb": reader}):
            clients = self.run.clients
        np.testing.assert_array_equal(clients["loss"], [0.5, np.nan])
        self.assertEqual(clients["client"].tolist(), [0, 1])

    def test_parquet_in_a_folder_of_a_comparison(self):
        """pyarrow's read_table makes a column of the = in a folder's name, since its version 17."""
        path = self.root / "fixed,seed=1/clients.parquet"
        path.parent.mkdir()
        for file in (path, path.with_name("rounds.csv")):
            file.touch()
        table = types.SimpleNamespace(column_names=["client"], column=lambda name: types.SimpleNamespace(to_numpy=lambda zero_copy_only: np.arange(2)))
        more = types.SimpleNamespace(column_names=["client", "fixed,seed"], column=table.column)
        reader = types.ModuleType("pyarrow.parquet")
        reader.read_table = lambda path: more if "=" in path else table
        reader.ParquetFile = lambda path: types.SimpleNamespace(read=lambda: table)
        with has({"pandas": None, "pyarrow": types.ModuleType("pyarrow"), "pyarrow.parquet": reader}):
            self.assertEqual(fedpace.Run(path.parent).clients.dtype.names, ("client",))

    def test_a_table_that_is_not_there(self):
        with self.assertRaisesRegex(FileNotFoundError, "tasks.parquet: the run has no such table, or not before it ends"):
            self.run.tasks

    def test_model(self):
        tensors = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.float32([-1, 1])}
        safetensors(self.root / "b/model.safetensors", tensors)
        safetensors(self.root / "b/best.safetensors", {"x": np.zeros((1, 0), np.float32)})
        model = self.run.model()
        self.assertEqual(list(model), list(tensors))
        for name, v in tensors.items():
            np.testing.assert_array_equal(model[name], v)
        model["0.bias"] += 1  # it is the caller's
        self.assertEqual(self.run.model(best=True)["x"].shape, (1, 0))

    def test_config(self):
        (self.root / "b/config.yaml").write_text("seed: 1\nfleet: [{name: phone}]\n")
        with has({"yaml": None}), self.assertRaisesRegex(ImportError, "config.yaml: reading YAML needs PyYAML"):
            self.run.config
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        self.assertEqual(self.run.config, {"seed": 1, "fleet": [{"name": "phone"}]})

    def test_what_is_imported(self):
        """Reading runs loads no library but numpy."""
        code = "import sys, fedpace; print([m for m in ('pandas', 'yaml', 'torch', 'pyarrow', 'polars', 'duckdb') if m in sys.modules])"
        out = subprocess.run([sys.executable, "-B", "-c", code], cwd=HERE, stdout=subprocess.PIPE, check=True, text=True).stdout
        self.assertEqual(out, "[]\n")

    def test_without_numpy(self):
        """One line says what to install."""
        code = "import sys; sys.modules['numpy'] = None; from fedpace import Run"
        said = subprocess.run([sys.executable, "-B", "-c", code], cwd=HERE, stderr=subprocess.PIPE, text=True).stderr
        self.assertIn("ImportError: fedpace needs numpy: python3 -m pip install numpy\n", said)
        self.assertEqual(said.count("Traceback"), 1)


if __name__ == "__main__":
    unittest.main()
