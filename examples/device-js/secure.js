// A member of one round of secure aggregation, as docs/secure-protocol.md describes it. It makes the payload
// of each stage from the coordinator's last one, and throws where the protocol tells a device to go no
// further. Nothing here knows of NATS.
import {
  createCipheriv, createDecipheriv, createHash, createPrivateKey, createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync, randomBytes, sign, verify,
} from "node:crypto";

const TEXT = "fedpace secure aggregation 2";
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n; // the field of Shamir's scheme
const ENTRY = 204, HEADER = 48, SIGNATURE = 64;

// Refusal is thrown where the protocol tells a device to go no further: it gives its task up.
export class Refusal extends Error {}

const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((p) => Buffer.from(p)))).digest();
const derive = (secret, salt, info) => Buffer.from(hkdfSync("sha256", secret, salt, Buffer.concat([Buffer.from(TEXT), Buffer.from(info)]), 32));

function u32(...numbers) {
  const b = Buffer.alloc(4 * numbers.length);
  numbers.forEach((x, i) => b.writeUInt32LE(x, 4 * i));
  return b;
}

// Numbers of the field are 32 bytes, the lowest first.
const bytesOf = (x) => Buffer.from(x.toString(16).padStart(64, "0"), "hex").reverse();

export function drawSecret() {
  for (;;) {
    const b = randomBytes(32);
    b[0] &= 31; // 253 bits: half of the draws are below the order
    const x = BigInt(`0x${b.toString("hex")}`);
    if (x < ORDER) return x;
  }
}

// Raw keys of 32 bytes, for which the library has no reader but that of DER.
const der = { x25519: "6e", ed25519: "70" };
const publicKey = (kind, raw) => createPublicKey({ key: Buffer.concat([Buffer.from(`302a300506032b65${der[kind]}032100`, "hex"), raw]), format: "der", type: "spki" });
export const privateKey = (kind, raw) => createPrivateKey({ key: Buffer.concat([Buffer.from(`302e020100300506032b65${der[kind]}04220420`, "hex"), raw]), format: "der", type: "pkcs8" });
const rawPublic = (key) => createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);

function agree(key, raw) {
  try {
    return diffieHellman({ privateKey: key, publicKey: publicKey("x25519", raw) });
  } catch {
    throw new Refusal(`${raw.toString("hex")} is no key of X25519`);
  }
}

export const newIdentity = () => generateKeyPairSync("ed25519").privateKey;
export const contextOf = (run, round) => sha256(TEXT, run, Buffer.alloc(1), u32(round));

// shareOf is the value of a polynomial, its constant term first, at index + 1.
export function shareOf(polynomial, index) {
  return polynomial.reduceRight((value, coefficient) => (value * BigInt(index + 1) + coefficient) % ORDER, 0n);
}

// mask has the words that follow from a key: the cipher's key, then the first counter.
function mask(key, length) {
  const stream = createCipheriv("aes-128-ctr", key.subarray(0, 16), key.subarray(16)).update(Buffer.alloc(8 * length));
  return BigUint64Array.from({ length }, (_, i) => stream.readBigUInt64LE(8 * i));
}

export const roundToEven = (x) => {
  const low = Math.floor(x), rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
};

// weighted is a weighted update as words of 64 bits, which wrap around.
export function weighted(model, start, weight, shift) {
  const words = new BigUint64Array(model.length), scale = weight * 2 ** (44 - shift), most = 2 ** 17;
  for (let i = 0; i < words.length; i++) {
    const difference = model[i] - start[i];
    if (!Number.isFinite(difference)) throw new Refusal("the steps did not stay finite");
    words[i] = BigInt(roundToEven(scale * Math.min(most, Math.max(-most, difference))));
  }
  return words;
}

// records cuts a payload into records that begin with an index of members, in ascending order.
function records(payload, length, what, members) {
  if (payload.length % length !== 0) throw new Refusal(`${payload.length} bytes are no records of ${what} of ${length} bytes`);
  const found = [];
  for (let at = 0; at < payload.length; at += length) {
    const index = payload.readUInt32LE(at);
    if (!members.includes(index) || (found.length > 0 && index <= found.at(-1).index)) throw new Refusal(`a record of ${what} of member ${index}, who has no place there`);
    found.push({ index, body: payload.subarray(at + 4, at + length) });
  }
  return found;
}

// halfOf is how many places of the ring a member's neighbours are before it, and behind it.
const halfOf = (neighbours) => Math.floor((neighbours + 1) / 2);

// choose is the binomial coefficient n over k.
function choose(n, k) {
  let product = 1n;
  for (let i = 1; i <= k; i++) product = (product * BigInt(n - k + i)) / BigInt(i);
  return product;
}

// cut is the fewest survivors that any two runs of the ring of n members must have together, or a coordinator
// may see sums of parts: with as many colluders there the ring falls apart but for a probability of 2^-41. It
// is 0 where all members are neighbours.
export function cut(n, neighbours, colluders) {
  const places = 2 * halfOf(neighbours);
  if (places >= n - 1) return 0;
  // tail is how many choices of the places have r colluders or more, out of all. The numbers are exact.
  const all = choose(n, places), pairs = BigInt(n * (n - places + 1)) << 40n;
  let r = places + 1, tail = 0n;
  while (pairs * tail <= all) {
    r--;
    tail += choose(colluders, r) * choose(n - colluders, places - r);
  }
  return r + 1;
}

// Member goes through one round: entry, then shares, open, masked, sign and reveal. drawn fixes what
// else is drawn at random: the two secrets, the coefficients of their polynomials, and the share key.
export class Member {
  constructor({ run, round, client, weight, terms, identity, drawn = {} }) {
    Object.assign(this, { context: contextOf(run, round), terms, identity, drawn });
    const hides = terms.minimum >= 3 && terms.minimum >= terms.colluders + 2;
    if (!hides || terms.threshold < 2 || terms.threshold > terms.neighbours) {
      throw new Refusal(`terms that hide nothing: ${JSON.stringify(terms)}`);
    }
    this.seed = drawn.seed ?? drawSecret();
    this.secret = drawn.secret ?? drawSecret();
    this.maskKey = privateKey("x25519", derive(bytesOf(this.secret), "", " key"));
    this.shareKey = drawn.shareKey ?? generateKeyPairSync("x25519").privateKey;
    const head = Buffer.alloc(12);
    head.writeUInt32LE(client);
    head.writeBigUInt64LE(BigInt(weight), 4);
    const entry = Buffer.concat([head, rawPublic(identity), rawPublic(this.maskKey), rawPublic(this.shareKey), sha256(bytesOf(this.seed))]);
    this.entry = Buffer.concat([entry, this.signed(" keys", this.context, entry)]);
  }

  signed(...text) {
    return sign(null, Buffer.concat([TEXT, ...text].map((p) => Buffer.from(p))), this.identity);
  }

  check(member, signature, what, ...text) {
    const valid = verify(null, Buffer.concat([TEXT, ...text].map((p) => Buffer.from(p))), publicKey("ed25519", member.identity), signature);
    if (!valid) throw new Refusal(`the signature of ${what} of client ${member.client} is not valid`);
  }

  // shares reads the roster, and has a record of shares for each neighbour.
  shares(roster) {
    roster = Buffer.from(roster);
    const { neighbours, threshold, colluders, minimum } = this.terms;
    const header = Buffer.concat([u32(neighbours, threshold, colluders, minimum), this.context]);
    if (!roster.subarray(0, HEADER).equals(header) || (roster.length - HEADER) % ENTRY !== 0) throw new Refusal("a roster of other terms or another round");
    this.members = [];
    for (let at = HEADER; at < roster.length; at += ENTRY) {
      const entry = roster.subarray(at, at + ENTRY), key = (from) => entry.subarray(from, from + 32);
      const member = { client: entry.readUInt32LE(0), weight: entry.readBigUInt64LE(4), identity: key(12), maskKey: key(44), shareKey: key(76), entry };
      this.check(member, entry.subarray(-SIGNATURE), "the entry", " keys", this.context, entry.subarray(0, -SIGNATURE));
      if (this.members.length > 0 && member.client <= this.members.at(-1).client) throw new Refusal(`client ${member.client} is out of order in the roster`);
      if (member.weight < 1n || member.weight > BigInt(this.terms.maxWeight)) throw new Refusal(`client ${member.client} has the weight ${member.weight}`);
      this.members.push(member);
    }
    if (new Set(this.members.map((m) => m.identity.toString("hex"))).size < this.members.length) throw new Refusal("an identity is twice in the roster");
    this.index = this.members.findIndex((m) => m.entry.equals(this.entry));
    if (this.index < 0) throw new Refusal("the roster does not have this device's entry");
    this.checkBalanced(this.members.map((m) => m.weight));
    this.hash = sha256(roster);
    this.ring = this.arranged();
    this.neighbours = this.besides();
    if (this.members.length < minimum || this.neighbours.length < threshold) throw new Refusal(`a roster of ${this.members.length} members is too short`);
    const polynomials = [this.seed, this.secret].map((secret, i) => [secret, ...(this.drawn.coefficients?.[i] ?? Array.from({ length: threshold - 1 }, drawSecret))]);
    return Buffer.concat(this.neighbours.map((j) => {
      const cipher = createCipheriv("aes-256-gcm", this.sealKey(this.index, j), Buffer.alloc(12)).setAAD(u32(this.index, j));
      return Buffer.concat([u32(j), cipher.update(Buffer.concat(polynomials.map((p) => bytesOf(shareOf(p, j))))), cipher.final(), cipher.getAuthTag()]);
    }));
  }

  // arranged has the indices of all members in the order of the ring.
  arranged() {
    const place = this.members.map((_, i) => sha256(TEXT, " ring", this.hash, u32(i)));
    return [...place.keys()].sort((a, b) => Buffer.compare(place[a], place[b]));
  }

  // besides has the indices of this member's neighbours, ascending.
  besides() {
    const n = this.members.length, half = halfOf(this.terms.neighbours);
    if (2 * half >= n - 1) return [...this.members.keys()].filter((i) => i !== this.index);
    const at = this.ring.indexOf(this.index), steps = Array.from({ length: half }, (_, i) => i + 1);
    return steps.flatMap((d) => [this.ring[(at + d) % n], this.ring[(at + n - d) % n]]).sort((a, b) => a - b);
  }

  // sealKey is the key of the shares that one of two members, of which this is one, sends the other.
  sealKey(sender, receiver) {
    const other = this.members[sender + receiver - this.index];
    return derive(agree(this.shareKey, other.shareKey), this.hash, Buffer.concat([Buffer.from(" seal"), u32(sender, receiver)]));
  }

  // open takes the neighbours' shares for this member. Of one whose shares do not open it has none.
  open(inbox) {
    this.held = new Map();
    for (const { index, body } of records(Buffer.from(inbox), 84, "shares", this.neighbours)) {
      const cipher = createDecipheriv("aes-256-gcm", this.sealKey(index, this.index), Buffer.alloc(12)).setAAD(u32(index, this.index));
      try {
        this.held.set(index, Buffer.concat([cipher.setAuthTag(body.subarray(64)).update(body.subarray(0, 64)), cipher.final()]));
      } catch {
        this.held.set(index, undefined);
      }
    }
    if (this.held.size < this.terms.threshold) throw new Refusal(`shares of ${this.held.size} neighbours, too few to recover this device`);
  }

  // masked adds the masks to a weighted update.
  masked(words) {
    const total = words.slice();
    mask(derive(bytesOf(this.seed), this.hash, " seed"), words.length).forEach((word, i) => { total[i] += word; });
    for (const j of this.held.keys()) {
      const pair = mask(derive(agree(this.maskKey, this.members[j].maskKey), this.hash, " pair"), words.length);
      pair.forEach((word, i) => { total[i] += this.index < j ? word : -word; });
    }
    return total;
  }

  // sign signs the set of survivors. before are the clients of the set that the device has signed for
  // the task before, if it has.
  sign(survivors, before) {
    const set = Buffer.from(survivors), n = this.members.length;
    this.survivors = [...Array(8 * set.length).keys()].filter((i) => (set[i >> 3] >> (i & 7)) & 1);
    const clients = this.survivors.map((i) => this.members[i]?.client);
    if (set.length !== Math.ceil(n / 8) || clients.includes(undefined)) throw new Refusal(`a set of survivors that is none of ${n} members`);
    if (!this.survivors.includes(this.index) || clients.length < this.terms.minimum) throw new Refusal(`survivors ${clients}, without this device or fewer than ${this.terms.minimum}`);
    const strangers = this.neighbours.filter((i) => this.survivors.includes(i) && !this.held.has(i));
    if (strangers.length > 0) throw new Refusal(`the members ${strangers} survive, but have sent this device no shares`);
    this.checkConnected();
    this.checkBalanced(this.survivors.map((i) => this.members[i].weight));
    if (before && before.join() !== clients.join()) throw new Refusal(`survivors ${clients}, but this device has signed ${before}`);
    this.set = set;
    this.clients = clients;
    return this.signed(" survivors", this.hash, set);
  }

  // checkBalanced refuses a sum that would be nearly one member's update, in buffered rounds.
  checkBalanced(weights) {
    const sorted = weights.toSorted((a, b) => (a < b ? 1 : a > b ? -1 : 0));
    const others = sorted.slice(1 + this.terms.colluders).reduce((sum, x) => sum + x, 0n);
    if (this.terms.freshFactor && sorted[0] > 3n * others) throw new Refusal(`the weights ${sorted}: the sum would be nearly one update`);
  }

  // checkConnected refuses a set of survivors that falls apart, or may for all that this device knows.
  checkConnected() {
    const n = this.members.length, half = halfOf(this.terms.neighbours), want = cut(n, this.terms.neighbours, this.terms.colluders);
    if (want === 0) return;
    const survivors = new Set(this.survivors);
    // inRun has the survivors in the run that begins at each place.
    const inRun = this.ring.map((_, at) => {
      let found = 0;
      for (let d = 0; d < half; d++) if (survivors.has(this.ring[(at + d) % n])) found++;
      return found;
    });
    let fewest = 2 * half;
    for (let d = half; 2 * d <= n; d++) {
      for (let at = 0; at < n; at++) fewest = Math.min(fewest, inRun[at] + inRun[(at + d) % n]);
    }
    if (fewest < want) throw new Refusal(`two runs of the ring have ${fewest} survivors together, want ${want}: the set may fall apart`);
  }

  // reveal has for each neighbour a share: of its seed if it survives, else of its mask secret.
  reveal(signatures) {
    const n = this.members.length, signers = records(Buffer.from(signatures), 4 + SIGNATURE, "signatures", [...this.members.keys()]);
    for (const { index, body } of signers) this.check(this.members[index], body, "the survivors", " survivors", this.hash, this.set);
    const want = Math.floor((n + this.terms.colluders) / 2) + 1;
    if (signers.length < want) throw new Refusal(`${signers.length} members have signed the survivors, want ${want}`);
    return Buffer.concat([...this.held].filter(([, both]) => both).map(([j, both]) => {
      const survives = this.survivors.includes(j);
      return Buffer.concat([u32(j), Buffer.from([survives ? 0 : 1]), survives ? both.subarray(0, 32) : both.subarray(32)]);
    }));
  }
}
