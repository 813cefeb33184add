#!/usr/bin/env python3
"""Does the simulator rank settings as real devices do?

Starts eight fedpace-device processes on this machine (Linux, as root), each in a network namespace
with a link of its own (tc) and with a share of a core of its own (cgroups), measures their classes
with `fedpace calibrate`, plays every setting with them, and leaves the comparison to
`fedpace validate`. Devices know nothing of the simulation, and the simulation nothing of the runs.

    python3 study.py --data skewed.fedpace --out runs/validation [--fleets even,links,speeds]
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

# A device: its share of a core in percent, its download and its upload in Mbit/s. Devices of a kind
# follow each other, so that client number i of a simulation, whose classes follow each other, too,
# has the samples of device number i.
FLEETS = {
    "even": [(6, 20, 10)] * 8,
    "links": [(6, 40, 20), (6, 40, 20), (6, 20, 10), (6, 20, 10), (6, 10, 5), (6, 10, 5), (6, 6, 2), (6, 4, 2)],
    "speeds": [(16, 20, 10), (16, 20, 10), (8, 20, 10), (8, 20, 10), (4, 20, 10), (4, 20, 10), (2, 20, 10), (2, 10, 5)],
}

# The settings: schedules, closing rules and cohorts.
SETTINGS = {
    "k2": ["schedule.k=fixed", "schedule.k0=2"],
    "k10": ["schedule.k=fixed", "schedule.k0=10"],
    "k40": ["schedule.k=fixed", "schedule.k0=40"],
    "k100": ["schedule.k=fixed", "schedule.k0=100"],
    "rounds": ["schedule.k=rounds", "schedule.k0=100"],
    "k40-first6": ["schedule.k=fixed", "schedule.k0=40", "close={rule: first, n: 6}"],
    "k40-first4": ["schedule.k=fixed", "schedule.k0=40", "close={rule: first, n: 4}"],
    "rounds-first6": ["schedule.k=rounds", "schedule.k0=100", "close={rule: first, n: 6}"],
    "k40-cohort4": ["schedule.k=fixed", "schedule.k0=40", "devices.include=sampled", "cohort=4"],
    "rounds-cohort4": ["schedule.k=rounds", "schedule.k0=100", "devices.include=sampled", "cohort=4"],
}

HUB = "10.77.0.1"
ADDRESS = f"{HUB}:4222"
BRIDGE = "fedpace0"
# A period of the processor's quota in microseconds: short beside a local step of a slow device.
PERIOD = 50_000


def call(*words, **options):
    """Runs a command and fails if it fails."""
    return subprocess.run([str(w) for w in words], check=True, **options)


class Board:
    """A device: a network namespace with a limited link, and a group of processes with a limited core."""

    def __init__(self, number, share, down, up):
        self.name = f"board{number}"
        self.cpu = pathlib.Path("/sys/fs/cgroup/cpu" if os.path.isdir("/sys/fs/cgroup/cpu") else "/sys/fs/cgroup")
        self.group = self.cpu / f"fedpace-{self.name}"
        call("ip", "netns", "add", self.name)
        call("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        call("ip", "link", "set", self.name, "master", BRIDGE, "up")
        self.inside("ip", "addr", "add", f"10.77.0.{number + 2}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        self.inside("ip", "link", "set", "lo", "up")
        limit = ["root", "tbf", "burst", "16kb", "latency", "2s", "rate"]
        call("tc", "qdisc", "add", "dev", self.name, *limit, f"{down}mbit")
        self.inside("tc", "qdisc", "add", "dev", "eth0", *limit, f"{up}mbit")
        self.group.mkdir()
        quota = PERIOD * share // 100
        # Boards come before whatever else this machine does, up to their quota.
        if (self.group / "cpu.cfs_quota_us").exists():
            limits = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota, "cpu.shares": 262144}
        else:
            limits = {"cpu.max": f"{quota} {PERIOD}", "cpu.weight": 10000}
        for name, value in limits.items():
            (self.group / name).write_text(str(value))

    def inside(self, *words):
        """Runs a command in the namespace."""
        call("ip", "netns", "exec", self.name, *words)

    def start(self, *words, **options):
        """Starts a program in the namespace and the group."""
        # The group comes first: the namespace has a /sys of its own, without groups.
        join = f"echo $$ > {self.group}/cgroup.procs && exec ip netns exec {self.name} \"$@\""
        return subprocess.Popen(["sh", "-c", join, "sh", *[str(w) for w in words]], **options)

    def close(self):
        """Removes the namespace with its link, and the group, whose processes have ended."""
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        with contextlib.suppress(OSError):
            self.group.rmdir()


class Study:
    """One fleet: its boards, its classes and its runs."""

    def __init__(self, options, fleet):
        self.options = options
        self.fleet = fleet
        self.dir = options.out / fleet
        self.dir.mkdir(parents=True, exist_ok=True)
        self.boards = []
        self.keys = self.dir / "keys"
        # The class of each board: boards of a kind share one, which the first of them measures.
        kinds = list(dict.fromkeys(FLEETS[fleet]))
        self.classes = [f"kind{kinds.index(limits)}" for limits in FLEETS[fleet]]

    def fedpace(self, *words):
        """The command line of fedpace with these words."""
        return [str(w) for w in (self.options.bin / "fedpace", *words)]

    def configure(self):
        """Writes the run's configuration and the devices' credentials."""
        names = ", ".join(f"{b.name}: {kind}" for b, kind in zip(self.boards, self.classes))
        common = (
            f"task: femnist\ndata: {self.options.data.resolve()}\nclients: 0\n"
            f"stop: {{rounds: null, virtual_seconds: {self.options.seconds}}}\n"
            "evaluate: {every_seconds: 2, samples: 2000}\n"
            f"nats: {{listen: '{ADDRESS}'}}\n"
        )
        ids = ", ".join(b.name for b in self.boards)
        (self.dir / "measure.yaml").write_text(common + f"name: calibration\ndevices: {{names: [{ids}]}}\n")
        (self.dir / "run.yaml").write_text(common + f"devices: {{names: {{{names}}}}}\n")
        call(*self.fedpace("certificate", "--keys", self.keys, "--host", HUB, "--out", self.dir / "ca.pem"))
        for b in self.boards:
            call(*self.fedpace("enroll", b.name, "--keys", self.keys, "--out", self.dir / f"{b.name}.creds"))

    def device(self, board, command, *words):
        """Starts fedpace-device on a board."""
        log = open(self.dir / f"{board.name}.log", "a", encoding="utf-8")
        return board.start(
            self.options.bin / "fedpace-device", command, "--nats", f"tls://{ADDRESS}", "--tls-ca", self.dir / "ca.pem",
            "--client", board.name, "--creds", self.dir / f"{board.name}.creds", *words, stdout=log, stderr=log,
        )

    def samples(self, client):
        """The flags by which a device has the samples of one client of the data."""
        return ["--data", self.options.data.resolve(), "--owner", client]

    def calibrate(self):
        """Measures one board of each kind, and writes the classes."""
        serve = subprocess.Popen(self.fedpace(
            "calibrate", "serve", "--config", self.dir / "measure.yaml", "--keys", self.keys, "--seconds", "10", "--quiet"))
        found = []
        try:
            for i, kind in enumerate(self.classes):
                if kind in self.classes[:i]:
                    continue
                out = self.dir / f"{kind}.yaml"
                print(f"{self.fleet}: measure {kind}", flush=True)
                measure = [*self.samples(i), "--seconds", "8", "--name", kind, "--out", out]
                p = self.device(self.boards[i], "calibrate", *measure)
                if p.wait(timeout=300) != 0:
                    sys.exit(f"{kind} was not measured: see {self.dir}/{self.boards[i].name}.log")
                lines = out.read_text().splitlines()
                found += [line for line in lines if line.strip() and not line.startswith(("#", "task:", "fleet:"))]
        finally:
            serve.send_signal(signal.SIGINT)
            serve.wait()
        (self.dir / "fleet.yaml").write_text("fleet:\n" + "\n".join(found) + "\n")

    def runs(self):
        """Returns the seed and the setting of each run. The first seed plays all settings first."""
        return [(seed, name) for seed in range(1, self.options.seeds + 1) for name in SETTINGS]

    def folder(self, seed, name):
        """Returns the folder of a run."""
        return self.dir / "runs" / (name if seed == 1 else f"{name}-seed{seed}")

    def play(self):
        """Plays the settings with the boards."""
        actors = [self.device(b, "actor", *self.samples(i)) for i, b in enumerate(self.boards)]
        try:
            for seed, name in self.runs():
                out = self.folder(seed, name)
                if (out / "summary.json").exists():
                    continue
                began = time.time()
                words = [w for s in [*SETTINGS[name], f"seed={seed}"] for w in ("--set", s)]
                call(*self.fedpace(
                    "run", "--config", self.dir / "run.yaml", "--config", self.dir / "fleet.yaml", "--keys", self.keys,
                    "--name", "validation", "--force", "--quiet", "--out", out, *words))
                summary = json.loads((out / "summary.json").read_text())
                print(f"{self.fleet} {name}, seed {seed}: {summary['rounds']} rounds, {time.time() - began:.0f} s", flush=True)
        finally:
            for p in actors:
                p.send_signal(signal.SIGTERM)
            for p in actors:
                p.wait()

    def run(self):
        """Makes the boards, measures them, plays all settings and compares."""
        call("ip", "link", "add", BRIDGE, "type", "bridge")
        try:
            call("ip", "addr", "add", f"{HUB}/24", "dev", BRIDGE)
            call("ip", "link", "set", BRIDGE, "up")
            for i, limits in enumerate(FLEETS[self.fleet]):
                self.boards.append(Board(i, *limits))
            self.configure()
            if not (self.dir / "fleet.yaml").exists():
                self.calibrate()
            self.play()
        finally:
            for b in self.boards:
                b.close()
            call("ip", "link", "del", BRIDGE)
        self.validate()

    def validate(self):
        """Simulates each run, and writes the comparison as text, table, JSON and picture."""
        runs = [self.folder(seed, name) for seed, name in self.runs()]
        command = self.fedpace("validate", *runs, "--out", self.dir / "simulated", "--quiet")
        with open(self.dir / "validation.txt", "w", encoding="utf-8") as text:
            call(*command, "--figure", self.dir / "validation.svg", stdout=text)
        with open(self.dir / "validation.json", "w", encoding="utf-8") as text:
            call(*command, "--json", stdout=text)
        call(*command, "--csv", self.dir / "settings.csv", stdout=subprocess.DEVNULL)
        print((self.dir / "validation.txt").read_text(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="prepared data with eight clients")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/validation"))
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("."), help="folder of both programs")
    parser.add_argument("--fleets", default=",".join(FLEETS), help="fleets, separated by commas")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each setting")
    parser.add_argument("--seconds", type=float, default=40, help="virtual time of a run")
    options = parser.parse_args()
    for fleet in options.fleets.split(","):
        Study(options, fleet).run()


if __name__ == "__main__":
    main()
