"""Plays a Flower app in flwr's own simulation runtime, with what never repeats there pinned.

    flwr_pinned.py APP NODES RUN_CONFIG_AS_JSON SEED

Node ids are those of fedpace, clients run in this process one after another with generators that are
seeded as fedpace seeds them, and replies come in the order of their messages. Everything else
is flwr's: the Grid, the link state, the strategies. It prints the digest of the result's arrays.
"""

import hashlib
import importlib.machinery
import json
import os
import random
import sys
import tempfile
import time
import unittest.mock

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fedpace import flower_app, flower_server, flower_wire  # noqa: E402

try:
    import ray  # noqa: F401
except ImportError:
    # flwr imports ray, whose place is taken below; any object will do where it is not installed.
    for name in ("ray", "ray.exceptions", "ray.util", "ray.util.actor_pool"):
        sys.modules[name] = unittest.mock.MagicMock()
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.02))

import flwr.server.server as older  # noqa: E402
import numpy as np  # noqa: E402
from flwr.server.superlink.fleet.vce.backend import Backend, raybackend  # noqa: E402
from flwr.server.superlink.linkstate import in_memory_linkstate  # noqa: E402
from flwr.app import Context  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import Strategy  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402


class InProcess(Backend):
    """Runs clients one after another in this process, in place of ray."""

    config = {}
    seed = 1
    served = {}

    def __init__(self, backend_config):
        """Takes no settings."""

    def build(self, app_fn):
        """Loads the ClientApp."""
        self._app = app_fn()

    @property
    def num_workers(self):
        """One client at a time."""
        return 1

    def is_worker_idle(self):
        """It is always idle when it is asked."""
        return True

    def terminate(self):
        """Has nothing to end."""

    def process_message(self, message, context):
        """Runs the ClientApp with the node's own generators, and puts the server's back."""
        partition = context.node_config["partition-id"]
        self.served[partition] = self.served.get(partition, 0) + 1
        inner = Context(context.run_id, context.node_id, context.node_config, context.state, dict(self.config))
        # Ray hands copies to its actors; mods change the records of their message.
        content = flower_wire.encode(message.content)
        message.content = flower_wire.decode(content.text, content.arrays)
        torch = sys.modules.get("torch")
        kept = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
        flower_app.seed_generators(self.seed, partition, self.served[partition])
        try:
            reply = self._app(message, inner)
            context.state = inner.state
            return reply, context
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
            if torch:
                torch.set_rng_state(kept[2])


def pin_nodes():
    """Gives nodes the ids that fedpace gives them, and lists them in that order."""
    create = in_memory_linkstate.InMemoryLinkState.create_node
    made = [0]

    def create_node(self, *args, **kwargs):
        module = sys.modules[create.__module__]
        names = [n for n in dir(module) if n.startswith("generate_rand_int")]
        before = {name: getattr(module, name) for name in names}
        number = flower_app.FIRST_NODE + made[0]
        made[0] += 1
        for name in names:
            setattr(module, name, lambda *a, **k: number)
        try:
            return create(self, *args, **kwargs)
        finally:
            for name, function in before.items():
                setattr(module, name, function)

    in_memory_linkstate.InMemoryLinkState.create_node = create_node


def pin_order(grid, nodes):
    """Lets replies come in the order of their nodes' messages, and nodes in ascending order."""
    send = grid.send_and_receive
    ids = grid.get_node_ids
    pull = grid.pull_messages

    def ordered(messages, *, timeout=None):
        messages = list(messages)
        place = {m.metadata.dst_node_id: i for i, m in enumerate(messages)}
        return sorted(send(messages, timeout=timeout), key=lambda m: place[m.metadata.src_node_id])

    def all_nodes():
        while len(list(ids())) < nodes:
            _sleep(0.02)
        return sorted(ids())

    grid.send_and_receive = ordered
    grid.get_node_ids = all_nodes
    grid.pull_messages = lambda names: sorted(pull(names), key=lambda m: m.metadata.src_node_id)


def one_by_one(serve):
    """Returns a replacement of fit_clients or evaluate_clients, whose pool of threads returns a set."""

    def clients(client_instructions, max_workers, timeout, group_id):
        results = [serve(proxy, ins, timeout, group_id) for proxy, ins in client_instructions]
        return results, []

    return clients


def main():
    """Plays the app and prints the digest of its result."""
    folder, nodes, overrides, seed = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
    app = flower_app.App(folder, {key: str(value) for key, value in overrides.items()})
    InProcess.config = app.config
    InProcess.seed = seed
    raybackend.RayBackend = InProcess
    pin_nodes()
    flower_app.seed_generators(seed, "server")
    server_app = app.load("serverapp")
    client_app = app.load("clientapp")
    box = {}
    start = Strategy.start

    def started(self, *args, **kwargs):
        box["result"] = start(self, *args, **kwargs)
        return box["result"]

    Strategy.start = started
    fit = older.Server.fit

    def fitted(self, *args, **kwargs):
        result = fit(self, *args, **kwargs)
        box["parameters"] = self.parameters
        return result

    older.Server.fit = fitted
    older.fit_clients = one_by_one(older.fit_client)
    older.evaluate_clients = one_by_one(older.evaluate_client)
    pinned = ServerApp()

    @pinned.main()
    def run(grid, context):
        context.run_config.update(app.config)
        pin_order(grid, nodes)
        flower_app.seed_generators(seed, "server")
        server_app(grid=grid, context=context)

    with tempfile.TemporaryDirectory() as scratch, flower_app.folder_of(scratch):
        run_simulation(pinned, client_app, nodes)
        if box:
            print(flower_server.save_result(box, scratch))
        else:
            with open(os.path.join(scratch, "digest.txt")) as file:
                print(file.read().strip())


if __name__ == "__main__":
    main()
