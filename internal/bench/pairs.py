"""Compares two builds of fedpace by the processor time of the same runs, in pairs.

    python3 internal/bench/pairs.py OLD [NEW] [--pairs 9] [--works k1 k9 events hosts]

OLD and NEW are programs; without NEW this tree is built. The two take turns at going first, so that what
else the machine does falls on both. Each work prints NEW's time over OLD's: the median, the least and the
most. Runs of one work must come to the same bits. k1 and k9 learn on real FEMNIST with the paper's cohort
and all held-out samples (k9: the mean K of 2,000 rounds of `rounds` from K_0 = 80), events keeps 10,000
clients a round in events.log beside none, with NEW alone; hosts has a coordinator and two hosts, and beside
sets these beside one process, with NEW alone.
"""
import argparse
import json
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from measure import CHILDREN, CORES, DATA, Child, ended, machine, tell

LEARNING = {"task": "femnist", "cohort": 60, "schedule.k": "fixed"}
TIMING = {"task": "femnist", "train": "false", "clients": 1000000, "cohort": 10000, "stop.rounds": 30}


class Pairs:
    """Two programs, prepared data, and a folder for runs."""

    def __init__(self, old, new, folder):
        self.old, self.new, self.folder = old, new, folder
        self.data = folder / "femnist.fedpace"
        self.runs = 0

    def prepare(self):
        if not self.data.exists():
            source = DATA / "femnist/femnist.parquet"
            Child([self.new, "data", "prepare", source, "--task", "femnist", "--out", self.data], CORES).wait()

    def command(self, program, name, sets, *more):
        self.runs += 1
        out = self.folder / f"run{self.runs}"
        return out, [program, name, "--quiet", *more, *(x for k, v in {**sets, "out": out}.items() for x in ("--set", f"{k}={v}"))]

    def run(self, program, sets):
        """The processor time of a run on one core, and its fingerprint."""
        out, command = self.command(program, "run", sets)
        used = Child(command, CORES, procs=1).wait()
        fingerprint = json.loads((out / "summary.json").read_text())["fingerprint"]
        shutil.rmtree(out)
        return used.cpu, fingerprint

    def hosts(self, program, sets):
        """The processor time of a coordinator and two hosts of one core each, and the run's fingerprint."""
        with socket.create_server(("127.0.0.1", 0)) as s:
            address = "127.0.0.1:%d" % s.getsockname()[1]
        keys, creds = self.folder / "keys", self.folder / "hosts.creds"
        out, command = self.command(program, "coordinator", {**sets, "nats.listen": address}, "--keys", keys)
        leader = Child(command, CORES, procs=1)
        enroll = [program, "enroll", "--keys", keys, "--host", "hosts", "--out", creds]
        time.sleep(1)
        while not creds.exists() and subprocess.run(enroll, capture_output=True).returncode:  # the coordinator makes the keys
            time.sleep(0.2)
        host = [program, "host", "--once", "--quiet", "--nats", f"nats://{address}", "--creds", creds, "--name"]
        used = ended([leader, *(Child([*host, f"host{i}"], CORES, procs=1) for i in range(2))])
        fingerprint = json.loads((out / "summary.json").read_text())["fingerprint"]
        shutil.rmtree(out)
        return sum(u.cpu for u in used), fingerprint


def works(p):
    """By name, what plays the old and the new side of a pair."""
    k1 = {**LEARNING, "data": p.data, "schedule.k0": 1, "stop.rounds": 250}
    k9 = {**LEARNING, "data": p.data, "schedule.k0": 9, "stop.rounds": 60}
    short = {**k1, "stop.rounds": 100}
    return {
        "k1": (lambda: p.run(p.old, k1), lambda: p.run(p.new, k1)),
        "k9": (lambda: p.run(p.old, k9), lambda: p.run(p.new, k9)),
        "events": (lambda: p.run(p.new, {**TIMING, "events.sample": "off"}), lambda: p.run(p.new, {**TIMING, "events.sample": 10000})),
        "hosts": (lambda: p.hosts(p.old, short), lambda: p.hosts(p.new, short)),
        "beside": (lambda: p.run(p.new, short), lambda: p.hosts(p.new, short)),
    }


def main():
    flags = argparse.ArgumentParser(prog="internal/bench/pairs.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("old", type=pathlib.Path, help="the program to compare with")
    flags.add_argument("new", type=pathlib.Path, nargs="?", help="the other program; built from this tree unless told")
    flags.add_argument("--pairs", type=int, default=9, help="pairs of runs of each work")
    flags.add_argument("--works", nargs="+", default=["k1", "k9", "events", "hosts"], choices=["k1", "k9", "events", "hosts", "beside"])
    given = flags.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with what stands behind with
    with tempfile.TemporaryDirectory(prefix="fedpace-pairs-") as folder, CHILDREN:
        folder = pathlib.Path(folder)
        new = given.new
        if new is None:
            new = folder / "fedpace"
            Child(["go", "build", "-o", new, "./cmd/fedpace"], CORES).wait()
        p = Pairs(given.old.resolve(), new.resolve(), folder)
        for name in given.works:
            if name != "events":
                p.prepare()
            sides, times = works(p)[name], []
            for turn in range(given.pairs):
                first = turn % 2
                played = {i: sides[i]() for i in (first, 1 - first)}
                (old, bits), (now, same) = played[0], played[1]
                if bits != same:
                    sys.exit(f"{name}: the runs come to {bits} and {same}")
                times.append((old, now))
                tell(f"{name}: {old:.2f} and {now:.2f} s, {now / old:.3f}")
            ratios = [now / old for old, now in times]
            print(f"{name}: {statistics.median(ratios):.3f} of the time ({min(ratios):.3f} to {max(ratios):.3f}, {given.pairs} pairs), "
                  f"{statistics.median(o for o, _ in times):.2f} and {statistics.median(n for _, n in times):.2f} s", flush=True)
        print(machine())


main()
