"""Runs programs on chosen cores and says what they used."""
import contextlib
import csv
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("FEDPACE_DATA") or ROOT.parent / "shared" / "data")
CORES = sorted(os.sched_getaffinity(0))
ONE = CORES[-1:]  # core 0 has most of the interrupts
CHILDREN = contextlib.ExitStack()  # its end kills those that run


class Used(NamedTuple):
    cpu: float  # seconds of user and system
    wall: float
    peak: int  # bytes of resident memory


class Child:
    """A program that runs; wait says what it used and keeps what it printed."""

    def __init__(self, command, cores=ONE, procs=None):
        env = dict(os.environ, **({"GOMAXPROCS": str(procs)} if procs else {}))
        self.start, self.command = time.monotonic(), [str(c) for c in command]
        self.out = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, env=env, stdout=self.out, stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        CHILDREN.callback(self.process.kill)

    def wait(self):
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - self.start
        self.out.seek(0)
        self.printed = self.out.read().decode()
        if self.process.returncode:
            sys.exit(f"{' '.join(self.command)}\nended with {self.process.returncode}:\n{self.printed}")
        return Used(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024)


def ended(children):
    """What each has used when all have ended; the first that fails ends this program, whoever waits for it."""
    running, of = {c.process.pid: c for c in children}, {}
    while running:
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        of[pid] = running.pop(pid).wait()
    return [of[c.process.pid] for c in children]


class Fedpace:
    """The program, built, and a folder for its runs."""

    def __init__(self, folder):
        self.folder, self.binary, self.runs = pathlib.Path(folder), pathlib.Path(folder) / "fedpace", 0
        Child(["go", "build", "-o", self.binary, "./cmd/fedpace"], CORES).wait()

    def command(self, sets, *more, name="run"):
        self.runs += 1
        self.out = self.folder / f"run{self.runs}"
        of = [x for k, v in {**sets, "out": self.out}.items() for x in ("--set", f"{k}={v}")]
        return [self.binary, name, "--quiet", *more, *of]

    def run(self, cores=ONE, procs=None, **sets):
        """What a run used, its summary and its rounds. In sets __ stands for a dot."""
        child = Child(self.command({k.replace("__", "."): v for k, v in sets.items()}), cores, procs)
        used = child.wait()
        summary = json.loads((self.out / "summary.json").read_text())
        with open(self.out / "rounds.csv", newline="") as f:
            rounds = list(csv.DictReader(f))
        shutil.rmtree(self.out)
        return used, summary, rounds


def machine():
    """The processor in words, and how busy it was: 1 is this program's."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    field = lambda name: (re.search(rf"(?m)^{name}\s*: (.*)", info) or ["", "?"])[1]
    flags = field("flags").split()
    wide = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    return f"{field('model name')} (family {field('cpu family')}, model {field('model')}), {len(CORES)} cores, {wide}, load {os.getloadavg()[2]:.1f}"


def tell(text):
    print(text, file=sys.stderr, flush=True)


def write(path, rows):
    """Writes rows, dicts of the same keys, as a table."""
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        out.writeheader()
        for row in rows:
            out.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
