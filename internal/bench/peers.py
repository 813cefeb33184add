"""The same FedAvg in fedpace and as a plain loop in PyTorch (loop.py), one core each, in turns.

Both read the same prepared file of real data. What is counted is processor time: fedpace's of a run
of some rounds less that of a run of one, with its server, clock, tables and checkpoints; the
loop's of its rounds behind the first. Neither loads data in it, nor evaluates.
"""
import json
import pathlib
import statistics
import sys

from measure import DATA, Child, machine, tell

PADDED = "[conv: {maps: 32, pad: 1}, relu, pool, conv: {maps: 64, pad: 1}, relu, pool, flatten, dense: 128, relu, dense]"

# name, model of the loop, task, cohort, K, batch, eta, rounds of a turn
WORKS = [
    ("FEMNIST", "femnist", "femnist", 60, 80, 32, 0.3, 6),
    ("FEMNIST", "femnist", "femnist", 60, 8, 32, 0.3, 50),
    ("FEMNIST", "femnist", "femnist", 60, 1, 32, 0.3, 150),
    ("CIFAR100", "cifar100", "cifar100", 10, 10, 32, 0.05, 6),
    ("CIFAR100", "cifar100", "cifar100", 10, 10, 10, 0.05, 6),
    ("CIFAR100, padded CNN", "padded", "cifar100", 10, 10, 10, 0.05, 6),
    ("Shakespeare", "shakespeare", "shakespeare", 10, 8, 32, 0.1, 4),
]
# PyTorch at its best: memory that is freed stays with the process, and OpenBLAS's kernels for AVX-512
# are twice as fast as those that it chooses where a processor has bfloat16, too.
BEST = ["env", "MALLOC_MMAP_THRESHOLD_=1000000000", "MALLOC_TRIM_THRESHOLD_=1000000000"]
if "AVX-512" in machine():
    BEST.append("OPENBLAS_CORETYPE=SkylakeX")

FILES = {"femnist": "femnist/femnist.parquet", "cifar100": "cifar100", "shakespeare": "shakespeare/1994-01-100.zip"}


def theirs(python, **of):
    child = Child([*BEST, python, pathlib.Path(__file__).with_name("loop.py"), json.dumps(of)])
    child.wait()
    return json.loads(child.printed.splitlines()[-1])


def ours(fedpace, model, task, data, cohort, k, batch, rate, rounds, seed):
    sets = dict(task=task, data=data, cohort=cohort, batch=batch, augment="none", seed=seed,
                schedule__k="fixed", schedule__k0=k, schedule__eta0=rate, evaluate__samples=64)
    if model == "padded":
        sets["model"] = PADDED
    one, _, _ = fedpace.run(**sets, stop__rounds=1)
    all, summary, table = fedpace.run(**sets, stop__rounds=rounds + 1, evaluate__every=1000000)
    return all.cpu - one.cpu, [float(r["training_loss"]) for r in table], summary["kernel"]


def measure(fedpace, python, turns, length=1.0):
    """The rows of peers.csv, and what was compared, in words. length is the part of each turn that is played."""
    rows, prepared = [], {}
    for name, model, task, cohort, k, batch, rate, rounds in WORKS:
        if task not in prepared:
            prepared[task] = fedpace.folder / f"{task}.fedpace"
            tell(f"prepares {DATA / FILES[task]}")
            Child([fedpace.binary, "data", "prepare", DATA / FILES[task], "--task", task, "--out", prepared[task]]).wait()
        rounds = max(2, round(length * rounds))
        us, them, losses = [], [], ([], [])
        for turn in range(1, turns + 1):
            of = dict(cohort=cohort, k=k, batch=batch, rate=rate, rounds=rounds, seed=turn, model=model, data=str(prepared[task]))
            loop = theirs(python, **of)
            cpu, loss, kernel = ours(fedpace, task=task, **of)
            us.append(rounds / cpu)
            them.append(rounds / loop["cpu"])
            for all, one in zip(losses, (loss, loop["losses"])):
                all.append(statistics.mean(one[len(one) // 2 :]))
            tell(f"{name}, K = {k}, batch {batch}: {us[-1]:.3g} and {them[-1]:.3g} rounds/s, {us[-1] / them[-1]:.2f} times;"
                 f" losses from {loss[0]:.3f} and {loop['losses'][0]:.3f} to {losses[0][-1]:.3f} and {losses[1][-1]:.3f}")
        ratios = [a / b for a, b in zip(us, them)]
        rows.append({
            "work": name, "cohort": cohort, "k": k, "batch": batch, "rounds": rounds, "turns": turns,
            "ours": statistics.median(us), "pytorch": statistics.median(them),
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
            "loss": statistics.mean(losses[0]), "pytorch_loss": statistics.mean(losses[1]),
        })
    onednn = "with oneDNN" if loop["onednn"] else "without oneDNN"
    return rows, f"kernel class {kernel}; PyTorch {loop['torch']} {onednn} and {loop['blas']}"


def missed(rows):
    for r in rows:
        if r["batch"] == 10 and r["ratio"] < 1.6:
            yield f"{r['work']}, batch 10: {r['ratio']:.2f} times PyTorch, want 1.6"
