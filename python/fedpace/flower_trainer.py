"""A Flower app's clients under fedpace's coordinator: its ClientApp takes the local steps of a run.

    fedpace run --trainer 'flower:my-app nodes=20 local-steps=k lr=eta' --set data=trainer ...

fedpace starts it as `python3 -m fedpace.flower_trainer PATH WORD...`. The run's schedule of K and the
learning rate reach the ClientApp under the keys that the words name: `KEY=k` is K, `KEY=eta` the
rate, and `KEY=epochs` how many passes over a client's samples K local steps are, rounded to at
least one. A key stands in the message's ConfigRecord `config`, and in the run config as well if
that has it. All other words are values of the run config, but for nodes=N, the number of clients,
and state=BYTES, which a client's Context.state may take.

The start model is what the ServerApp gives its strategy, which then is not played. Clients evaluate
in the place of held-out samples. The loss of a round is that which clients tell of their
training, or NaN where they tell none; fedpace's own is that of the first step.
"""

import hashlib
import json
import os
import sys

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np

from fedpace import flower_app, flower_arrays, flower_client, flower_wire
from fedpace.trainer import Data, Metric, Tensor, Trainer, run

# RESERVED are the words that are no keys of the app.
RESERVED = ("nodes", "state", "seed", "any_version")


class Started(BaseException):
    """Ends a ServerApp once it has given its strategy the start model."""

    def __init__(self, arrays):
        """Arrays is the ArrayRecord of the start model."""
        super().__init__("the start model is known")
        self.arrays = arrays


class Clients(Data):
    """The samples of the app's clients, which only their numbers are known of.

    Behind them lies one row for each client, by which the client evaluates.
    """

    def __init__(self, examples, digest):
        """Examples are the clients' numbers of samples."""
        self._examples = examples
        self.names = [f"partition {i}" for i in range(len(examples))]
        self.held = len(examples)
        self.digest = digest
        self.first = sum(examples)

    def samples(self, client):
        """Returns the number of a client's samples."""
        return self._examples[client]

    def batch(self, rows):
        """Returns row numbers alone: the app has the samples."""
        return rows, rows


class FlowerTrainer(Trainer):
    """A trainer whose local steps are an app's messages."""

    optimizers = ()
    steps = {"optimizer": "a Flower app's own", "momentum": 0.0, "plain": False}

    def __init__(self, folder, words):
        """Reads the words of the command."""
        self.maps = {key: word for key, word in words.items() if word in ("k", "eta", "epochs")}
        own = {key: word for key, word in words.items() if key in RESERVED}
        values = {key: word for key, word in words.items() if key not in self.maps and key not in own}
        self.seed = int(own.get("seed", 1))
        self.nodes = int(own.get("nodes", 10))
        self.state = int(own.get("state", 0))
        flower_app.check_version("any_version" in own)
        self.app = flower_app.App(folder, values)
        self.name = f"flower:{self.app.name}"
        flower_app.set_identity()
        flower_arrays.quicken()
        flower_app.seed_generators(self.seed, "server")
        start = self._start_model()
        flower_app.seed_generators(self.seed, "import")
        self.client_app = self.app.load("clientapp")
        self.keys = list(start)
        self.start = {key: array.numpy() for key, array in start.items()}
        self.stypes = {key: array.stype for key, array in start.items()}
        floats = {key for key, array in self.start.items() if array.dtype.kind == "f"}
        self.keys = [key for key in self.keys if key in floats]
        self.tensors = [Tensor(key, self.start[key].shape or (1,)) for key in self.keys]
        self._learn_of_clients()
        self.files = flower_app.code(self.app.folder)
        # The folder may lie elsewhere on another machine, where the app is the same.
        self.arguments = [f"{key}={word}" for key, word in sorted(words.items())]

    def _start_model(self):
        """Runs the ServerApp until its strategy gets the start model, and returns the arrays."""
        import flwr.server.server as older
        from flwr.app import ArrayRecord, Context, RecordDict
        from flwr.common import parameters_to_ndarrays
        from flwr.serverapp.strategy import Strategy

        def started(strategy, grid, initial_arrays, *args, **kwargs):
            raise Started(initial_arrays)

        def fitted(server, *args, **kwargs):
            parameters = server.strategy.initialize_parameters(server.client_manager())
            raise Started(ArrayRecord(parameters_to_ndarrays(parameters)))

        Strategy.start = started
        older.Server.fit = fitted
        context = Context(flower_app.RUN_ID, 0, {}, RecordDict(), dict(self.app.config))
        try:
            self.app.load("serverapp")(grid=_NoGrid(), context=context)
        except Started as found:
            return found.arrays
        raise flower_app.Refused(f"{self.app.folder}: its ServerApp starts no strategy, so the start model is not known")

    def _learn_of_clients(self):
        """Lets every client evaluate the start model once: its samples and its metrics are known then."""
        model = self.initialise(self.seed)
        examples = []
        names = []
        for partition in range(self.nodes):
            values = self._evaluate(model, partition)
            examples.append(max(1, int(values.pop("num-examples", values.pop("num_examples", 1)))))
            names = names or [key for key in values if "loss" not in key]
        self.metric_keys = names
        rename = lambda key: "".join(c if c.isalnum() else "_" for c in key)
        lower = ("error", "mse", "mae")
        self.metrics = [Metric(rename(k), "lower" if any(word in k for word in lower) else "higher") for k in names]
        digest = hashlib.sha256(json.dumps([self.app.name, self.app.config, examples]).encode()).hexdigest()
        self.data = Clients(examples, digest)

    def initialise(self, seed):
        """Returns the start model as one vector."""
        return np.concatenate([np.asarray(self.start[key], np.float32).ravel() for key in self.keys])

    def _arrays(self, model):
        """Returns a model as the app's ArrayRecord, with its own types and names."""
        from flwr.app import Array, ArrayRecord

        arrays = {}
        place = 0
        for key, start in self.start.items():
            array = start
            if key in self.keys:
                array = model[place : place + start.size].reshape(start.shape).astype(start.dtype)
                place += start.size
            arrays[key] = Array(array)
        return ArrayRecord(arrays)

    def _message(self, kind, partition, model, config, state, key):
        """Lets a client serve one message. Returns the content of its reply and the state that it keeps."""
        from flwr.app import ConfigRecord, Context, Message, RecordDict

        run_config = {**self.app.config, **{k: v for k, v in config.items() if k in self.app.config}}
        content = RecordDict({"arrays": self._arrays(model), "config": ConfigRecord({"server-round": 1, **config})})
        node = flower_app.FIRST_NODE + partition
        message = Message(content, dst_node_id=node, message_type=kind)
        node_config = {"partition-id": partition, "num-partitions": self.nodes}
        context = Context(flower_app.RUN_ID, node, node_config, state, run_config)
        flower_app.seed_generators(*key)
        flower_app.govern_default_rng(*key)
        reply = self.client_app(message, context)
        if reply.has_error():
            raise RuntimeError(f"client {partition}: {reply.error.reason}")
        return reply.content, context.state

    def _evaluate(self, model, partition):
        """Returns the numbers that a client's evaluation of a model tells."""
        from flwr.app import RecordDict

        key = (self.seed, partition, "evaluate")
        content, _ = self._message("evaluate", partition, model, {}, RecordDict(), key)
        return flower_wire.numbers(content)

    def train(self, job, alive):
        """Lets each client train, and yields its model, its loss and its state."""
        from flwr.app import RecordDict

        for task in job.tasks:
            config = self._config(task)
            state = RecordDict()
            if task.state:
                header, *arrays = _unpack(task.state)
                state = flower_wire.decode(header, arrays)
            content, kept = self._message("train", task.client, job.base, config, state, (task.seed, task.client))
            record = next(iter(content.array_records.values()))
            parts = [record[key].numpy() for key in self.keys]
            model = np.concatenate([np.asarray(part, np.float32).ravel() for part in parts])
            losses = [value for key, value in flower_wire.numbers(content).items() if "loss" in key]
            alive()
            yield model, float(losses[0]) if losses else float("nan"), self._pack(kept)

    def _config(self, task):
        """Returns what the message's configuration tells of K and the learning rate."""
        steps = len(task.steps)
        batch = max(len(rows) for rows in task.steps)
        epochs = flower_client.passes(steps, batch, self.data.samples(task.client))
        values = {"k": steps, "eta": float(task.rate), "epochs": epochs}
        return {key: values[word] for key, word in self.maps.items()}

    def _pack(self, state):
        """Returns a client's state as bytes, empty if it keeps nothing."""
        if not len(state):
            return b""
        blobs = flower_wire.encode(state).blobs()
        packed = b"".join([len(blobs).to_bytes(4, "little"), *(len(b).to_bytes(8, "little") + bytes(b) for b in blobs)])
        if len(packed) > self.state:
            raise flower_app.Refused(f"the app keeps {len(packed)} bytes of a client: add state={2 * len(packed)} to the command")
        return packed

    def evaluate(self, model, rows, alive):
        """Returns the sums over clients of their losses and metrics, each weighted by its samples."""
        total = np.zeros((1 + len(self.metrics), 2))
        for row in rows:
            partition = int(row) - self.data.first
            if partition < 0:
                partition = 0
            values = self._evaluate(model, partition)
            weight = values.get("num-examples", values.get("num_examples", 1))
            losses = [value for key, value in values.items() if "loss" in key or key == "mse"]
            found = [losses[0] if losses else 0.0, *(values.get(key, 0.0) for key in self.metric_keys)]
            total += np.array([[value * weight, weight] for value in found])
            alive()
        scores = [(float(s), float(w)) for s, w in total]
        return scores[0], scores[1:]


class _NoGrid:
    """Stands where a ServerApp gets its Grid: only the start model is wanted of it."""

    run = None

    def get_node_ids(self):
        """Returns no node."""
        return []


def _unpack(packed):
    """Returns the blobs of a state that was packed."""
    count = int.from_bytes(packed[:4], "little")
    place = 4
    blobs = []
    for _ in range(count):
        size = int.from_bytes(packed[place : place + 8], "little")
        blobs.append(packed[place + 8 : place + 8 + size])
        place += 8 + size
    return blobs


def main():
    """Serves fedpace with the app that the command names."""
    folder, *words = sys.argv[1:]
    pairs = dict(word.partition("=")[::2] for word in words)
    run(FlowerTrainer(folder, pairs))


if __name__ == "__main__":
    main()
