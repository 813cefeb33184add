// Holds secure.js against the vectors that docs/secure-protocol.md names: node --test
import { readFileSync } from "node:fs";
import { test } from "node:test";
import assert from "node:assert/strict";
import { gaussian, noisy } from "./noise.js";
import { Member, Refusal, cut, privateKey, weighted } from "./secure.js";

const vectors = JSON.parse(readFileSync(new URL("../../algorithm/secagg/testdata/vectors.json", import.meta.url)));
const bytes = (hex) => Buffer.from(hex, "hex");
const number = (hex) => BigInt(`0x${bytes(hex).reverse().toString("hex")}`);
const floats = (hex) => Float32Array.from({ length: hex.length / 8 }, (_, i) => bytes(hex).readFloatLE(4 * i));
const { max_weight: maxWeight, ...others } = vectors.terms;

// play takes a member of the vectors through its stages, up to the one before it gets until, and returns
// the function that takes until.
function play(v, until) {
  const member = new Member({
    run: vectors.run, round: vectors.round, client: v.client, weight: v.weight, terms: { ...others, maxWeight },
    identity: privateKey("ed25519", bytes(v.identity)),
    drawn: {
      seed: number(v.seed), secret: number(v.mask_secret), shareKey: privateKey("x25519", bytes(v.share_key)),
      coefficients: [v.seed_coefficients.map(number), v.mask_coefficients.map(number)],
    },
  });
  assert.equal(member.entry.toString("hex"), v.entry);
  if (until === "roster") return (b) => member.shares(b);
  assert.equal(member.shares(bytes(vectors.roster)).toString("hex"), v.shares);
  assert.deepEqual(member.neighbours, v.neighbours);
  if (until === "inbox") return (b) => member.open(b);
  if (!v.inbox) return undefined; // it leaves
  member.open(bytes(v.inbox));
  const words = weighted(floats(v.model), floats(vectors.start), v.weight, vectors.shift);
  assert.equal(Buffer.from(words.buffer).toString("hex"), v.words);
  assert.equal(Buffer.from(member.masked(words).buffer).toString("hex"), v.masked);
  if (until === "survivors") return (b, before) => member.sign(b, before);
  if (!v.signature) return undefined;
  assert.equal(member.sign(bytes(vectors.survivors)).toString("hex"), v.signature);
  if (until === "signatures") return (b) => member.reveal(b);
  assert.equal(member.reveal(bytes(vectors.signatures)).toString("hex"), v.reveal);
  return undefined;
}

for (const v of vectors.members) test(`client ${v.client}`, () => { play(v); });
const device = vectors.members[vectors.refuses];
const reasons = { "no shares": /have sent this device no shares/, "two runs": /1 survivors together, want 2: the set may fall apart/ };
for (const { stage, why, payload } of vectors.refused) {
  test(`it refuses the ${stage}: ${why}`, () => {
    const take = play(device, stage);
    const reason = Object.keys(reasons).find((text) => why.includes(text));
    assert.throws(() => take(bytes(payload)), (problem) => problem instanceof Refusal && (reasons[reason] ?? /./).test(problem.message));
  });
}
for (const { stage, why, payload } of vectors.taken) {
  test(`it takes the ${stage}: ${why}`, () => { play(device, stage)(bytes(payload)); });
}
test("it knows how many survivors two runs must have", () => {
  for (const { members, neighbours, colluders, fewest } of vectors.cuts) assert.equal(cut(members, neighbours, colluders), fewest);
});
test("it refuses another set than it has signed", () => {
  const take = play(device, "survivors");
  assert.throws(() => take(bytes(vectors.survivors), [1, 4, 10]), /has signed/);
});
test("it refuses an update that is not finite", () => {
  for (const bad of [NaN, Infinity]) assert.throws(() => weighted([bad], [0], 1, 0), /finite/);
});
test("each number of the noise comes as often as it should", () => {
  const draws = Array.from({ length: 10_000 }, () => Number(gaussian(2n))), weight = (z) => Math.exp((-z * z) / 8);
  let total = 0;
  for (let z = -50; z <= 50; z++) total += weight(z);
  for (let z = -6; z <= 6; z++) {
    const p = weight(z) / total, want = draws.length * p, found = draws.filter((x) => x === z).length;
    assert.ok(Math.abs(found - want) < 6 * Math.sqrt(want * (1 - p)), `${found} draws are ${z}, want ${want}`);
  }
});
test("an update is shortened to the clip, rounded to steps, and gets noise of whole steps", () => {
  const words = noisy([3, 4, 0], [0, 0, 0], 3, { clip: 1, step: 1024, deviation: 1024 });
  [0.6, 0.8, 0].forEach((x, i) => {
    const units = BigInt.asIntN(64, words[i]);
    assert.equal(units % 1024n, 0n);
    assert.ok(Math.abs(Number(units / 1024n) - x * 2 ** 31) < 2 ** 14);
  });
});
test("it refuses noise that is none, or that is not exact", () => {
  for (const grid of [{ clip: 0, step: 1, deviation: 1 }, { clip: 1, step: 0, deviation: 1 }, { clip: 1, step: 1, deviation: 2 ** 25 }, { clip: NaN, step: 1, deviation: 1 }]) {
    assert.throws(() => noisy([1], [0], 3, grid), Refusal);
  }
  assert.throws(() => noisy([NaN], [0], 3, { clip: 1, step: 1, deviation: 1 }), /finite/);
});
