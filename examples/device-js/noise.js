// The noise that devices add together in secure aggregation, as docs/secure-protocol.md describes it. It is made of
// whole random numbers alone, so that no rounding gives anything away (Canonne, Kamath, Steinke 2020).
import { randomBytes } from "node:crypto";
import { Refusal, roundToEven } from "./secure.js";

// random is what was drawn and not used yet, from used on.
let random = randomBytes(1 << 16), used = 0;

// draw64 is a whole number of 64 random bits.
function draw64() {
  if (used === random.length) [random, used] = [randomBytes(1 << 16), 0];
  used += 8;
  return random.readBigUInt64LE(used - 8);
}

// below draws a whole number below n, which is below 2^63, all with the same probability.
function below(n) {
  const multiples = 2n ** 64n - (2n ** 64n % n); // of n: draws from here on would favour low numbers
  for (;;) {
    const x = draw64();
    if (x < multiples) return x % n;
  }
}

// bernoulliExp is true with the probability exp(-numerator / denominator) (Algorithm 1).
function bernoulliExp(numerator, denominator) {
  for (; numerator > denominator; numerator -= denominator) {
    if (!bernoulliExp(1n, 1n)) return false;
  }
  let turn = 1n;
  while (below(denominator * turn) < numerator) turn++;
  return turn % 2n === 1n;
}

// laplace is a whole number z with a probability in proportion to exp(-|z| / scale) (Algorithm 2).
function laplace(scale) {
  for (;;) {
    const low = below(scale);
    if (!bernoulliExp(low, scale)) continue;
    let high = 0n;
    while (bernoulliExp(1n, 1n)) high++;
    const size = low + high * scale, negative = below(2n) === 1n;
    if (size !== 0n || !negative) return negative ? -size : size; // zero has one sign
  }
}

// gaussian is a whole number z with a probability in proportion to exp(-z^2 / (2 deviation^2)) (Algorithm 3).
export function gaussian(deviation) {
  for (;;) {
    const z = laplace(deviation), distance = (z < 0n ? -z : z) - deviation;
    if (bernoulliExp(distance * distance, 2n * deviation * deviation)) return z;
  }
}

// noisy is a weighted update with the device's noise, as words of 64 bits: whole numbers of steps, in units of 2^-44.
// The difference of the model from its start is shortened to the norm clip.
export function noisy(model, start, shift, { clip, step, deviation, weight = 1 }) {
  if (!(clip > 0 && clip <= 1e4 && step >= 1 && step <= 2 ** 44 && deviation >= 1 && deviation <= 2 ** 24)) {
    throw new Refusal(`noise of the clip ${clip}, the step ${step} and the deviation ${deviation}`);
  }
  const difference = Float64Array.from(model, (x, i) => x - start[i]);
  if (!difference.every(Number.isFinite)) throw new Refusal("the steps did not stay finite");
  const norm = Math.sqrt(difference.reduce((sum, x) => sum + x * x, 0));
  const scale = (Math.min(1, clip / norm) * weight * 2 ** (44 - shift)) / step;
  return BigUint64Array.from(difference, (x) => BigInt.asUintN(64, (BigInt(roundToEven(x * scale)) + gaussian(BigInt(deviation))) * BigInt(step)));
}
