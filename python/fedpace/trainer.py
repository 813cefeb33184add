"""The Python end of fedpace's external trainers.

    fedpace run --trainer 'python3 my_model.py' --set data=own.csv

With :func:`serve` a PyTorch model takes the local steps of a federated run:

    import fedpace
    from torch import nn

    fedpace.serve(
        model=lambda: nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 62)),
        loss=lambda model, x, y: nn.functional.cross_entropy(model(x), y),
        metrics=lambda model, x, y: {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))},
    )

Below it lies :class:`Trainer`, the same in numpy: subclass it for a model in anything
else and hand it to :func:`run`. Both speak the protocol of docs/trainers.md.

The module needs numpy; it imports torch only in :func:`serve`. Started by hand, without
fedpace, a trainer rehearses: it takes some steps and says what it sees.
"""
from __future__ import annotations

import argparse
import ast
import ctypes
import hashlib
import json
import mmap
import os
import random
import re
import select
import sys
import time
import traceback
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

__all__ = ["Data", "Diverged", "Grouped", "Job", "Metric", "Samples", "Setting", "Task", "Tensor", "Trainer", "run", "serve"]

PROTOCOL = 2

# Bytes of an element by its type; the types that are integers, which clients may send.
TYPES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
         "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
RULES = ("largest", "majority", "mean", "kept")
MAX_INTEGER = 1 << 24  # float32 holds all integers up to it

# Descriptors that fedpace opens for the process.
REQUESTS, REPLIES, MEMORY = 3, 4, 5

ALIVE_SECONDS = 1.0  # between two signs of life
POLL_SECONDS = 0.05  # between two looks for a cancellation
CACHE_BYTES = 1 << 28  # largest set of decoded samples that a task keeps

Score = Tuple[float, float]  # sum and weight: a value is sum / weight


@dataclass(frozen=True)
class Tensor:
    """A part of a model: float32 numbers in row-major order.

    One with a ``type`` is a buffer of integers or booleans, whose numbers the flat model holds as
    float32, or a constant of any type (``rule="kept"``, ``frozen=True``): the bytes of its elements,
    little-endian, two to a number (one, for a type of one byte).
    """

    name: str
    shape: Tuple[int, ...]
    trainable: bool = True
    frozen: bool = False  # never changes: every client has it from the beginning, and no task transfers it
    type: str = ""  # of the elements in model.safetensors; empty: float32
    rule: str = ""  # how clients' integers become one: "largest", "majority", "mean" or "kept"
    aliases: Tuple[str, ...] = ()  # further names, such as of an output layer that shares an embedding's weight

    @property
    def size(self) -> int:
        """The numbers of the flat model that hold it."""
        words = max(1, TYPES[self.type] // 2) if self.rule == "kept" else 1
        return int(np.prod(self.shape, dtype=np.int64)) * words


@dataclass(frozen=True)
class Metric:
    """A quantity besides the loss by which a model is measured."""

    name: str
    better: str = "higher"  # or "lower"


@dataclass(frozen=True)
class Task:
    """The local steps of one client."""

    client: int
    name: str
    rate: float
    seed: int  # of all that is random besides the minibatches: 64 bits
    steps: List[np.ndarray]  # of each step the numbers of its samples
    correction: Optional[np.ndarray] = None  # added to each gradient (SCAFFOLD's c - c_i)
    state: bytes = b""  # what the client keeps, as its last task left it; empty: this is its first


@dataclass(frozen=True)
class Job:
    """Tasks that start from one model."""

    base: np.ndarray
    tasks: List[Task]
    proximal: float = 0.0  # FedProx's mu
    optimizer: Optional[Dict[str, Any]] = None  # None: plain SGD


class Diverged(Exception):
    """Says that a loss stopped being finite: at a step, counted from 1; 0: at none."""

    def __init__(self, step: int, cause: str, index: int = -1):
        super().__init__(f"step {step}: {cause}")
        self.step, self.cause, self.index = step, cause, index


class Cancelled(BaseException):
    """Says that fedpace wants the request no longer. Only this module catches it."""


# -- samples ---------------------------------------------------------------------------


class Samples:
    """The samples that fedpace lends, in files that are mapped and never copied.

    ``input`` is "dense", "sparse" (bags of words) or "tokens"; ``features``, ``classes``,
    ``targets``, ``vocabulary`` and ``image`` (channels, height, width) describe a sample.
    """

    def __init__(self, about: Mapping[str, Any]):
        self.input: str = about["input"]
        self.features: int = about["features"]
        self.classes: int = about.get("classes", 0)
        self.targets: int = about.get("targets", 0)
        self.vocabulary: int = about.get("vocabulary", 0)
        self.image: Tuple[int, ...] = tuple(about.get("image") or (0, 0, 0))
        self.clients: int = about.get("clients", 0)
        self.rows: int = about["rows"]
        self._labels = self._array(about.get("labels"))
        self._values = self._array(about.get("values"))
        self._kind: str = about["samples"]["kind"]
        self._open(about["samples"])

    def _open(self, samples: Mapping[str, Any]) -> None:
        self._skip = samples.get("skip", 0)
        if self._kind in ("floats", "bytes", "tokens"):
            self._store = self._array(samples["array"])
        elif self._kind == "windows":
            self._text, self._starts = self._array(samples["text"]), self._array(samples["starts"])
            self._places = self._tensor(np.arange(self.features))
        elif self._kind == "bags":
            self._starts, self._word, self._count, self._total = (
                self._array(samples[name]) for name in ("starts", "word", "count", "total")
            )
        else:
            raise ValueError(f"samples of kind {self._kind!r}: this version knows floats, bytes, tokens, windows and bags")
        if self._kind == "bytes":
            planes = np.asarray(samples["planes"], np.float32)
            part = np.arange(self.features) * len(planes) // self.features
            self._planes = self._tensor(planes.reshape(-1))
            self._plane = self._tensor(256 * part) if len(planes) > 1 else 0

    def _array(self, where: Optional[Mapping[str, Any]]) -> Any:
        """Maps an array; None stays None."""
        if where is None:
            return None
        kind, shape = np.dtype(where["type"]).newbyteorder("<"), tuple(where["shape"])
        if 0 in shape:
            return self._tensor(np.zeros(shape, kind))
        # Copy on write: PyTorch warns of memory that cannot be written to.
        array: np.ndarray = np.memmap(where["path"], kind, "c", where["offset"], shape)
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # PyTorch has no such integers
            array = array.astype(np.int64)
        return self._tensor(array)

    def batch(self, rows: Any) -> Tuple[Any, Any]:
        """The samples of these row numbers, and their labels or targets.

        Dense samples and bags of words are float32, one row a sample; tokens and labels
        are 64-bit integers.
        """
        return self._samples(rows), self._long(self._labels[rows]) if self._labels is not None else self._values[rows]

    def _samples(self, rows: Any) -> Any:
        if self._kind == "floats":
            return self._store[rows]
        if self._kind == "windows":
            return self._long(self._text[self._starts[rows][:, None] + self._places])
        if self._kind == "bags":
            return self._bags(rows)
        own = self._long(self._store[rows][:, self._skip :])
        return own if self._kind == "tokens" else self._planes.take(own + self._plane)

    def _bags(self, rows: Any) -> Any:
        """Bags of words as rows of shares: a word's count by the total of its bag."""
        first, lengths = self._starts[rows], self._starts[rows + 1] - self._starts[rows]
        bag = self._repeat(self._arange(len(rows)), lengths)
        before = self._repeat(lengths.cumsum(0) - lengths, lengths)
        at = self._repeat(first, lengths) + self._arange(len(bag)) - before
        x = self._zeros((len(rows), self.features))
        x[bag, self._long(self._word[at])] = self._float(self._count[at]) / self._float(self._total[rows])[bag]
        return x

    # What numpy and PyTorch spell differently.
    def _tensor(self, array: np.ndarray) -> Any:
        return array

    def _long(self, array: Any) -> Any:
        return array.astype(np.int64)

    def _float(self, array: Any) -> Any:
        return array.astype(np.float32)

    def _arange(self, n: int) -> Any:
        return np.arange(n)

    def _zeros(self, shape: Tuple[int, ...]) -> Any:
        return np.zeros(shape, np.float32)

    def _repeat(self, array: Any, times: Any) -> Any:
        return np.repeat(array, times)


class Data:
    """Samples that the process owns. Subclass it, or use :class:`Grouped`.

    Rows are numbered client by client; the held-out ones follow the last client's.
    """

    names: Sequence[str] = ()
    held: int = 0
    digest: str = ""  # identifies samples and split: equal digests, equal data
    tokens: int = 0  # of a sample; 0: it has none

    def samples(self, client: int) -> int:
        """The number of a client's training samples, at least 1."""
        raise NotImplementedError

    def batch(self, rows: np.ndarray) -> Tuple[Any, Any]:
        """The samples of these rows, and their labels or targets, as arrays."""
        raise NotImplementedError


class Grouped(Data):
    """Arrays in memory, by the name of their client: ``{"ann": (x, y), "bob": (x, y)}``."""

    def __init__(self, clients: Mapping[str, Tuple[Any, Any]], held_out: Tuple[Any, Any]):
        self.names = [str(name) for name in clients]
        for whose, (x, y) in [*((f"client {name}", of) for name, of in clients.items()), ("held_out", held_out)]:
            if len(x) != len(y):
                raise ValueError(f"{whose}: {len(x)} samples and {len(y)} labels or targets")
        self._sizes = [len(x) for x, _ in clients.values()]
        parts = [*clients.values(), held_out]
        self.x = np.concatenate([np.asarray(x) for x, _ in parts])
        self.y = np.concatenate([np.asarray(y) for _, y in parts])
        self.held = len(held_out[0])
        digest = hashlib.sha256(json.dumps([self.names, self._sizes, self.x.dtype.str, self.x.shape, self.y.dtype.str]).encode())
        digest.update(np.ascontiguousarray(self.x).data)
        digest.update(np.ascontiguousarray(self.y).data)
        self.digest = digest.hexdigest()

    def samples(self, client: int) -> int:
        return self._sizes[client]

    def batch(self, rows: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        return self.x[rows], self.y[rows]


# -- a trainer in numpy ----------------------------------------------------------------


@dataclass
class Setting:
    """Where a trainer works."""

    data: Optional[Mapping[str, Any]] = None  # describes fedpace's samples; None: the trainer has its own
    threads: int = 1
    device: str = "cpu"
    worker: int = 0


class Trainer:
    """What fedpace asks of a trainer. A model is one flat float32 array.

    A subclass sets ``tensors`` (the trainable ones first, the frozen ones last) and ``metrics``, and writes
    :meth:`initialise`, :meth:`gradient` and :meth:`measure`. The steps of ``local``'s
    optimizers, FedProx and SCAFFOLD are here.
    """

    name = ""
    kernel_class = ""  # of the arithmetic; by default that of numpy
    tensors: Sequence[Tensor] = ()
    metrics: Sequence[Metric] = ()
    optimizers: Sequence[str] = ("sgd", "adam", "adamw")
    data: Optional[Data] = None
    files: Sequence[str] = ()  # what decides the steps besides the script; part of the digest
    arguments: Optional[Sequence[str]] = None  # of the command, that decide the steps; None: all behind the script
    evaluation_batch = 256
    state = 0  # bytes that each client keeps from task to task by recall and keep, at most
    # What a step is where the trainer does not follow the run's key ``local``: the optimizer's name, its
    # momentum, and whether a step is x - rate * gradient, as {"optimizer": "SGD", "momentum": 0.9, "plain": False}.
    steps: Optional[Dict[str, Any]] = None

    def begin(self, setting: Setting) -> None:
        """Prepares for work; called once."""
        self.lent = Samples(setting.data) if setting.data else None

    def initialise(self, seed: int) -> np.ndarray:
        """The model that a run starts from. The same seed gives the same model."""
        raise NotImplementedError

    def gradient(self, model: np.ndarray, x: Any, y: Any, draws: np.random.Generator) -> Tuple[float, np.ndarray]:
        """The mean loss of a minibatch and its gradient by the trainable tensors.

        It may change tensors that are not trainable, at the model's end.
        """
        raise NotImplementedError

    def measure(self, model: np.ndarray, x: Any, y: Any) -> Tuple[Score, List[Score]]:
        """The loss of some samples, and the metrics: sums with their weights."""
        raise NotImplementedError

    def recall(self, state: bytes) -> None:
        """Begins a task of a client that has kept this, as keep gave it; empty: its first. With ``state`` alone."""

    def keep(self) -> bytes:
        """What the client of the task that has ended keeps."""
        return b""

    def batch(self, rows: np.ndarray) -> Tuple[Any, Any]:
        """Samples by their row numbers, from whoever owns them."""
        return (self.data or self.lent).batch(rows)  # type: ignore[union-attr] # fedpace lends what is not owned

    @property
    def trainable(self) -> int:
        """How many numbers at the model's beginning are trained."""
        return sum(t.size for t in self.tensors if t.trainable)

    @property
    def size(self) -> int:
        """The numbers of a model."""
        return sum(t.size for t in self.tensors)

    def train(self, job: Job, alive: Callable[[], None]) -> Iterator[Tuple[np.ndarray, float, bytes]]:
        """The model of every task in turn, the loss before its first step, and what its client keeps.

        alive is to be called between steps: it keeps fedpace patient, and raises when
        the job is wanted no longer.
        """
        n = self.trainable
        for task in job.tasks:
            model, first, draws = job.base.copy(), 0.0, np.random.default_rng(task.seed)
            step = _NumpySteps(job.optimizer, n)
            self.recall(step.load(task.state))
            for k, rows in enumerate(task.steps):
                with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found below
                    loss, gradient = self.gradient(model, *self.batch(rows), draws)
                if not np.isfinite(loss):
                    raise Diverged(k + 1, f"the loss is {loss:g}")
                if k == 0:
                    first = float(loss)
                if job.proximal:
                    gradient = gradient + np.float32(job.proximal) * (model[:n] - job.base[:n])
                if task.correction is not None:
                    gradient = gradient + task.correction[:n]
                step(model[:n], gradient, np.float32(task.rate))
                alive()
            yield model, first, step.save() + self.keep()

    def evaluate(self, model: np.ndarray, rows: np.ndarray, alive: Callable[[], None]) -> Tuple[Score, List[Score]]:
        """The loss and the metrics of a model on rows, batch by batch in their order."""
        total = np.zeros((1 + len(self.metrics), 2))
        for at in range(0, len(rows), self.evaluation_batch):
            loss, metrics = self.measure(model, *self.batch(rows[at : at + self.evaluation_batch]))
            found = [loss, *metrics]
            if [np.shape(score) for score in found] != [(2,)] * len(total):
                raise Misused(self.measure, f"measure returns {(loss, metrics)}; want a sum and a weight of the loss, and of each of {len(self.metrics)} metrics")
            total += np.array(found, np.float64)
            alive()
        scores = [(float(s), float(w)) for s, w in total]
        return scores[0], scores[1:]


class _NumpySteps:
    """Moves parameters in place, by the formulas of docs/local.md."""

    def __init__(self, optimizer: Optional[Mapping[str, Any]], n: int):
        self.o = _Optimizer(optimizer)
        self.mean, self.square, self.t = np.zeros(n, np.float32), np.zeros(n, np.float32), 0

    def __call__(self, x: np.ndarray, g: np.ndarray, rate: np.float32) -> None:
        o, mean, square = self.o, self.mean, self.square
        self.t += 1
        if o.clip:
            g = g * np.float32(min(1.0, o.clip / (float(np.sqrt(np.square(g, dtype=np.float64).sum())) + 1e-6)))
        if o.kind == "adamw":
            x *= np.float32(1 - float(rate) * o.decay)
        elif o.decay:
            g = g + np.float32(o.decay) * x
        if o.kind != "sgd":
            mean[:] = np.float32(o.beta1) * mean + np.float32(1 - o.beta1) * g
            square[:] = np.float32(o.beta2) * square + np.float32(1 - o.beta2) * g * g
            g = mean / np.float32(1 - o.beta1**self.t) / (np.sqrt(square / np.float32(1 - o.beta2**self.t)) + np.float32(o.eps))
        elif o.momentum:
            mean[:] = np.float32(o.momentum) * mean + g
            g = g + np.float32(o.momentum) * mean if o.nesterov else mean
        x -= rate * g

    def load(self, state: bytes) -> bytes:
        """Goes on with what a client has kept; returns what is the trainer's own of it."""
        if not state or not self.o.keep:
            return state
        self.mean, self.square, self.t, rest = _split(state, len(self.mean), self.o)
        return rest

    def save(self) -> bytes:
        return _joined(self.mean, self.square, self.t, self.o) if self.o.keep else b""


def _joined(mean: np.ndarray, square: Optional[np.ndarray], t: int, o: _Optimizer) -> bytes:
    """What an optimizer remembers, as bytes."""
    if o.kind == "sgd":
        return mean.tobytes()
    return mean.tobytes() + square.tobytes() + t.to_bytes(8, "little")  # type: ignore[union-attr] # Adam has it


def _split(state: bytes, n: int, o: _Optimizer) -> Tuple[np.ndarray, np.ndarray, int, bytes]:
    """The parts of what _joined has joined, and what stands behind them."""
    vectors = 1 if o.kind == "sgd" else 2
    parts = np.frombuffer(state, np.float32, vectors * n).reshape(vectors, n).copy()
    at = 4 * vectors * n
    if vectors == 1:
        return parts[0], parts[0], 0, state[at:]
    return parts[0], parts[1], int.from_bytes(state[at : at + 8], "little"), state[at + 8 :]


class _Optimizer:
    """The options of ``local``, with the standard values of what is not given."""

    def __init__(self, options: Optional[Mapping[str, Any]]):
        o = dict(options or {})
        self.kind: str = o.pop("optimizer", "sgd")
        self.momentum: float = o.pop("momentum", 0.0)
        self.nesterov: bool = o.pop("nesterov", False)
        self.decay: float = o.pop("weight_decay", 0.01 if self.kind == "adamw" else 0.0)
        self.clip: float = o.pop("clip", 0.0)
        self.keep: bool = o.pop("keep", False)
        self.beta1: float = o.pop("beta1", 0.9)
        self.beta2: float = o.pop("beta2", 0.999)
        self.eps: float = o.pop("eps", 1e-8)
        if self.kind not in Trainer.optimizers or o:
            raise ValueError(f"local: {options}: this version knows {', '.join(Trainer.optimizers)} and the options of docs/local.md")

    @property
    def plain(self) -> bool:
        return self.kind == "sgd" and not (self.momentum or self.decay or self.clip)


# -- the conversation with fedpace -----------------------------------------------------


def run(trainer: Trainer) -> None:
    """Works for fedpace until it says that it is done; by hand, rehearses."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore # prints become notices
    trainer.name = trainer.name or os.path.basename(_script())
    if "FEDPACE_TRAINER" in os.environ:
        _Conversation(trainer).talk()
    else:
        _rehearse(trainer)


def _begin(trainer: Trainer, setting: Setting) -> None:
    """Prepares a trainer, and checks what it says of itself."""
    trainer.begin(setting)
    trainer.kernel_class = trainer.kernel_class or _numpy_class(setting.threads)
    names = [m.name for m in trainer.metrics]
    for i, name in enumerate(names):  # in fedpace's words
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_]{1,40}", name):
            raise ValueError(f'metric {json.dumps(name)} is not 1 to 40 letters, digits and _')
        if name in ("loss", "round", "virtual_seconds", "each", "best"):
            raise ValueError(f'a metric has the name "{name}", which results have already')
        if name in names[:i]:
            raise ValueError(f'two metrics have the name "{name}"')


class _Conversation:
    """The protocol of docs/trainers.md: requests come in, replies go out."""

    def __init__(self, trainer: Trainer):
        for descriptor in (REQUESTS, REPLIES, MEMORY):
            os.set_inheritable(descriptor, False)  # a child would keep fedpace waiting
        self._trainer = trainer
        self._input = b""
        self._memory = np.zeros(0, np.uint8)
        self._request: Dict[str, Any] = {}
        self._steps = 0  # of the request
        self._looked = self._said = 0.0

    def talk(self) -> None:
        while True:
            message = self._read()
            if message is None or "close" in message:
                return
            if "hello" in message:
                try:
                    self._say(hello=self._hello(message["hello"]))
                except Exception as e:
                    self._failed(e, -1)
                    return
            elif "memory" in message:
                self._memory = np.frombuffer(mmap.mmap(MEMORY, message["memory"]["bytes"]), np.uint8)
            elif "id" in message:
                self._answer(message)
            # A cancellation or an acknowledgement of a request that is done is no matter.

    def _hello(self, hello: Mapping[str, Any]) -> Dict[str, Any]:
        if hello["protocol"] != PROTOCOL:
            sys.exit(f"the Python package fedpace speaks protocol {PROTOCOL} and fedpace {hello['protocol']}: use fedpace's own package")
        t = self._trainer
        _begin(t, Setting(None if t.data else hello["data"], hello["threads"], hello["device"], hello["worker"]))
        return {
            "protocol": PROTOCOL,
            "name": t.name,
            "class": t.kernel_class,
            "digest": _identity(t),
            "tensors": [{"name": p.name, "shape": list(p.shape), "trainable": p.trainable, "frozen": p.frozen,
                         **({"type": p.type, "rule": p.rule} if p.type else {}),
                         **({"aliases": list(p.aliases)} if p.aliases else {})} for p in t.tensors],
            "metrics": [{"name": m.name, "better": m.better} for m in t.metrics],
            "optimizers": list(t.optimizers),
            "state": t.state,
            **({"steps": t.steps} if t.steps else {}),
            "data": t.data and {
                "names": list(t.data.names),
                "samples": [int(t.data.samples(c)) for c in range(len(t.data.names))],
                "held_out": int(t.data.held),
                "digest": t.data.digest,
                "tokens": int(t.data.tokens),
            },
        }

    def _answer(self, request: Dict[str, Any]) -> None:
        """Does a request and says what came of it."""
        self._request, self._steps, self._index = request, 0, -1
        self._said = self._looked = time.monotonic()
        try:
            if "initialise" in request:
                todo = request["initialise"]
                self._model(todo["model"])[:] = self._trainer.initialise(todo["seed"])
                self._reply(done={})
            elif "train" in request:
                self._train(request["train"])
                self._reply(done={})
            elif "evaluate" in request:
                self._evaluate(request["evaluate"])
            else:
                raise ValueError(f"an unknown request: {', '.join(request)}")
        except Cancelled:
            self._reply(cancelled={})
        except Diverged as d:
            self._reply(diverged={"index": d.index if d.index >= 0 else self._index, "step": d.step, "cause": d.cause})
        except Exception as e:
            self._failed(e, self._index)

    def _failed(self, e: Exception, index: int) -> None:
        """Says what the user's code raised: fedpace says where, standard error has all of it."""
        traceback.print_exc()
        file, line = _place(e)
        self._say(id=self._request.get("id", 0), error={"index": index, "text": f"{type(e).__name__}: {e}"[:4000], "file": file, "line": line})

    def _train(self, todo: Mapping[str, Any]) -> None:
        slots, tasks = todo["slots"], [self._task(t) for t in todo["tasks"]]
        job = Job(self._model(todo["base"]), tasks, todo.get("proximal", 0.0), todo.get("optimizer"))
        self._taken, self._index = -1, 0
        for i, (model, first, *kept) in enumerate(self._trainer.train(job, self._alive)):
            if not np.isfinite(first):
                raise Diverged(1, f"the loss is {first:g}")
            while self._taken < i - len(slots):  # fedpace still reads the slot
                self._listen(self._read())
            self._model(slots[i % len(slots)])[:] = model
            self._reply(task={"index": i, "loss": float(first), "state": self._keep(todo["tasks"][i].get("state"), b"".join(kept))})
            self._index = i + 1

    def _keep(self, place: Optional[Mapping[str, int]], state: bytes) -> int:
        """Writes what a client keeps to its place; returns how many bytes it is."""
        if place is None:
            return 0
        if len(state) > place["room"]:
            raise ValueError(f"a client keeps {len(state)} bytes, and the trainer's state= leaves room for {place['room']}")
        self._memory[place["at"] : place["at"] + len(state)] = np.frombuffer(state, np.uint8)
        return len(state)

    def _task(self, t: Mapping[str, Any]) -> Task:
        correction = t.get("correction")
        at, steps = self._memory[t["rows"] :].view(np.int32), []
        for _ in range(t["steps"]):
            n = int(at[0])
            steps.append(at[1 : 1 + n])
            at = at[1 + n :]
        place = t.get("state") or {"at": 0, "bytes": 0}
        return Task(t["client"], t["name"], t["rate"], t["seed"], steps,
                    None if correction is None else self._model(correction, self._trainer.trainable),
                    self._memory[place["at"] : place["at"] + place["bytes"]].tobytes())

    def _evaluate(self, todo: Mapping[str, Any]) -> None:
        rows = self._memory[todo["rows"] :].view(np.int32)[: todo["count"]]
        loss, metrics = self._trainer.evaluate(self._model(todo["model"]), rows, self._alive)
        for name, (total, weight) in zip(["loss", *(m.name for m in self._trainer.metrics)], [loss, *metrics]):
            if not np.isfinite(total) or not np.isfinite(weight):
                raise Diverged(0, f"{name} is {total:g} by {weight:g}")
        self._reply(scores={"loss": dict(zip(("sum", "weight"), loss)),
                            "metrics": [{"sum": s, "weight": w} for s, w in metrics]})

    def _model(self, offset: int, size: int = 0) -> np.ndarray:
        return self._memory[offset:][: 4 * (size or self._trainer.size)].view(np.float32)

    def _alive(self) -> None:
        """Called between steps: listens for a cancellation and gives a sign of life."""
        self._steps += 1
        now = time.monotonic()
        if now - self._looked > POLL_SECONDS:
            self._looked = now
            while b"\n" in self._input or select.select([REQUESTS], [], [], 0)[0]:
                self._listen(self._read())
            if now - self._said > ALIVE_SECONDS:
                self._said = now
                self._say(alive={"step": self._steps})

    def _listen(self, message: Optional[Mapping[str, Any]]) -> None:
        """Takes what is said in the middle of a request."""
        if message is None or "close" in message:
            sys.exit(0)
        if "cancel" in message:
            raise Cancelled
        if "taken" in message:
            self._taken = message["taken"]["index"]

    def _read(self) -> Optional[Dict[str, Any]]:
        """The next line; None at the end."""
        while b"\n" not in self._input:
            more = os.read(REQUESTS, 1 << 20)
            if not more:
                return None
            self._input += more
        line, _, self._input = self._input.partition(b"\n")
        return json.loads(line)

    def _reply(self, **what: Any) -> None:
        self._say(id=self._request["id"], **what)

    def _say(self, **what: Any) -> None:
        line = memoryview(json.dumps(what, allow_nan=False).encode() + b"\n")
        while line:
            line = line[os.write(REPLIES, line) :]


def _script() -> str:
    """The user's own file."""
    return os.path.realpath(getattr(sys.modules["__main__"], "__file__", None) or sys.argv[0])


def _files(trainer: Trainer) -> List[str]:
    """The script, what it declares, from its own folder, and the modules there that it imports."""
    script = _script()
    folder = os.path.dirname(script)
    declared = [os.path.join(folder, path) for path in trainer.files]
    named = {script, *map(os.path.realpath, declared)}
    return [script, *declared, *(path for path in _modules(script) if path not in named)]


def _identity(trainer: Trainer) -> str:
    """The digest of the files of a trainer and, if there are any, of the arguments of its command. Paths that
    begin at the root count by their last part, since each machine has folders of its own."""
    files = _digest(_files(trainer))
    arguments = sys.argv[1:] if trainer.arguments is None else trainer.arguments
    if not arguments:
        return files
    plain = [re.sub(r"^([^/]*=)?/(?:.*/)?(?=.)", r"\1", argument) for argument in arguments]
    return hashlib.sha256(json.dumps([files, plain]).encode()).hexdigest()


def _modules(script: str) -> List[str]:
    """The modules that a script imports and that lie in its folder, the first place where Python looks for
    them, and what those import: files of their name, and packages with all Python that they hold. Those that
    have been loaded from there count, too. They are in the order of their paths, so that each host has the same."""
    folder = os.path.dirname(script)
    found: Set[str] = set()
    pending = [script]
    for module in list(sys.modules.values()):
        path = os.path.realpath(getattr(module, "__file__", None) or "")
        inside = os.path.relpath(path, folder).split(os.sep) if path.startswith(folder + os.sep) else []
        if path.endswith(".py") and inside and not {"site-packages", "dist-packages"} & set(inside):
            pending.append(path)
    while pending:
        path = os.path.realpath(pending.pop())
        if path in found or path.startswith(_PACKAGE + os.sep):
            continue
        found.add(path)
        for name in _imported(path):
            if os.path.isfile(os.path.join(folder, name + ".py")):
                pending.append(os.path.join(folder, name + ".py"))
            for parent, _, files in os.walk(os.path.join(folder, name)):
                pending.extend(os.path.join(parent, file) for file in files if file.endswith(".py"))
    return sorted(found - {script})


# The folder of this package, whose code counts by the class of the arithmetic.
_PACKAGE = os.path.dirname(os.path.realpath(__file__))


def _imported(path: str) -> Set[str]:
    """The first parts of the names of the modules that a file of Python imports, wherever in it."""
    with open(path, "rb") as f:
        text = f.read()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # it cannot be imported, either
        return set()
    names: Set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def _digest(files: Iterable[str]) -> str:
    """The SHA-256 of files: of their contents in order, each after its length."""
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as f:
            content = f.read()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


class Misused(TypeError):
    """A function of the user's that returned what it should not: its place is the function's."""

    def __init__(self, function: Any, text: str):
        super().__init__(text)
        code = getattr(function, "__code__", None)
        self.place = (os.path.basename(code.co_filename), code.co_firstlineno) if code else None


def _place(e: BaseException) -> Tuple[str, int]:
    """Where in the user's own files an exception came from: the innermost such line."""
    if isinstance(e, Misused) and e.place:
        return e.place
    script = _script()
    own = [f for f in traceback.extract_tb(e.__traceback__)
           if os.path.realpath(f.filename).startswith(os.path.dirname(script) + os.sep)
           and "site-packages" not in f.filename and os.path.realpath(f.filename) != os.path.realpath(__file__)]
    return (os.path.basename(own[-1].filename), own[-1].lineno or 0) if own else (os.path.basename(script), 0)


# -- by hand ---------------------------------------------------------------------------


def _rehearse(trainer: Trainer) -> None:
    """Takes steps without fedpace, so that prints, exceptions and a debugger are at hand."""
    p = argparse.ArgumentParser(description="Rehearses the trainer: some local steps on its own data, or on noise of these sizes.")
    p.add_argument("--features", type=int, default=784, help="numbers of a sample, or tokens (%(default)s)")
    p.add_argument("--classes", type=int, default=2, help="labels; 0: targets instead (%(default)s)")
    p.add_argument("--targets", type=int, default=0, help="numbers of a sample's target")
    p.add_argument("--vocabulary", type=int, default=0, help="samples are tokens below this number")
    p.add_argument("--batch", type=int, default=32, help="samples of a minibatch (%(default)s)")
    p.add_argument("--steps", type=int, default=20, help="local steps (%(default)s)")
    p.add_argument("--rate", type=float, default=0.1, help="learning rate (%(default)s)")
    p.add_argument("--device", default="cpu", help="such as cuda (%(default)s)")
    o = p.parse_args()
    if trainer.data is not None:
        _take_steps(trainer, o, None)
        return
    print(f"rehearsal on noise: {o.features} {'tokens' if o.vocabulary else 'numbers'} a sample")
    try:
        _take_steps(trainer, o, _noise(o))
    except Exception:
        traceback.print_exc()
        sys.exit(_hint(o))


def _hint(o: argparse.Namespace) -> str:
    """What the noise of a rehearsal was that failed, and how another is asked for."""
    predicted = f"targets (--targets {_targets(o)})" if _targets(o) else f"labels of {o.classes} classes and no targets"
    return (f"The noise had {o.features} {'tokens' if o.vocabulary else 'numbers'} a sample and {predicted}. If your samples are others, "
            "give their sizes: --features N, --classes N or, of numbers to predict, --targets N, and --vocabulary N of tokens.")


def _take_steps(trainer: Trainer, o: argparse.Namespace, noise: Optional[Mapping[str, Any]]) -> None:
    """Takes the steps of a rehearsal, and prints what a model is before and after."""
    _begin(trainer, Setting(noise, 1, o.device))
    print(f"class   {trainer.kernel_class}\ndigest  {_identity(trainer)}")
    for t in trainer.tensors:
        print(f"tensor  {t.name} {list(t.shape)}{', frozen' if t.frozen else '' if t.trainable else ', not trainable'}{t.type and f', {t.type}, {t.rule}'}")
    model, nothing = trainer.initialise(1), lambda: None
    rows = np.arange(trainer.data.samples(0) if trainer.data else 4 * o.batch, dtype=np.int32)
    steps = [np.resize(np.roll(rows, -k * o.batch), min(o.batch, len(rows))) for k in range(o.steps)]
    for turn in ("before", "after"):
        loss, metrics = trainer.evaluate(model, rows, nothing)
        print(f"{turn:7} loss {loss[0] / loss[1]:.4f}", *(f"{m.name} {s / w:.4f}" for m, (s, w) in zip(trainer.metrics, metrics)))
        if turn == "before":
            start = time.perf_counter()
            ((model, *_),) = trainer.train(Job(model, [Task(0, "0", o.rate, 1, steps)]), nothing)
            print(f"steps   {o.steps} of {len(steps[0])} samples, {(time.perf_counter() - start) / o.steps * 1e6:.0f} µs each")


def _targets(o: argparse.Namespace) -> int:
    """The numbers of a target of the noise; 0: it has labels."""
    return 0 if o.classes and not o.targets else max(o.targets, 1)


def _noise(o: argparse.Namespace) -> Mapping[str, Any]:
    """A description of made-up samples, in a file that is removed at the end."""
    import tempfile

    draws, n = np.random.default_rng(1), 4 * o.batch
    file = tempfile.NamedTemporaryFile(prefix="fedpace-")
    place = 0

    def store(array: np.ndarray) -> Mapping[str, Any]:
        nonlocal place
        file.seek(place)
        file.write(array.tobytes())
        file.flush()
        place, at = -(-file.tell() // 64) * 64, place
        return {"path": file.name, "offset": at, "type": array.dtype.name, "shape": array.shape}

    shape = (n, o.features)
    x = draws.integers(0, o.vocabulary, shape).astype(np.int32) if o.vocabulary else draws.random(shape, np.float32)
    targets = _targets(o)
    return {
        "input": "tokens" if o.vocabulary else "dense", "features": o.features, "vocabulary": o.vocabulary,
        "classes": 0 if targets else o.classes, "targets": targets, "image": [0, 0, 0], "clients": 1, "rows": n,
        "labels": None if targets else store(draws.integers(0, o.classes, n).astype(np.int32)),
        "values": store(draws.random((n, targets), np.float32)) if targets else None,
        "samples": {"kind": "tokens" if o.vocabulary else "floats", "array": store(x), "skip": 0},
        "file": file,  # kept open
    }


# -- a trainer in PyTorch --------------------------------------------------------------


def serve(
    model: Any,
    loss: Callable[[Any, Any, Any], Any],
    metrics: Optional[Callable[[Any, Any, Any], Mapping[str, Tuple[Any, Any]]]] = None,
    *,
    shape: Optional[Sequence[int]] = None,
    data: Optional[Data] = None,
    optimizer: Optional[Callable[[Iterable[Any], float], Any]] = None,
    device: Optional[str] = None,
    batched: int = 0,
    lower: Sequence[str] = (),
    files: Sequence[str] = (),
    state: int = 0,
    recall: Optional[Callable[[Any, bytes], None]] = None,
    keep: Optional[Callable[[Any], bytes]] = None,
    buffers: Optional[Mapping[str, str]] = None,
) -> None:
    """Trains a PyTorch model for fedpace; returns when the work is done.

    model      model() or model(data) makes the module (a function or class), from PyTorch's
               random numbers; data has the sizes of the samples (see Samples), or is data=;
               or is a module, such as a trained one, whose values every run starts from
    loss       loss(model, x, y): the mean loss of a minibatch
    metrics    metrics(model, x, y): sums and weights by name, such as
               {"accuracy": (number of right ones, len(y))}; "loss" among them replaces
               the loss where models are measured
    shape      of a sample as the model reads it, such as (1, 28, 28); by default flat
    data       samples of the script's own; by default fedpace's
    optimizer  optimizer(parameters, rate): one of PyTorch's, made anew for every task; by
               default plain SGD, or what the run's key local says. fedpace is told its kind and
               momentum, as some algorithms count on plain steps
    device     "cpu", "cuda", ...; by default what fedpace says
    batched    trains so many clients at a time with vmap; 0: one after the other
    lower      the metrics of which less is better
    files      files that decide the steps besides the script and the modules in its folder that it imports,
               such as weights: they become part of its digest
    state      bytes that each client keeps from task to task, at most: keep(model) returns them after
               a task, and recall(model, bytes) gets them before the client's next, none before its first
    buffers    how clients' buffers of integers or booleans become one, by name: "largest" (by default
               of integers), "majority" (of booleans), "mean", or "kept", of constants of any type
    """
    # Read by cuBLAS when a card is first used: without it sums differ from run to run.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    run((_Batched if batched else _Torch)(model, loss, metrics, shape, data, optimizer, device, batched, lower, files, state, recall, keep, buffers))


class _Resident(Samples):
    """Samples as tensors on the device that trains: on a card they are copied there once."""

    def __init__(self, about: Mapping[str, Any], device: Any):
        self._device = device
        super().__init__(about)

    def _tensor(self, array: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(array).to(self._device)

    def _long(self, array: Any) -> Any:
        return array.long()

    def _float(self, array: Any) -> Any:
        return array.float()

    def _arange(self, n: int) -> Any:
        import torch

        return torch.arange(n, device=self._device)

    def _zeros(self, shape: Tuple[int, ...]) -> Any:
        import torch

        return torch.zeros(shape, device=self._device)

    def _repeat(self, array: Any, times: Any) -> Any:
        return array.repeat_interleave(times)


class _Torch(Trainer):
    """One client after the other, each a plain loop of steps.

    All tensors of the model are views of one flat tensor, whose first part is trained. A
    model is therefore loaded with one copy, and a step is one operation on all of it.
    """

    def __init__(self, model: Any, loss: Any, metrics: Any = None, shape: Optional[Sequence[int]] = None, data: Optional[Data] = None,
                 optimizer: Any = None, device: Optional[str] = None, batched: int = 0, lower: Sequence[str] = (), files: Sequence[str] = (),
                 state: int = 0, recall: Any = None, keep: Any = None, buffers: Optional[Mapping[str, str]] = None):
        self._make, self._loss, self._measure, self._make_optimizer = model, loss, metrics, optimizer
        self._shape, self._device, self._lanes, self._lower = shape, device, batched, lower
        self.data, self.files, self.state = data, files, state
        self._recall, self._keep = recall, keep
        self._rules: Dict[str, str] = dict(buffers or {})
        if optimizer:
            self.optimizers = ()
        # Makes a recording of a step, which is played instead of it; None: steps are taken one by one.
        self.record: Optional[Callable[[Callable[[Any], Any], Any], Optional[Callable[[Any], Any]]]] = None
        self._recording: Tuple[Any, Optional[Callable[[Any], Any]]] = None, None  # what for, and the recording
        self._warned = False  # that steps change what is kept

    # Preparation.

    def begin(self, setting: Setting) -> None:
        import torch

        self.device = torch.device(self._device or setting.device)
        torch.set_num_threads(setting.threads)
        torch.use_deterministic_algorithms(True)
        if hasattr(torch.utils, "deterministic"):  # fresh memory is never read
            torch.utils.deterministic.fill_uninitialized_memory = False
        # Subnormal numbers take many times as long.
        torch.set_flush_denormal(True)
        if self.device.type == "cuda":
            if not torch.cuda.is_available():
                raise ValueError(f"device {self.device}: PyTorch {torch.__version__} sees no card")
            if self.device.index is None:  # each worker has a card of its own, if there are as many
                self.device = torch.device("cuda", setting.worker % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = False
            self.evaluation_batch, self.record = 4096, _cuda_graph
        self.lent = _Resident(setting.data, self.device) if setting.data else None
        self._build()
        self.kernel_class = _torch_class(self.device, self._lanes)
        self._try()
        if setting.worker == 0:
            self._say_rules()

    def _build(self) -> None:
        """Lays the module's tensors one behind the other in one flat tensor."""
        import torch

        self._module = module = self._new(0)
        named = dict(module.named_parameters())
        persistent = set(module.state_dict())
        buffers = {n: b for n, b in module.named_buffers() if n in persistent}
        unknown = sorted(set(self._rules) - set(buffers))
        if unknown:
            raise ValueError(f"buffers names {', '.join(unknown)}; the model's buffers are {', '.join(buffers) or 'none'}")
        about = [(p, Tensor(n, tuple(p.shape), p.requires_grad, not p.requires_grad)) for n, p in named.items()]
        about += [(b, self._buffer(n, b)) for n, b in buffers.items()]
        for part, t in about:
            if part.dtype != torch.float32 and not t.type:
                raise TypeError(f"tensor {t.name} is {part.dtype}: a model's tensors are float32, but for buffers of "
                                f'integers and booleans, and constants that buffers={{"{t.name}": "kept"}} names')
        # Trainable ones first, then buffers, first those of floats, and frozen ones last; else in their order.
        about.sort(key=lambda part: 0 if part[1].trainable else 3 if part[1].frozen else 2 if part[1].type else 1)
        aliases = _aliases(module)
        self.tensors = [replace(t, aliases=aliases.get(t.name, ())) for _, t in about]
        n = self.trainable
        if n == 0:
            raise ValueError("the model has no trainable tensor")
        self._flat = torch.zeros(self.size, device=self.device)
        self._gradient = torch.zeros(n, device=self.device)
        self._parameters = [p for p, t in about if t.trainable]
        # Buffers that are no part of the flat tensor, each with its place there.
        self._typed: List[Tuple[Any, Tensor, slice]] = []
        at = 0
        for part, t in about:
            place = slice(at, at + t.size)
            at += t.size
            if t.type:
                self._typed.append((part, t, place))
                continue
            part.data = self._flat[place].view(part.shape)
            if t.trainable:
                part.grad = self._gradient[place].view(part.shape)
        self._constants: Dict[str, Tuple[np.ndarray, Any]] = {}  # by name, what is kept: as it lies in a model, and as a tensor
        self._base, self._pull = torch.zeros_like(self._gradient), torch.zeros_like(self._gradient)
        self._moving = torch.nn.Parameter(self._flat[:n])
        self._moving.grad = self._gradient
        # Buffers that are not persistent are not part of the model: they are as in the beginning when a task
        # starts, so that a task depends on nothing before it.
        self._fixed = [(b, b.clone()) for name, b in module.named_buffers() if name not in persistent]
        self._laid = self._places()
        self.steps = self._own_steps()

    def _own_steps(self) -> Optional[Dict[str, Any]]:
        """What the script's own optimizer does in a step, for the greeting; None: it has none."""
        import torch

        if self._make_optimizer is None:
            return None
        rate = 0.125  # exact in binary: a rate that the script changes is seen
        optimizer = self._make_optimizer(self._module.parameters(), rate)
        groups = optimizer.param_groups
        momentum = max(float(g.get("momentum", 0.0)) for g in groups)
        decay = max(float(g.get("weight_decay", 0.0)) for g in groups)
        changes = [what for what, changed in (
            ("a rate of its own", any(g["lr"] != rate for g in groups)),
            (f"weight decay {decay:g}", decay),
            ("steps uphill", any(g.get("maximize") for g in groups)),
        ) if changed]
        plain = type(optimizer) is torch.optim.SGD and momentum == 0 and not changes
        name = type(optimizer).__name__ + (f" ({', '.join(changes)})" if changes else "")
        return {"optimizer": name, "momentum": momentum, "plain": plain}

    def _buffer(self, name: str, b: Any) -> Tensor:
        """A persistent buffer as a part of the model: of floats, which are averaged, or with the rule for its type."""
        import torch

        kind = str(b.dtype).rpartition(".")[2]
        rule = self._rules.get(name, "")
        if rule and (rule not in RULES or kind not in TYPES or rule != "kept" and kind not in INTEGERS):
            raise ValueError(f'buffers={{"{name}": "{rule}"}}: want {", ".join(RULES[:-1])} for integers and booleans, or kept for '
                             f"constants of {', '.join(TYPES)}; {name} is {kind}")
        if not rule and kind in INTEGERS:
            is_large = kind != "bool" and bool((b.abs() > MAX_INTEGER).any())
            # Clients that train side by side change no buffers.
            rule = "kept" if is_large or self._lanes else "majority" if kind == "bool" else "largest"
        if not rule and kind == "float32" and not torch.isfinite(b).all():
            rule = "kept"  # such as an attention mask: what is infinite has no mean
        return Tensor(name, tuple(b.shape), False, rule == "kept", kind if rule else "", rule)

    def _say_rules(self) -> None:
        """Names the integer and boolean buffers, and others that are kept, with the rules that the script leaves open."""
        counters = {name for name, _ in _norms(self._module)}
        found = [f"{t.name} ({t.type}): {t.rule}" for _, t, _ in self._typed if t.name not in counters and t.name not in self._rules]
        if found:
            print(f"Buffers become one of the clients' by rules: {', '.join(found)}. "
                  f'Others are named by serve(..., buffers={{"NAME": "RULE"}}).')

    def _places(self) -> Dict[str, Tuple[int, int]]:
        """Which tensors the module has, and where they lie."""
        return {name: (id(t), t.data_ptr()) for name, t in [*self._module.named_parameters(), *self._module.named_buffers()]}

    def _new(self, seed: int) -> Any:
        """The module with its initial values, always drawn on the processor."""
        import copy

        import torch

        self._seed(seed)
        if isinstance(self._make, torch.nn.Module):
            return copy.deepcopy(self._make).to(self.device)
        return self._make(*([self.lent or self.data] if _asks(self._make) else [])).to(self.device)

    def _try(self) -> None:
        """Measures two samples: mistakes in shapes are found now, and the metrics' names."""
        rows = np.zeros(2, np.int32)
        x, y = self._tensors(*self.batch(self._index(rows)))
        self._flat.copy_(self._values(self._new(0)))
        self.metrics = [Metric(name, "lower" if name in self._lower else "higher") for name in self._scores(x, y) if name != "loss"]
        unknown = sorted(set(self._lower) - {m.name for m in self.metrics})
        if unknown:
            raise ValueError(f"lower names {', '.join(unknown)}, which metrics does not give")

    def _values(self, module: Any) -> Any:
        """A module's tensors as they lie in a model."""
        import torch

        named = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        with torch.no_grad():
            return torch.cat([_to_words(named[t.name]) if t.rule == "kept" else named[t.name].reshape(-1).float() for t in self.tensors])

    def _seed(self, seed: int) -> None:
        """All random numbers that a user may draw follow from a task's seed."""
        import torch

        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)

    # Samples.

    def _index(self, rows: np.ndarray) -> Any:
        """Row numbers as the owner of the samples takes them."""
        import torch

        return rows if self.data else torch.from_numpy(rows.astype(np.int64)).to(self.device)

    def _tensors(self, x: Any, y: Any) -> Tuple[Any, Any]:
        """A batch on the device, its samples in the shape that the model reads."""
        import torch

        x, y = torch.as_tensor(x, device=self.device), torch.as_tensor(y, device=self.device)
        return (x.reshape(len(x), *self._shape) if self._shape else x), y

    def _batches(self, steps: Sequence[np.ndarray]) -> Tuple[Callable[[Any], Tuple[Any, Any]], List[Any]]:
        """How to take a minibatch, and of each step what to take.

        A client takes its samples many times: on a processor they are decoded once.
        """
        if not steps:
            return lambda i: self._tensors(*self.batch(i)), []
        if self.data is None and self.device.type == "cpu" and self.record is None:
            rows, places = np.unique(np.concatenate(steps), return_inverse=True)
            if len(rows) * self.lent.features * 4 <= CACHE_BYTES:  # type: ignore[union-attr]
                x, y = self._tensors(*self.batch(self._index(rows)))
                return lambda i: (x[i], y[i]), list(self._index(places.reshape(-1)).split([len(s) for s in steps]))
        if self.data is None:
            index = self._index(np.concatenate(steps)).split([len(s) for s in steps])
            return lambda i: self._tensors(*self.batch(i)), list(index)
        return lambda i: self._tensors(*self.batch(i)), list(steps)

    # Work.

    def initialise(self, seed: int) -> np.ndarray:
        return self._values(self._new(seed)).cpu().numpy()

    def train(self, job: Job, alive: Callable[[], None]) -> Iterator[Tuple[np.ndarray, float, bytes]]:
        for i, task in enumerate(job.tasks):
            losses = self._local(job, [task], task.steps, alive)
            yield self._flat.cpu().numpy(), _first(losses[:, 0], i), self._update.save() + self.keep()

    def _local(self, job: Job, tasks: Sequence[Task], steps: Sequence[np.ndarray], alive: Callable[[], None]) -> np.ndarray:
        """Takes the local steps of one task, or of tasks side by side; their losses by step."""
        import torch

        take, index = self._batches(steps)
        step = self._recorded(job, tasks, self._stepper(job, tasks, take), index)
        self._load(job.base)
        self._seed(tasks[0].seed)
        self.recall(self._own)
        self._module.train()
        losses = torch.zeros(len(index), len(tasks), device=self.device)
        for k, i in enumerate(index):
            losses[k] = step(i)
            alive()
        # A tensor in another's place is no part of the flat one: it is not trained and does not travel.
        replaced = sorted({name for name, _ in self._laid.items() ^ self._places().items()})
        if replaced:
            raise TypeError(f"a step replaces {', '.join(replaced)}: change a model's tensors in place, as with copy_")
        with torch.no_grad():
            self._store()
        return losses.cpu().numpy()

    def _store(self) -> None:
        """Writes the integers and booleans that steps have changed to their places in the flat tensor."""
        import torch

        changed = []
        for buffer, t, place in self._typed:
            if t.rule == "kept":
                words, constant = self._constants[t.name]
                # NaN differs from itself: what seems to differ is compared byte by byte.
                if not self._warned and not torch.equal(buffer, constant) and not np.array_equal(_to_words(buffer).cpu().numpy(), words):
                    changed.append(t)
                continue
            numbers = buffer.reshape(-1)
            if t.type in ("int32", "int64") and bool((numbers.abs() > MAX_INTEGER).any()):
                raise ValueError(f"steps leave {int(numbers[numbers.abs().argmax()])} in buffer {t.name}, and integers travel up to "
                                 f'{MAX_INTEGER}: keep it, by serve(..., buffers={{"{t.name}": "kept"}})')
            self._flat[place].copy_(numbers)
        if changed:
            self._warned = True
            first = changed[0]
            remedy = "make it a finite float32 buffer"
            if first.type in INTEGERS:
                rule = "majority" if first.type == "bool" else "largest"
                remedy = f'name a rule by serve(..., buffers={{"{first.name}": "{rule}"}})'
            print(f"Steps change {', '.join(t.name for t in changed)}, kept as at first for every task: {remedy}, "
                  f"or keep what it holds by state=, recall= and keep=.")

    def _load_typed(self, model: np.ndarray) -> None:
        """Sets the buffers that are no part of the flat tensor to those of a model."""
        for buffer, t, place in self._typed:
            if t.rule != "kept":
                buffer.copy_(self._flat[place].view(buffer.shape))
                continue
            words, constant = self._constants.get(t.name, (None, None))
            if words is None or not np.array_equal(words, model[place]):
                words = model[place].copy()
                constant = _from_words(words, t, buffer)
                self._constants[t.name] = words, constant
            buffer.copy_(constant)

    def recall(self, state: bytes) -> None:
        if self._recall:
            self._recall(self._module, state)

    def keep(self) -> bytes:
        return self._keep(self._module) if self._keep else b""

    def _load(self, model: np.ndarray) -> None:
        import torch

        with torch.no_grad():
            self._flat.copy_(torch.from_numpy(model))
            self._load_typed(model)
            for buffer, value in self._fixed:
                buffer.copy_(value)

    def _stepper(self, job: Job, tasks: Sequence[Task], take: Callable[[Any], Tuple[Any, Any]]) -> Callable[[Any], Any]:
        """A function that takes one local step and returns the loss before it."""
        import torch

        self._base.copy_(torch.from_numpy(job.base[: self.trainable]))
        pull = any(t.correction is not None for t in tasks)
        if pull:
            zero = np.zeros(self.trainable, np.float32)
            rows = [zero if t.correction is None else t.correction for t in tasks]
            self._pull.copy_(torch.from_numpy(np.stack(rows)).view(self._pull.shape))
        if self._make_optimizer is None:
            update = self._update = _TorchUpdate(job.optimizer, self._moving, tasks[0].rate)
        elif job.optimizer:
            raise ValueError("the script has an optimizer of its own: leave out optimizer=, or the run's key local")
        else:
            self._update = _TorchUpdate(None, self._moving, tasks[0].rate)  # which keeps nothing
            update = self._make_optimizer(self._module.parameters(), tasks[0].rate).step
        self._own = self._update.load([t.state for t in tasks])

        def step(i: Any) -> Any:
            loss = self._backward(*take(i))
            with torch.no_grad():
                if job.proximal:
                    self._gradient.add_(self._moving.data - self._base, alpha=job.proximal)
                if pull:
                    self._gradient.add_(self._pull)
            update()
            return loss

        return step

    def _mean_loss(self, x: Any, y: Any) -> Any:
        """The user's loss of a batch, which must be a tensor of one number."""
        import torch

        loss = self._loss(self._module, x, y)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
            raise Misused(self._loss, f"loss(model, x, y) returns {what}; want a tensor with the mean loss of the minibatch")
        return loss.reshape(())

    def _backward(self, x: Any, y: Any) -> Any:
        """Writes the gradient of a minibatch's mean loss, and returns that loss."""
        import torch

        loss = self._mean_loss(x, y)
        if not loss.requires_grad:
            raise Misused(self._loss, "loss(model, x, y) returns a tensor without a gradient; want one calculated from the model's trainable tensors")
        parts = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        torch.cat([torch.zeros_like(p).reshape(-1) if g is None else g.reshape(-1)
                   for g, p in zip(parts, self._parameters)], out=self._gradient)
        return loss.detach()

    def _recorded(self, job: Job, tasks: Sequence[Task], step: Callable[[Any], Any], index: Sequence[Any]) -> Callable[[Any], Any]:
        """The step as a recording, on a card, where all minibatches are alike.

        A recording serves the tasks that follow: all that it reads is where it was, the
        model, its base, the correction and the samples.
        """
        alike = len(index) >= 8 and len({len(i) for i in index}) == 1
        plain = self._make_optimizer is None and _Optimizer(job.optimizer).plain  # no state that a recording would keep
        if self.record is None or not alike or not plain or self.data is not None:
            return step
        what = len(index[0]), tasks[0].rate, job.proximal, any(t.correction is not None for t in tasks)
        if what != self._recording[0]:
            self._load(job.base)
            self._module.train()
            self._recording = what, self.record(step, index[0])
        return self._recording[1] or step

    def evaluate(self, model: np.ndarray, rows: np.ndarray, alive: Callable[[], None]) -> Tuple[Score, List[Score]]:
        self._load(model)
        self._seed(0)
        total = np.zeros((1 + len(self.metrics), 2))
        for at in range(0, len(rows), self.evaluation_batch):
            total += self._named(self._scores(*self._tensors(*self.batch(self._index(rows[at : at + self.evaluation_batch])))))
            alive()
        result = [(float(s), float(w)) for s, w in total]
        return result[0], result[1:]

    def _scores(self, x: Any, y: Any) -> Dict[str, Score]:
        """The loss and the metrics of a batch: sums and weights."""
        import torch

        self._module.eval()
        with torch.no_grad():
            found = self._measure(self._module, x, y) if self._measure else {}
            try:
                scores = {name: (float(s), float(w)) for name, (s, w) in found.items()}
            except (AttributeError, TypeError, ValueError):
                raise Misused(self._measure, "metrics(model, x, y) must return names with a sum and a weight each, "
                               'such as {"accuracy": (right, len(y))}') from None
            if "loss" not in scores:
                scores["loss"] = (float(self._mean_loss(x, y)) * len(x), len(x))
        return scores

    def _named(self, scores: Mapping[str, Score]) -> List[Score]:
        """The loss, then the metrics as they were named when the trainer began."""
        names = ["loss", *(m.name for m in self.metrics)]
        if sorted(scores) != sorted(names):
            raise Misused(self._measure, f"metrics(model, x, y) must name the same metrics every time: {', '.join(scores)}; at first {', '.join(names)}")
        return [scores[name] for name in names]


def _asks(make: Callable[..., Any]) -> bool:
    """Whether a function that makes a model wants to know the sizes of the samples."""
    import inspect

    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in inspect.signature(make).parameters.values())


def _to_words(b: Any) -> Any:
    """A tensor's bytes as numbers: two bytes to a number, or one, for a type of one byte."""
    import torch

    data = b.detach().contiguous().reshape(-1).cpu().view(torch.uint8).numpy()
    words = data if b.element_size() == 1 else data.view("<u2")
    return torch.from_numpy(words.astype(np.float32)).to(b.device)


def _from_words(words: np.ndarray, t: Tensor, like: Any) -> Any:
    """The tensor that _to_words has made numbers of."""
    import torch

    data = words.astype("u1" if TYPES[t.type] == 1 else "<u2").view(np.uint8).copy()
    return torch.from_numpy(data).view(like.dtype).reshape(like.shape).to(like.device)


def _aliases(module: Any) -> Dict[str, Tuple[str, ...]]:
    """The further names of tensors in the state_dict, by the name of the tensor."""
    first: Dict[int, str] = {id(t): name for name, t in [*module.named_parameters(), *module.named_buffers()]}
    stored, found = module.state_dict(), {}  # type: Dict[str, Any], Dict[str, Tuple[str, ...]]
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, t in [*part._parameters.items(), *part._buffers.items()]:
            full = f"{prefix}.{name}".lstrip(".")
            if t is not None and full in stored and full != first[id(t)]:
                found[first[id(t)]] = (*found.get(first[id(t)], ()), full)
    return found


def _norms(module: Any) -> List[Tuple[str, Any]]:
    """The batch norms of a module, each with the name of its count of batches."""
    import torch

    return [(f"{prefix}.num_batches_tracked".lstrip("."), m) for prefix, m in module.named_modules()
            if isinstance(m, torch.nn.modules.batchnorm._NormBase)]


def _first(losses: np.ndarray, index: int) -> float:
    """The first of the losses of task index, all of which must be finite."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        raise Diverged(int(bad[0]) + 1, f"the loss is {losses[bad[0]]:g}", index)
    return float(losses[0]) if len(losses) else 0.0


class _TorchUpdate:
    """Moves a parameter, one or a row for each client, by its gradient."""

    def __init__(self, optimizer: Optional[Mapping[str, Any]], moving: Any, rate: float):
        import torch

        self.o, self.moving, self.rate = _Optimizer(optimizer), moving, rate
        o = self.o
        if o.plain:
            self.inner: Any = None
        elif o.kind == "sgd":
            self.inner = torch.optim.SGD([moving], lr=rate, momentum=o.momentum, weight_decay=o.decay, nesterov=o.nesterov)
        else:
            kind = torch.optim.Adam if o.kind == "adam" else torch.optim.AdamW
            self.inner = kind([moving], lr=rate, betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=o.decay)

    def __call__(self) -> None:
        if self.inner is None:
            self.moving.data.add_(self.moving.grad, alpha=-self.rate)
            return
        if self.o.clip:  # as clip_grad_norm_ does, each client's by itself
            length = self.moving.grad.norm(dim=-1, keepdim=True)
            self.moving.grad.mul_((self.o.clip / (length + 1e-6)).clamp(max=1.0))
        self.inner.step()

    def load(self, states: Sequence[bytes]) -> bytes:
        """Goes on with what clients have kept, each in its row; returns what is the trainer's own of the first's."""
        if not states[0] or not self.o.keep:
            return states[0]
        import torch

        parts = [_split(s, self.moving.shape[-1], self.o) for s in states]
        first, second = (torch.from_numpy(np.stack([p[k] for p in parts]).reshape(self.moving.shape)).to(self.moving.device) for k in (0, 1))
        self.inner.state[self.moving] = {"momentum_buffer": first} if self.o.kind == "sgd" else {
            "step": torch.tensor(float(parts[0][2])), "exp_avg": first, "exp_avg_sq": second}
        return parts[0][3]

    def save(self, row: int = 0) -> bytes:
        if not self.o.keep:
            return b""
        kept, n = self.inner.state[self.moving], self.moving.shape[-1]

        def vector(name: str) -> np.ndarray:
            return kept[name].reshape(-1, n)[row].cpu().numpy()

        if self.o.kind == "sgd":
            return _joined(vector("momentum_buffer"), None, 0, self.o)
        return _joined(vector("exp_avg"), vector("exp_avg_sq"), int(kept["step"]), self.o)


def _cuda_graph(step: Callable[[Any], Any], index: Any) -> Optional[Callable[[Any], Any]]:
    """Records a step, so that a replay costs one launch; None where it cannot be recorded.

    The three steps before the recording change the model, which is loaded after it.
    """
    import torch

    static, before = index.clone(), torch.cuda.get_rng_state()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(static)
    torch.cuda.current_stream().wait_stream(stream)
    if not torch.equal(before, torch.cuda.get_rng_state()):
        return None  # a recording would draw the same dropout for every client
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            loss = step(static)
    except RuntimeError:  # the loss waits for the card, say
        return None

    def replay(i: Any) -> Any:
        static.copy_(i)
        graph.replay()
        return loss

    return replay


def _class(library: str, version: str, device: str, about: List[Any]) -> str:
    """Names the arithmetic: a library's version, the device, and a hash of what else decides bits."""
    number = re.sub(r"[^0-9A-Za-z]+", "_", version.partition("+")[0])
    about = [*about, _blas(), _digest([__file__])]
    return f"{library}{number}-{device}-{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"


def _numpy_class(threads: int) -> str:
    np.ones((64, 64)) @ np.ones((64, 64))  # loads the libraries that are loaded late
    core = getattr(np, "_core", None) or np.core
    features = core._multiarray_umath.__cpu_features__
    return _class("numpy", np.__version__, "cpu", [threads, sorted(name for name, there in features.items() if there)])


def _torch_class(device: Any, lanes: int) -> str:
    import torch

    torch.ones(64, 64) @ torch.ones(64, 64)  # loads the libraries that are loaded late
    about = [torch.__config__.show(), torch.get_num_threads(), lanes, torch.version.cuda,
             hasattr(torch.backends, "cpu") and torch.backends.cpu.get_cpu_capability(),  # type: ignore[attr-defined]
             torch.backends.mkl.is_available() and _vendor(),
             torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]
    if device.type == "cuda":
        about += [torch.cuda.get_device_name(device), torch.backends.cudnn.version()]
    return _class("torch", torch.__version__, device.type, about)


def _vendor() -> str:
    """Who made the processor, by which MKL chooses its kernels."""
    try:
        with open("/proc/cpuinfo") as f:
            return next((line.split(":")[1].strip() for line in f if line.startswith("vendor_id")), "")
    except OSError:  # not Linux
        return ""


def _blas() -> List[str]:
    """The libraries of linear algebra in this process, and OpenBLAS's choice of kernels."""
    try:
        with open("/proc/self/maps") as f:
            paths = sorted({line.split()[-1] for line in f if re.search(r"/[^/]*(blas|mkl|blis|armpl)[^/]*\.so", line)})
    except OSError:  # not Linux
        return []
    found = []
    for path in paths:
        core = b""
        for symbol in ("openblas_get_corename", "openblas_get_corename64_", "scipy_openblas_get_corename", "scipy_openblas_get_corename64_"):
            name = getattr(ctypes.CDLL(path), symbol, None)
            if name is not None:
                name.restype = ctypes.c_char_p
                core = name()
        found.append(f"{os.path.basename(path)} {core.decode()}")
    return found


class _Batched(_Torch):
    """Clients side by side: one step of vmap is a step of each.

    A group has always as many places, the last client filling those that are left, so
    that the bits of a client's model do not depend on how many clients a job has.
    """

    def begin(self, setting: Setting) -> None:
        if self._make_optimizer:
            raise ValueError("batched= takes steps of fedpace's own: leave out optimizer=, and choose it with the run's key local")
        super().begin(setting)
        fixed = [t.name for t in self.tensors if not t.trainable and t.rule != "kept"]
        if fixed:
            raise ValueError(f"batched= trains models without running statistics, and this one has {', '.join(fixed)}")
        self._open()
        self._check_places()

    def _open(self) -> None:
        """The model of every place, and the function that gives all their gradients."""
        import torch

        try:
            from torch.func import functional_call, grad_and_value, vmap
        except ImportError:
            from functorch import grad_and_value, vmap
            from torch.nn.utils.stateless import functional_call
        n, size = self._lanes, self.trainable
        self._flat_all = torch.zeros(n, size, device=self.device)
        self._gradient, self._pull = torch.zeros_like(self._flat_all), torch.zeros_like(self._flat_all)
        self._moving = torch.nn.Parameter(self._flat_all)
        self._moving.grad = self._gradient
        by_id = {id(p): t for p, t in zip(self._parameters, self.tensors)}
        # A tensor that two layers share has two names.
        names = [(f"{prefix}.{name}" if prefix else name, by_id[id(p)].name) for prefix, m in self._module.named_modules(remove_duplicate=False)
                 for name, p in m._parameters.items() if p is not None]
        module = _with_loss(self._module, self._loss)

        def loss(parts: Dict[str, Any], x: Any, y: Any) -> Any:
            return functional_call(module, {"model." + alias: parts[name] for alias, name in names}, (x, y))

        self._gradients = vmap(grad_and_value(loss), randomness="error")

    def _backward(self, x: Any, y: Any) -> Any:
        import torch

        parts, at = {}, 0
        trained = [t for t in self.tensors if t.trainable]
        for t in trained:
            parts[t.name] = self._flat_all[:, at : at + t.size].view(self._lanes, *t.shape)
            at += t.size
        x, y = (v.reshape(self._lanes, -1, *v.shape[1:]) for v in (x, y))
        gradients, losses = self._gradients(parts, x, y)
        torch.cat([gradients[t.name].reshape(self._lanes, -1) for t in trained], 1, out=self._gradient)
        return losses.detach()

    def _load(self, model: np.ndarray) -> None:
        super()._load(model)
        self._flat_all.copy_(self._flat[: self.trainable])

    def train(self, job: Job, alive: Callable[[], None]) -> Iterator[Tuple[np.ndarray, float, bytes]]:
        if self.state:
            raise ValueError("batched= trains clients side by side, which keep no bytes of the script's: leave it out, or state=")
        # Tasks with minibatches of the same sizes and, before them, as many steps that Adam counts, by their order.
        alike: Dict[Any, List[int]] = {}
        counts = _Optimizer(job.optimizer).kind != "sgd"
        for i, task in enumerate(job.tasks):
            before = len(task.state), task.state[-8:] if counts else b""
            alike.setdefault((task.rate, tuple(map(len, task.steps)), before), []).append(i)
        done: Dict[int, Tuple[np.ndarray, float, bytes]] = {}
        following = 0
        for group in (same[at : at + self._lanes] for same in alike.values() for at in range(0, len(same), self._lanes)):
            filled = group + group[-1:] * (self._lanes - len(group))
            tasks = [job.tasks[i] for i in filled]
            losses = self._local(job, tasks, [np.concatenate(rows) for rows in zip(*(t.steps for t in tasks))], alive)
            models = self._flat_all.cpu().numpy()
            for place, i in enumerate(group):
                done[i] = np.concatenate([models[place], job.base[self.trainable :]]), _first(losses[:, place], i), self._update.save(place)
            while following in done:
                yield done.pop(following)
                following += 1

    def _check_places(self) -> None:
        """Tries that a client's bits do not depend on its place in the group."""
        rows = self.lent.rows if self.lent else sum(self.data.samples(c) for c in range(len(self.data.names)))  # type: ignore
        tasks = [Task(i, str(i), 0.1, 0, [(7 * i + np.arange(64)).reshape(2, 32)[k] % rows for k in range(2)]) for i in range(self._lanes)]
        base = self._values(self._new(0)).cpu().numpy()
        models = [list(self.train(Job(base, tasks[k:] + tasks[:k]), lambda: None)) for k in (0, 1)]
        if any(a[0].tobytes() != b[0].tobytes() for a, b in zip(models[0][1:], models[1])):
            raise ValueError("batched=: on this device the bits of a client's model depend on its place among the others; leave batched= out")


def _with_loss(module: Any, loss: Callable[[Any, Any, Any], Any]) -> Any:
    """A module whose result is the loss, so that vmap finds the model's tensors in it."""
    import torch

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, x: Any, y: Any) -> Any:
            return loss(self.model, x, y)

    return WithLoss()
