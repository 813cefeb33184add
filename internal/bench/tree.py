"""Runs a program and says what it and all processes that it starts use, also at the ends of its rounds."""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 900  # seconds for a program to end
MARKS_EVERY = 0.004  # seconds between two looks at the marks
MEMORY_EVERY = 0.3  # seconds between two looks at the memory


class Mark(NamedTuple):
    wall: float  # seconds since the program's start
    cpu: float  # seconds of user and system, of all processes


class Played(NamedTuple):
    marks: list  # a Mark for each line of MARKS
    end: Mark
    peak: int  # bytes; pages that processes share count once


def descendants():
    """The processor seconds, with those of children that were waited for, by process below this one."""
    parents = {}
    used = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry)
        parents[pid] = int(fields[1])
        used[pid] = sum(int(field) for field in fields[11:15]) / TICKS
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    below.discard(os.getpid())
    return {pid: used[pid] for pid in below}


def proportional(pid):
    """A process's resident bytes; a page that n processes share counts 1/n."""
    try:
        for line in pathlib.Path("/proc", str(pid), "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass  # it has ended
    return 0


def end_all():
    """Kills the processes below this one, and waits for them."""
    while True:
        left = descendants()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.05)


def play(command, folder, variables, last_mark=None):
    """Runs a program with more variables in its environment, MARKS among them. It is ended behind last_mark marks."""
    # Processes whose parents have ended become children of this one, so that none is lost.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = sum(os.times()[2:4])
    with tempfile.NamedTemporaryFile(dir=folder) as file, tempfile.TemporaryFile() as output:
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}, "MARKS": file.name}
        began = time.monotonic()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

        def now():
            reaped = sum(os.times()[2:4]) - before
            return Mark(time.monotonic() - began, reaped + sum(descendants().values()))

        marks = []
        peak = 0
        looked = began
        try:
            while not ended(process.pid) and len(marks) != last_mark:
                lines = pathlib.Path(file.name).read_bytes().count(b"\n")
                if lines > len(marks):
                    marks += [now()] * (lines - len(marks))
                if time.monotonic() - looked > MEMORY_EVERY:
                    peak = max(peak, sum(map(proportional, descendants())))
                    looked = time.monotonic()
                if looked - began > PATIENCE:
                    process.kill()
                time.sleep(MARKS_EVERY)
            end = now()
            lines = pathlib.Path(file.name).read_bytes().count(b"\n")
            marks += [end] * (lines - len(marks))
        finally:
            status = process.poll()
            end_all()
        if status != 0 and len(marks) != last_mark:
            output.seek(0)
            said = output.read().decode(errors="replace")
            sys.exit(f"{' '.join(map(str, command))}\nended with {status}:\n{said[-3000:]}")
    return Played(marks, end, peak)


def ended(pid):
    """Whether a child has ended. It stays a zombie, whose processor time can be read."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
