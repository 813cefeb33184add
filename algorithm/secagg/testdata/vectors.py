"""Prints vectors.json: one round of secure aggregation with all that was drawn, and payloads that a device
refuses, or takes. The devices' end is that of examples/device-py.

    uv run --no-project --with numpy==2.3.5 --with cryptography==46.0.3 python vectors.py > vectors.json

Nine members, of which one leaves before it has sent shares and one before it has uploaded. Bytes are in
hexadecimal, numbers of the field in 32 of them, models little-endian float32, words little-endian. cuts are
the fewest survivors that two runs of a ring must have together, for several terms.
"""

import hashlib
import json
import struct

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from coordinator import secure, unmask

TERMS = {"neighbours": 6, "threshold": 4, "colluders": 1, "minimum": 3, "max_weight": 9}
RUN, ROUND, SHIFT, COUNT, SILENT, LEAVER = "vectors", 3, 6, 9, 2, 5
SURVIVORS = [i for i in range(COUNT) if i not in (SILENT, LEAVER)]
START = np.array([0, 1, -1, 0.5, 3, 1e-3, 100, 0, 2**-20, 7], "<f4")
# Of the first parameter, what each member makes of it: ties, the ends, the smallest number.
FIRST = [2**-39, -(2**-40), 3 * 2**-41, -5 * 2**-41, 0, 2**18, -(2**18), 2**-149, 2**-44]


def drawn(*what):
    return hashlib.sha512(repr(what).encode()).digest()


def numbers_of(i):
    """What member i draws: its secrets, then the coefficients of their polynomials."""
    return [int.from_bytes(drawn(i, k), "little") % secure.ORDER for k in range(2 * TERMS["threshold"])]


def member_of(i):
    identity = Ed25519PrivateKey.from_private_bytes(drawn(i, "identity")[:32])
    share_key = X25519PrivateKey.from_private_bytes(drawn(i, "share key")[:32])
    return secure.Member(RUN, ROUND, 3 * i + 1, i + 1, TERMS, identity, share_key, iter(numbers_of(i)).__next__)


def described(i, member):
    numbers, most = [secure.number(x).hex() for x in numbers_of(i)], TERMS["threshold"] - 1
    return {
        "client": 3 * i + 1, "weight": i + 1,
        "identity": drawn(i, "identity")[:32].hex(), "share_key": drawn(i, "share key")[:32].hex(),
        "seed": numbers[0], "mask_secret": numbers[1],
        "seed_coefficients": numbers[2 : 2 + most], "mask_coefficients": numbers[2 + most :],
        "entry": member.entry.hex(),
    }


def bitmap(members):
    return sum(1 << i for i in members).to_bytes((COUNT + 7) // 8, "little")


def play():
    """Plays the round, and returns its description and its members."""
    members = [member_of(i) for i in range(COUNT)]
    found = [described(i, member) for i, member in enumerate(members)]
    roster = secure.TERMS.pack(*(TERMS[name] for name in secure.NAMES), members[0].context)
    roster += b"".join(member.entry for member in members)
    sent = []
    for x, member in zip(found, members):
        shares = member.shares(roster)
        sent.append(dict(secure.records(shares, 84, "shares", range(COUNT))))
        x |= {"neighbours": member.neighbours, "shares": shares.hex()}
    random = np.random.default_rng(63)
    masked, plain = np.zeros(len(START), np.uint64), np.zeros(len(START), np.uint64)
    for i, (x, member) in enumerate(zip(found, members)):
        if i == SILENT:
            continue
        inbox = b"".join(secure.u32(j) + sent[j][i] for j in member.neighbours if j != SILENT)
        member.open(inbox)
        model = START + random.normal(size=len(START)).astype("<f4") * np.float32(2.0**-i)
        model[0], model[7] = FIRST[i], 0
        words = secure.weighted(model, START, i + 1, SHIFT)
        upload = member.masked(words)
        x |= {"inbox": inbox.hex(), "model": model.tobytes().hex()}
        x |= {"words": words.tobytes().hex(), "masked": upload.tobytes().hex()}
        if i in SURVIVORS:
            masked, plain = masked + upload, plain + words
    survivors = bitmap(SURVIVORS)
    for i in SURVIVORS:
        found[i]["signature"] = members[i].sign(survivors).hex()
    signatures = b"".join(secure.u32(i) + bytes.fromhex(found[i]["signature"]) for i in SURVIVORS)
    reveals = {i: members[i].reveal(signatures) for i in SURVIVORS}
    for i, reveal in reveals.items():
        found[i]["reveal"] = reveal.hex()
    assert (unmask(members[0], [i != SILENT for i in range(COUNT)], survivors, reveals, masked) == plain).all()
    return {
        "run": RUN, "round": ROUND, "terms": TERMS, "shift": SHIFT,
        "context": members[0].context.hex(), "start": START.tobytes().hex(),
        "members": found, "roster": roster.hex(), "roster_hash": members[0].hash.hex(), "survivors": survivors.hex(),
        "signatures": signatures.hex(), "sum_of_masked": masked.tobytes().hex(), "sum": plain.tobytes().hex(),
    }, members


def placed(i, members, *places):
    """The survivors at these places of the ring, from the first place on from which member i is one of
    them and the silent one is not."""
    ring = members[i].ring
    sets = [{ring[(at + place) % COUNT] for place in places} for at in range(COUNT)]
    return next(s for s in sets if i in s and SILENT not in s)


# Places of four survivors that hold together: any two runs of three places have two of them.
SPREAD = 0, 2, 4, 6


def taken_by(i, members, inbox, survivors):
    """What member i takes, with the stage whose payload it is."""
    sets = {
        "they are those of the round": survivors,
        "two runs of three places have two survivors together or more": bitmap(placed(i, members, *SPREAD)),
    }
    inboxes = {"a record does not open": inbox[:-1] + bytes([inbox[-1] ^ 1])}
    return cases({"inbox": inboxes, "survivors": sets})


def cases(kinds):
    return [{"stage": stage, "why": why, "payload": payload.hex()}
            for stage, of in kinds.items() for why, payload in of.items()]


def cuts():
    """Terms, with the number of survivors that two runs must have."""
    terms = [(9, 6, 1), (9, 7, 1), (9, 8, 1), (20, 8, 0), (20, 7, 2), (100, 30, 10), (100, 48, 20), (1000, 60, 100),
             (1000, 150, 400), (10000, 120, 2000), (100000, 64, 10000)]
    return [{"members": n, "neighbours": k, "colluders": c, "fewest": secure.cut(n, k, c)} for n, k, c in terms]


def refused_by(i, members, roster, inbox, survivors):
    """What member i refuses, with the stage whose payload it is."""
    header, entries = roster[: secure.TERMS.size], [member.entry for member in members]

    def flipped(at):
        return roster[:at] + bytes([roster[at] ^ 1]) + roster[at + 1 :]

    def signed(j, client, weight):
        entry = struct.pack("<IQ", client, weight) + entries[j][12:140]
        return entry + members[j].identity.sign(secure.TEXT + b" keys" + members[j].context + entry)

    def replaced(j, entry):
        return header + b"".join(entries[:j] + [entry] + entries[j + 1 :])

    def signature(j, of):
        return secure.u32(j) + members[j].identity.sign(secure.TEXT + b" survivors" + members[j].hash + of)

    rosters = {
        "it has another threshold than the Welcome": flipped(4),
        "it is of another round": flipped(16),
        "its last entry is cut": roster[:-1],
        "it lacks the device": header + b"".join(entries[:i] + entries[i + 1 :]),
        "it has another weight of the device": replaced(i, signed(i, 3 * i + 1, i + 2)),
        "two clients are out of order": header + b"".join(entries[:3] + [entries[4], entries[3]] + entries[5:]),
        "a client is in it twice": header + b"".join(entries + entries[8:]),
        "an identity is in it twice": header + b"".join(entries + [signed(8, 1000, 1)]),
        "the signature of an entry is not valid": flipped(len(roster) - 1),
        "a mask key is not the one that was signed": flipped(len(roster) - 204 + 44),
        "a weight is above max_weight": replaced(4, signed(4, 13, 10)),
        "a weight is 0": replaced(4, signed(4, 13, 0)),
        "the device has fewer neighbours than the threshold": header + b"".join(entries[:4]),
    }
    inboxes = {
        "a record is cut": inbox[:-1],
        "it has shares of fewer neighbours than the threshold": inbox[: 3 * 84],
        "two records are out of order": inbox[84:168] + inbox[:84] + inbox[168:],
        "a neighbour is in it twice": inbox[:84] + inbox,
        "a record is of the device itself": secure.u32(i) + inbox[4:],
    }
    sets = {
        "the device is not in it": bitmap(SURVIVORS[2:]),
        "it has fewer members than the minimum": bitmap(SURVIVORS[:2]),
        "it has a member beyond the roster": survivors[:1] + bytes([survivors[1] | 2]),
        "it has a byte too many": survivors + b"\0",
        "a neighbour in it has sent no shares": bitmap(placed(i, members, *SPREAD) | {SILENT}),
        "two runs have one survivor together, and three are side by side": bitmap(placed(i, members, 0, 1, 2, 4)),
        "two runs have one survivor together, with one behind both": bitmap(placed(i, members, 0, 2, 4, 5)),
        "two runs have one survivor together, with two behind both": bitmap(placed(i, members, 0, 1, 3, 5)),
    }
    few = b"".join(signature(j, survivors) for j in SURVIVORS[:5])
    signatures = {
        "fewer than (n + colluders) div 2 + 1 have signed": few,
        "one is of another set": few + signature(SURVIVORS[5], bitmap(SURVIVORS[:-1])),
        "one counts twice": few + few[-68:],
        "one is of no member": few + secure.u32(COUNT) + few[4:68],
    }
    return cases({"roster": rosters, "inbox": inboxes, "survivors": sets, "signatures": signatures})


def main():
    found, members = play()
    # One of the first two survivors, which some of the payloads leave out or leave alone.
    of = next(i for i in SURVIVORS[:2] if SILENT in members[i].neighbours)
    payloads = found["roster"], found["members"][of]["inbox"], found["survivors"]
    roster, inbox, survivors = (bytes.fromhex(x) for x in payloads)
    found |= {"cuts": cuts(), "taken": taken_by(of, members, inbox, survivors)}
    found |= {"refuses": of, "refused": refused_by(of, members, roster, inbox, survivors)}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
