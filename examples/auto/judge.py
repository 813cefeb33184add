"""Prints what the cells of README.md come to: python3 judge.py SOURCE CELLS

SOURCE is a folder that holds a folder for each cell, as run.sh leaves them, or one CSV file of all
cells; CELLS is dev or judged, or ideas for the table of those. It
needs no package. The criteria are those of the protocol.
"""

import csv
import math
import pathlib
import statistics
import sys

DEV = ["users-1", "users-10", "users-100", "logistic0-10", "logistic2-10"]
CONSTANTS = ["k1", "k3", "k5", "k10", "k20", "k60"]
RIVALS = ["rounds", "step", "error", "adacomm"]


def cells(source, which):
    """The runs of each cell, by its name: rows of a runs.csv, or of one file of all cells."""
    if source.endswith(".csv"):
        with open(source, newline="") as file:
            rows = list(csv.DictReader(file))
        return {name: [r for r in rows if r["cell"] == name] for name in dict.fromkeys(r["cell"] for r in rows)}
    found = {}
    for path in sorted(pathlib.Path(source).glob("*/runs.csv")):
        is_dev = path.parent.name in DEV
        if is_dev == (which == "dev") and not path.parent.name.endswith("small"):
            with open(path, newline="") as file:
                found[path.parent.name] = list(csv.DictReader(file))
    return found


def mean(runs, schedule, column):
    """The mean of a column over a schedule's seeds."""
    return statistics.fmean(float(r[column]) for r in runs if r["schedule"] == schedule)


def tail(runs, schedule):
    """Tail accuracy in points."""
    return 100 * mean(runs, schedule, "tail_validation_accuracy")


def p_value(differences):
    """The two-sided p of a t-test against 0, by integrating Student's density."""
    n = len(differences)
    spread = statistics.stdev(differences)
    if spread == 0:
        return 1.0
    t = abs(statistics.fmean(differences)) / (spread / math.sqrt(n))
    degrees = n - 1
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    steps = 20000
    inside = 0.0
    for i in range(steps):
        x = t * (i + 0.5) / steps
        inside += scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2) * t / steps
    return max(0.0, 1 - 2 * inside)


def holm(values):
    """The p-values by name, adjusted by Holm's procedure."""
    adjusted, worst = {}, 0.0
    for i, (name, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, p * (len(values) - i)))
        adjusted[name] = worst
    return adjusted


def ideas(source):
    """Prints for each schedule that is no constant how it stands to the best constant of each cell."""
    found = cells(source, "dev")
    names = dict.fromkeys(r["schedule"] for runs in found.values() for r in runs)
    for name in names:
        if name in CONSTANTS:
            continue
        gaps, ratios = [], []
        for runs in found.values():
            if not any(r["schedule"] == name for r in runs):
                continue
            played = [k for k in CONSTANTS if any(r["schedule"] == k for r in runs)]
            best = max(played, key=lambda k: tail(runs, k))
            gaps.append(tail(runs, name) - tail(runs, best))
            ratios.append(time(runs, name) / time(runs, best))
        print(
            f"| {name} | {statistics.fmean(gaps):+.2f} | {min(gaps):+.2f} | {statistics.fmean(ratios):.2f} | {len(gaps)} |"
        )


def time(runs, schedule):
    """The mean time to the level; a run that never reaches it counts with all of its time."""
    times = [float(r["seconds_to_level"] or r["virtual_seconds"]) for r in runs if r["schedule"] == schedule]
    return statistics.fmean(times)


def main(source, which):
    """Prints the table of the cells, then the criteria."""
    gaps, ratios = [], []
    against = {rival: [] for rival in RIVALS}
    print("| cell | best constant | auto | difference | s to the level: best constant | auto | rounds | step | error | adacomm |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, runs in cells(source, which).items():
        best = max(CONSTANTS, key=lambda k: tail(runs, k))
        auto = tail(runs, "auto")
        gap = auto - tail(runs, best)
        gaps.append((gap, name))
        constant_time = mean(runs, best, "seconds_to_level")
        auto_time = mean(runs, "auto", "seconds_to_level")
        ratios.append(auto_time / constant_time)
        for rival in RIVALS:
            against[rival].append(auto - tail(runs, rival))
        print(
            f"| {name} | {best[1:]}: {tail(runs, best):.2f} | {auto:.2f} | {gap:+.2f} | {constant_time:.1f} | {auto_time:.1f} | "
            + " | ".join(f"{tail(runs, rival):.2f}" for rival in RIVALS)
            + " |"
        )
    print()
    print(f"auto minus the best constant: mean {statistics.fmean(g for g, _ in gaps):+.2f} points, worst {min(gaps)[0]:+.2f} ({min(gaps)[1]})")
    print(f"time to the level over the best constant's: mean {statistics.fmean(ratios):.2f}, worst {max(ratios):.2f}")
    adjusted = holm({rival: p_value(d) for rival, d in against.items()})
    for rival in RIVALS:
        print(f"auto minus {rival}: mean {statistics.fmean(against[rival]):+.2f} points, Holm's p {adjusted[rival]:.2g}")


if __name__ == "__main__":
    if sys.argv[2] == "ideas":
        ideas(sys.argv[1])
    else:
        main(sys.argv[1], sys.argv[2])
