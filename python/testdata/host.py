"""Fedpace's end of the protocol, for tests: it asks a trainer and reads what it says."""
import json
import mmap
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Host:
    """A trainer in a process of its own, and the memory shared with it."""

    def __init__(self, command, data=None, protocol=2, threads=1):
        self.memory_file = tempfile.TemporaryFile()
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        wanted = {3: to_read, 4: to_write, 5: self.memory_file.fileno()}

        def arrange():  # by way of high numbers, so that none is overwritten
            for n, d in {n: os.dup2(d, 100 + n) for n, d in wanted.items()}.items():
                os.dup2(d, n)

        environment = dict(os.environ, FEDPACE_TRAINER="1", PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        self.process = subprocess.Popen([sys.executable, *command], preexec_fn=arrange, close_fds=False, env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.close(to_read)
        os.close(to_write)
        self.replies = os.fdopen(self.back, "r")
        self.asked = 0
        self.send(hello={"protocol": protocol, "threads": threads, "worker": 0, "device": "cpu", "data": data})
        self.last = self.read() or {}
        self.hello = self.last.get("hello")
        if self.hello:
            self.size = sum(int(np.prod(t["shape"])) for t in self.hello["tensors"])
            self.memory_file.truncate(64 << 20)
            self.memory = np.frombuffer(mmap.mmap(self.memory_file.fileno(), 0), np.uint8)
            self.send(memory={"bytes": len(self.memory)})

    def send(self, **what):
        os.write(self.to, json.dumps(what).encode() + b"\n")

    def read(self):
        """The next reply that is no sign of life; None at the end."""
        for line in self.replies:
            reply = json.loads(line)
            if "alive" not in reply:
                return reply
        return None

    def ask(self, **what):
        self.asked += 1
        self.send(id=self.asked, **what)

    def floats(self, offset, size=0):
        return self.memory[offset:][: 4 * (size or self.size)].view(np.float32)

    def put(self, offset, values):
        flat = np.ascontiguousarray(values)
        self.memory[offset:][: flat.nbytes] = flat.view(np.uint8).reshape(-1)

    def stride(self):
        return -(-4 * self.size // 64) * 64

    def initialise(self, seed):
        self.ask(initialise={"seed": seed, "model": 0})
        assert self.read() == {"id": self.asked, "done": {}}
        return self.floats(0).copy()

    def train(self, base, tasks, slots=2, **options):
        """The models and losses of tasks: dictionaries with client, rate, seed, steps, correction."""
        models = []
        for reply in self.start(base, tasks, slots, **options):
            index = reply["task"]["index"]
            models.append((self.floats(self.stride() * (1 + index % slots)).copy(), reply["task"]["loss"]))
            self.send(taken={"index": index})
        return models

    def start(self, base, tasks, slots=2, **options):
        """Asks for the tasks; the result gives the replies up to the last."""
        at, described = self.stride() * (1 + slots), []
        self.put(0, base)
        for task in tasks:
            rows = np.concatenate([np.concatenate([[len(s)], s]) for s in task["steps"]]).astype(np.int32)
            self.put(at, rows)
            place = {"client": task["client"], "name": str(task["client"]), "steps": len(task["steps"]), "rate": task["rate"],
                     "seed": task["seed"], "rows": at, "correction": None}
            at += -(-rows.nbytes // 64) * 64
            if task.get("correction") is not None:
                self.put(at, task["correction"])
                place["correction"], at = at, at + self.stride()
            described.append(place)
        self.ask(train={"base": 0, "slots": [self.stride() * (1 + i) for i in range(slots)],
                        "proximal": options.get("proximal", 0), "optimizer": options.get("optimizer"), "tasks": described})
        return self.tasks_done()

    def tasks_done(self):
        """The replies about tasks; last is the one after them."""
        for reply in iter(self.read, None):
            assert reply["id"] == self.asked, reply
            self.last = reply
            if "task" not in reply:
                return
            yield reply
        self.last = None

    def evaluate(self, model, rows):
        self.put(0, model)
        self.put(self.stride(), np.asarray(rows, np.int32))
        self.ask(evaluate={"model": 0, "rows": self.stride(), "count": len(rows)})
        return self.read()

    def close(self):
        """Ends the trainer as fedpace does, and returns what it printed."""
        os.close(self.to)
        out, err = self.process.communicate(timeout=60)
        self.replies.close()
        self.memory_file.close()
        return out, err


class Files:
    """Arrays in one file, described as in a greeting."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()

    def store(self, array):
        at = -(-self.file.seek(0, 2) // 64) * 64
        self.file.seek(at)
        self.file.write(array.tobytes())
        self.file.flush()
        return {"path": self.file.name, "offset": at, "type": array.dtype.name, "shape": list(array.shape)}

    def dense(self, x, y=None, values=None, classes=0):
        """The description of dense float samples with labels or targets."""
        return {
            "input": "dense", "features": x.shape[1], "classes": classes, "vocabulary": 0, "image": [0, 0, 0], "clients": 2,
            "targets": 0 if values is None else values.shape[1], "rows": len(x),
            "labels": None if y is None else self.store(y.astype(np.int32)),
            "values": None if values is None else self.store(values.astype(np.float32)),
            "samples": {"kind": "floats", "array": self.store(x.astype(np.float32))},
        }
