"""The same FedAvg in fedpace, in four other tools and by hand in PyTorch, in turns, on all cores.

The programs are in the folder fedavg; uv makes an environment for each tool. All read one file of samples and start
from the same weights: 300 clients, 60 of them a round, K steps of SGD with minibatches of 32, the mean by samples.
A client trains on one core. Nothing is evaluated. What counts is the processor time of a program's processes, all
together, between the ends of its first and its last round; of fedpace, which does not tell when rounds end, that of
a run less that of a run of one round. The least of the turns counts.

That all do the same is checked beforehand: every tool plays one round of 8 steps in which all of 4 clients take
part, with minibatches of all their samples, so that nothing is drawn. The loss of the models must be the same.
"""
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

import tree
from measure import CORES, Child, tell

PROGRAMS = pathlib.Path(__file__).resolve().parent / "fedavg"
PYTHON = "3.11"
# PyPI has one build of PyTorch for Linux on amd64, the one with CUDA. It runs without a GPU.
PYTORCH = ["torch==2.15.0", "numpy==2.4.6"]
ENVIRONMENTS = {
    "pytorch": ["pyarrow==26.0.1", "safetensors==0.8.0"],
    "pfl": ["pfl==0.6.0"],
    "appfl": ["appfl==1.12.0"],
    "flower": ["flwr[simulation]==1.42.0", "ray==2.55.1"],
    "nvflare": ["nvflare==2.9.0"],
}
STEPS = [8, 1, 80]  # in the order that they are played
CLIENTS = 300
COHORT = 60
CHECK_CLIENTS = 4
CHECK_STEPS = 8
SAME_LOSS = 1e-4  # between tools, whose float32 sums go in different orders
SAME_LOSS_BFLOAT16 = 3e-2
QUIET = {
    "WANDB_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_TELEMETRY_ENABLED": "0",
    "PYTHONHASHSEED": "0",
}
FEDPACE = {
    "task": "custom",
    "model": "[dense: 200, relu, dense: 200, relu, dense]",
    "batch": 32,
    "schedule.k": "fixed",
    "schedule.eta0": 0.05,
    "aggregate.weights": "samples",
    "evaluate.every": 10**6,
    "compute.seconds_per_step": 0.01,
    "network.download_mbps": 20,
    "network.upload_mbps": 5,
}


class Tool(NamedTuple):
    name: str
    environment: str  # "" for fedpace
    program: list  # of the folder fedavg, with its arguments; settings of fedpace
    rounds: dict  # behind the first, by K; other K are not played
    clients: int = CLIENTS
    cohort: int = COHORT
    most_turns: int = 100
    last_mark_in_next_round: bool = False  # a round's end is told when the next one has begun


LONG = {1: 40, 8: 12, 80: 2}
MIDDLE = {1: 12, 8: 6, 80: 2}
SHORT = {1: 8, 8: 4, 80: 1}
TOOLS = [
    Tool("fedpace", "", [], {1: 100, 8: 25, 80: 4}),
    Tool("PyTorch 2.15.0 by hand", "pytorch", ["by_hand.py"], LONG),
    Tool("the same with bfloat16", "pytorch", ["by_hand.py", "bfloat16"], LONG),
    Tool("pfl 0.6.0", "pfl", ["with_pfl.py"], MIDDLE),
    Tool("APPFL 1.12.0, serial", "appfl", ["with_appfl.py", "serial"], SHORT),
    Tool("APPFL 1.12.0, vsim", "appfl", ["with_appfl.py", "vsim"], SHORT),
    Tool("Flower 1.42.0, Ray", "flower", ["with_flower.py"], SHORT),
    # Each task is a process of its own, whose seconds of start K hardly matters beside.
    Tool("NVFlare 2.9.0, 2 threads", "nvflare", ["with_nvflare.py"], {8: 1}, 4, 4, 1, True),
]
AMX = Tool("fedpace, `kernel: amx`", "", ["kernel=amx"], TOOLS[0].rounds)


class Turn(NamedTuple):
    cpu: float  # processor seconds of a round
    first: float  # seconds from the start until the first round is over
    peak: int  # bytes


class Bench:
    """The environments, the samples and the built program, in a folder."""

    def __init__(self, fedpace):
        self.folder = fedpace.folder
        self.binary = fedpace.binary
        self.pythons = {name: self.make(name, packages) for name, packages in ENVIRONMENTS.items()}
        self.runs = 0
        for name in ("check", "measured"):
            self.make_data(name)

    def make(self, name, packages):
        """An environment of one tool; its Python."""
        tell(f"installs {' '.join(packages)}")
        venv = self.folder / name
        subprocess.run(["uv", "venv", "--quiet", "--python", PYTHON, venv], check=True, stderr=subprocess.DEVNULL)
        python = venv / "bin" / "python"
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *PYTORCH, *packages], check=True)
        return python

    def data(self, name):
        return self.folder / f"{name}.fedpace"

    def weights(self):
        return self.folder / "start.safetensors"

    def make_data(self, name):
        table = self.folder / f"{name}.parquet"
        self.play_python("pytorch", ["data.py", name, table, self.weights()], {"DATA": ""})
        mapping = ["features=x", "label=y", "client=client", "split=split"]
        flags = [flag for option in mapping for flag in ("--map", option)]
        prepare = [self.binary, "data", "prepare", table, *flags, "--classes", 62, "--out", self.data(name)]
        Child(prepare, CORES).wait()
        table.unlink()

    def play_python(self, environment, program, variables, last_mark=None):
        paths = f"{PROGRAMS}:{PROGRAMS.parent}"
        # Ray's workers would otherwise yield to whatever else the machine does (findings/flwr-ray-clients-yield.sh).
        mine = {
            **QUIET,
            "PYTHONPATH": paths,
            "PYTHONPYCACHEPREFIX": self.folder / "compiled",  # by the check, so that no turn has to compile
            "FLWR_HOME": self.folder / "flwr",
            "RAY_worker_niceness": os.nice(0),
        }
        if environment == "nvflare":
            mine["TMPDIR"] = self.folder  # it may be ended before it has cleaned up
        command = [self.pythons[environment], PROGRAMS / program[0], *program[1:]]
        return tree.play(command, self.folder, {**mine, **variables}, last_mark)

    def play_fedpace(self, tool, data, clients, cohort, steps, rounds):
        """A run, and the folder that it leaves."""
        self.runs += 1
        out = self.folder / f"rival{self.runs}"
        sets = {
            **FEDPACE,
            "data": self.data(data),
            "init": self.weights(),
            "clients": clients,
            "cohort": cohort,
            "schedule.k0": steps,
            "stop.rounds": rounds,
            "out": out,
        }
        given = [f"{key}={value}" for key, value in sets.items()] + tool.program
        command = [self.binary, "run", "--quiet", *(flag for one in given for flag in ("--set", one))]
        return tree.play(command, self.folder, {}), out

    def check(self, tool):
        """The model after a round of the check, as a file."""
        if not tool.environment:
            _, out = self.play_fedpace(tool, "check", CHECK_CLIENTS, CHECK_CLIENTS, CHECK_STEPS, 1)
            return out / "model.safetensors"
        self.runs += 1
        model = self.folder / f"model{self.runs}.pt"
        work = {
            "DATA": self.data("check"),
            "CLIENTS": CHECK_CLIENTS,
            "COHORT": CHECK_CLIENTS,
            "K": CHECK_STEPS,
            "ROUNDS": 1 + tool.last_mark_in_next_round,
            "KEEP": model,
        }
        last_mark = 1 if tool.last_mark_in_next_round else None
        self.play_python(tool.environment, tool.program, work, last_mark)
        return model

    def losses(self, models):
        """The mean loss of models on the samples of the check."""
        command = [self.pythons["pytorch"], PROGRAMS / "loss.py", *models]
        environment = {**os.environ, "PYTHONPATH": f"{PROGRAMS}:{PROGRAMS.parent}", "DATA": str(self.data("check"))}
        printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        return [float(line) for line in printed.split()]

    def turn(self, tool, steps, length):
        """Plays a tool once."""
        rounds = rounds_of(tool, steps, length)
        if not tool.environment:
            one, _ = self.play_fedpace(tool, "measured", tool.clients, tool.cohort, steps, 1)
            all, _ = self.play_fedpace(tool, "measured", tool.clients, tool.cohort, steps, 1 + rounds)
            return Turn((all.end.cpu - one.end.cpu) / rounds, one.end.wall, all.peak)
        work = {
            "DATA": self.data("measured"),
            "CLIENTS": tool.clients,
            "COHORT": tool.cohort,
            "K": steps,
            "ROUNDS": 1 + rounds + tool.last_mark_in_next_round,
        }
        last_mark = 1 + rounds if tool.last_mark_in_next_round else None
        played = self.play_python(tool.environment, tool.program, work, last_mark)
        if len(played.marks) != 1 + rounds:
            sys.exit(f"{tool.name} told the ends of {len(played.marks)} rounds, not of {1 + rounds}")
        first = played.marks[0]
        seconds = (played.marks[-1].cpu - first.cpu) / rounds
        # A smaller cohort's round is taken for a part of a whole one's.
        return Turn(seconds * COHORT / tool.cohort, first.wall, played.peak)


def rounds_of(tool, steps, length):
    """Rounds behind the first. Those of fedpace are short, and two runs of a few do not differ enough."""
    if not tool.environment:
        return tool.rounds[steps]
    return max(1, round(length * tool.rounds[steps]))


def has_amx():
    return "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text().split()


def tools():
    return TOOLS[:1] + [AMX] * has_amx() + TOOLS[1:]


def other_arithmetic(name):
    return "bfloat16" in name or "amx" in name


def checked(bench):
    """By tool, the loss after a round of the check. Ends the program where one is not as fedpace's."""
    names = [tool.name for tool in tools()]
    models = []
    for tool in tools():
        tell(f"checks {tool.name}")
        models.append(bench.check(tool))
    start, *losses = bench.losses([bench.weights(), *models])
    tell(f"loss of the check: {start:.6f} before, {' '.join(f'{loss:.6f}' for loss in losses)} after a round")
    for name, loss in zip(names, losses):
        allowed = SAME_LOSS_BFLOAT16 if other_arithmetic(name) else SAME_LOSS
        if abs(loss - losses[0]) > allowed:
            sys.exit(f"{name} does something else: a loss of {loss:.6f} where fedpace has {losses[0]:.6f}")
    return start, dict(zip(names, losses))


def measure(fedpace, turns, length=1.0):
    """The rows of rivals.csv, and what was compared, in words. length is the part of each turn that is played.

    An interrupt ends the measurement; what has been played until then is in the rows.
    """
    bench = Bench(fedpace)
    began = time.monotonic()
    load = os.getloadavg()[0]
    start, losses = checked(bench)
    played = {}
    try:
        for turn in range(turns):
            for steps in STEPS:
                for tool in tools():
                    if turn < tool.most_turns and steps in tool.rounds:
                        one = bench.turn(tool, steps, length)
                        played.setdefault((tool.name, steps), []).append(one)
                        tell(f"K = {steps}, {tool.name}: {one.cpu:.4f} s a round, {one.first:.1f} s to the first,"
                             f" {one.peak / 1e6:.0f} MB")
        end = ""
    except KeyboardInterrupt:
        end = "; interrupted"
    rows = []
    for tool in tools():
        for steps in sorted(STEPS):
            turns_of = played.get((tool.name, steps))
            if not turns_of:
                continue
            rows.append({
                "tool": tool.name,
                "k": steps,
                "clients": tool.clients,
                "cohort": tool.cohort,
                "rounds": rounds_of(tool, steps, length),
                "turns": len(turns_of),
                "cpu_seconds": min(one.cpu for one in turns_of),
                "most_cpu_seconds": max(one.cpu for one in turns_of),
                "first_round_seconds": min(one.first for one in turns_of),
                "peak_bytes": max(one.peak for one in turns_of),
                "check_loss": losses[tool.name],
            })
    missing = "" if has_amx() else "; `kernel: amx` is not available on this machine"
    float32 = [loss for name, loss in losses.items() if not other_arithmetic(name)]
    spread = max(float32) - min(float32)
    return rows, (
        f"load {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end{missing}; check: a loss of {start:.4f},"
        f" {losses['fedpace']:.4f} after a round, float32 within {max(spread, 1e-6):.0e}; {time.monotonic() - began:.0f} s{end}"
    )


def missed(rows):
    """What the leanest loop and pfl must take more than fedpace."""
    seconds = {(r["tool"], r["k"]): r["cpu_seconds"] for r in rows}
    wanted = [
        ("PyTorch 2.15.0 by hand", 1, 3.5),
        ("PyTorch 2.15.0 by hand", 8, 3.3),
        ("PyTorch 2.15.0 by hand", 80, 3.6),
        ("pfl 0.6.0", 1, 9),
    ]
    for tool, steps, want in wanted:
        if (tool, steps) not in seconds:
            continue  # interrupted
        ratio = seconds[tool, steps] / seconds["fedpace", steps]
        if ratio < want:
            yield f"{tool}, K = {steps}: {ratio:.2f} times fedpace's processor time, want {want:g}"
