"""Both processes of an app that needs no flwr: it speaks the frames of fedpace.flower_wire by hand.

    plain.py server|client

The last argument may also be the module of package fedpace in whose place it is, as fedpace.flower_server.
The server plays rounds: each pushes messages to some nodes, waits for the replies until a timeout,
and asks one more node for something that it pulls two rounds later. It writes what it has seen to
seen.json in the run's folder. The client counts what its node has seen in the node's state.
"""

import json
import mmap
import os
import random
import sys
import time

from fedpace import flower_wire as wire


class Server:
    """The server's end of the frames, with its own virtual time."""

    def __init__(self, pipe, hello):
        """Takes the greeting of the run."""
        self.pipe = pipe
        self.hello = hello
        self.now = 0
        self.notes = []
        self.seen = []
        self.freed = []

    def ask(self, request, blobs=()):
        """Sends a request and returns the answer with its blobs."""
        self.pipe.write({**request, "now": self.now, "notes": self.notes, "freed": self.freed}, blobs)
        self.notes = []
        self.freed = []
        answer, blobs = self.pipe.read()
        if answer is None:
            os._exit(3)
        self.now = answer["now"]
        return answer, blobs

    def note(self, name, **fields):
        """Tells something with the next request."""
        self.notes.append({"note": name, "now": self.now, **fields})

    def push(self, nodes, kind, size, ttl=43200.0, group=""):
        """Sends one content to some nodes."""
        data = bytes(size)
        text = json.dumps(["a content of", size, kind])
        content = {"text": text, "arrays": [wire.digest(data)], "size": size, "config": {"lr": 0.5}}
        messages = [{"node": n, "type": kind, "ttl": ttl, "group": group, "content": 0} for n in nodes]
        request = {"ask": "push", "messages": messages, "contents": [content], "names": [wire.digest(data)]}
        return self.ask(request, [data])[0]["ids"]

    def receive(self, ids, until):
        """Waits for replies and notes what came, and when the wait was over."""
        replies = []
        answer, blobs = self.ask({"ask": "receive", "ids": ids, "until": until})
        while True:
            for told in answer["replies"]:
                replies.append([told["reply"], self.value(told, blobs)])
            if not answer["more"]:
                break
            answer, blobs = self.ask({"ask": "more"})
        self.seen.append([self.now, replies])


    def value(self, told, blobs):
        """Returns the value of a reply, or the code of its error, and checks the array behind it."""
        if not told["parts"]:
            return told["error"]
        if "sizes" in told:
            text, *arrays = map(bytes, self.pipe.placed(told.get("offset", 0), told["sizes"]))
            self.freed.append(told["reply"])
        else:
            text, *arrays = (blobs.pop(0) for _ in range(told["parts"]))
        value = json.loads(text)
        for data in arrays:
            assert data == array_of(value, len(data)), f"the array of {value} is damaged"
        return value


def array_of(value, weight):
    """Returns the array of so many bytes that a client sends with a value."""
    return bytes([sum(value[:2]) % 256]) * weight


def serve(pipe, hello):
    """Plays the server."""
    run = {key: json.loads(value) for key, value in hello["run"].items()}
    pipe.share(hello["arena"], access=mmap.ACCESS_READ)
    server = Server(pipe, hello)
    ready = {"protocol": wire.PROTOCOL, "flwr": "none", "app": "plain", "libraries": ["plain 1.0"], "config": {"lr": "0.5"}}
    pipe.write({"ready": ready})
    if run.get("unrepeatable"):
        run["size"] += random.SystemRandom().randrange(1, 1 << 20)
    late = {}
    for number in range(1, run["rounds"] + 1):
        server.note("round", round=number)
        there = server.ask({"ask": "nodes"})[0]["nodes"]
        chosen = [node for node in there if (node * 7 + number * 13) % run["every"] == 0]
        ids = server.push(chosen, "train", run["size"])
        server.receive(ids, server.now + round(run["timeout"] * 1e9))
        server.note("scores", kind="train", round=number, values={"train_loss": 1 / number})
        ids = server.push(chosen[:3], "evaluate", run["size"])
        server.receive(ids, None if run.get("patient") else server.now + round(run["timeout"] * 1e9))
        server.note("scores", kind="evaluate", round=number, values={"loss": 2 / number})
        server.now += round(run["pause"] * 1e9)
        late[number] = server.push([1000 + number], "query.late", 1000, ttl=run["ttl"])
        if number > 2:
            server.receive(late[number - 2], server.now)
        if run.get("die") == number and not os.path.exists(os.path.join(hello["out"], "died")):
            open(os.path.join(hello["out"], "died"), "w").close()
            os._exit(9)
    with open(os.path.join(hello["out"], "seen.json"), "w") as file:
        json.dump(server.seen, file)
    server.ask({"ask": "finished", "digest": "d1", "empty": False})


def respond(pipe, hello):
    """Plays a client."""
    run = {key: json.loads(value) for key, value in hello["run"].items()}
    pipe.share(hello["arena"])
    arrays = {}
    library = "plain " + os.environ.get("PLAIN_VERSION", "1.0")
    pipe.write({"ready": {"protocol": wire.PROTOCOL, "flwr": "none", "app": "plain", "libraries": [library]}})
    while True:
        request, blobs = pipe.read()
        if request is None:
            return
        for name in request.get("drop") or ():
            del arrays[name]
        names = request.get("names") or []
        arrays.update(zip(names, blobs))
        text, *state = blobs[len(names) :]
        size = sum(len(arrays[name]) for name in request["arrays"])
        count = int(state[0]) + 1 if state else 1
        if run.get("client_dies") == [request["partition"], request["ordinal"]]:
            flag = os.path.join(hello["out"], "client-died")
            if not os.path.exists(flag):
                open(flag, "w").close()
                os._exit(9)
        time.sleep(run.get("nap", 0))
        if request["partition"] in run.get("raising", []):
            pipe.write({"raised": "it raises"})
            continue
        value = [request["partition"], request["ordinal"], count, size, json.loads(text)[2]]
        steps = run["steps"] if request["type"] == "train" else 1
        header = {"replied": True, "size": run["size"], "arrays": 0, "steps": steps, "known": "keys", "state": "new"}
        header["metrics"] = {"count": float(count)}
        if hello.get("measure_all") and request["type"] == "train":
            header["seconds"] = 0.002 * steps
        parts = [json.dumps(value).encode()]
        if run.get("weight"):
            header["arrays"] = 1
            parts.append(array_of(value, run["weight"]))
        pipe.write(header, [*parts, str(count).encode()], request.get("room"), not request.get("ahead"))


if __name__ == "__main__":
    pipe = wire.Pipe()
    hello, _ = pipe.read()
    (serve if sys.argv[-1].endswith("server") else respond)(pipe, hello["hello"])
