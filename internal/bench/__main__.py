"""Measures how fast fedpace is, and writes docs/performance.md, its tables and README's from it.

    python3 internal/bench [peers] [growth] [flower] [rivals]
        [--turns 3] [--length 1] [--python python3] [--out FOLDER] [--check]

peers plays the same rounds as a plain loop in PyTorch; growth measures what clients, cohorts,
steps, parameters, hosts and rounds cost. Without a word these two are done, in less than ten
minutes on a quiet machine. flower plays one Flower app by Flower's simulation and by fedpace; it
installs Flower with uv in a folder of its own, beside the PyTorch of /usr/bin/python3. rivals plays
the same FedAvg by hand in PyTorch, in pfl, APPFL, Flower and NVFlare, which uv installs from PyPI
(7 GB the first time), in about ten minutes on a quiet machine.

It needs Linux, Go and, for peers, a Python with PyTorch and numpy, OpenBLAS (Debian: python3-torch,
libopenblas0-pthread) and the data in $FEDPACE_DATA or ../shared/data.
"""
import argparse
import pathlib
import signal
import subprocess
import sys
import tempfile

import flower
import growth
import peers
import rivals
from measure import CHILDREN, ROOT, Fedpace, machine, tell, write

PAGE = ROOT / "docs" / "performance"


def torch_python(given):
    """The Python given or, if None, this one or Debian's: the first that has PyTorch and numpy; None if none has."""
    for python in [given] if given else [sys.executable, "/usr/bin/python3"]:
        try:
            if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
                return python
        except FileNotFoundError:
            pass
    return None


def main():
    flags = argparse.ArgumentParser(prog="internal/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("parts", nargs="*", choices=["peers", "growth", "flower", "rivals", []], metavar="PART",
                       help="peers, growth, flower or rivals; the first two unless told")
    flags.add_argument("--turns", type=int,
                       help="turns of each program: 3, of which the median counts; of rivals 2, of which the least does")
    flags.add_argument("--length", type=float, default=1, help="part of each turn's rounds, as 0.1 for a first look")
    flags.add_argument("--python", help="the Python that has PyTorch; this one or Debian's unless told")
    flags.add_argument("--out", type=pathlib.Path, default=PAGE, help="folder of the tables; docs/performance, and then the pages are written, too")
    flags.add_argument("--check", action="store_true", help="exit status 1 where a target is missed")
    given = flags.parse_args()
    if given.length < 1 and given.out == PAGE:
        flags.error("the pages show whole turns: give --out FOLDER to a first look")
    parts = given.parts or ["peers", "growth"]
    turns = given.turns or 3
    python = torch_python(given.python) if "peers" in parts else None
    if "peers" in parts and python is None:
        flags.error("peers needs a Python with PyTorch and numpy (Debian: python3-torch): give it with --python")
    missed = []
    given.out.mkdir(parents=True, exist_ok=True)  # now, and not when all is measured
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with what stands behind with
    with tempfile.TemporaryDirectory(prefix="fedpace-bench-") as folder, CHILDREN:
        fedpace = Fedpace(folder)
        for name in parts:
            if name == "peers":
                rows, what = peers.measure(fedpace, python, turns, given.length)
                missed += peers.missed(rows)
            elif name == "flower":
                rows, what = flower.measure(fedpace, flower.environment(folder), turns, given.length)
                missed += flower.missed(rows)
            elif name == "rivals":
                rows, what = rivals.measure(fedpace, given.turns or 2, given.length)
                missed += rivals.missed(rows)
            else:
                rows, what = growth.measure(fedpace, given.length)
                missed += growth.missed(rows)
            write(given.out / f"{name}.csv", rows)
            (given.out / f"{name}.txt").write_text(f"{machine()}; {what}\n")
    if given.out == PAGE:
        subprocess.run(["go", "test", "./docs", "-count=1", "-run", "Performance", "-rewrite"], cwd=ROOT, check=True)
    for m in missed:
        tell(f"missed: {m}")
    if missed and given.check:
        sys.exit(1)


main()
