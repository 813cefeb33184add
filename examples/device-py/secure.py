"""A member of one round of secure aggregation, as docs/secure-protocol.md describes it.

A Member makes the payload of each stage from the coordinator's last one. It raises Refusal where the
protocol tells a device to go no further. Nothing here knows of NATS.
"""

import secrets
import struct
from hashlib import sha256
from math import comb

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

TEXT = b"fedpace secure aggregation 2"
ORDER = 2**252 + 27742317777372353535851937790883648493  # the field of Shamir's scheme
ENTRY = struct.Struct("<IQ32s32s32s32s64s")  # client, weight, identity, mask key, share key, commitment, signature
TERMS = struct.Struct("<IIII32s")  # the terms with these names, context
NAMES = ("neighbours", "threshold", "colluders", "minimum")


class Refusal(Exception):
    """What the coordinator sent is not what the protocol allows; the device ends its task."""


def u32(x):
    return struct.pack("<I", x)


def number(x):
    return x.to_bytes(32, "little")


def derive(secret, salt, info):
    """HKDF with SHA-256 to 32 bytes; no salt is None."""
    return HKDF(SHA256(), 32, salt, TEXT + info).derive(secret)


def agree(private, public):
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise Refusal(f"{public.hex()} is no key of X25519") from None


def context_of(run, round):
    return sha256(TEXT + run.encode() + b"\0" + u32(round)).digest()


def private_mask_key(secret):
    return X25519PrivateKey.from_private_bytes(derive(number(secret), None, b" key"))


def mask(key, length):
    """The words of the mask of a key: the cipher's key, then the first counter."""
    stream = Cipher(algorithms.AES128(key[:16]), modes.CTR(key[16:])).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8")


def weighted(model, start, weight, shift):
    """A weighted update as words of 64 bits. The model's values are float32."""
    difference = model.astype(np.float64) - start.astype(np.float64)
    if not np.isfinite(difference).all():
        raise Refusal("the steps did not stay finite")
    difference = np.clip(difference, -(2.0**17), 2.0**17)
    return np.rint(difference * (weight * 2.0 ** (44 - shift))).astype(np.int64).view(np.uint64)


def value_at(polynomial, x):
    """The value of a polynomial, its constant term first."""
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % ORDER
    return value


def records(payload, length, what, members):
    """A payload of records that begin with an index of members, as pairs in ascending order."""
    if len(payload) % length:
        raise Refusal(f"{len(payload)} bytes are no records of {what} of {length} bytes")
    cut = [payload[at : at + length] for at in range(0, len(payload), length)]
    found = [(int.from_bytes(record[:4], "little"), record[4:]) for record in cut]
    indices = [index for index, _ in found]
    if indices != sorted(set(indices)) or not set(indices) <= set(members):
        raise Refusal(f"records of {what} with the indices {indices}, want ascending ones of {sorted(members)}")
    return found


def half_of(neighbours):
    """How many places of the ring a member's neighbours are before it, and behind it."""
    return (neighbours + 1) // 2


def cut(n, neighbours, colluders):
    """The fewest survivors that any two runs of the ring of n members must have together, or a coordinator
    may see sums of parts: with as many colluders there the ring falls apart but for a probability of 2^-41. It
    is 0 where all members are neighbours."""
    places = 2 * half_of(neighbours)
    if places >= n - 1:
        return 0
    # tail is how many choices of the places have r colluders or more, out of all ways. Numbers are exact.
    ways, pairs = comb(n, places), n * (n - places + 1) << 40
    r, tail = places + 1, 0
    while pairs * tail <= ways:
        r -= 1
        tail += comb(colluders, r) * comb(n - colluders, places - r)
    return r + 1


def draw():
    return secrets.randbelow(ORDER)


class Member:
    """draw gives the numbers that are drawn: the seed, the mask secret, then the coefficients of their
    polynomials. Tests give others, and keys."""

    def __init__(self, run, round, client, weight, terms, identity=None, share_key=None, draw=draw):
        self.context, self.terms, self.draw = context_of(run, round), terms, draw
        sound = terms["minimum"] >= 3 and 2 <= terms["threshold"] <= terms["neighbours"]
        if not sound or terms["minimum"] < terms["colluders"] + 2:
            raise Refusal(f"the terms {terms} hide nothing")
        self.identity = identity or Ed25519PrivateKey.generate()
        self.seed, self.secret = draw(), draw()
        self.mask_key, self.share_key = private_mask_key(self.secret), share_key or X25519PrivateKey.generate()
        entry = struct.pack("<IQ", client, weight)
        entry += self.identity.public_key().public_bytes_raw()
        entry += self.mask_key.public_key().public_bytes_raw() + self.share_key.public_key().public_bytes_raw()
        entry += sha256(number(self.seed)).digest()
        self.entry = entry + self.identity.sign(TEXT + b" keys" + self.context + entry)

    def shares(self, roster):
        """From the roster to the records of shares for the neighbours."""
        if len(roster) < TERMS.size or (len(roster) - TERMS.size) % ENTRY.size:
            raise Refusal(f"a roster of {len(roster)} bytes")
        *terms, context = TERMS.unpack_from(roster)
        want = [self.terms[name] for name in NAMES]
        if terms != want or context != self.context:
            raise Refusal(f"a roster with the terms {terms}, the Welcome has {want}, or of another round")
        entries = [roster[at : at + ENTRY.size] for at in range(TERMS.size, len(roster), ENTRY.size)]
        self.members = [ENTRY.unpack(entry) for entry in entries]
        clients = [m[0] for m in self.members]
        if clients != sorted(set(clients)) or len({m[2] for m in self.members}) != len(clients):
            raise Refusal("a roster with a client or an identity twice, or not in ascending order")
        if self.entry not in entries:
            raise Refusal("a roster without this device's entry")
        for entry, member in zip(entries, self.members):
            check(member[2], member[6], b" keys" + context + entry[:-64], f"the entry of client {member[0]}")
            if not 1 <= member[1] <= self.terms["max_weight"]:
                raise Refusal(f"client {member[0]} has the weight {member[1]}")
        self.check_balanced([member[1] for member in self.members])
        self.index, self.hash = entries.index(self.entry), sha256(roster).digest()
        place = [sha256(TEXT + b" ring" + self.hash + u32(i)).digest() for i in range(len(clients))]
        self.ring = sorted(range(len(clients)), key=place.__getitem__)
        self.neighbours = self.neighbours_of(self.index)
        if len(clients) < self.terms["minimum"] or len(self.neighbours) < self.terms["threshold"]:
            raise Refusal(f"a roster of {len(clients)} members is too short")
        degree = self.terms["threshold"] - 1
        polynomials = [[secret] + [self.draw() for _ in range(degree)] for secret in (self.seed, self.secret)]
        return b"".join(self.share(j, polynomials) for j in self.neighbours)

    def neighbours_of(self, index):
        """The indices of a member's neighbours, ascending."""
        n, half = len(self.members), half_of(self.terms["neighbours"])
        if 2 * half >= n - 1:
            return [i for i in range(n) if i != index]
        at = self.ring.index(index)
        return sorted(self.ring[(at + d) % n] for d in range(-half, half + 1) if d)

    def share(self, j, polynomials):
        """The record of the shares of the secrets for neighbour j."""
        plain = b"".join(number(value_at(p, j + 1)) for p in polynomials)
        return u32(j) + self.cipher(self.index, j).encrypt(bytes(12), plain, u32(self.index) + u32(j))

    def cipher(self, sender, receiver):
        """The cipher of the shares that one of these two, which is this member, sends the other."""
        other = self.members[sender + receiver - self.index]
        return AESGCM(derive(agree(self.share_key, other[4]), self.hash, b" seal" + u32(sender) + u32(receiver)))

    def open(self, inbox):
        """Takes the neighbours' shares for this member. Of a neighbour whose shares do not open it has none."""
        self.held = {}
        for sender, sealed in records(inbox, 84, "shares", self.neighbours):
            direction = u32(sender) + u32(self.index)
            try:
                self.held[sender] = self.cipher(sender, self.index).decrypt(bytes(12), sealed, direction)
            except InvalidTag:
                self.held[sender] = None
        if len(self.held) < self.terms["threshold"]:
            raise Refusal(f"{len(self.held)} neighbours have sent shares, too few to recover this device")

    def masked(self, words):
        """The weighted update with its masks."""
        total = words + mask(derive(number(self.seed), self.hash, b" seed"), len(words))
        for j in self.held:
            pair = mask(derive(agree(self.mask_key, self.members[j][3]), self.hash, b" pair"), len(words))
            total = total + pair if self.index < j else total - pair
        return total

    def sign(self, survivors, before=None):
        """From the set of survivors to this member's signature. before are the clients of the set that
        the device has signed for the task before."""
        n = len(self.members)
        if len(survivors) != (n + 7) // 8:
            raise Refusal(f"a set of {len(survivors)} bytes for {n} members")
        self.set = {i for i in range(8 * len(survivors)) if survivors[i // 8] >> i % 8 & 1}
        if self.index not in self.set or len(self.set) < self.terms["minimum"] or max(self.set) >= n:
            raise Refusal(f"the survivors {sorted(self.set)} of {n} members: without this device, or too few")
        strangers = sorted(self.set & set(self.neighbours) - set(self.held))
        if strangers:
            raise Refusal(f"the members {strangers} survive, but have sent this device no shares")
        self.check_connected()
        self.check_balanced([self.members[i][1] for i in self.set])
        self.clients = [self.members[i][0] for i in sorted(self.set)]
        if before is not None and before != self.clients:
            raise Refusal(f"the survivors {self.clients}, but this device has signed {before}")
        self.signed = b" survivors" + self.hash + survivors
        return self.identity.sign(TEXT + self.signed)

    def check_balanced(self, weights):
        """Refuses a sum that would be nearly one member's update, in buffered rounds."""
        weights = sorted(weights, reverse=True)
        if self.terms.get("fresh_factor") and weights[0] > 3 * sum(weights[1 + self.terms["colluders"] :]):
            raise Refusal(f"the weights {weights}: the sum would be nearly one update")

    def check_connected(self):
        """Refuses a set of survivors that falls apart, or may for all that this device knows."""
        n, half = len(self.members), half_of(self.terms["neighbours"])
        want = cut(n, self.terms["neighbours"], self.terms["colluders"])
        if want == 0:
            return
        survives = np.array([i in self.set for i in self.ring], np.int64)
        in_run = sum(np.roll(survives, -d) for d in range(half))  # by the place at which the run begins
        found = min((in_run + np.roll(in_run, -d)).min() for d in range(half, n // 2 + 1))
        if found < want:
            raise Refusal(f"two runs of the ring have {found} survivors together, want {want}: the set may fall apart")

    def reveal(self, signatures):
        """From the signatures of the set to a share of each neighbour: of its seed if it has survived."""
        n = len(self.members)
        signers = records(signatures, 68, "signatures", range(n))
        for i, signature in signers:
            check(self.members[i][2], signature, self.signed, f"the set of client {self.members[i][0]}")
        if len(signers) < (n + self.terms["colluders"]) // 2 + 1:
            raise Refusal(f"{len(signers)} of {n} members have signed the survivors")
        kinds = {True: (b"\0", slice(0, 32)), False: (b"\1", slice(32, 64))}
        found = b""
        for j, both in self.held.items():
            kind, part = kinds[j in self.set]
            found += u32(j) + kind + both[part] if both else b""
        return found


def check(identity, signature, text, what):
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, TEXT + text)
    except (InvalidSignature, ValueError):
        raise Refusal(f"the signature of {what} is not valid") from None
