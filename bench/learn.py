#!/usr/bin/env python3
"""Runs PyTorch and OpenBLAS beside this project's SGD steps and prints the ratios.

    bench/learn.py [seconds per measurement, 2 unless told]

Everything runs on one core. Where several programs share the machine, processor
time is what counts, and of several turns the best: ours and theirs alike. PyTorch
(Debian: python3-torch) and OpenBLAS (libopenblas0) are left out where they are not
installed. PyTorch's own products go through the BLAS that libblas.so.3 stands for;
the output says which.
"""
import ctypes
import ctypes.util
import os
import pathlib
import re
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
ROOT = pathlib.Path(__file__).resolve().parent.parent


def best(turn):
    """Least processor seconds of a call, over turns."""
    turn()
    turn()
    least, end = float("inf"), time.monotonic() + SECONDS
    while time.monotonic() < end:
        start = time.thread_time()
        turn()
        least = min(least, time.thread_time() - start)
    return least


def ours(pattern, package):
    """Metrics of the benchmarks, by name without the prefix and the core count."""
    out = subprocess.run(
        ["go", "test", "-run", "^$", "-bench", pattern, "-benchtime", f"{SECONDS}s", "-cpu", "1", package],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    found = {}
    for line in out.splitlines():
        if line.startswith("Benchmark"):
            name, _, *rest = line.split()
            found[name.split("/", 1)[1]] = {unit: float(v) for v, unit in zip(rest[::2], rest[1::2])}
    return found


def torch_steps():
    """Microseconds of a step of plain SGD for each task, or nothing."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: left out", file=sys.stderr)
        return {}
    from torch import nn

    torch.set_num_threads(1)
    # Subnormal numbers would slow it; ours never meets them here.
    torch.set_flush_denormal(True)

    class Characters(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(79, 8)
            self.gru = nn.GRU(8, 128, 2, batch_first=True)
            self.linear = nn.Linear(128, 79)

        def forward(self, x):
            return self.linear(self.gru(self.embedding(x))[0][:, -1])

    words = torch.zeros(8, 5000)
    for s in range(8):
        words[s, torch.randperm(5000)[:12]] = 1 / 12
    tasks = {
        "sent140": (nn.Linear(5000, 2), words, 2),
        "femnist": (
            nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62)),
            torch.rand(32, 784), 62,
        ),
        "cifar100": (
            nn.Sequential(
                nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(), nn.Linear(512, 100),
            ),
            torch.rand(32, 3, 32, 32), 100,
        ),
        "shakespeare": (Characters(), torch.randint(0, 79, (32, 80)), 79),
    }
    result = {}
    for name, (model, x, classes) in tasks.items():
        y = torch.randint(0, classes, (len(x),))
        parameters = list(model.parameters())

        def step():
            loss = nn.functional.cross_entropy(model(x), y)
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for p, g in zip(parameters, gradients):
                    p.sub_(g, alpha=0.01)

        result[name] = best(step) * 1e6
    return result


def openblas():
    """GFLOP/s of OpenBLAS on products that we have too, or nothing."""
    path = ctypes.util.find_library("openblas") or "libopenblas.so.0"
    try:
        import numpy

        blas = ctypes.CDLL(path)
    except (ImportError, OSError) as e:
        print(f"OpenBLAS or numpy is not installed ({e}): left out", file=sys.stderr)
        return {}
    blas.openblas_set_num_threads(1)
    row, plain, turned = 101, 111, 112
    f, i, p = ctypes.c_float, ctypes.c_int, ctypes.c_void_p
    blas.cblas_sgemm.argtypes = [i, i, i, i, i, i, f, p, i, p, i, f, p, i]
    blas.cblas_sgemm.restype = None
    result = {}
    # Samples are rows there: x·Wᵀ, dy·W and dyᵀ·x.
    for name, ta, tb, m, n, k in [
        ("forward-200x784x32", plain, turned, 32, 200, 784),
        ("backward-784x200x32", plain, plain, 32, 784, 200),
        ("update-200x32x784", turned, plain, 200, 784, 32),
        ("forward-512x2304x32", plain, turned, 32, 512, 2304),
        ("backward-2304x512x32", plain, plain, 32, 2304, 512),
        ("update-512x32x2304", turned, plain, 512, 2304, 32),
    ]:
        a, b, c = (numpy.random.rand(r * s).astype("float32") for r, s in [(m, k), (k, n), (m, n)])
        lda, ldb = (k if ta == plain else m), (n if tb == plain else k)

        def turn():
            for _ in range(20):
                blas.cblas_sgemm(row, ta, tb, m, n, k, 1e-9, a.ctypes.data, lda, b.ctypes.data, ldb, 1.0, c.ctypes.data, n)

        result[name] = 20 * 2 * m * n * k / best(turn) / 1e9
    return result


def blas_in_use():
    """The library behind libblas.so.3, once it is loaded."""
    maps = pathlib.Path("/proc/self/maps").read_text() if os.path.exists("/proc/self/maps") else ""
    found = sorted({pathlib.Path(m).name for m in re.findall(r"\S*lib(?:open)?blas\S*", maps)})
    return ", ".join(found) or "unknown"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for r in rows:
        print("| " + " | ".join(r) + " |")
    print()


def main():
    steps = ours("^BenchmarkStep$", "./actors/learn")
    torch = torch_steps()
    if torch:
        print(f"PyTorch's BLAS: {blas_in_use()}\n")
    rows = []
    for name, metrics in steps.items():
        task, kernel = name.split("/")
        us = metrics["best-µs/step"]
        theirs = torch.get(task)
        rows.append([
            task, kernel, f"{us:,.2f}" if us < 10 else f"{us:,.0f}",
            f"{metrics['%peak']:.0f}%" if "%peak" in metrics else "",
            f"{theirs:,.0f}" if theirs else "", f"{theirs / us:.1f}" if theirs else "",
        ])
    table(["task", "kernel", "µs/step", "of peak", "PyTorch µs/step", "ratio"], rows)

    products = ours("^BenchmarkGemm$", "./actors/learn/internal/kernel")
    blas = openblas()
    rows = []
    for name, metrics in products.items():
        shape, kernel = name.split("/")
        theirs = blas.get(shape)
        rows.append([
            shape, kernel, f"{metrics['GFLOP/s']:.0f}", f"{metrics['%peak']:.0f}%",
            f"{theirs:.0f}" if theirs else "", f"{metrics['GFLOP/s'] / theirs:.2f}" if theirs else "",
        ])
    table(["product", "kernel", "GFLOP/s", "of peak", "OpenBLAS GFLOP/s", "ratio"], rows)


if __name__ == "__main__":
    main()
