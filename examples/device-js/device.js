// A minimal fedpace device: it joins the run that calls it, trains dense networks
// by plain SGD on data of its own and sends its model back, masked where the run asks
// for secure aggregation. Written from bus/fedpace.proto and docs/protocol.md alone.
//
//   node device.js --nats nats://lab:4222 --client js1 --creds js1.creds
import { createHash, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { connect, credsAuthenticator } from "@nats-io/transport-node";
import protobuf from "protobufjs";
import { noisy } from "./noise.js";
import { Member, Refusal, newIdentity, weighted } from "./secure.js";
import { localSteps, madeUp, proximalOf, shapeOf, unable } from "./sgd.js";

const { values: flags } = parseArgs({
  options: { nats: { type: "string" }, client: { type: "string" }, creds: { type: "string" }, once: { type: "boolean" }, secure: { type: "string", default: "0" } },
});
if (!flags.nats || !flags.client) {
  console.error("usage: node device.js --nats URL --client ID [--creds FILE] [--once] [--secure N]");
  process.exit(2);
}

const schema = protobuf.loadSync(fileURLToPath(new URL("../../bus/fedpace.proto", import.meta.url)));
const type = (name) => schema.lookupType(`fedpace.v1.${name}`);
const encode = (name, fields) => type(name).encode(type(name).create(fields)).finish();
// Numbers up to 2^53 are exact, and no number that a device meets is larger.
const decode = (name, bytes) => type(name).toObject(type(name).decode(bytes), { longs: Number, enums: String, defaults: true });

const PHASES = schema.lookupEnum("fedpace.v1.Phase").values;
const CHUNK = 1 << 19; // bytes of values in a message
const ECHO = 5_000; // milliseconds that an echo may be under way
const self = randomInt(1, 2 ** 47); // tells this process from others with its credentials
const now = () => process.hrtime.bigint(); // nanoseconds, monotonic

const nats = await connect({
  servers: flags.nats,
  name: `device ${flags.client}`,
  inboxPrefix: `_INBOX_${flags.client}`,
  authenticator: flags.creds ? credsAuthenticator(readFileSync(flags.creds)) : undefined,
  maxReconnectAttempts: -1,
  waitOnFirstConnect: true,
});

const STAGE = schema.lookupEnum("fedpace.v1.SecureStage").values;
const identity = newIdentity(); // signs in secure aggregation
const declined = new Set(); // runs that the device has left
// The run that it has joined: {name, welcome, beat, arrived}, and of echoes the number of the last that it has asked
// for, when that was, and how many it has asked for since the last message: {echo, echoAsked, unechoed}.
let run;
// The task at work, or the last one: {name, asked, ended, done, words, factor, signed}. done is what its steps led to,
// in case the run asks again; words are its update before it is masked, with a weight that has this factor; signed are
// the clients of the set of survivors that it has signed.
let job;
let working = { task: 0, phase: "PHASE_UNSPECIFIED" };
class Again extends Error {} // the coordinator was started again: the stages begin anew

// The highest fencing token that was heard of each run: {token, heard, lower}.
const fences = new Map();
const fence = (name) => fences.get(name)?.token ?? 0;

// admits notes the token of a message, and returns whether its coordinator has the run, as far as is known.
function admits(name, token) {
  if (!token) return true;
  const known = fences.get(name), moment = performance.now();
  if (known && token < known.token) {
    if (!known.lower || moment - known.heard > 5_000) known.lower = moment;
    known.heard = moment;
    if (moment - known.lower <= 30_000) return false;
  }
  fences.set(name, { token, heard: moment });
  return true;
}

const subject = (name, verb) => `fedpace.${name}.client.${flags.client}.${verb}`;

// request repeats a message until it is answered, or goesOn says no.
async function request(to, bytes, goesOn = () => true) {
  while (goesOn()) {
    try {
      return decode("DeviceReply", (await nats.request(to, bytes, { timeout: 5000 })).data);
    } catch (problem) {
      if (nats.isClosed()) throw problem;
      await new Promise((wake) => setTimeout(wake, 250));
    }
  }
  throw new Error("the run goes on without this task");
}

// ask makes a request of a task, and returns the answer if the task goes on.
async function ask(mine, verb, kind, fields) {
  const reply = await request(subject(mine.name, verb), encode(kind, { ...fields, process: self, fence: fence(mine.name) }), () => job === mine);
  if (job !== mine) throw new Error("another task has come");
  if (reply.status === "STATUS_REFUSED") throw new Error(`refused: ${reply.reason}`);
  if (reply.status === "STATUS_SEND_KEYS") throw new Again();
  return reply;
}

function heartbeat(log = []) {
  const { echo, deaf } = askEcho();
  nats.publish(subject(run.name, "heartbeat"), encode("Heartbeat", {
    task: working.task, phase: PHASES[working.phase], process: self, log, fence: fence(run.name), arrived: run.arrived ?? 0, echo,
  }));
  if (!deaf) return;
  console.error("no echo arrives: the device connects anew");
  nats.reconnect().catch((problem) => console.error(problem.message));
}

// askEcho returns the number of the echo that a heartbeat of an idle device asks for, 0 for none, and whether two have
// stayed away.
function askEcho() {
  if (working.task) run.unechoed = 0;
  const due = !working.task && run.welcome.echoes && performance.now() - run.echoAsked >= ECHO;
  if (!due) return { echo: 0, deaf: false };
  run.echoAsked = performance.now();
  const deaf = run.unechoed >= 2;
  run.unechoed = deaf ? 0 : run.unechoed + 1;
  return { echo: ++run.echo, deaf };
}

const joining = (name) => encode("Join", {
  name: "a JavaScript device", kernel: "javascript", samples: madeUp.samples, protocol: 11, process: self,
  fence: fence(name), heedsFences: true,
});

// back tells the run each time that the connection was lost and is back: messages may be missing.
async function back() {
  for await (const change of nats.status()) {
    if (change.type !== "reconnect" || !run) continue;
    nats.publish(subject(run.name, "join"), joining(run.name));
    heartbeat();
  }
}
back();

// join joins a run, and leaves it again if the device cannot do what it asks.
async function join(name) {
  if (declined.has(name)) return;
  const reply = await request(subject(name, "join"), joining(name));
  if (reply.status !== "STATUS_ACCEPTED") throw new Error(`run ${name} does not take this device: ${reply.reason}`);
  leave();
  let reason = unable(reply.welcome);
  const seen = reply.welcome.secure?.minimum ?? 1; // updates of which the coordinator sees the sum
  if (seen < Number(flags.secure)) reason = `sums of ${seen} updates are seen, want ${flags.secure} or more (--secure)`;
  if (reason) {
    declined.add(name);
    nats.publish(subject(name, "heartbeat"), encode("Heartbeat", { process: self, leaves: reason, fence: fence(name) }));
    throw new Error(`the device leaves run ${name}: ${reason}`);
  }
  const beat = setInterval(heartbeat, 1000 * reply.welcome.heartbeatSeconds, []);
  run = { name, welcome: reply.welcome, beat, echo: 0, echoAsked: -Infinity, unechoed: 0 };
  heartbeat();
  console.log(`joined run ${name} as client ${reply.welcome.client}`);
}

function leave() {
  if (run) clearInterval(run.beat);
  run = undefined;
}

// model fetches a model by direct get, chunk after chunk.
async function model(name, digest) {
  const parts = [];
  for (let chunk = 0, chunks = 1; chunk < chunks; chunk++) {
    const answer = await nats.request(`$JS.API.DIRECT.GET.fedpace_${name}_models.fedpace.${name}.model.${digest}.${chunk}`, undefined, { timeout: 5000 });
    if (answer.headers?.code) throw new Error(`model ${digest}: the server says ${answer.headers.code}`);
    const part = decode("ModelChunk", answer.data);
    chunks = part.chunks;
    parts.push(part.values);
  }
  const bytes = Buffer.concat(parts);
  if (createHash("sha256").update(bytes).digest("hex") !== digest) throw new Error(`model ${digest} arrives damaged`);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

// train fetches the model and takes the steps.
async function train(mine, task, arrived) {
  working.phase = "PHASE_DOWNLOAD";
  const { spec, client } = run.welcome;
  const start = await model(mine.name, Buffer.from(task.modelDigest).toString("hex"));
  const fetched = now();
  working.phase = "PHASE_COMPUTE";
  const { model: trained, loss } = localSteps(shapeOf(spec.model), start, {
    client, steps: task.localSteps, rate: task.learningRate, batch: spec.batch, proximal: proximalOf(spec.algorithm), from: task.stepsDone,
  });
  return { start, model: trained, loss, downloadNs: Number(fetched - arrived), computeNs: Number(now() - fetched) };
}

// send sends an update: chunks of its values, then how long it all took.
async function send(mine, task, values, { downloadNs, computeNs } = mine.done) {
  working.phase = "PHASE_UPLOAD";
  const bytes = Buffer.from(values.buffer); // this machine's order of bytes is little-endian
  const chunks = Math.ceil(bytes.length / CHUNK);
  const started = now();
  for (let chunk = 0; chunk <= chunks; chunk++) {
    const message = { task: task.task, taskDigest: task.digest, chunk, chunks };
    if (chunk < chunks) {
      message.values = bytes.subarray(chunk * CHUNK, (chunk + 1) * CHUNK);
    } else {
      const { loss } = mine.done;
      mine.done.uploadNs ??= Number(now() - started);
      Object.assign(message, { downloadNs, computeNs, uploadNs: mine.done.uploadNs, firstStepLoss: loss, samples: madeUp.samples });
    }
    const reply = await ask(mine, `update.${chunk}`, "Update", message);
    if (reply.status === "STATUS_REPEATED") return;
    if (reply.status === "STATUS_SEND_VALUES") chunk = -1;
  }
}

// stage sends the message of a stage of secure aggregation, and returns what the stage led to.
async function stage(mine, task, name, payload, report) {
  working.phase = { KEYS: "PHASE_KEYS", SHARES: "PHASE_SHARES", RECOVERY: "PHASE_RECOVERY", TRAINED: "PHASE_COMPUTE" }[name] ?? "PHASE_SURVIVORS";
  const message = { task: task.task, taskDigest: task.digest, stage: STAGE[`SECURE_STAGE_${name}`], payload, ...report };
  return (await ask(mine, "update.secure", "SecureMessage", message)).secure;
}

// wordsOf has the weighted update of a task as words, with the device's noise where the run asks for it.
function wordsOf({ model, start }, weight, { shift, noiseClip: clip, noiseStep: step, noiseDeviation: deviation }) {
  return deviation > 0 ? noisy(model, start, shift, { clip, step, deviation, weight }) : weighted(model, start, weight, shift);
}

// group says that the steps of a task are taken. It returns the round of the task's group, once it has one, and the
// factor of the update's weight there, at most so large.
async function group(mine, task, most) {
  const { model, loss, downloadNs, computeNs } = mine.done;
  if (!model.every(Number.isFinite)) throw new Refusal("the steps did not stay finite");
  const report = { downloadNs, computeNs, firstStepLoss: loss, samples: madeUp.samples };
  const payload = Buffer.from(await stage(mine, task, "TRAINED", Buffer.alloc(0), report));
  if (payload.length !== 12) throw new Refusal(`a group of ${payload.length} bytes`);
  const round = payload.readUInt32LE(0), factor = Number(payload.readBigUInt64LE(4));
  if (!round || factor < 1 || factor > most || factor !== (mine.factor ?? factor)) {
    throw new Refusal(`a group of round ${round} with the factor ${factor}`);
  }
  mine.factor = factor;
  return { round, factor };
}

// aggregate goes once through the stages of secure aggregation. In buffered rounds the steps come first.
async function aggregate(mine, task, arrived) {
  const { client, secure } = run.welcome;
  let { round } = task, factor = 1;
  if (secure.freshFactor) {
    mine.done ??= await train(mine, task, arrived);
    ({ round, factor } = await group(mine, task, secure.freshFactor));
  }
  const weight = Math.min(madeUp.samples, secure.maxWeight) * factor;
  const terms = { ...secure, maxWeight: secure.maxWeight * (secure.freshFactor || 1) };
  const member = new Member({ run: mine.name, round, client, weight, terms, identity });
  const roster = await stage(mine, task, "KEYS", member.entry);
  member.open(await stage(mine, task, "SHARES", member.shares(roster)));
  mine.done ??= await train(mine, task, now());
  const began = now();
  mine.words ??= wordsOf(mine.done, weight, secure); // once for a task: two sums must not differ by noise alone
  const masked = member.masked(mine.words);
  // In buffered rounds the rest was in the message of stage TRAINED.
  await send(mine, task, masked, secure.freshFactor ? { downloadNs: 0, computeNs: Number(now() - began) } : mine.done);
  const signature = member.sign(await stage(mine, task, "MASKED", Buffer.alloc(0)), mine.signed);
  mine.signed = member.clients;
  const signatures = await stage(mine, task, "SURVIVORS", signature);
  await stage(mine, task, "RECOVERY", member.reveal(signatures));
}

// attempt does a task, once: it throws Again where the coordinator has forgotten its stages.
async function attempt(mine, task, arrived) {
  if (!run.welcome.secure) {
    mine.done ??= await train(mine, task, arrived);
    await send(mine, task, mine.done.model);
    return;
  }
  try {
    await aggregate(mine, task, arrived);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    heartbeat([`secure aggregation: ${problem.message}`]);
    await stage(mine, task, "KEYS", Buffer.alloc(0)); // which is refused: the device gives the task up
  }
}

async function work(mine, task, arrived) {
  working = { task: task.task, phase: "PHASE_UNSPECIFIED" };
  try {
    for (let again = true; again;) {
      again = await attempt(mine, task, arrived).then(() => false, (problem) => {
        if (problem instanceof Again) return true;
        throw problem;
      });
    }
    console.log(`task ${task.task}: ${task.localSteps} steps, loss ${mine.done.loss.toFixed(3)}`);
  } catch (problem) {
    console.error(`task ${task.task}: ${problem.message}`);
  }
  mine.ended = true;
  if (job === mine) working = { task: 0, phase: "PHASE_UNSPECIFIED" };
}

// listen takes the messages on the device's task subject until the first run is over, with --once, or the server ends
// the subscription.
async function listen() {
  for await (const message of nats.subscribe(subject("*", "task"))) {
    const arrived = now();
    if (message.headers) continue; // a server's answer to somebody else
    const name = message.subject.split(".")[1];
    const task = decode("Task", message.data);
    if (!admits(name, task.fence)) continue; // of a coordinator whose run another has taken over
    if (run?.name === name) run.unechoed = 0;
    if (task.echo) continue;
    try {
      if (task.task === 0 && task.over) {
        declined.delete(name);
        fences.delete(name);
        if (run?.name !== name) continue;
        leave();
        console.log("the run is over");
        if (flags.once) return;
      } else if (task.task === 0) {
        await join(name);
      } else {
        if (run?.name !== name) await join(name);
        if (run?.name !== name) continue;
        run.arrived = task.task;
        const asked = `${task.task} ${Buffer.from(task.digest).toString("hex")}`;
        const repeated = job?.name === name && job.asked === asked;
        if (repeated && !job.ended) continue;
        job = repeated ? { ...job, ended: false } : { name, asked };
        work(job, task, arrived); // which ends by itself, also when job is another
        heartbeat();
      }
    } catch (problem) {
      console.error(problem.message);
    }
  }
}

for (let listens = true; listens;) {
  try {
    await listen();
    listens = false;
  } catch (problem) {
    if (problem.operation !== "subscription") throw problem;
    // The permission may be given back, and the server does not begin the subscription again.
    console.error(`${problem.message}; trying again`);
    await new Promise((wake) => setTimeout(wake, 2 * ECHO));
  }
}
await nats.drain();
