"""Prints what the cells of docs/auto.md come to: python3 judge.py FOLDER CELLS

FOLDER holds a folder for each cell, as run.sh leaves them; CELLS is dev or judged. It needs no
package. The criteria are those of the protocol.
"""

import csv
import math
import pathlib
import statistics
import sys

DEV = ["users-1", "users-10", "users-100", "logistic0-10", "logistic2-10"]
CONSTANTS = ["k1", "k3", "k5", "k10", "k20", "k60"]
RIVALS = ["rounds", "step", "error", "adacomm"]


def cells(folder, which):
    """The runs of each cell, by its name: rows of its runs.csv."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*/runs.csv")):
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


def main(folder, which):
    """Prints the table of the cells, then the criteria."""
    gaps, ratios = [], []
    against = {rival: [] for rival in RIVALS}
    print("| cell | best constant | auto | difference | s to the level: best constant | auto | rounds | step | error | adacomm |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, runs in cells(folder, which).items():
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
    main(sys.argv[1], sys.argv[2])
