"""Makes and judges runs whose labels change at a moment.

    python3 drift.py make SEED SECONDS PART FILE   writes the table of a run
    python3 drift.py judge FOLDER                  prints what the runs of drift.sh come to

Rows of thirty clients arrive evenly over so many virtual seconds, and in the tenth of them before. A row
lies around one of eight points, each of which stands for one of four classes; from the part PART of the
seconds on, each point stands for another class. Clients have the points in different shares. It needs no
package.
"""

import csv
import math
import pathlib
import random
import statistics
import sys

CLIENTS = 30
FEATURES = 6
CLASSES = 4
POINTS = 8
ROWS = 18000
NOISE = 1.2


def make(seed, seconds, part, path):
    """Writes the table. The labels change at part * seconds."""
    draw = random.Random(seed)
    points = [[draw.gauss(0, 1.5) for _ in range(FEATURES)] for _ in range(POINTS)]
    before = [i % CLASSES for i in range(POINTS)]
    after = [(i + 1 + i // CLASSES) % CLASSES for i in range(POINTS)]
    shares = [[draw.expovariate(1) for _ in range(POINTS)] for _ in range(CLIENTS)]
    with open(path, "w", encoding="utf-8") as file:
        names = ",".join(f"x{j}" for j in range(FEATURES))
        file.write(f"client,at,{names},label,part\n")
        for _ in range(ROWS):
            client = draw.randrange(CLIENTS)
            point = draw.choices(range(POINTS), shares[client])[0]
            at = seconds * (1.1 * draw.random() - 0.1)
            label = (before if at < part * seconds else after)[point]
            values = ",".join(f"{x + draw.gauss(0, NOISE):.3f}" for x in points[point])
            held = "test" if draw.random() < 0.2 else "train"
            file.write(f"c{client},{at:.3f},{values},{label},{held}\n")


def measured(run, part):
    """The mean accuracy from the change on, that of the run's last tenth, in points, and the alarms."""
    with open(run / "rounds.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seconds = float(rows[-1]["virtual_seconds"])
    found = [(float(r["virtual_seconds"]) / seconds, float(r["validation_accuracy"])) for r in rows if r["validation_accuracy"]]
    since = [accuracy for at, accuracy in found if at > part]
    tail = [accuracy for at, accuracy in found if at > 0.9]
    alarms = {r["change_round"] for r in rows if int(r.get("change_round") or 0) > 0}
    false = [r for r in alarms if float(rows[int(r) - 1]["virtual_seconds"]) < part * seconds]
    return 100 * statistics.fmean(since), 100 * statistics.fmean(tail), len(alarms), len(false)


def judge(folder):
    """Prints for each cell the mean accuracies, and the paired differences of auto with their errors."""
    print("| cell | measure | best constant | `auto` | minus constant | minus line | alarms, false ones |")
    print("|---|---|---|---|---|---|---|")
    for cell in sorted(pathlib.Path(folder).iterdir()):
        part = float(cell.name.split("-")[1])
        seeds = sorted(cell.glob("*/runs.csv"))
        runs = {}
        for seed in seeds:
            for path in sorted(p.parent for p in seed.parent.glob("*/rounds.csv")):
                runs.setdefault(path.name, []).append(measured(path, part))
        constants = [name for name in runs if name.startswith("k")]
        for i, measure in enumerate(["from the change on", "last tenth"]):
            best = max(constants, key=lambda k: statistics.fmean(r[i] for r in runs[k]))
            texts = []
            for rival in [best, "line"]:
                gaps = [a[i] - b[i] for a, b in zip(runs["auto"], runs[rival], strict=True)]
                error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
                texts.append(f"{statistics.fmean(gaps):+.2f} ± {error:.2f}")
            means = {name: statistics.fmean(r[i] for r in runs[name]) for name in runs}
            alarms = sum(r[2] for r in runs["auto"])
            false = sum(r[3] for r in runs["auto"])
            print(
                f"| {cell.name} ({len(seeds)}) | {measure} | {best[1:]}: {means[best]:.2f} | {means['auto']:.2f} | "
                f"{texts[0]} | {texts[1]} | {alarms}, {false} |"
            )


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
    else:
        judge(sys.argv[2])
