# /// script
# requires-python = ">=3.11"
# dependencies = ["nats-py[nkeys]==2.16.0", "numpy==2.3.5", "cryptography==46.0.3", "grpcio-tools==1.85.1"]
# ///
"""A small fedpace device: it joins the run that calls it, trains dense networks by plain SGD on data of
its own and sends its model back, masked where the run asks for secure aggregation. Written from
bus/fedpace.proto and docs/protocol.md alone.

    uv run device.py --nats nats://lab:4222 --client py1 --creds py1.creds
"""

import argparse
import asyncio
import secrets
import struct
import sys
import time
from pathlib import Path

import grpc
import nats
import numpy as np

import noise
import secure
import sgd

sys.path.append(str(Path(__file__).parents[2] / "bus"))
proto = grpc.protos("fedpace.proto")
CHUNK = 1 << 19  # bytes of values in a message
ECHO_SECONDS = 5  # how long an echo may be under way
PROCESS = secrets.randbits(63)  # tells this process from others with its credentials


PHASES = {proto.SECURE_STAGE_KEYS: proto.PHASE_KEYS, proto.SECURE_STAGE_SHARES: proto.PHASE_SHARES,
          proto.SECURE_STAGE_MASKED: proto.PHASE_SURVIVORS, proto.SECURE_STAGE_SURVIVORS: proto.PHASE_SURVIVORS,
          proto.SECURE_STAGE_RECOVERY: proto.PHASE_RECOVERY, proto.SECURE_STAGE_TRAINED: proto.PHASE_COMPUTE}


def words_of(model, start, weight, asked):
    """The weighted update of a task as words, with the device's noise where the run asks for it."""
    if not asked.noise_deviation:
        return secure.weighted(model, start, weight, asked.shift)
    return noise.weighted(model, start, asked.shift, asked.noise_clip, asked.noise_step, asked.noise_deviation, weight)


class Refused(Exception):
    """The coordinator does not take a message, or the device does not take part."""


class Again(Exception):
    """The coordinator was started again: the stages begin anew."""


class Device:
    def __init__(self, client, connection, survivors):
        self.client, self.nats, self.survivors = client, connection, survivors
        self.declined = set()  # runs that the device has left
        self.run, self.welcome, self.beats = None, None, None
        self.fences = {}  # of each run the highest token, when one was heard, and since when lower ones come alone
        self.arrived = 0  # the newest task
        # The number of the last echo that was asked for, when that was, and how many were since the last message.
        self.echo, self.echo_asked, self.unechoed = 0, 0, 0
        self.asked, self.task, self.phase, self.worker = None, 0, proto.PHASE_UNSPECIFIED, None
        # What the steps of the last task led to, in case the run asks again, its words before they are masked, the
        # factor of their weight, and the clients of the set of survivors that the device has signed for it.
        self.done, self.words, self.factor, self.signed = None, None, None, None
        self.identity = secure.Ed25519PrivateKey.generate()

    def subject(self, run, verb):
        return f"fedpace.{run}.client.{self.client}.{verb}"

    async def request(self, subject, message):
        """Repeats a message until it is answered."""
        while True:
            try:
                answer = await self.nats.request(subject, message.SerializeToString(), timeout=5)
                return proto.DeviceReply.FromString(answer.data)
            except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                await asyncio.sleep(0.25)

    async def ask(self, subject, message):
        """Makes a request of a task, and returns the answer if the task goes on."""
        reply = await self.request(self.subject(self.run, subject), message)
        if reply.status == proto.STATUS_REFUSED:
            raise Refused(f"refused: {reply.reason}")
        if reply.status == proto.STATUS_SEND_KEYS:
            raise Again
        return reply

    def joining(self, run):
        """Returns the message with which the device joins a run."""
        return proto.Join(name="a Python device", kernel="python", samples=sgd.SAMPLES, protocol=11, process=PROCESS,
                          fence=self.fence(run), heeds_fences=True)

    async def join(self, run):
        """Joins a run, and leaves it again if the device cannot do what it asks."""
        if run in self.declined:
            return
        reply = await self.request(self.subject(run, "join"), self.joining(run))
        if reply.status != proto.STATUS_ACCEPTED:
            raise Refused(f"run {run} does not take this device: {reply.reason}")
        self.leave()
        welcome = reply.welcome
        reason = sgd.unable(welcome)
        if welcome.secure.minimum < self.survivors:
            reason = f"sums of {welcome.secure.minimum or 1} updates are seen, want {self.survivors} or more (--secure)"
        if reason:
            self.declined.add(run)
            await self.publish(run, proto.Heartbeat(process=PROCESS, leaves=reason, fence=self.fence(run)))
            raise Refused(f"the device leaves run {run}: {reason}")
        self.run, self.welcome = run, welcome
        self.beats = asyncio.create_task(self.beat())
        print(f"joined run {run} as client {welcome.client}", flush=True)

    def leave(self):
        if self.beats:
            self.beats.cancel()
        self.run, self.beats, self.arrived, self.unechoed = None, None, 0, 0

    async def back(self):
        """Tells the run that the connection was lost and is back: messages may be missing."""
        if self.run:
            await self.nats.publish(self.subject(self.run, "join"), self.joining(self.run).SerializeToString())
            await self.heartbeat()

    def fence(self, run):
        """Returns the highest fencing token that was heard from a run."""
        return self.fences.get(run, (0, 0, 0))[0]

    def admits(self, run, token):
        """Notes the token of a message, and returns whether its coordinator has the run, as far as is known."""
        highest, heard, lower = self.fences.get(run, (0, 0, 0))
        now = time.monotonic()
        if token and token < highest:
            if not lower or now - heard > 5:
                lower = now
            if now - lower <= 30:
                self.fences[run] = highest, now, lower
                return False
        if token:
            self.fences[run] = token, now, 0
        return True

    async def beat(self):
        while True:
            await self.heartbeat()
            pause = self.welcome.heartbeat_seconds
            await asyncio.sleep(min(pause, ECHO_SECONDS) if self.unechoed > 1 else pause)

    async def heartbeat(self, *log):
        beat = proto.Heartbeat(task=self.task, phase=self.phase, process=PROCESS, log=log)
        beat.fence, beat.arrived = self.fence(self.run), self.arrived
        deaf = self.ask_echo(beat)
        await self.publish(self.run, beat)
        if deaf:
            print("no echo arrives: the device connects anew", file=sys.stderr, flush=True)
            await self.nats.force_reconnect()

    def ask_echo(self, beat):
        """Asks an idle device's run for an echo, and returns whether two have stayed away."""
        if self.task:
            self.unechoed = 0
        due = not self.task and self.welcome.echoes and time.monotonic() - self.echo_asked >= ECHO_SECONDS
        if not due:
            return False
        self.echo, self.echo_asked = self.echo + 1, time.monotonic()
        beat.echo = self.echo
        deaf = self.unechoed >= 2
        self.unechoed = 0 if deaf else self.unechoed + 1
        return deaf

    async def publish(self, run, heartbeat):
        await self.nats.publish(self.subject(run, "heartbeat"), heartbeat.SerializeToString())

    async def model(self, digest):
        """Fetches a model by direct get, chunk after chunk."""
        values, chunk, chunks = b"", 0, 1
        while chunk < chunks:
            subject = f"fedpace.{self.run}.model.{digest.hex()}.{chunk}"
            answer = await self.nats.request(f"$JS.API.DIRECT.GET.fedpace_{self.run}_models.{subject}", timeout=5)
            if answer.headers and "Status" in answer.headers:
                raise Refused(f"model {digest.hex()}: the server says {answer.headers['Status']}")
            part = proto.ModelChunk.FromString(answer.data)
            values, chunk, chunks = values + part.values, chunk + 1, part.chunks
        if secure.sha256(values).digest() != digest:
            raise Refused(f"model {digest.hex()} arrives damaged")
        return np.frombuffer(values, "<f4").astype(np.float32)

    async def train(self, task, arrived):
        """Fetches the model and takes the steps. What it returns is what is sent again if the run asks."""
        self.phase = proto.PHASE_DOWNLOAD
        start = await self.model(task.model_digest)
        fetched = time.monotonic_ns()
        self.phase = proto.PHASE_COMPUTE
        model, loss = await asyncio.to_thread(sgd.local_steps, start, self.welcome, task)
        last = proto.Update(download_ns=fetched - arrived, compute_ns=time.monotonic_ns() - fetched,
                            first_step_loss=loss, samples=sgd.SAMPLES)
        return start, model, last

    async def send(self, task, values, last):
        """Sends an update: chunks of its values, then how long it all took."""
        self.phase = proto.PHASE_UPLOAD
        bytes = values.tobytes()
        chunks = -(-len(bytes) // CHUNK)
        common = dict(task=task.task, task_digest=task.digest, process=PROCESS, chunks=chunks,
                      fence=self.fence(self.run))
        started, chunk = time.monotonic_ns(), 0
        while chunk <= chunks:
            message = proto.Update(chunk=chunk, values=bytes[chunk * CHUNK : (chunk + 1) * CHUNK], **common)
            if chunk == chunks:
                last.upload_ns = last.upload_ns or time.monotonic_ns() - started
                message.MergeFrom(last)
            reply = await self.ask(f"update.{chunk}", message)
            if reply.status == proto.STATUS_REPEATED:
                return
            chunk = 0 if reply.status == proto.STATUS_SEND_VALUES else chunk + 1

    async def stage(self, task, stage, payload, **report):
        """Sends a stage's message and returns what the stage led to."""
        self.phase = PHASES[stage]
        message = proto.SecureMessage(task=task.task, task_digest=task.digest, process=PROCESS, stage=stage, **report)
        message.payload, message.fence = payload, self.fence(self.run)
        return (await self.ask("update.secure", message)).secure

    async def group(self, task, most):
        """Says that the steps of a task are taken. Returns the round of its group, once it has one, and the factor
        of the update's weight there, at most so large."""
        _, model, last = self.done
        if not np.isfinite(model).all():
            raise secure.Refusal("the steps did not stay finite")
        report = dict(download_ns=last.download_ns, compute_ns=last.compute_ns, first_step_loss=last.first_step_loss,
                      samples=last.samples)
        payload = await self.stage(task, proto.SECURE_STAGE_TRAINED, b"", **report)
        if len(payload) != 12:
            raise secure.Refusal(f"a group of {len(payload)} bytes")
        number, factor = struct.unpack("<IQ", payload)
        if not number or not 1 <= factor <= most or factor != (self.factor or factor):
            raise secure.Refusal(f"a group of round {number} with the factor {factor}")
        self.factor = factor
        return number, factor

    async def aggregate(self, task, arrived):
        """Goes once through the stages of secure aggregation. In buffered rounds the steps come first."""
        asked, number, factor = self.welcome.secure, task.round, 1
        if asked.fresh_factor:
            if self.done is None:
                self.done = await self.train(task, arrived)
            number, factor = await self.group(task, asked.fresh_factor)
        terms = {name: getattr(asked, name) for name in (*secure.NAMES, "fresh_factor")}
        terms["max_weight"] = asked.max_weight * max(1, asked.fresh_factor)
        weight = min(sgd.SAMPLES, asked.max_weight) * factor
        member = secure.Member(self.run, number, self.welcome.client, weight, terms, self.identity)
        roster = await self.stage(task, proto.SECURE_STAGE_KEYS, member.entry)
        member.open(await self.stage(task, proto.SECURE_STAGE_SHARES, member.shares(roster)))
        if self.done is None:
            self.done = await self.train(task, time.monotonic_ns())
        start, model, last = self.done
        began = time.monotonic_ns()
        if self.words is None:  # once for a task: two sums must not differ by noise alone
            self.words = await asyncio.to_thread(words_of, model, start, weight, asked)
        masked = member.masked(self.words)
        if asked.fresh_factor:  # the rest was in the message of stage TRAINED
            last = proto.Update(compute_ns=time.monotonic_ns() - began, first_step_loss=last.first_step_loss,
                                samples=last.samples)
        await self.send(task, masked, last)
        survivors = await self.stage(task, proto.SECURE_STAGE_MASKED, b"")
        signature = member.sign(survivors, self.signed)
        self.signed = member.clients
        signatures = await self.stage(task, proto.SECURE_STAGE_SURVIVORS, signature)
        await self.stage(task, proto.SECURE_STAGE_RECOVERY, member.reveal(signatures))

    async def work(self, task, arrived):
        self.task = task.task
        again = True
        try:
            while again:
                try:
                    await self.attempt(task, arrived)
                    again = False
                except Again:
                    pass
            print(f"task {task.task}: {task.local_steps} steps, loss {self.done[2].first_step_loss:.3f}", flush=True)
        except Refused as problem:
            print(f"task {task.task}: {problem}", file=sys.stderr, flush=True)
        finally:
            self.task, self.phase = 0, proto.PHASE_UNSPECIFIED

    async def attempt(self, task, arrived):
        if self.welcome.HasField("secure"):
            try:
                await self.aggregate(task, arrived)
            except secure.Refusal as problem:
                await self.heartbeat(f"secure aggregation: {problem}")
                await self.stage(task, proto.SECURE_STAGE_KEYS, b"")  # which is refused: the device gives the task up
        else:
            if self.done is None:
                self.done = await self.train(task, arrived)
            await self.send(task, self.done[1], self.done[2])

    async def take(self, run, data):
        """Takes a message of a run. It returns whether that run, which was the device's, is over."""
        arrived = time.monotonic_ns()
        task = proto.Task.FromString(data)
        if not self.admits(run, task.fence):
            return False  # of a coordinator whose run another has taken over
        if run == self.run:
            self.unechoed = 0
        if task.echo:
            return False
        if task.task == 0 and task.over:
            over = run == self.run
            self.declined.discard(run)
            self.fences.pop(run, None)
            if over:
                self.leave()
                print("the run is over", flush=True)
            return over
        if task.task == 0 or run != self.run:
            await self.join(run)
        if task.task and run == self.run:
            working = self.worker and not self.worker.done()
            self.arrived = task.task
            repeated = (run, task.task, task.digest) == self.asked
            if repeated and working:
                return False
            if working:
                self.worker.cancel()
                await asyncio.wait([self.worker])
            if not repeated:
                self.asked = run, task.task, task.digest
                self.done, self.words, self.factor, self.signed = None, None, None, None
            self.worker = asyncio.create_task(self.work(task, arrived))
            await asyncio.sleep(0)
            await self.heartbeat()
        return False


async def report(problem):
    print(f"the connection: {problem}", file=sys.stderr, flush=True)


async def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--nats", required=True, metavar="URL")
    flags.add_argument("--client", required=True, metavar="ID")
    flags.add_argument("--creds", metavar="FILE")
    flags.add_argument("--once", action="store_true", help="end with the first run")
    flags.add_argument("--secure", type=int, default=0, metavar="N", help="fewest updates in a sum that is seen")
    given = flags.parse_args()
    device = None

    async def back():
        if device:
            await device.back()

    connection = await nats.connect(given.nats, name=f"device {given.client}", user_credentials=given.creds,
                                    inbox_prefix=f"_INBOX_{given.client}".encode(), error_cb=report,
                                    reconnected_cb=back, max_reconnect_attempts=-1, reconnect_time_wait=0.5)
    device = Device(given.client, connection, given.secure)
    tasks = await connection.subscribe(device.subject("*", "task"))
    async for message in tasks.messages:
        if message.headers:
            continue  # a server's answer to somebody else
        try:
            if await device.take(message.subject.split(".")[1], message.data) and given.once:
                break
        except Refused as problem:
            print(problem, file=sys.stderr, flush=True)
    await connection.drain()


if __name__ == "__main__":
    asyncio.run(main())
