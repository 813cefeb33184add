"""Runs played from Python: the program fedpace does all of the work, and leaves folders as always.

    import fedpace

    run = fedpace.simulate({"task": "femnist", "schedule": {"k": "rounds"}})
    run.rounds["training_loss"]

    both = fedpace.compare({"task": "femnist"}, schedules="fixed,rounds", seeds=3)
    both.table, both.curves("validation_accuracy")

    fedpace.table("runs/")      # a row for each run
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .results import ROUNDS, Run, _csv, _frame, names_of, runs

__all__ = ["Compared", "Failed", "compare", "program", "simulate", "table"]

Config = Optional[Mapping[str, Any]]
Folder = Union[str, "os.PathLike[str]"]


class Failed(RuntimeError):
    """The program ended with an error: its last words are the message, and ``status`` its exit status."""

    def __init__(self, status: int, said: str):
        super().__init__(said or f"fedpace ended with status {status}")
        self.status = status


def program() -> str:
    """The program's path: what $FEDPACE names, else the one that was installed with this package, else that of PATH."""
    named = os.environ.get("FEDPACE")
    if named:
        return named
    name = "fedpace" + (sysconfig.get_config_var("EXE") or "")
    installed = Path(__file__).resolve().parent.parent
    folders = [
        str(installed / "bin"),  # pip install --target
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme="nt_user" if os.name == "nt" else "posix_user"),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("fedpace")
    if found:
        return found
    raise FileNotFoundError("the program fedpace is not installed: install this package as a wheel, or set FEDPACE to the program's path")


def _saved(frame: Any) -> str:
    """The path of a DataFrame's file, which is named by its content and stays for resumed runs."""
    text = frame.to_csv(index=False).encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedpace" / "frames"
    path = cache / (hashlib.sha256(text).hexdigest()[:32] + ".csv")
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(text)
        os.replace(unfinished, path)
    return str(path)


def _written(config: Mapping[str, Any]) -> Dict[str, Any]:
    """A configuration as it is written: a DataFrame is the path of its file.

    ``data`` is a DataFrame, or a map of the keys of a table (client, features, label, ...) in which
    ``path`` is one.
    """
    written = dict(config)
    data = written.get("data")
    if hasattr(data, "to_csv"):
        data = {"path": data}
    if isinstance(data, Mapping) and hasattr(data.get("path"), "to_csv"):
        written["data"] = {**data, "path": _saved(data["path"])}
    return written


def _play(command: str, config: Config, out: Optional[Folder], quiet: bool, arguments: Sequence[str]) -> Any:
    """Runs a command of the program with a configuration, and returns the object that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        words: List[str] = [program(), command, "--json", *arguments]
        if config is not None:
            path = os.path.join(folder, "config.json")  # JSON is YAML
            with open(path, "w", encoding="utf-8") as file:
                json.dump(_written(config), file)
            words += ["--config", path]
        if out is not None:
            words += ["--out", os.fspath(out)]
        if quiet:
            words += ["--quiet"]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said if quiet else None, encoding="utf-8")
            try:
                printed, _ = process.communicate()
            except BaseException:
                process.terminate()  # the run ends between two steps, with a checkpoint
                process.communicate()
                raise
            said.seek(0)
            words_of_error = said.read().strip().rpartition("\n")[2]
    if process.returncode and not printed:
        raise Failed(process.returncode, words_of_error.partition("fedpace: ")[2] or words_of_error)
    return json.loads(printed)


def simulate(config: Config = None, out: Optional[Folder] = None, *, quiet: bool = True, arguments: Sequence[str] = ()) -> Run:
    """Plays a run and gives its folder.

    ``config`` holds keys of a configuration (docs/configuration.md), nested as in YAML; the demonstration
    without. ``data`` may be a DataFrame. ``out`` is the folder, runs/NAME without. ``quiet`` shows no
    progress. ``arguments`` are more of ``fedpace run``'s, such as ["--trainer", "python3 my_model.py"].
    """
    return Run(_play("run", config, out, quiet, arguments)["out"])


def compare(
    config: Config = None,
    schedules: Union[str, Sequence[str]] = "fixed,rounds",
    seeds: int = 1,
    out: Optional[Folder] = None,
    *,
    quiet: bool = True,
    arguments: Sequence[str] = (),
) -> "Compared":
    """Plays the same experiment with several schedules, on the same cohorts and for the same virtual time."""
    names = schedules if isinstance(schedules, str) else ",".join(schedules)
    if out is None:
        out = Path("runs") / (str((config or {}).get("name", "demo")) + "-compare")
    _play("compare", config, out, quiet, ["--schedules", names, "--seeds", str(seeds), *arguments])
    return Compared(out)


class Compared:
    """The folder of a comparison."""

    def __init__(self, path: Folder):
        self.path = Path(path)

    @property
    def runs(self) -> List[Run]:
        """Its runs, ordered by path."""
        return runs(self.path)

    @property
    def table(self) -> Any:
        """The comparison as it was printed: a row for each schedule (compare.csv)."""
        return _frame(_csv(self.path / "compare.csv"))

    def curves(self, value: str = "training_loss", points: int = 100) -> Any:
        """The mean of a column over the seeds of each schedule, at equal steps of virtual time.

        A row for each schedule and time: schedule, virtual_seconds, mean, low and high (the smallest and
        largest seed), and runs. Between two rounds the value of the round before holds, and the grid ends
        where the first run ends, so that every point is the mean of the same seeds.
        """
        return curves(self.runs, value, points)

    def _repr_html_(self) -> str:
        found = self.table
        return found._repr_html_() if hasattr(found, "_repr_html_") else f"<pre>{(self.path / 'compare.txt').read_text()}</pre>"


def curves(found: Sequence[Run], value: str = "training_loss", points: int = 100) -> Any:
    """See :meth:`Compared.curves`; of any runs, grouped by their schedules' names."""
    tables = [(str(run.summary.get("schedule", run.name)), _csv(run.path / ROUNDS)) for run in found]
    measured = []
    for schedule, columns in tables:
        values = np.asarray(columns[value], float)
        known = ~np.isnan(values)
        measured.append((schedule, np.asarray(columns["virtual_seconds"], float)[known], values[known]))
    begin = max(times[0] for _, times, _ in measured)
    grid = np.linspace(begin, min(times[-1] for _, times, _ in measured), points)
    out: Dict[str, List[Any]] = {name: [] for name in ("schedule", "virtual_seconds", "mean", "low", "high", "runs")}
    for schedule in dict.fromkeys(name for name, _, _ in measured):
        held = np.array([values[np.searchsorted(times, grid, side="right") - 1] for name, times, values in measured if name == schedule])
        for i, time in enumerate(grid):
            seeds = held[:, i]
            for name, cell in zip(out, (schedule, time, seeds.mean(), seeds.min(), seeds.max(), len(seeds))):
                out[name].append(cell)
    return _frame({name: np.array(cells, object if name == "schedule" else None) for name, cells in out.items()})


def table(folder: Folder = "runs", value: Optional[str] = None) -> Any:
    """A row for each run in a folder and below it.

    The columns are run (the path by which the runs differ), schedule, seed, rounds, virtual_seconds,
    best and tail of ``value``, and each key of the configuration in which the runs differ. ``value`` is by
    default the validation accuracy, or else the training loss; of a loss the smallest is the best. The
    tail is the mean over the last tenth of the virtual time.
    """
    found = runs(folder)
    rows: List[Dict[str, Any]] = []
    for run, name in zip(found, names_of(found)):
        columns = _csv(run.path / ROUNDS)
        column = value or next((c for c in ("validation_accuracy", "training_loss") if c in columns and not np.all(np.isnan(np.asarray(columns[c], float)))), "training_loss")
        values = np.asarray(columns[column], float)
        times = np.asarray(columns["virtual_seconds"], float)
        known = ~np.isnan(values)
        row: Dict[str, Any] = {
            "run": name, "schedule": run.summary.get("schedule", ""), "seed": run.summary.get("seed", -1),
            "rounds": len(times), "virtual_seconds": times[-1] if len(times) else np.nan, "value": column,
            "best": np.nan, "tail": np.nan,
        }
        if known.any():
            row["best"] = values[known].min() if "loss" in column else values[known].max()
            late = known & (times >= 0.9 * times[-1])
            row["tail"] = values[late if late.any() else known].mean()
        rows.append(row)
    for key, cells in _differing(found).items():
        for row, cell in zip(rows, cells):
            row.setdefault(key, cell)
    return _frame({key: _typed([row[key] for row in rows]) for key in rows[0]})


def _typed(cells: List[Any]) -> np.ndarray:
    """A column of numbers where all are, else of objects."""
    numbers = all(isinstance(c, (int, float, np.number)) and not isinstance(c, bool) for c in cells)
    return np.array(cells) if numbers else np.array(cells, object)


#: Keys by which runs do not differ as experiments.
_NAMES = ("out", "name", "seed", "tags", "http", "config")


def _differing(found: Sequence[Run]) -> Dict[str, List[Any]]:
    """The keys of the configurations in which runs differ, each with its value in every run. It needs PyYAML."""
    from .trackers import _flat

    try:
        configs = [dict(_flat(run.config)) for run in found]
    except (ImportError, FileNotFoundError):
        return {}  # without PyYAML, or of a folder that holds no configuration
    keys = dict.fromkeys(key for config in configs for key in config)
    cells = {key: [config.get(key) for config in configs] for key in keys if key not in _NAMES}
    return {key: values for key, values in cells.items() if any(v != values[0] for v in values)}


def main() -> None:
    """The program itself, with the arguments of this process."""
    command = [program(), *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.call(command))
    os.execv(command[0], command)
