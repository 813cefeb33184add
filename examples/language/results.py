"""Prints the table of runs, and draws them against virtual time, tokens and bytes.

    PYTHONPATH=../../python python3 results.py curves.svg FOLDER...

Perplexity is exp of the validation loss; of several seeds that of the mean, with a 95 % interval.
"""
import re
import sys
from collections import defaultdict

import fedpace
import numpy as np

NAMES = {"fixed": "H = 16", "h8": "H = 8", "h4": "H = 4", "dsgd": "H = 1", "rounds": "K_r-rounds, from 16", "error": "K_r-error, from 16",
         "cosine": "H = 16, rate by a cosine", "rising": "quadratic, 16 to 32, rate by a cosine"}
NAMES.update({f"{s}-constant": f"constant, steps of {NAMES[s]}" for s in ("rounds", "error")})
COLOURS = ["#222222", "#0072b2", "#56b4e9", "#999999", "#d55e00", "#e69f00", "#009e73", "#cc79a7"]
STUDENT = [np.nan, 12.706, 4.303, 3.182, 2.776]  # 97.5 % of Student's t, by the number of seeds less one
AXES = [("virtual seconds", 1), ("million tokens", 1e6), ("MB", 1e6)]


def curve(run):
    """Where each measured round ends (virtual seconds, tokens, bytes), and its loss."""
    r = run.rounds
    sent = np.cumsum(r["accepted"]) * run.summary["bytes"]["useful"] / max(1, sum(r["accepted"]))
    at = np.array([r["virtual_seconds"], r["tokens"], sent], float)
    return np.where(np.isnan(r["validation_loss"]), np.nan, at), np.asarray(r["validation_loss"], float)


def groups(runs):
    """The runs of each link and schedule, in the order of the table."""
    by = defaultdict(list)
    for run in runs:
        mbps = re.search(r"download_mbps__(\d+)", run.name)
        by[int(mbps[1]) if mbps else np.inf, list(NAMES).index(run.summary["schedule"])].append(run)
    return dict(sorted(by.items()))


def perplexity(losses):
    loss = np.array(losses, float)
    if len(loss) == 1:
        return f"{np.exp(loss[0]):.2f}"
    half = STUDENT[len(loss) - 1] * loss.std(ddof=1) / len(loss) ** 0.5
    return f"{np.exp(loss.mean()):.2f} ({np.exp(loss.mean() - half):.2f} to {np.exp(loss.mean() + half):.2f})"


def link(mbps):
    return "mixed" if mbps == np.inf else f"{mbps:,}"


def table(by):
    print("| Mbit/s | H | seeds | rounds | perplexity | tokens | MB |\n| --- | --- | --- | --- | --- | --- | --- |")
    for (mbps, schedule), runs in by.items():
        rounds, tokens = (np.mean([of(r) for r in runs]) for of in (lambda r: len(r.rounds), lambda r: max(r.rounds["tokens"], default=0)))
        sent = np.mean([r.summary["bytes"]["useful"] for r in runs]) / 1e6
        losses = perplexity([r.summary["validation_loss"] for r in runs])
        print(f"| {link(mbps)} | {list(NAMES.values())[schedule]} | {len(runs)} | {rounds:.3g} | {losses} | {tokens:,.0f} | {sent:,.0f} |")


def adapters(runs):
    """The base, and what followed it: on windows of all roles, and on samples of the roles that trained later."""
    if runs:
        print("\n| | seeds | parameters that travel | rounds | perplexity | of the later roles | MB |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, title in ("base", "the base"), ("lora", "then adapters"), ("all", "then all parameters"):
        if of := [r for r in runs if r.name.startswith(name + "-")]:
            sent, losses = of[0].summary["bytes"]["useful"], [r.summary["validation_loss"] for r in of]
            later = [list(t["mean_loss"][t["class"] == "rest"])[-1] for t in (r.table("fairness.csv") for r in of)]
            print(f"| {title} | {len(of)} | {sent / 8 / of[0].summary['outcomes']['accepted']:,.0f} | {len(of[0].rounds)} | {perplexity(losses)} | {perplexity(later)} | {sent / 1e6:.3g} |")


def panel(out, left, top, axis, lines):
    """One diagram: perplexity, in decades, by what the axis counts; a line for each schedule, the mean over seeds."""
    unit = AXES[axis][1]
    lines = [(s, at[axis] / unit, loss) for s, at, loss in lines]
    most, low, high = max(x.max() for _, x, _ in lines), 2.2, 3.8
    place = lambda x, y: (left + 230 * x / most, top + 150 * (high - np.clip(y, low, high)) / (high - low))
    out.append(f'<rect x="{left}" y="{top}" width="230" height="150" fill="none" stroke="#aaa"/>')
    for perplexity in (10, 15, 20, 30, 40):
        x, y = place(0, np.log(perplexity))
        out.append(f'<path d="M{left} {y:.1f}h230" stroke="#eee"/><text x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{perplexity}</text>')
    for i in (1, 2):
        out.append(f'<text x="{left + 115 * i}" y="{top + 163}" text-anchor="end">{most * i / 2:{",.0f" if most > 200 else ".3g"}}</text>')
    for schedule, x, loss in lines:
        points = " ".join("{:.1f},{:.1f}".format(*place(*p)) for p in zip(x, loss))
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[schedule]}" stroke-width="1.6"/>')


def draw(by, path):
    out, links = [], sorted({mbps for mbps, _ in by})
    for row, mbps in enumerate(links):
        lines = []
        for (of, schedule), runs in by.items():
            curves = [curve(r) for r in runs]
            n = min(len(loss) for _, loss in curves)  # seeds differ in rounds only where K follows a loss
            at, loss = np.mean([a[:, :n] for a, _ in curves], 0), np.mean([l[:n] for _, l in curves], 0)
            if of == mbps and schedule < len(COLOURS) and (measured := ~np.isnan(loss)).any():
                lines.append((schedule, at[:, measured], loss[measured]))
        top = 40 + 205 * row
        for axis, (name, _) in enumerate(AXES):
            out.append(f'<text x="{50 + 270 * axis}" y="{top - 6}">perplexity by {name}, {link(mbps)}{" links" if mbps == np.inf else " Mbit/s"}</text>')
            if lines:
                panel(out, 50 + 270 * axis, top, axis, lines)
    height = 205 * len(links) + 30
    for i, name in enumerate(list(NAMES.values())[: len(COLOURS)]):
        x, y = 50 + 205 * (i % 4), height + 16 * (i // 4)
        out.append(f'<path d="M{x} {y - 4}h18" stroke="{COLOURS[i]}" stroke-width="2"/><text x="{x + 22}" y="{y}">{name}</text>')
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 {height + 30}" font-family="sans-serif" font-size="11">'
                f'<rect width="100%" height="100%" fill="#fff"/>{"".join(out)}</svg>\n')


ended = [run for folder in sys.argv[2:] for run in fedpace.runs(folder) if run.summary.get("completed")]
apart = [run for run in ended if "-adapters" in str(run.path.parent)]
found = groups(run for run in ended if run not in apart and run.summary["schedule"] in NAMES)
table(found)
adapters(apart)
draw(found, sys.argv[1])
