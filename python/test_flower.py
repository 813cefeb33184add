"""What the processes of Flower apps compute without flwr: local steps, virtual time, frames."""

import os
import tempfile
import time
import unittest

from fedpace import flower_client as client
from fedpace import flower_wire as wire

HELLO = {"steps": "", "evaluate_steps": ""}


class Steps(unittest.TestCase):
    """How many local steps a message took."""

    def test_usual_keys(self):
        """Epochs times minibatches, by hand: 3 * ceil(35 / 10), and 32 where no key has a size."""
        self.assertEqual(client.usual_steps({"local-epochs": 3, "batch-size": 10, "num-examples": 35}), 12)
        self.assertEqual(client.usual_steps({"epochs": 2, "num_examples": 65}), 6)
        self.assertEqual(client.usual_steps({"local-steps": 7, "num-examples": 1}), 7)
        self.assertIsNone(client.usual_steps({"local-epochs": 3}))

    def test_passes(self):
        """A run's three and five epochs, as local steps of minibatches of at most 10 and 32 samples."""
        for samples, batch, epochs in ((13, 10, 5), (35, 10, 3), (10, 10, 3), (100, 32, 5), (1, 1, 5)):
            steps = epochs * -(-samples // batch)
            self.assertEqual(client.passes(steps, batch, samples), epochs)
        self.assertEqual(client.passes(1, 10, 100), 1)
        self.assertEqual(client.passes(8, 10, 33), 2)

    def test_forward(self):
        """A third of a step a minibatch, rounded up: 7 minibatches are 7/3."""
        self.assertEqual(client.forward_steps({"num-examples": 70, "batch-size": 10}), 3)
        self.assertEqual(client.forward_steps({}), 0)

    def test_order(self):
        """A formula goes before PyTorch's count, that before the keys, and nothing is one step."""
        costs = client.Costs({"steps": "2 * local_epochs", "evaluate_steps": ""})
        self.assertEqual(costs.of("train", 5, {"local-epochs": 3}), (6, "formula"))
        costs = client.Costs(HELLO)
        self.assertEqual(costs.of("train.other", 5, {"local-steps": 3}), (5, "torch"))
        self.assertEqual(costs.of("train", 0, {"local-steps": 3}), (3, "keys"))
        self.assertEqual(costs.of("train", 0, {}), (1, "unknown"))
        self.assertEqual(costs.of("query", 0, {}), (0, "keys"))

    def test_formula(self):
        """Arithmetic with the keys of the app; nothing else."""
        formula = client.Expression("ceil(num_examples / batch_size) * local_epochs if local_epochs > 0 else 1")
        self.assertEqual(formula.steps({"num-examples": 31, "batch-size": 10, "local-epochs": 2}), 8)
        for text in ("__import__('os')", "a.b", "[1][0]", "open('x')", "1 +", "lambda: 1"):
            with self.assertRaises(ValueError, msg=text):
                client.Expression(text)
        with self.assertRaisesRegex(ValueError, "num_samples.*there are num_examples"):
            client.Expression("num_samples").steps({"num-examples": 3})


class Frames(unittest.TestCase):
    """Frames on two pipes."""

    def test_round_trip(self):
        """Headers and blobs come back, also empty blobs and those larger than a pipe."""
        request, requests = os.pipe()
        pipe = wire.Pipe(request, requests)
        pipe.write({"a": 1.5}, [b"", b"xyz"])
        self.assertEqual(pipe.read(), ({"a": 1.5, "blobs": [0, 3]}, [b"", b"xyz"]))
        os.close(requests)
        self.assertEqual(pipe.read(), (None, []))

    def test_shared_memory(self):
        """Large blobs go through the memory where it has room, and else through the pipe."""
        request, requests = os.pipe()
        with tempfile.TemporaryFile() as memory:
            pipe = wire.Pipe(request, requests, memory.fileno())
            blobs = [b"x", b"y" * wire.MIN_SHARED]
            pipe.write({"a": 1}, blobs)
            self.assertEqual(pipe.read(), ({"a": 1, "blobs": [1, wire.MIN_SHARED]}, blobs))
            memory.truncate(2 * wire.MIN_SHARED)
            pipe.write({"a": 2}, blobs)
            self.assertEqual(os.pread(memory.fileno(), 3, 0), b"xyy")
            header, received = pipe.read()
            self.assertTrue(header["shared"])
            self.assertEqual(received, blobs)
            pipe.write({"a": 4}, [blobs[0], b"z" * wire.MIN_SHARED], free=False)
            self.assertEqual(os.pread(memory.fileno(), 3, 0), b"xyy")
            self.assertEqual(pipe.read()[1][1], b"z" * wire.MIN_SHARED)
            pipe.write({"a": 3}, [b"z"])
            self.assertEqual(pipe.read(), ({"a": 3, "blobs": [1]}, [b"z"]))
            self.assertEqual(received, blobs)
        os.close(requests)

    def test_arena(self):
        """Blobs lie in the room of a request, each at a multiple of 64 bytes, if they fit there."""
        request, requests = os.pipe()
        with tempfile.TemporaryFile() as arena:
            arena.truncate(4096)
            pipe = wire.Pipe(request, requests)
            pipe.share(4096, arena.fileno())
            blobs = [b"text", b"", b"y" * 65]
            pipe.write({"a": 1}, blobs, [1024, 192])
            self.assertEqual(pipe.read(), ({"a": 1, "blobs": [4, 0, 65], "placed": True}, []))
            self.assertEqual([bytes(view) for view in pipe.placed(1024, [4, 0, 65])], blobs)
            self.assertEqual(os.pread(arena.fileno(), 2, 1088), b"yy")
            pipe.write({"a": 2}, blobs, [1024, 191])
            self.assertEqual(pipe.read(), ({"a": 2, "blobs": [4, 0, 65]}, blobs))
        os.close(requests)


class VirtualTime(unittest.TestCase):
    """The clock of a ServerApp's thread."""

    def test_sleep(self):
        """Sleeping takes no wall time where the clock governs, and goes by the machine elsewhere."""
        from fedpace.flower_clock import CLOCK, EPOCH

        CLOCK.govern()
        before = time.time()
        time.sleep(3600.5)
        self.assertEqual(time.time() - before, 3600.5)
        self.assertEqual(time.monotonic(), 3600.5)
        self.assertEqual(before, EPOCH)
        with CLOCK.real_time():
            self.assertGreater(time.time(), EPOCH + 3601)
        self.assertEqual(CLOCK.until(1.5), 3_602_000_000_000)
        self.assertIsNone(CLOCK.until(None))


if __name__ == "__main__":
    unittest.main()
