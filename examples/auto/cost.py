"""Compares what auto and a constant K with the same mean cost in runs that are only timed.

    python3 cost.py [PAIRS [ROUNDS]]

prints a line for each pair and the mean over all.

Pairs of runs are played one after the other, in turn in either order, and their processor time in user
mode is compared. FEDPACE is the program. It needs no package.
"""

import csv
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# The program, by default that in the folder of the repository.
PROGRAM = os.environ.get("FEDPACE") or str(pathlib.Path(__file__).resolve().parents[2] / "fedpace")


def play(folder, k, rounds):
    """Plays one run and returns its processor time in user mode, in seconds."""
    schedule = ["--set", "schedule.k=auto"] if k is None else ["--set", "schedule.k=fixed", "--set", f"schedule.k0={k}"]
    command = [PROGRAM, "run", "-q", "--set", "train=false", "--set", f"stop.rounds={rounds}", *schedule]
    command += ["--set", "nats.url=none", "--set", "events.sample=off", "--set", "checkpoint.seconds=null"]
    process = subprocess.Popen([*command, "--out", folder, "--force"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_utime


def mean_steps(folder):
    """The mean K of the run in a folder."""
    with open(pathlib.Path(folder) / "rounds.csv", newline="", encoding="utf-8") as file:
        return statistics.fmean(int(row["local_steps"]) for row in csv.DictReader(file))


def main(pairs, rounds):
    with tempfile.TemporaryDirectory() as temporary:
        folder = f"{temporary}/run"
        play(folder, None, rounds)
        mean = mean_steps(folder)
        constant = round(mean)
        print(f"auto has K = {mean:.1f} in the mean, the constant is {constant}")
        ratios = []
        for pair in range(pairs):
            order = [None, constant] if pair % 2 == 0 else [constant, None]
            used = {k: play(folder, k, rounds) for k in order}
            ratios.append(used[None] / used[constant] - 1)
            print(f"pair {pair + 1}: auto {used[None]:.2f} s, constant {used[constant]:.2f} s, {100 * ratios[-1]:+.1f} %")
    ratios.sort()
    error = statistics.stdev(ratios) / math.sqrt(pairs)
    print(
        f"auto takes {100 * statistics.median(ratios):+.1f} % in the median of {pairs} pairs, "
        f"{100 * statistics.fmean(ratios):+.1f} % ± {100 * error:.1f} in the mean"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11, int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
