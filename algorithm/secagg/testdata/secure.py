"""Secure aggregation as docs/protocol.md describes it, with numpy and PyCA cryptography.

It plays both ends of rounds whose messages a test gives it: it reads JSON from standard input and
writes JSON to standard output. It shares no code with the Go implementation.
"""

import base64
import hashlib
import json
import sys

import numpy as np
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

T = b"fedpace secure aggregation 1"
L = 2**252 + 27742317777372353535851937790883648493
ENTRY = 204


def u32(x):
    return int(x).to_bytes(4, "little")


def u64(x):
    return int(x).to_bytes(8, "little")


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def hkdf(secret, salt, info):
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(secret)


def raw(key):
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def agree(private, public):
    return private.exchange(X25519PublicKey.from_public_bytes(public))


def context_of(run, round_number):
    return sha(T, run.encode(), b"\0", u32(round_number))


def mask(key, words):
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * words))
    return np.frombuffer(stream, dtype="<u8")


def mask_key(secret):
    return X25519PrivateKey.from_private_bytes(hkdf(secret, None, T + b" key"))


class Roster:
    def __init__(self, encoded):
        self.digest = sha(encoded)
        head = [int.from_bytes(encoded[4 * i : 4 * i + 4], "little") for i in range(4)]
        self.neighbour_count, self.threshold, self.colluders, self.minimum = head
        self.context = encoded[16:48]
        self.entries = [encoded[i : i + ENTRY] for i in range(48, len(encoded), ENTRY)]
        for entry in self.entries:
            identity = Ed25519PublicKey.from_public_bytes(entry[12:44])
            identity.verify(entry[140:], T + b" keys" + self.context + entry[:140])
        self.n = len(self.entries)
        order = sorted(range(self.n), key=lambda i: sha(T + b" ring", self.digest, u32(i)))
        self.ring = order
        self.place = {member: place for place, member in enumerate(order)}

    def client(self, i):
        return int.from_bytes(self.entries[i][:4], "little")

    def index(self, client):
        return [self.client(i) for i in range(self.n)].index(client)

    def identity(self, i):
        return self.entries[i][12:44]

    def mask_key(self, i):
        return self.entries[i][44:76]

    def share_key(self, i):
        return self.entries[i][76:108]

    def commitment(self, i):
        return self.entries[i][108:140]

    def neighbours(self, member):
        half = (self.neighbour_count + 1) // 2
        if 2 * half >= self.n - 1:
            return [i for i in range(self.n) if i != member]
        found = set()
        for d in range(1, half + 1):
            found.add(self.ring[(self.place[member] + d) % self.n])
            found.add(self.ring[(self.place[member] - d) % self.n])
        return sorted(found)

    def quorum(self):
        return (self.n + self.colluders) // 2 + 1


class Member:
    """A device's end."""

    def __init__(self, random, context, client, weight):
        draw = lambda n: random.bytes(n)
        self.random = random
        self.client = client
        self.b = (int.from_bytes(draw(40), "little") % L).to_bytes(32, "little")
        self.s = (int.from_bytes(draw(40), "little") % L).to_bytes(32, "little")
        self.identity = Ed25519PrivateKey.from_private_bytes(draw(32))
        self.share_private = X25519PrivateKey.from_private_bytes(draw(32))
        self.mask_private = mask_key(self.s)
        body = (
            u32(client)
            + u64(weight)
            + raw(self.identity.public_key())
            + raw(self.mask_private.public_key())
            + raw(self.share_private.public_key())
            + sha(self.b)
        )
        self.entry = body + self.identity.sign(T + b" keys" + context + body)

    def split(self, secret, degree, members):
        coefficients = [int.from_bytes(secret, "little")]
        coefficients += [int.from_bytes(self.random.bytes(40), "little") % L for _ in range(degree)]
        shares = []
        for j in members:
            value = 0
            for c in reversed(coefficients):
                value = (value * (j + 1) + c) % L
            shares.append(value.to_bytes(32, "little"))
        return shares

    def seal_key(self, peer, direction):
        shared = agree(self.share_private, self.roster.share_key(peer))
        return AESGCM(hkdf(shared, self.roster.digest, T + b" seal" + direction))

    def shares(self, encoded):
        r = self.roster = Roster(encoded)
        self.i = r.index(self.client)
        assert r.entries[self.i] == self.entry
        neighbours = r.neighbours(self.i)
        of_b = self.split(self.b, r.threshold - 1, neighbours)
        of_s = self.split(self.s, r.threshold - 1, neighbours)
        message = b""
        for j, x, y in zip(neighbours, of_b, of_s):
            direction = u32(self.i) + u32(j)
            message += u32(j) + self.seal_key(j, direction).encrypt(bytes(12), x + y, direction)
        return message

    def masked(self, inbox, words):
        r = self.roster
        self.held = {}
        total = words + mask(hkdf(self.b, r.digest, T + b" seed"), len(words))
        for at in range(0, len(inbox), 84):
            j = int.from_bytes(inbox[at : at + 4], "little")
            direction = u32(j) + u32(self.i)
            plain = self.seal_key(j, direction).decrypt(bytes(12), inbox[at + 4 : at + 84], direction)
            self.held[j] = (plain[:32], plain[32:])
            pair = hkdf(agree(self.mask_private, r.mask_key(j)), r.digest, T + b" pair")
            m = mask(pair, len(words))
            total = total - m if self.i > j else total + m
        return total

    def sign(self, bitmap):
        self.set = bitmap
        return self.identity.sign(T + b" survivors" + self.roster.digest + bitmap)

    def reveal(self, signatures):
        r = self.roster
        message = T + b" survivors" + r.digest + self.set
        signers = set()
        for at in range(0, len(signatures), 68):
            j = int.from_bytes(signatures[at : at + 4], "little")
            Ed25519PublicKey.from_public_bytes(r.identity(j)).verify(signatures[at + 4 : at + 68], message)
            signers.add(j)
        assert len(signers) >= r.quorum()
        out = b""
        for j in sorted(self.held):
            survives = self.set[j // 8] >> (j % 8) & 1
            out += u32(j) + (b"\0" + self.held[j][0] if survives else b"\1" + self.held[j][1])
        return out


def interpolate(shares, threshold):
    points = list(shares.items())[:threshold]
    total = 0
    for j, value in points:
        factor = 1
        for m, _ in points:
            if m != j:
                factor = factor * (m + 1) % L * pow((m - j) % L, -1, L) % L
        total = (total + int.from_bytes(value, "little") * factor) % L
    return total.to_bytes(32, "little")


def unmask(encoded, finished, bitmap, reveals, total):
    """The coordinator's end: removes the masks from the sum of the survivors' uploads."""
    r = Roster(encoded)
    survives = [bitmap[i // 8] >> (i % 8) & 1 for i in range(r.n)]
    shares = {}
    for holder, message in reveals.items():
        for at in range(0, len(message), 37):
            owner = int.from_bytes(message[at : at + 4], "little")
            assert message[at + 4] == (0 if survives[owner] else 1)
            shares.setdefault(owner, {})[holder] = message[at + 5 : at + 37]
    for i in range(r.n):
        if survives[i]:
            seed = interpolate(shares[i], r.threshold)
            assert sha(seed) == r.commitment(i)
            total = total - mask(hkdf(seed, r.digest, T + b" seed"), len(total))
        elif finished[i] and any(survives[j] for j in r.neighbours(i)):
            private = mask_key(interpolate(shares[i], r.threshold))
            assert raw(private.public_key()) == r.mask_key(i)
            for j in r.neighbours(i):
                if survives[j]:
                    m = mask(hkdf(agree(private, r.mask_key(j)), r.digest, T + b" pair"), len(total))
                    total = total + m if j > i else total - m
    return total


def encode(share, after, before):
    difference = np.clip(np.float64(after) - np.float64(before), -(2.0**17), 2.0**17)
    return np.rint(np.float64(2**44 * share) * difference).astype(np.int64).view(np.uint64)


def main():
    """Serves the requests of a test, one line of JSON each."""
    members = {}
    plain = lambda x: base64.b64encode(x).decode()
    for line in sys.stdin:
        q = json.loads(line)
        take = lambda name: base64.b64decode(q[name])
        kind = q["do"]
        if kind == "keys":
            random = np.random.default_rng(q["client"])
            member = Member(random, context_of(q["run"], q["round"]), q["client"], q["weight"])
            members[q["client"]] = member
            answer = member.entry
        elif kind == "shares":
            answer = members[q["client"]].shares(take("roster"))
        elif kind == "masked":
            after = np.frombuffer(take("after"), dtype="<f4")
            before = np.frombuffer(take("before"), dtype="<f4")
            words = encode(q["share"], after, before)
            answer = members[q["client"]].masked(take("inbox"), words).astype("<u8").tobytes()
        elif kind == "sign":
            answer = members[q["client"]].sign(take("set"))
        elif kind == "reveal":
            answer = members[q["client"]].reveal(take("signatures"))
        elif kind == "unmask":
            reveals = {int(i): base64.b64decode(x) for i, x in q["reveals"].items()}
            total = np.frombuffer(take("total"), dtype="<u8")
            answer = unmask(take("roster"), q["finished"], take("set"), reveals, total).astype("<u8").tobytes()
        print(json.dumps(plain(answer)), flush=True)


if __name__ == "__main__":
    main()
