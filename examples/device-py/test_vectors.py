"""Holds secure.py against the vectors that docs/secure-protocol.md names:

    uv run --no-project --with numpy==2.3.5 --with cryptography==46.0.3 python test_vectors.py
"""

import json
import math
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import noise
import secure

vectors = json.loads((Path(__file__).parents[2] / "algorithm/secagg/testdata/vectors.json").read_text())
hex = bytes.fromhex


def member_of(v):
    drawn = [v["seed"], v["mask_secret"], *v["seed_coefficients"], *v["mask_coefficients"]]
    numbers = [int.from_bytes(hex(x), "little") for x in drawn]
    return secure.Member(vectors["run"], vectors["round"], v["client"], v["weight"], vectors["terms"],
                         Ed25519PrivateKey.from_private_bytes(hex(v["identity"])),
                         X25519PrivateKey.from_private_bytes(hex(v["share_key"])), iter(numbers).__next__)


def same(what, v, got, want):
    assert got == want, f"client {v['client']}: {what} is {got}, want {want}"


def play(v, until=None):
    """Takes a member of the vectors through its stages, up to the one before it gets until, and returns the
    function that takes until."""
    member = member_of(v)
    same("entry", v, member.entry.hex(), v["entry"])
    if until == "roster":
        return member.shares
    same("shares", v, member.shares(hex(vectors["roster"])).hex(), v["shares"])
    same("neighbours", v, member.neighbours, v["neighbours"])
    if until == "inbox":
        return member.open
    if "inbox" not in v:
        return None  # it leaves
    member.open(hex(v["inbox"]))
    model, start = (np.frombuffer(hex(b), "<f4") for b in (v["model"], vectors["start"]))
    words = secure.weighted(model, start, v["weight"], vectors["shift"])
    same("words", v, words.tobytes().hex(), v["words"])
    same("masked", v, member.masked(words).tobytes().hex(), v["masked"])
    if until == "survivors":
        return member.sign
    if "signature" not in v:
        return None
    same("signature", v, member.sign(hex(vectors["survivors"])).hex(), v["signature"])
    if until == "signatures":
        return member.reveal
    same("reveal", v, member.reveal(hex(vectors["signatures"])).hex(), v["reveal"])


def refuses(what, f, *arguments, says=""):
    try:
        f(*arguments)
    except secure.Refusal as problem:
        assert says in str(problem), f"it refuses {what}, but says: {problem}"
        return
    raise AssertionError(f"it takes what it must refuse: {what}")


for v in vectors["members"]:
    play(v)
device = vectors["members"][vectors["refuses"]]
REASONS = {"no shares": "have sent this device no shares",
           "two runs": "1 survivors together, want 2: the set may fall apart"}
for case in vectors["refused"]:
    says = next((reason for why, reason in REASONS.items() if why in case["why"]), "")
    refuses(f"{case['stage']}: {case['why']}", play(device, case["stage"]), hex(case["payload"]), says=says)
for case in vectors["taken"]:
    play(device, case["stage"])(hex(case["payload"]))
for c in vectors["cuts"]:
    found = secure.cut(c["members"], c["neighbours"], c["colluders"])
    assert found == c["fewest"], f"two runs must have {found} survivors: {c}"
refuses("another set than it has signed", play(device, "survivors"), hex(vectors["survivors"]), [1, 4, 10])
for bad in (np.nan, np.inf):
    refuses(f"{bad} in the update", secure.weighted, np.array([bad], np.float32), np.zeros(1, np.float32), 1, 0)

# Each number of the noise comes as often as it should, within six deviations: 10,000 draws with the parameter 2.
draws = [noise.gaussian(2) for _ in range(10_000)]
total = sum(math.exp(-z * z / 8) for z in range(-50, 51))
for z in range(-6, 7):
    p = math.exp(-z * z / 8) / total
    found, want = draws.count(z), len(draws) * p
    assert abs(found - want) < 6 * math.sqrt(want * (1 - p)), f"{found} of {len(draws)} draws are {z}, want {want:.0f}"
# An update is shortened to the clip, rounded to steps, and gets noise of whole steps.
model, start = np.array([3, 4, 0], np.float32), np.zeros(3, np.float32)
steps = noise.weighted(model, start, 3, 1, 1024, 2**10).view(np.int64) / 1024
assert (steps == np.rint(steps)).all() and (abs(steps - np.array([0.6, 0.8, 0]) * 2**31) < 2**14).all(), steps
for clip, step, deviation in ((0, 1, 1), (1, 0, 1), (1, 1, 2**25), (math.nan, 1, 1)):
    refuses(f"the clip {clip}, the step {step}, the deviation {deviation}", noise.weighted, model, start, 3, clip, step,
            deviation)
print(f"{len(vectors['members'])} members as the vectors have them, {len(vectors['refused']) + 7} refusals")
