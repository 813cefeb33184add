"""One Flower app, unchanged, by Flower's own simulation (Ray) and by `fedpace flower`, in turns.

Both have all cores, a client one of them. What is counted is the wall time of rounds behind the
first, training included: the app adds a line to a file when a round has been aggregated.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from measure import CORES, ROOT, machine, tell

APP = pathlib.Path(__file__).resolve().parent / "flowerapp"
CLIENTS = 300
COHORT = 60
# Local steps of a client; rounds of a turn in Flower, and in fedpace, whose rounds are shorter.
WORKS = [(1, 12, 40), (8, 10, 30)]
WANTED = {1: 5.0, 8: 3.0}
# Packages of the app's environment; PyTorch is the system's.
PACKAGES = ["flwr[simulation]==1.42.0", "numpy<2"]
# Debian's packages with a BLAS for that PyTorch. The plain one, which may be what the system has, takes ten to
# twenty times as long for a step, and then both sides measure nothing else.
BLAS = ["libopenblas0-pthread", "libgfortran5"]
PATIENCE = 900  # seconds for a program to end


def arithmetic(folder):
    """Unpacks OpenBLAS below a folder, and lets all programs that are started from here use it."""
    target = pathlib.Path(folder) / "blas"
    target.mkdir()
    subprocess.run(["apt-get", "download", "-qq", *BLAS], cwd=target, check=True, stderr=subprocess.DEVNULL)
    for package in target.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, target], check=True)
    libraries = sorted(str(path.parent) for path in target.rglob("lib*.so.*") if not path.is_symlink())
    os.environ["LD_LIBRARY_PATH"] = ":".join([*dict.fromkeys(libraries), os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")


def environment(folder):
    """Makes a virtual environment with Flower, and returns its Python."""
    arithmetic(folder)
    venv = pathlib.Path(folder) / "venv"
    tell("installs Flower")
    subprocess.run(["uv", "venv", "--quiet", "--system-site-packages", "--python", "/usr/bin/python3", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *PACKAGES], check=True)
    return python


def round_seconds(command, k, rounds, folder):
    """Runs a program that plays the app, and returns the mean wall time of its rounds behind the first."""
    with tempfile.NamedTemporaryFile(dir=folder) as marks, tempfile.TemporaryFile() as output:
        work = {"CLIENTS": CLIENTS, "COHORT": COHORT, "K": k, "ROUNDS": rounds, "MARKS": marks.name}
        # Ray's workers would otherwise yield to whatever else the machine does (findings/flwr-ray-clients-yield.sh).
        work["RAY_worker_niceness"] = os.nice(0)
        env = {**os.environ, **{name: str(value) for name, value in work.items()}, "PYTHONHASHSEED": "0"}
        process = subprocess.Popen([str(c) for c in command], cwd=folder, env=env, stdout=output, stderr=subprocess.STDOUT)
        began = time.monotonic()
        times = []
        while process.poll() is None:
            if time.monotonic() - began > PATIENCE:
                process.kill()
            done = len(pathlib.Path(marks.name).read_text().splitlines())
            while len(times) < done:
                times.append(time.monotonic())
            time.sleep(0.005)
        if process.returncode != 0 or len(times) < rounds:
            output.seek(0)
            sys.exit(f"{command[0]} ended with {process.returncode} after {len(times)} rounds:\n{output.read().decode()[-3000:]}")
    return (times[-1] - times[0]) / (rounds - 1)


def measure(fedpace, python, turns, length=1.0):
    """The rows of flower.csv, and what was compared, in words. length is the part of each turn that is played."""
    rows = []
    for k, theirs, ours in WORKS:
        turn_rounds = max(3, round(length * theirs)), max(3, round(length * ours))
        flower, fed, ratios = [], [], []
        for turn in range(turns):
            flower.append(round_seconds([python, APP / "mlp" / "app.py"], k, turn_rounds[0], fedpace.folder))
            out = fedpace.folder / f"flower-{k}-{turn}"
            command = [fedpace.binary, "flower", APP, "--quiet", "--set", f"clients={CLIENTS}",
                       "--set", f"flower.python={python}", "--out", out]
            fed.append(round_seconds(command, k, turn_rounds[1], fedpace.folder))
            ratios.append(flower[-1] / fed[-1])
            tell(f"K = {k}: {flower[-1]:.3f} s a round with Ray, {fed[-1]:.3f} s with fedpace, {ratios[-1]:.2f} times")
        rows.append({
            "k": k, "clients": CLIENTS, "cohort": COHORT, "turns": turns,
            "flower_round_s": statistics.median(flower), "fedpace_round_s": statistics.median(fed),
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
        })
    ours, direct = message_seconds(fedpace, python, max(2, round(16 * length)))
    cost = f"a message without training takes {1e3 * ours:.2f} ms of processor time, {1e3 * direct:.2f} ms by calls alone"
    tell(cost)
    return rows, f"flwr 1.42.0 with Ray, {len(CORES)} cores; {cost}"


def message_seconds(fedpace, python, rounds):
    """Returns the processor seconds that a message takes without training: in fedpace, and by calls alone (direct.py)."""
    work = {"CLIENTS": CLIENTS, "COHORT": COHORT, "K": 0, "MARKS": os.devnull, "PYTHONPATH": APP, "PYTHONHASHSEED": 0}
    used = []
    for count in (1, 1 + rounds):
        env = {**os.environ, **{name: str(value) for name, value in work.items()}, "ROUNDS": str(count)}
        process = subprocess.Popen(
            [fedpace.binary, "flower", APP, "--quiet", "--force", "--set", f"clients={CLIENTS}",
             "--set", f"flower.python={python}", "--out", fedpace.folder / "messages"],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The usage is that of the program and of the app's processes, for which it has waited.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"fedpace flower ended with {process.returncode}")
        used.append(usage.ru_utime + usage.ru_stime)
    direct = subprocess.run([python, APP / "direct.py"], env=env, check=True, capture_output=True, text=True).stdout
    messages = rounds * COHORT
    return (used[1] - used[0]) / messages, float(direct.split()[-1]) / messages


def missed(rows):
    for r in rows:
        if r["ratio"] < WANTED[r["k"]]:
            yield f"the Flower app, K = {r['k']}: {r['ratio']:.2f} times Flower, want {WANTED[r['k']]:g}"
