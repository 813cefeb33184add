"""Policies of a run in Python: schedules, closing rules, selections, combining rules, algorithms.

A file has a class of one of the kinds below, and a configuration names the file (docs/policies.md):

    import fedpace

    class Mine(fedpace.LocalSteps):
        def local_steps(self, now):
            return max(1, now.k0 / now.round ** (1 / 3))

    schedule: {k: {rule: python, path: mine.py}}

A policy is a function: equal questions have equal answers. It is asked in a process of its own, which
may be started again at any time, so an object keeps nothing between two questions. What a selection or
an algorithm remembers is handed to it with each question.

This module needs nothing besides Python. numpy reads a vector as ``numpy.asarray(vector)``.
"""
from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import mmap
import os
import sys
import traceback
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Type

__all__ = ["Aggregation", "ClientSchedule", "Closing", "Combination", "LearningRate", "LocalSteps", "Policy", "Selection"]

PROTOCOL = 1


class Policy:
    """What all kinds have. ``arguments`` of the configuration are the keywords of ``__init__``.

    After ``__init__`` an object takes no further attributes: what it kept would be lost when its process
    is started again, and a run that goes on would have other bits.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_made"):
            raise AttributeError(
                f"self.{name} is set while the policy is asked, and a policy keeps nothing between two questions "
                "(a selection has memory, an algorithm state)"
            )
        super().__setattr__(name, value)


class LocalSteps(Policy):
    """A schedule of K, ``schedule.k``."""

    def local_steps(self, now: Any) -> float:
        """K of a round, rounded up to a whole number of at least 1.

        ``now`` has round (from 1), seconds (virtual time), k0, eta0, learning_rate (this round's),
        loss, initial_loss, loss_ratio (F_r/F_0), accuracy, converged, straggler_share, and previous
        (local_steps, learning_rate, seconds of the round before). What is not known is None.
        """
        raise NotImplementedError


class LearningRate(Policy):
    """A schedule of the learning rate, ``schedule.eta``."""

    def learning_rate(self, now: Any) -> float:
        """eta of a round; ``now`` is that of :meth:`LocalSteps.local_steps` without a learning_rate."""
        raise NotImplementedError


class ClientSchedule(Policy):
    """Each client's own K and learning rate, ``select: {rule: client_schedule}``: one method, or both.

    ``client`` has number, samples (or None), local_steps (K of the round), seconds (the times that
    1, 2, 3, ... of them are expected to take, at most 1,000), and deadline (in seconds, or None).
    """

    def local_steps(self, client: Any) -> int:
        """K of the client, at most client.local_steps; 0 leaves the client out of the round."""
        raise NotImplementedError

    def learning_rate(self, client: Any) -> float:
        """The rate of the client's steps; client.learning_rate is the round's, client.local_steps its own K."""
        raise NotImplementedError


class Closing(Policy):
    """A closing rule, ``close``."""

    def close(self, now: Any) -> bool:
        """Whether a round closes. ``now`` has cohort, tasks, accepted (updates so far) and overdue.

        One more accepted update must never turn a True into a False.
        """
        raise NotImplementedError


class Selection(Policy):
    """A selection, ``select``."""

    def select(self, now: Any, memory: Dict[str, Any]) -> Sequence[int]:
        """The clients of a round in the order in which they are asked, more than the cohort if some may be away.

        ``now`` has round, seconds, seed, clients (their number), cohort, samples (a list, or None),
        and ended: what became of tasks since the last question, each with client, steps, seconds,
        accepted, loss (or None). ``memory`` is a dict that may be changed; JSON keeps it.
        """
        raise NotImplementedError


class Combination(Policy):
    """A combining rule, ``aggregate.combine``."""

    def combine(self, now: Any, updates: List[Any], combined: Any) -> Optional[Sequence[float]]:
        """Writes the one update of a round's into ``combined``, of whole numbers in units of 2^-44.

        ``updates`` are as long, and not to be changed; ``now.weights`` sum to 1. What it returns are the
        weights of values that are not trained, or None for now.weights.
        """
        raise NotImplementedError


class Aggregation(Policy):
    """An algorithm's server, ``aggregate: {algorithm: python}``: weights, and the step of the model."""

    def weigh(self, now: Any) -> Sequence[float]:
        """The weights of a round's updates: now.weights (their sum is 1), changed. now has steps and staleness."""
        raise NotImplementedError

    def step(self, now: Any, model: Any, delta: Any, state: List[Any]) -> None:
        """Moves ``model`` (float32) by ``delta``, the weighted mean update, and ``state``, vectors of float64.

        ``state`` has as many vectors as the configuration's ``vectors``, 0 at first.
        """
        raise NotImplementedError


KINDS = {c.__name__: c for c in (Aggregation, ClientSchedule, Closing, Combination, LearningRate, LocalSteps, Selection)}


# -- the end of the pipe ------------------------------------------------------------------


def _load(path: str) -> Any:
    """The user's file as a module, with its folder on the path of imports."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("fedpace_user_policy", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}: not a file of Python (its name ends in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules["fedpace_user_policy"] = module
    spec.loader.exec_module(module)
    return module


def _class(module: Any, path: str, kind: str, name: str) -> Type[Policy]:
    """The class of a kind in a module, by its name or as the only one."""
    base = KINDS[kind]
    found = [c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, base) and c.__module__ == module.__name__]
    if name:
        found = [c for c in found if c.__name__ == name]
    if len(found) != 1:
        what = f"the class {name}" if name else "one class"
        raise LookupError(f"{path}: {what} of the base class fedpace.{kind} is wanted, and there are {len(found)}")
    return found[0]


def _arguments(text: str) -> Dict[str, Any]:
    """Keywords as a call has them: n=3, name='x'."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            raise ValueError
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(f"arguments {text!r}: want names with values, such as n=3, share=0.5") from None


def _limit(megabytes: int) -> None:
    """Bounds the data of this process where the system can."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        size = megabytes << 20
        resource.setrlimit(resource.RLIMIT_DATA, (size if hard < 0 else min(size, hard), hard))
    except (ImportError, ValueError, OSError):
        pass


class _Server:
    """Answers the requests of one process, read and written as lines of JSON."""

    def __init__(self, requests: Any, replies: Any, memory: int):
        self.requests, self.replies, self.memory = requests, replies, memory
        self.map: Optional[mmap.mmap] = None
        self.policy: Any = None
        self.path = ""

    def say(self, reply: Dict[str, Any]) -> None:
        self.replies.write(json.dumps(reply, allow_nan=False, separators=(",", ":")) + "\n")
        self.replies.flush()

    def run(self) -> None:
        for line in self.requests:
            request = json.loads(line, object_hook=_namespace)
            if hasattr(request, "close"):
                return
            if hasattr(request, "memory"):
                self.map = mmap.mmap(self.memory, request.memory.bytes)
                continue
            number = getattr(request, "id", 0)
            try:
                if hasattr(request, "echo"):
                    self.say({"id": number, "answer": request.echo})
                elif hasattr(request, "hello"):
                    self.say({"hello": self.greet(request.hello)})
                else:
                    self.say({"id": number, "answer": self.answer(request.ask)})
            except Exception as error:  # the user's: the run ends with its place
                self.say({"id": number, "error": self.place(error)})

    def greet(self, hello: Any) -> Dict[str, Any]:
        self.path = hello.path
        _limit(hello.memory_mb)
        made = _class(_load(hello.path), hello.path, hello.kind, hello.class_name)
        self.policy = made(**_arguments(hello.arguments))
        self.policy.__dict__["_made"] = True
        base = KINDS[hello.kind]
        methods = [n for n in vars(base) if not n.startswith("_") and getattr(made, n) is not getattr(base, n)]
        return {"protocol": PROTOCOL, "class": made.__name__, "methods": methods}

    def answer(self, ask: Any) -> Any:
        vectors = [self.vector(v) for v in ask.vectors]
        q = ask.question
        if ask.method == "select":
            memory = json.loads(q.memory)
            clients = [int(c) for c in self.policy.select(q.now, memory)]
            return {"clients": clients, "memory": json.dumps(memory, allow_nan=False, sort_keys=True)}
        if ask.method == "combine":
            shares = self.policy.combine(q, vectors[:-1], vectors[-1])
            return None if shares is None else [float(x) for x in shares]
        if ask.method == "step":
            self.policy.step(q, vectors[1], vectors[0], vectors[2:])
            return None
        answer = getattr(self.policy, ask.method)(q)
        return _plain(answer)

    def vector(self, v: Any) -> Any:
        """A vector in shared memory, which the policy may write to where it is to."""
        size = {"q": 8, "d": 8, "f": 4}[v.type]
        view = memoryview(self.map)[v.offset : v.offset + size * v.length].cast(v.type)
        return view if v.writable else view.toreadonly()

    def place(self, error: BaseException) -> Dict[str, Any]:
        """An exception with the line of the user's file that it comes from."""
        line = 0
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == self.path or os.path.abspath(frame.filename) == os.path.abspath(self.path or "."):
                line = frame.lineno or 0
        if isinstance(error, SyntaxError) and error.lineno:
            line = error.lineno
        text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
        return {"text": text[:1000], "line": line}


def _namespace(fields: Dict[str, Any]) -> SimpleNamespace:
    """An object of JSON with its fields as attributes; class is a word of Python."""
    if "class" in fields:
        fields["class_name"] = fields.pop("class")
    return SimpleNamespace(**fields)


def _plain(value: Any) -> Any:
    """A number, truth value or list as JSON has it, also of numpy's types."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def main() -> None:
    """Serves a policy on the descriptors that fedpace hands to its process."""
    # Prints of the policy are not to be lost where the process is killed.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with os.fdopen(3, "r", encoding="utf-8") as requests, os.fdopen(4, "w", encoding="utf-8") as replies:
        _Server(requests, replies, 5).run()

