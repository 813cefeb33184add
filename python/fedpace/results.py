"""What runs leave in their folders (docs/results.md), as tables.

    import fedpace

    for run in fedpace.runs("runs/"):
        print(run.name, run.summary["virtual_seconds"], run.rounds["training_loss"][-1:])

A table is a pandas.DataFrame where pandas is installed, and a structured numpy array where it is
not. Both give a column by its name: ``run.rounds["virtual_seconds"]``. A value that was not
measured is NaN. Times are virtual seconds.
"""
from __future__ import annotations

import csv
import hashlib
import html
import importlib
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Union

import numpy as np

__all__ = ["Run", "runs"]

ROUNDS = "rounds.csv"  # every run has it from its first moment


def runs(folder: Union[str, "os.PathLike[str]"]) -> List["Run"]:
    """The runs in a folder and below it, ordered by path; a run's own folder gives that run.

    Raises FileNotFoundError if there is none.
    """
    found = sorted(path.parent for path in Path(folder).rglob(ROUNDS))
    if not found:
        raise FileNotFoundError(f"{folder}: no run is in it or below it (a run's folder has {ROUNDS})")
    return [Run(path) for path in found]


def names_of(found: Sequence["Run"]) -> List[str]:
    """A name for each run by which it differs from the others: its path below the folder of all.

    A single run has its folder's name. Runs that are the same folder have equal names.
    """
    parts = [run.path.resolve().parts for run in found]
    common = len(os.path.commonprefix([p[:-1] for p in parts])) if len(found) > 1 else len(parts[0]) - 1 if parts else 0
    return ["/".join(p[common:]) for p in parts]


class Run:
    """One run's folder. What is read stays in memory; make another Run to read a run that goes on anew."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        self.path = Path(path)
        if not (self.path / ROUNDS).is_file():
            raise FileNotFoundError(f"{self.path}: not the folder of a run (it has no {ROUNDS})")

    def __repr__(self) -> str:
        return f"fedpace.Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """The run in a notebook: its main figures, and its training loss over virtual time as a picture."""
        columns = _csv(self.path / ROUNDS)
        rounds = len(columns["round"])
        facts = {"run": str(self.path), **{k: self.summary[k] for k in ("task", "schedule", "seed") if k in self.summary}, "rounds": rounds}
        if rounds:
            facts["virtual seconds"] = f"{columns['virtual_seconds'][-1]:g}"
        facts.update((k.replace("_", " "), f"{v:.4g}") for k, v in self.summary.items() if k.startswith(("training_", "validation_")) and isinstance(v, float))
        cells = "".join(f"<tr><th>{html.escape(str(k))}</th><td>{html.escape(str(v))}</td></tr>" for k, v in facts.items())
        return f"<table>{cells}</table>{_picture(columns)}"

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.path.resolve().name

    @cached_property
    def summary(self) -> Dict[str, Any]:
        """``summary.json``: task, schedule, seed, final values; empty while the run goes on."""
        try:
            return json.loads((self.path / "summary.json").read_text("utf-8"))
        except FileNotFoundError:
            return {}

    @cached_property
    def changed(self) -> List[str]:
        """The files that are not as the run left them, by the digests in its summary; empty while it goes on."""
        text = (self.path / "summary.json").read_bytes() if self.summary else b""
        own = self.summary.get("summary_sha256", "").encode()
        names = [f["name"] for f in self.summary.get("files", []) if _digest(self.path / f["name"]) != f["sha256"]]
        # The summary's own digest is of its text with zeros in the digest's place.
        if text and hashlib.sha256(text.replace(own, b"0" * 64, 1)).hexdigest().encode() != own:
            names.append("summary.json")
        return names

    @cached_property
    def config(self) -> Dict[str, Any]:
        """``config.yaml``: every key of the configuration. It needs PyYAML."""
        path = self.path / "config.yaml"
        try:
            import yaml
        except ImportError:
            raise ImportError(f"{path}: reading YAML needs PyYAML (pip install pyyaml)") from None
        return yaml.safe_load(path.read_text("utf-8"))

    @cached_property
    def rounds(self) -> Any:
        """A row for each round: ``round``, ``virtual_seconds``, ``local_steps``, ``training_loss``, ..."""
        return self.table(ROUNDS)

    @cached_property
    def clients(self) -> Any:
        """A row for each client that had a task: its tasks by outcome, steps and seconds, useful and wasted."""
        return self.table("clients.parquet")

    @cached_property
    def tasks(self) -> Any:
        """A row for each task, of a run whose ``outputs`` has ``tasks``: client, model, times, outcome, loss."""
        return self.table("tasks.parquet")

    def table(self, name: str) -> Any:
        """Any table of the folder by its file's name, such as ``fairness.csv`` or ``rounds.parquet``.

        Parquet needs pyarrow, polars or duckdb. Raises FileNotFoundError if the run has no such file.
        """
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"{path}: the run has no such table, or not before it ends (docs/results.md says which output writes it)")
        return _frame(_csv(path) if path.suffix == ".csv" else _parquet(path))

    def model(self, best: bool = False) -> Dict[str, np.ndarray]:
        """The final model, or the one of the best evaluation: each tensor by its name in PyTorch's state_dict.

        Arrays have the tensor's shape and type (float32, but for buffers of a trainer; bfloat16 becomes
        float32), and may be written to.
        """
        return _safetensors(self.path / ("best.safetensors" if best else "model.safetensors"))


def _picture(columns: Mapping[str, np.ndarray], width: int = 420, height: int = 120) -> str:
    """The training loss over virtual time as SVG, nothing where fewer than two rounds have one."""
    loss = np.asarray(columns.get("training_loss", []), float)
    times = np.asarray(columns["virtual_seconds"], float)[: len(loss)]
    known = np.isfinite(loss)
    if known.sum() < 2:
        return ""
    x, y = times[known], loss[known]
    across = (x - x[0]) / (x[-1] - x[0] or 1) * (width - 2) + 1
    down = (y.max() - y) / (y.max() - y.min() or 1) * (height - 2) + 1
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down))
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="training loss over virtual time">'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
        f"<br>training loss, {y.max():.3g} to {y.min():.3g}, over {x[0]:g} to {x[-1]:g} virtual seconds"
    )


# -- files -----------------------------------------------------------------------------


def _digest(path: Path) -> str:
    """SHA-256 in hexadecimal, empty where there is no regular file."""
    if not path.is_file():
        return ""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _csv(path: Path) -> Dict[str, np.ndarray]:
    """Columns by name. A run that goes on may be in the middle of its last line, which is left out."""
    text = path.read_text("utf-8")
    header, *rows = list(csv.reader(text[: text.rfind("\n") + 1].splitlines())) or [[]]
    columns = zip(*rows) if rows else [()] * len(header)
    return {name: _column(list(cells)) for name, cells in zip(header, columns)}


def _column(cells: Sequence[str]) -> np.ndarray:
    """Whole numbers as int64, other numbers as float64 with NaN for empty cells, anything else as text."""
    for kind in (lambda: np.array([int(c) for c in cells], np.int64), lambda: np.array([float(c) if c else np.nan for c in cells], np.float64)):
        try:
            return kind()
        except ValueError:
            pass
    return np.array(cells, object)


def _arrow(module: Any, path: str) -> Mapping[str, Any]:
    table = module.ParquetFile(path).read()  # read_table makes a column of a folder's name with =, as comparisons have
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def _polars(module: Any, path: str) -> Mapping[str, Any]:
    return {column.name: column.to_numpy() for column in module.read_parquet(path).get_columns()}


def _duckdb(module: Any, path: str) -> Mapping[str, Any]:
    return module.from_parquet(path).fetchnumpy()


READERS: Dict[str, Callable[[Any, str], Mapping[str, Any]]] = {"pyarrow.parquet": _arrow, "polars": _polars, "duckdb": _duckdb}


def _parquet(path: Path) -> Dict[str, np.ndarray]:
    for name, read in READERS.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return {column: _filled(values) for column, values in read(module, str(path)).items()}
    raise ImportError(f"{path}: reading Parquet needs pyarrow, polars or duckdb (pip install pyarrow)")


def _filled(values: Any) -> np.ndarray:
    """The column with NaN where numbers are masked or None."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.astype(object if values.dtype.kind not in "iuf" else np.float64).filled(None if values.dtype.kind not in "iuf" else np.nan)
    return np.asarray(values)


def _frame(columns: Mapping[str, np.ndarray]) -> Any:
    try:
        import pandas
    except ImportError:
        rows = len(next(iter(columns.values()), ()))
        array = np.empty(rows, [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            array[name] = values
        return array
    return pandas.DataFrame(dict(columns))


def save_model(path: Union[str, Path], tensors: Mapping[str, Any]) -> None:
    """Writes a model that a run can start from, with ``init: path``.

    ``tensors`` has the model's tensors by name: arrays of any layout in memory, transposed ones
    included, or what numpy can make one of. Values become float32; leave out a trainer's buffers of
    integers and booleans, which begin as its script makes them then. They are made contiguous first:
    safetensors 0.8.0 writes the memory of a transposed array in its own order, without an error.
    """
    header: Dict[str, Any] = {}
    parts = []
    end = 0
    for name, tensor in tensors.items():
        # np.ascontiguousarray makes a vector of one number of a scalar, so the shape is taken before.
        shape = list(np.shape(tensor))
        values = np.ascontiguousarray(tensor, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(values)]}
        parts.append(values)
        end += len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(parts)


# The types of tensors in a model's file, in numpy's words.
_TYPES = {"F32": "<f4", "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
          "F16": "<f2", "BF16": "<u2", "F64": "<f8"}


def _safetensors(path: Path) -> Dict[str, np.ndarray]:
    """The tensors of a file: 8 bytes of the header's length, the header in JSON, and the values."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        values = np.frombuffer(f.read(), np.uint8)
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in _TYPES:
            raise ValueError(f"{path}: {name} is of type {about['dtype']}, and fedpace writes {', '.join(_TYPES)}")
        begin, end = about["data_offsets"]
        array = values[begin:end].copy().view(_TYPES[about["dtype"]])
        if about["dtype"] == "BF16":  # which numpy does not have: the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        tensors[name] = array.reshape(about["shape"])
    return tensors
