// A minimal fedpace device: it joins the run that calls it, trains dense networks
// by plain SGD on data of its own and sends its model back. Written from
// bus/fedpace.proto and docs/protocol.md alone.
//
//   node device.js --nats nats://lab:4222 --client js1 --creds js1.creds
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { connect, credsAuthenticator } from "@nats-io/transport-node";
import protobuf from "protobufjs";
import { layersOf, localSteps, madeUp, plainSteps, proximalOf } from "./sgd.js";

const { values: flags } = parseArgs({
  options: { nats: { type: "string" }, client: { type: "string" }, creds: { type: "string" }, once: { type: "boolean" } },
});
if (!flags.nats || !flags.client) {
  console.error("usage: node device.js --nats URL --client ID [--creds FILE] [--once]");
  process.exit(2);
}

const schema = protobuf.loadSync(fileURLToPath(new URL("../../bus/fedpace.proto", import.meta.url)));
const type = (name) => schema.lookupType(`fedpace.v1.${name}`);
const encode = (name, fields) => type(name).encode(type(name).create(fields)).finish();
// Numbers up to 2^53 are exact, and no number that a device meets is larger.
const decode = (name, bytes) => type(name).toObject(type(name).decode(bytes), { longs: Number, enums: String, defaults: true });

const PHASES = schema.lookupEnum("fedpace.v1.Phase").values;
const CHUNK = 1 << 19; // bytes of values in a message
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

let run; // joined: {name, welcome, beat}
let working = { task: 0, phase: "PHASE_UNSPECIFIED" };
let done; // the last update with the message that asked for it, in case the run asks again

const subject = (name, verb) => `fedpace.${name}.client.${flags.client}.${verb}`;

// request repeats a message until it is answered.
async function request(to, bytes) {
  for (;;) {
    try {
      return decode("DeviceReply", (await nats.request(to, bytes, { timeout: 5000 })).data);
    } catch (problem) {
      if (nats.isClosed()) throw problem;
      await new Promise((wake) => setTimeout(wake, 250));
    }
  }
}

async function join(name) {
  const reply = await request(subject(name, "join"), encode("Join", { name: "a JavaScript device", kernel: "javascript", samples: madeUp.samples, process: self }));
  if (reply.status !== "STATUS_ACCEPTED") throw new Error(`run ${name} does not take this device: ${reply.reason}`);
  leave();
  const beat = setInterval(() => nats.publish(subject(name, "heartbeat"), encode("Heartbeat", { task: working.task, phase: PHASES[working.phase], process: self })),
    1000 * reply.welcome.heartbeatSeconds);
  run = { name, welcome: reply.welcome, beat };
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
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

// send sends an update: chunks of the model, then how long it all took.
async function send(name, update) {
  const bytes = Buffer.alloc(4 * update.model.length);
  update.model.forEach((x, i) => bytes.writeFloatLE(x, 4 * i));
  const chunks = Math.ceil(bytes.length / CHUNK);
  const started = now();
  for (let chunk = 0; chunk <= chunks; chunk++) {
    const message = { task: update.task, taskDigest: update.taskDigest, chunk, chunks, process: self };
    if (chunk < chunks) {
      message.values = bytes.subarray(chunk * CHUNK, (chunk + 1) * CHUNK);
    } else {
      update.uploadNs ??= Number(now() - started);
      Object.assign(message, {
        downloadNs: update.downloadNs, computeNs: update.computeNs, uploadNs: update.uploadNs,
        firstStepLoss: update.loss, samples: madeUp.samples,
      });
    }
    const reply = await request(subject(name, `update.${chunk}`), encode("Update", message));
    if (reply.status === "STATUS_REFUSED") return `refused: ${reply.reason}`;
    if (reply.status === "STATUS_REPEATED") return "repeated";
    if (reply.status === "STATUS_SEND_VALUES") chunk = -1;
  }
  return "accepted";
}

async function work(name, task, arrived, asked) {
  working = { task: task.task, phase: "PHASE_DOWNLOAD" };
  plainSteps(run.welcome.spec);
  const start = await model(name, Buffer.from(task.modelDigest).toString("hex"));
  const fetched = now();
  working.phase = "PHASE_COMPUTE";
  const layers = layersOf(run.welcome.spec.model);
  const { model: trained, loss } = localSteps(layers, start, {
    steps: task.localSteps, rate: task.learningRate, batch: run.welcome.spec.batch, proximal: proximalOf(run.welcome.spec.algorithm), from: task.stepsDone,
  });
  const computed = now();
  working.phase = "PHASE_UPLOAD";
  done = { run: name, asked, task: task.task, taskDigest: task.digest, model: trained, loss, downloadNs: Number(fetched - arrived), computeNs: Number(computed - fetched) };
  console.log(`task ${task.task}: ${task.localSteps} steps, loss ${loss.toFixed(3)}, ${await send(name, done)}`);
  working = { task: 0, phase: "PHASE_UNSPECIFIED" };
}

// One message after the other: a repeat that waited is a task that is done.
for await (const message of nats.subscribe(subject("*", "task"))) {
  const arrived = now();
  if (message.headers) continue; // a server's answer to somebody else
  const name = message.subject.split(".")[1];
  const task = decode("Task", message.data);
  try {
    if (task.task === 0 && task.over) {
      if (run?.name !== name) continue;
      leave();
      console.log("the run is over");
      if (flags.once) break;
    } else if (task.task === 0) {
      await join(name);
    } else {
      if (run?.name !== name) await join(name);
      if (done?.run === name && Buffer.compare(done.asked, message.data) === 0) await send(name, done);
      else await work(name, task, arrived, message.data);
    }
  } catch (problem) {
    console.error(problem.message);
  }
}
await nats.drain();
