"""A client's process of a Flower app: it runs the ClientApp unchanged for one node after another.

fedpace starts as many of them as there are workers, as `python -m fedpace.flower_client`. A request
has a message, the node that it is for, the number of the message at that node and the node's state;
the reply has the content of the node's reply, its new state and the number of local steps that it
took. The process keeps nothing of a node: any process can serve any node.
"""

import ast
import gc
import math
import os
import sys
import time
import traceback

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

from fedpace import flower_wire as wire  # noqa: E402

# FORWARD is what a forward pass costs of a local step, which also goes backward.
FORWARD = 1 / 3

# MEASURED is of how many messages that train one has its processor time measured.
MEASURED = 8

# BATCH is the size of a minibatch where no key names it.
BATCH = 32


class TorchSteps:
    """Counts the steps of all of PyTorch's optimizers, which makes the number exact for any app with torch."""

    def __init__(self):
        """Counts nothing until torch is imported."""
        self.count = 0
        self._hooked = False

    def begin(self):
        """Begins a message: the count is 0."""
        self.count = 0
        self._hook()

    def _hook(self):
        """Hooks into the optimizers, once, if torch is imported."""
        if self._hooked or "torch" not in sys.modules:
            return
        self._hooked = True
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:
            return  # a torch before 2.0
        register_optimizer_step_post_hook(self._tick)

    def _tick(self, *_):
        """Counts one step of an optimizer."""
        self.count += 1


class Expression:
    """A formula for the number of steps, over keys of the configuration and numbers of the reply.

    It is written in Python's arithmetic with ceil, floor, round, min and max. A key such as
    local-epochs is called local_epochs there.
    """

    FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "round": round, "min": min, "max": max}
    ALLOWED = (
        ast.Expression, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Name, ast.Load, ast.Constant,
        ast.operator, ast.unaryop, ast.cmpop,
    )  # fmt: skip

    def __init__(self, text):
        """Reads a formula. Raises ValueError for anything beyond arithmetic."""
        self.text = text
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            raise ValueError(f"{text!r} is no formula: {error.msg}") from error
        for node in ast.walk(tree):
            if not isinstance(node, self.ALLOWED):
                raise ValueError(f"{text!r} holds {type(node).__name__}, and a formula has arithmetic alone")
            if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in self.FUNCTIONS):
                raise ValueError(f"{text!r} calls what is not one of {', '.join(self.FUNCTIONS)}")
        self._code = compile(tree, "flower.steps", "eval")

    def steps(self, values):
        """Returns the number of steps, rounded up. Raises ValueError for a key that is not there."""
        names = {key.replace("-", "_").replace(".", "_"): value for key, value in values.items()}
        try:
            result = eval(self._code, {"__builtins__": {}}, {**names, **self.FUNCTIONS})
        except NameError as error:
            known = ", ".join(sorted(names))
            raise ValueError(f"{self.text!r}: {error} (there are {known})") from error
        return max(0, math.ceil(result))


def usual_steps(values):
    """Returns the local steps that the usual keys say, or None where they say nothing.

    A number of steps comes first, then epochs times the minibatches of the examples.
    """
    steps = _first(values, "local-steps", "local_steps", "num-steps", "num_steps")
    if steps is not None:
        return int(steps)
    examples = _first(values, "num-examples", "num_examples")
    if examples is None:
        return None
    epochs = _first(values, "local-epochs", "local_epochs", "num-epochs", "num_epochs", "epochs")
    return int(math.ceil((1 if epochs is None else epochs) * _minibatches(values, examples)))


def passes(steps, batch, samples):
    """Returns how many passes over a client's samples some local steps are, rounded to at least one.

    A pass is ceil(samples / batch) steps, the last of which may have fewer samples.
    """
    return max(1, round(steps / math.ceil(samples / batch)))


def forward_steps(values):
    """Returns what the forward passes of an evaluation cost, in local steps, rounded up."""
    examples = _first(values, "num-examples", "num_examples")
    if examples is None:
        return 0
    return math.ceil(_minibatches(values, examples) * FORWARD)


def _minibatches(values, examples):
    """Returns the number of minibatches of one pass over some examples."""
    batch = _first(values, "batch-size", "batch_size", "local-batch-size", "batch")
    return math.ceil(examples / (batch or BATCH))


def _first(values, *keys):
    """Returns the value of the first of some keys that is there, or None."""
    return next((values[key] for key in keys if key in values), None)


class Costs:
    """How many local steps a message took its node."""

    def __init__(self, hello):
        """Reads the formulas of fedpace's greeting; an empty text is the usual rule."""
        self._train = Expression(hello["steps"]) if hello["steps"] else None
        self._evaluate = Expression(hello["evaluate_steps"]) if hello["evaluate_steps"] else None

    def of(self, kind, counted, values):
        """Returns the number of steps and how it is known: "torch", "formula", "keys" or "unknown".

        kind is the type of the message, counted what the optimizers counted, and values the numbers of
        the message's configuration, of the run config and of the reply.
        """
        category = kind.partition(".")[0]
        formula = self._evaluate if category == "evaluate" else self._train
        if formula is not None and category in ("train", "evaluate"):
            return formula.steps(values), "formula"
        if counted > 0:
            return counted, "torch"
        if category == "evaluate":
            return forward_steps(values), "keys"
        if category != "train":
            return 0, "keys"
        steps = usual_steps(values)
        return (1, "unknown") if steps is None else (steps, "keys")


class Arrays:
    """The data of arrays that came with earlier requests, by digest: a broadcast comes once to a process."""

    def __init__(self):
        """Holds nothing."""
        self._data = {}

    def take(self, request, blobs):
        """Takes over the arrays of a request and drops those that fedpace names. Returns the other blobs."""
        for name in request.get("drop") or ():
            self._data.pop(name, None)
        names = request.get("names") or ()
        self._data.update(zip(names, blobs))
        return blobs[len(names) :]

    def list(self, names):
        """Returns the data of arrays in the order of their digests."""
        return [self._data[name] for name in names]


class Node:
    """Serves messages with the ClientApp."""

    def __init__(self, hello):
        """Loads the app that fedpace's greeting describes."""
        from fedpace import flower_app, flower_arrays

        self.library = flower_app
        self.hello = hello
        self.version = flower_app.check_version(hello["any_version"])
        self.app = flower_app.App(hello["app"], hello["run"])
        flower_app.set_identity()
        flower_arrays.quicken()
        flower_app.govern_default_rng(hello["seed"], "import")
        flower_app.seed_generators(hello["seed"], "import")
        self.client_app = self.app.load("clientapp")
        self.costs = Costs(hello)
        self.steps = TorchSteps()
        self.arrays = Arrays()
        self.trained = 0

    def serve(self, request, blobs):
        """Runs the ClientApp for one message. Returns the header and the blobs of the reply."""
        blobs = self.arrays.take(request, blobs)
        arrays = self.arrays.list(request["arrays"])
        before = [module in sys.modules for module in ("numpy", "torch")]
        header, parts = self._run(request, blobs, arrays)
        if before != [module in sys.modules for module in ("numpy", "torch")]:
            # The message imported a library before whose generators could be seeded: it is run again.
            header, parts = self._run(request, blobs, arrays)
        return header, parts

    def _run(self, request, blobs, arrays):
        """Runs the ClientApp once. blobs are the text of the content, and the state's text and arrays."""
        from flwr.app import Context, Message, RecordDict

        text, *state_blobs = blobs
        state = wire.decode(state_blobs[0], state_blobs[1:]) if state_blobs else RecordDict()
        message = Message(
            wire.decode(text, arrays),
            dst_node_id=request["node"],
            message_type=request["type"],
            ttl=request["ttl"],
            group_id=request["group"],
        )
        message.metadata.__dict__["_message_id"] = request["id"]
        node_config = {"partition-id": request["partition"], "num-partitions": self.hello["nodes"]}
        context = Context(self.library.RUN_ID, request["node"], node_config, state, dict(self.app.config))
        key = (self.hello["seed"], request["partition"], request["ordinal"])
        self.library.seed_generators(*key)
        self.library.govern_default_rng(*key)
        self.steps.begin()
        # Asking for processor time is a call of the system, which may take longer than a small message.
        trains = request["type"].startswith("train")
        measured = trains and (self.hello.get("measure_all") or self.trained % MEASURED == 0)
        self.trained += trains
        began = time.process_time() if measured else 0.0
        try:
            reply = self.client_app(message, context)
        except Exception as error:  # noqa: BLE001  (flwr tells the server and goes on)
            traceback.print_exc()
            sys.stderr.flush()
            return {"raised": f"{type(error)}:<'{error}'>", "seconds": 0.0}, []
        seconds = time.process_time() - began if measured else 0.0
        if reply.has_error():
            return {"raised": reply.error.reason, "code": reply.error.code, "seconds": seconds}, []
        metrics = wire.numbers(reply.content)
        sent = wire.numbers(message.content, ("metrics", "config"))
        values = {**_numbers(self.app.config), **sent, **metrics}
        steps, known = self.costs.of(request["type"], self.steps.count, values)
        if known == "unknown" and _exchanges_keys(message.content):
            steps, known = 0, "keys"
        content = wire.encode(reply.content)
        header = {
            "replied": True,
            "size": content.size,
            "arrays": len(content.arrays),
            "steps": steps,
            "known": known,
            "metrics": {key: float(value) for key, value in wire.finite(metrics).items()},
            "seconds": seconds,
        }
        parts = content.blobs()
        state_after = wire.encode(context.state).blobs() if len(context.state) else []
        if state_after == state_blobs:
            header["state"] = "same"
        else:
            header["state"] = "new"
            parts += state_after
        return header, parts


def _exchanges_keys(content):
    """Says whether a message belongs to a stage of SecAgg+ in which clients do not train."""
    record = content.config_records.get("secaggplus_configs")
    return record is not None and not str(record.get("stage", "")).startswith("collect")


def _numbers(config):
    """Returns the numbers among the values of a run config."""
    return {key: value for key, value in config.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def play(pipe, hello):
    """Serves requests until fedpace closes the pipe."""
    pipe.share(hello["arena"])
    node = Node(hello)
    # What is loaded now stays, and need not be looked at for garbage.
    gc.collect()
    gc.freeze()
    from fedpace import flower_app

    ready = {
        "protocol": wire.PROTOCOL,
        "flwr": node.version,
        "app": node.app.name,
        "libraries": flower_app.libraries(),
    }
    pipe.write({"ready": ready})
    with flower_app.folder_of(hello["folder"]):
        while True:
            request, blobs = pipe.read()
            if request is None:
                return
            pipe.write(*node.serve(request, blobs), request.get("room"), not request.get("ahead"))


def main():
    """Greets fedpace, serves, and tells what went wrong."""
    pipe = wire.Pipe()
    hello, _ = pipe.read()
    if hello is None:
        return
    try:
        play(pipe, hello["hello"])
    except Exception as error:  # noqa: BLE001  (whatever ends the process is told)
        refused = type(error).__name__ == "Refused"
        traceback.print_exc()
        sys.stderr.flush()
        pipe.write({"failed": str(error) if refused else f"{type(error).__name__}: {error}", "refused": refused})
        sys.exit(1)


if __name__ == "__main__":
    main()
