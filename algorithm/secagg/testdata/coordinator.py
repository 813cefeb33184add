"""The coordinator's end of secure aggregation as docs/secure-protocol.md describes it, beside the devices' end
in examples/device-py. Neither shares code with the Go implementation.

It plays rounds whose messages a test gives it: it reads JSON from standard input and writes JSON to
standard output.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples" / "device-py"))
import secure


def interpolate(shares, threshold):
    """The value at 0 of the polynomial through the first shares, by the index of their holder."""
    points = list(shares.items())[:threshold]
    total = 0
    for j, value in points:
        factor = 1
        for m, _ in points:
            if m != j:
                factor = factor * (m + 1) * pow(m - j, -1, secure.ORDER) % secure.ORDER
        total = (total + int.from_bytes(value, "little") * factor) % secure.ORDER
    return total


def unmask(member, finished, bitmap, reveals, total):
    """Removes the masks from the sum of the survivors' uploads. member is one that knows the roster."""
    n = len(member.members)
    survives = [bitmap[i // 8] >> (i % 8) & 1 for i in range(n)]
    shares = {}
    for holder, message in reveals.items():
        for owner, body in secure.records(message, 37, "shares", range(n)):
            assert body[0] == (0 if survives[owner] else 1)
            shares.setdefault(owner, {})[holder] = body[1:]
    for i in range(n):
        _, _, _, mask_key, _, commitment, _ = member.members[i]
        if survives[i]:
            seed = secure.number(interpolate(shares[i], member.terms["threshold"]))
            assert hashlib.sha256(seed).digest() == commitment
            total = total - secure.mask(secure.derive(seed, member.hash, b" seed"), len(total))
        elif finished[i] and any(survives[j] for j in member.neighbours_of(i)):
            private = secure.private_mask_key(interpolate(shares[i], member.terms["threshold"]))
            assert private.public_key().public_bytes_raw() == mask_key
            for j in filter(lambda j: survives[j], member.neighbours_of(i)):
                pair = secure.derive(secure.agree(private, member.members[j][3]), member.hash, b" pair")
                total = total - secure.mask(pair, len(total)) if j < i else total + secure.mask(pair, len(total))
    return total


def serve():
    """Answers the requests of a test, one line of JSON each."""
    members = {}
    for line in sys.stdin:
        q = json.loads(line)
        take = lambda name: base64.b64decode(q[name])
        kind, member = q["do"], members.get(q.get("client"))
        if kind == "keys":
            member = secure.Member(q["run"], q["round"], q["client"], q["weight"], q["terms"])
            members[q["client"]] = member
            answer = member.entry
        elif kind == "shares":
            answer = member.shares(take("roster"))
        elif kind == "masked":
            member.open(take("inbox"))
            after, before = np.frombuffer(take("after"), "<f4"), np.frombuffer(take("before"), "<f4")
            answer = member.masked(secure.weighted(after, before, q["weight"], q["shift"])).tobytes()
        elif kind == "sign":
            answer = member.sign(take("set"))
        elif kind == "reveal":
            answer = member.reveal(take("signatures"))
        elif kind == "unmask":
            reveals = {int(i): base64.b64decode(x) for i, x in q["reveals"].items()}
            total = np.frombuffer(take("total"), "<u8")
            answer = unmask(next(iter(members.values())), q["finished"], take("set"), reveals, total).tobytes()
        print(json.dumps(base64.b64encode(answer).decode()), flush=True)


if __name__ == "__main__":
    serve()
