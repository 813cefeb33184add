"""The server's process of a Flower app: it runs the ServerApp unchanged, on a Grid whose time is fedpace's.

fedpace starts it as `python -m fedpace.flower_server`, greets it with the app's folder and the
run's configuration, and answers its requests (docs/flower.md has the protocol). The process
asks which nodes are there, pushes messages, waits for replies and says what the strategy's
rounds came to. It knows no device and no duration.
"""

import gc
import itertools
import mmap
import os
import sys
import traceback

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

from fedpace import flower_wire as wire  # noqa: E402
from fedpace.flower_clock import CLOCK, EPOCH  # noqa: E402  (before flwr is imported)


# COLLECTED is the number of bytes of replies after which garbage is collected.
COLLECTED = 16 << 20


class Link:
    """The connection to fedpace. All of its methods are for the ServerApp's thread, or hold its lock."""

    def __init__(self, pipe):
        """Talks over a pipe. Notes are sent with the next request."""
        import threading

        self.pipe = pipe
        self.lock = threading.RLock()
        self.notes = []
        # The numbers of messages whose replies are read in the arena no longer.
        self.freed = []

    def note(self, name, **fields):
        """Tells fedpace something at the present virtual time, with the next request."""
        self.notes.append({"note": name, "now": CLOCK.now, **fields})

    def send(self, request, blobs=()):
        """Sends a request with the notes so far."""
        request["now"] = CLOCK.now
        if self.notes:
            request["notes"] = self.notes
            self.notes = []
        # Others may add a number at any time.
        request["freed"] = self.freed[:]
        del self.freed[: len(request["freed"])]
        self.pipe.write(request, blobs)

    def receive(self):
        """Waits for an answer and takes over the virtual time that it tells."""
        with CLOCK.real_time():
            answer, blobs = self.pipe.read()
        if answer is None:
            os._exit(3)  # fedpace is gone, and so is whoever waits for this app
        CLOCK.now = max(CLOCK.now, answer.get("now", 0))
        return answer, blobs

    def ask(self, request, blobs=()):
        """Sends a request and returns the header of its answer."""
        with self.lock:
            self.send(request, blobs)
            return self.receive()[0]


def make_grid(link, run):
    """Returns the Grid of a run, whose nodes are fedpace's clients."""
    from flwr.app import Error, Message, RecordDict
    from flwr.serverapp import Grid

    from fedpace import flower_arrays

    class VirtualGrid(Grid):
        """A Grid on fedpace's clock: what a ServerApp sees of the clients."""

        def __init__(self):
            """Begins without any message."""
            self._requests = {}
            self._received = 0

        def set_run(self, run):
            """Does nothing: there is one run."""

        @property
        def run(self):
            """Returns flwr's description of the run."""
            return run

        def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
            """Returns a message to a node, as flwr's own Grids do."""
            return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

        def get_node_ids(self):
            """Returns the ids of the nodes that are available now, in ascending order."""
            return link.ask({"ask": "nodes"})["nodes"]

        def push_messages(self, messages):
            """Sends messages and returns their ids. A message to a node that does not exist gets none."""
            request, blobs, sent = pack(list(messages))
            with link.lock:
                numbers = link.ask(request, blobs)["ids"]
                names = []
                for message, number in zip(sent, numbers):
                    if number == 0:
                        continue
                    name = message_id(number)
                    message.metadata.__dict__["_message_id"] = name
                    # A reply needs the metadata alone: the content may be large, and the reply never come.
                    self._requests[name] = Message(RecordDict(), metadata=message.metadata)
                    names.append(name)
            return names

        def pull_messages(self, message_ids):
            """Returns the replies to messages that have arrived by now."""
            return self._receive(message_ids, CLOCK.now)

        def send_and_receive(self, messages, *, timeout=None):
            """Sends messages and returns the replies, when all are there or a timeout in seconds is over."""
            return self._receive(self.push_messages(messages), CLOCK.until(timeout))

        def first(self, message_ids):
            """Waits for the next reply to any of some messages, and returns all that have arrived by then."""
            return self._receive(message_ids, None, first=True)

        def _receive(self, names, until, first=False):
            """Waits for the replies to messages: all of them, or the first.

            The wait ends at a virtual time, until, unless that is None.
            """
            numbers = sorted({int(name[1:]) for name in names if name in self._requests})
            replies = []
            self._collect()
            with link.lock:
                link.send({"ask": "receive", "ids": numbers, "until": until, "first": first})
                while True:
                    answer, blobs = link.receive()
                    parts = iter(blobs)
                    for told in answer["replies"]:
                        if "sizes" in told:
                            views = link.pipe.placed(told.get("offset", 0), told["sizes"])
                            replies.append(self._reply(told, flower_arrays.lend(views, told["reply"], link.freed)))
                        else:
                            replies.append(self._reply(told, list(itertools.islice(parts, told["parts"]))))
                    if not answer["more"]:
                        return replies
                    link.pipe.write({"ask": "more"})

        def _reply(self, told, parts):
            """Makes the reply that fedpace has delivered, of the parts of its content; an error has none."""
            request = self._requests.pop(message_id(told["reply"]))
            if not parts:
                return Message(Error(told["error"], told["reason"]), reply_to=request)
            text, *arrays = parts
            self._received += len(text) + sum(len(data) for data in arrays)
            return Message(wire.decode(text, arrays, flower_arrays.make), reply_to=request)

        def _collect(self):
            """Collects garbage if there may be much of it: flwr's records hold each other, and so their arrays."""
            if self._received > COLLECTED:
                self._received = 0
                gc.collect()

    return VirtualGrid()


def message_id(number):
    """Returns the id of a message as the app sees it. The order of ids is that of their numbers."""
    return f"m{number:08d}"


def pack(messages):
    """Returns the request that pushes messages, its blobs, and the messages in their order.

    Contents that are one object, and arrays with the same data, are sent once.
    """
    contents = []
    blobs = []
    place_of_content = {}
    place_of_array = {}
    digest_of = {}
    list_of_messages = []
    for message in messages:
        place = place_of_content.get(id(message.content))
        if place is None:
            content = wire.encode(message.content)
            digests = []
            for data in content.arrays:
                name = digest_of.get(id(data))
                if name is None:
                    name = digest_of[id(data)] = wire.digest(data)
                if name not in place_of_array:
                    place_of_array[name] = len(blobs)
                    blobs.append(data)
                digests.append(name)
            place = place_of_content[id(message.content)] = len(contents)
            config = wire.finite(wire.numbers(message.content, ("config",)))
            contents.append(
                {"text": content.text.decode(), "arrays": digests, "size": content.size, "config": config}
            )
        metadata = message.metadata
        list_of_messages.append(
            {
                "node": metadata.dst_node_id,
                "type": metadata.message_type,
                "ttl": metadata.ttl,
                "group": metadata.group_id,
                "content": place,
            }
        )
    request = {"ask": "push", "messages": list_of_messages, "contents": contents, "names": list(place_of_array)}
    return request, blobs, messages


def watch_strategy(link, strategy, names):
    """Lets an object's methods say what the rounds come to. names gives the methods of its API."""

    def wrap(name, before, after):
        method = getattr(strategy, name, None)
        if method is None:
            return

        def wrapped(*args, **kwargs):
            number = kwargs.get("server_round", args[0] if args else 0)
            before(number, args, kwargs)
            result = method(*args, **kwargs)
            after(number, result)
            return result

        setattr(strategy, name, wrapped)

    def nothing(*_):
        pass

    def begins(number, *_):
        link.note("round", round=int(number))

    def tells(kind):
        def tell(number, result):
            values = scores(result)
            link.note("scores", kind=kind, round=int(number), values=values)

        return tell

    wrap(names["configure"], begins, nothing)
    wrap(names["train"], nothing, tells("train"))
    wrap(names["evaluate"], nothing, tells("evaluate"))
    if "central" in names:
        wrap(names["central"], nothing, tells("central"))


MESSAGE_API = {"configure": "configure_train", "train": "aggregate_train", "evaluate": "aggregate_evaluate"}
OLDER_API = {
    "configure": "configure_fit",
    "train": "aggregate_fit",
    "evaluate": "aggregate_evaluate",
    "central": "evaluate",
}


def scores(result):
    """Returns the numbers that a strategy's method has returned: metrics, or a loss with metrics."""
    found = {}
    parts = result if isinstance(result, tuple) else (result,)
    for part in parts:
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            found["loss"] = part
        elif part is not None and hasattr(part, "items"):
            for key, value in part.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    found[key] = value
    return {key: float(value) for key, value in wire.finite(found).items()}


def patch_strategies(link, box):
    """Lets every strategy of flwr's Message API and of its older API say what its rounds come to.

    box takes the Result of the last Strategy.start under "result".
    """
    import flwr.server.server as older
    from flwr.server.workflow import DefaultWorkflow
    from flwr.serverapp.strategy import Strategy

    start = Strategy.start

    def started(self, *args, **kwargs):
        watch_strategy(link, self, MESSAGE_API)
        evaluate = kwargs.get("evaluate_fn")
        if evaluate is not None:

            def evaluated(number, arrays):
                result = evaluate(number, arrays)
                link.note("scores", kind="central", round=int(number), values=scores(result))
                return result

            kwargs["evaluate_fn"] = evaluated
        box["result"] = start(self, *args, **kwargs)
        return box["result"]

    Strategy.start = started
    fit = older.Server.fit

    def fitted(self, *args, **kwargs):
        watch_strategy(link, self.strategy, OLDER_API)
        result = fit(self, *args, **kwargs)
        box["parameters"] = self.parameters
        return result

    older.Server.fit = fitted
    workflow = DefaultWorkflow.__call__

    def called(self, grid, context):
        watch_strategy(link, context.strategy, OLDER_API)
        workflow(self, grid, context)
        box["records"] = context.state.array_records

    DefaultWorkflow.__call__ = called


def patch_older_api(grid, at_once):
    """Lets the older API go by the virtual clock: no thread polls for nodes, and messages go out without a pool.

    at_once is the number of messages that are under way at once, as in flwr's pool; 0 sends all.
    """
    import threading

    import flwr.server.compat.app as app
    import flwr.server.compat.app_utils as utils
    import flwr.server.server as older
    import flwr.server.workflow.default_workflows as workflows
    from flwr.server.client_manager import SimpleClientManager

    def start_updates(grid, manager):
        stop = threading.Event()
        done = threading.Event()
        stop.set()  # so that the update returns at once; the manager's own methods update the nodes
        utils._update_client_manager(grid, manager, stop, done)
        thread = threading.Thread(target=lambda: None)
        thread.start()
        return thread, stop, done

    app.start_update_client_manager_thread = start_updates
    workflows.start_update_client_manager_thread = start_updates

    def wait_for(self, num_clients, timeout=86400):
        end = CLOCK.until(timeout)
        while self.num_available() < num_clients:
            if CLOCK.now >= end:
                return False
            CLOCK.advance(1)
        return True

    SimpleClientManager.wait_for = wait_for
    older.fit_clients = _older_clients(grid, "fit", at_once)
    older.evaluate_clients = _older_clients(grid, "evaluate", at_once)


def _older_clients(grid, method, at_once):
    """Returns the replacement of flwr.server.server.fit_clients or evaluate_clients."""
    from flwr.app import Message, MessageType
    from flwr.common import Code
    from flwr.compat.common import recorddict_compat as compat

    fits = method == "fit"

    def message_of(proxy, instruction, timeout, group):
        if fits:
            content = compat.fitins_to_recorddict(instruction, keep_input=True)
        else:
            content = compat.evaluateins_to_recorddict(instruction, keep_input=True)
        kind = MessageType.TRAIN if fits else MessageType.EVALUATE
        return Message(content, dst_node_id=proxy.node_id, message_type=kind, group_id=str(group), ttl=timeout)

    def result_of(content):
        if fits:
            return compat.recorddict_to_fitres(content, keep_input=False)
        return compat.recorddict_to_evaluateres(content)

    def clients(client_instructions, max_workers, timeout, group_id):
        proxies = {proxy.node_id: proxy for proxy, _ in client_instructions}
        waiting = [message_of(proxy, ins, timeout, group_id) for proxy, ins in client_instructions]
        replies = []
        if at_once == 0:
            replies = grid.send_and_receive(waiting) if waiting else []
        else:
            replies = _pooled(grid, waiting, at_once)
        results = []
        failures = []
        for message in replies:
            if message.has_error():
                failures.append(ValueError(message.error.reason))
                continue
            result = result_of(message.content)
            pair = (proxies[message.metadata.src_node_id], result)
            if result.status.code == Code.OK:
                results.append(pair)
            else:
                failures.append(pair)
        return results, failures

    return clients


def _pooled(grid, waiting, at_once):
    """Sends messages with at most some of them under way, each next one when a reply has come."""
    replies = []
    under_way = set(grid.push_messages(waiting[:at_once]))
    waiting = waiting[at_once:]
    while under_way:
        received = grid.first(under_way)
        replies += received
        under_way -= {message.metadata.reply_to_message_id for message in received}
        under_way |= set(grid.push_messages(waiting[: len(received)]))
        waiting = waiting[len(received) :]
    return replies


def save_result(box, folder):
    """Writes the arrays that the run has ended with to result.npz in a folder. Returns their digest, or None.

    Without a strategy's result the arrays are not known, and nothing is written.
    """
    import hashlib

    import numpy as np
    from flwr.app import ArrayRecord
    from flwr.common import parameters_to_ndarrays

    named = {}
    if "result" in box:
        named = {key: array.numpy() for key, array in box["result"].arrays.items()}
    elif "records" in box:
        records = [record for record in box["records"].values() if isinstance(record, ArrayRecord)]
        named = {key: array.numpy() for key, array in records[0].items()} if records else {}
    elif box.get("parameters") is not None:
        named = {str(place): array for place, array in enumerate(parameters_to_ndarrays(box["parameters"]))}
    if not named:
        return None
    total = hashlib.sha256()
    for key, array in named.items():
        total.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    np.savez(os.path.join(folder, "result.npz"), **named)
    return total.hexdigest()


def play(pipe, hello):
    """Runs the ServerApp that fedpace's greeting describes, to its end."""
    from fedpace import flower_app, flower_arrays

    pipe.share(hello["arena"], access=mmap.ACCESS_READ)
    CLOCK.govern()
    with CLOCK.real_time():
        version = flower_app.check_version(hello["any_version"])
        app = flower_app.App(hello["app"], hello["run"])
        flower_app.set_identity()
        flower_arrays.quicken()
        import datetime

        import flwr.app.message.message as message_module
        from flwr.app import Context, RecordDict
        from flwr.supercore.run import Run

        message_module.now = lambda: datetime.datetime.fromtimestamp(EPOCH + CLOCK.now / 1e9, tz=datetime.UTC)
        link = Link(pipe)
        box = {}
        patch_strategies(link, box)
        grid = make_grid(link, Run.create_empty(run_id=flower_app.RUN_ID))
        patch_older_api(grid, hello["at_once"])
        flower_app.govern_default_rng(hello["seed"], "server")
        context = Context(flower_app.RUN_ID, 0, {}, RecordDict(), dict(app.config))
        # The generators are seeded before the app is imported, as it may draw then, and again after.
        flower_app.seed_generators(hello["seed"], "server")
        server_app = app.load("serverapp")
        flower_app.seed_generators(hello["seed"], "server")
        # What is loaded now stays, and need not be looked at for garbage.
        gc.collect()
        gc.freeze()
    ready = {
        "protocol": wire.PROTOCOL,
        "flwr": version,
        "app": app.name,
        "libraries": flower_app.libraries(),
        "config": describe(app.config),
    }
    pipe.write({"ready": ready})
    with flower_app.folder_of(hello["folder"]):
        server_app(grid=grid, context=context)
        with CLOCK.real_time():
            digest = save_result(box, hello["out"])
    empty = "result" in box and not box["result"].arrays
    link.ask({"ask": "finished", "digest": digest, "empty": empty})


def describe(config):
    """Returns the values of a run config as texts, by key."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def main():
    """Greets fedpace, plays the app, and tells what went wrong."""
    pipe = wire.Pipe()
    hello, _ = pipe.read()
    if hello is None:
        return
    try:
        play(pipe, hello["hello"])
    except BaseException as error:  # noqa: BLE001  (whatever ends the app is told)
        with CLOCK.real_time():
            told = str(error) if type(error).__name__ == "Refused" else f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
            sys.stderr.write(trace)
            sys.stderr.flush()
            pipe.write({"failed": told, "refused": type(error).__name__ == "Refused"})
        sys.exit(1)


if __name__ == "__main__":
    main()
