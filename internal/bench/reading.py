"""Compares how long Polars and fedpace take to read one's own Parquet, and how much memory.

    python3 internal/bench/reading.py [OLD] [--turns 5] [--rows 91200]

The same 784 numbers a row lie in two files: a column for each, and a list in each row. Polars reads a file
into a table; `data info` of fedpace reads it by a mapping, hashes it and counts clients and labels, and
`data prepare` also writes it. OLD is another build to compare with. Prints the median processor time of the
turns, in which the programs take turns, and the largest peak of memory. Installs pyarrow, Polars and numpy
with uv in a folder of its own.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import CHILDREN, CORES, Child, machine

PACKAGES = ["numpy==2.4.6", "polars==2.1.0", "pyarrow==26.0.1"]
FEATURES = 784
WRITE = """
import sys
import numpy, pyarrow, pyarrow.parquet
rows, features, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random = numpy.random.default_rng(1)
values = random.random((rows, features), dtype=numpy.float32)
rest = {
    "label": random.integers(0, 62, rows),
    "client": numpy.array([f"c{c:03d}" for c in random.integers(0, 300, rows)]),
}
columns = {f"p{i}": values[:, i] for i in range(features)}
pyarrow.parquet.write_table(pyarrow.table({**columns, **rest}), folder + "/columns.parquet", compression="zstd")
lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), features)
lists = lists.cast(pyarrow.list_(pyarrow.float32()))
pyarrow.parquet.write_table(pyarrow.table({"x": lists, **rest}), folder + "/lists.parquet", compression="zstd")
"""
READ = "import sys, polars; print(polars.read_parquet(sys.argv[1]).shape)"


def environment(folder):
    """A Python of its own with the packages."""
    venv = folder / "venv"
    subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *PACKAGES], check=True)
    return python


def readers(python, programs, file, folder):
    """By name, the commands that read the file."""
    features = "x" if file.stem == "lists" else "p*"
    mapping = ["--map", f"features={features}", "--map", "label=label", "--map", "client=client"]
    commands = {"polars": [python, "-c", READ, file]}
    for name, program in programs.items():
        commands[f"{name} info"] = [program, "data", "info", file, *mapping]
        commands[f"{name} prepare"] = [program, "data", "prepare", file, *mapping, "--out", folder / "out.fedpace"]
    return commands


def main():
    flags = argparse.ArgumentParser(prog="internal/bench/reading.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("old", type=pathlib.Path, nargs="?", help="another build to compare with")
    flags.add_argument("--turns", type=int, default=5, help="turns of each program")
    flags.add_argument("--rows", type=int, default=91200, help="rows of the files")
    given = flags.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedpace-reading-") as folder, CHILDREN:
        folder = pathlib.Path(folder)
        python = environment(folder)
        Child([python, "-c", WRITE, given.rows, FEATURES, folder], CORES).wait()
        programs = {"fedpace": folder / "fedpace"}
        Child(["go", "build", "-trimpath", "-o", programs["fedpace"], "./cmd/fedpace"], CORES).wait()
        if given.old:
            programs["old"] = given.old.resolve()
        size = 4 * given.rows * FEATURES
        for file in (folder / "columns.parquet", folder / "lists.parquet"):
            commands = readers(python, programs, file, folder)
            used = {name: [] for name in commands}
            for turn in range(given.turns):
                for name, command in commands.items():
                    (folder / "out.fedpace").unlink(missing_ok=True)
                    used[name].append(Child(command, CORES).wait())
            polars = statistics.median(u.cpu for u in used["polars"])
            print(f"{file.name}, {file.stat().st_size / 1e6:.0f} MB, {size / 1e6:.0f} MB of numbers")
            for name, turns in used.items():
                cpu = statistics.median(u.cpu for u in turns)
                peak = max(u.peak for u in turns)
                print(f"  {name:16} {cpu:6.2f} s, {cpu / polars:5.2f} of Polars; {peak / 1e6:5.0f} MB, {peak / size:.2f} of the numbers", flush=True)
        print(machine())


main()
