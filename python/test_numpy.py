"""Tests of trainers without PyTorch: the conversation, samples, and steps in numpy."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock
import unittest.mock

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata")]

import fedpace
from fedpace import trainer
from host import HERE, Files, Host
from mlp_numpy import MLP

MLP_SCRIPT = os.path.join(HERE, "testdata", "mlp_numpy.py")


def script(folder, text):
    """Writes a trainer's script and returns its path."""
    path = os.path.join(folder, "own_model.py")
    with open(path, "w") as f:
        f.write(textwrap.dedent(text))
    return path


def blobs(rows=200, features=6, classes=3):
    """Samples around a point for each label."""
    draws = np.random.default_rng(5)
    y = draws.integers(0, classes, rows)
    return (draws.normal(size=(classes, features))[y] + draws.normal(size=(rows, features)) / 2).astype(np.float32), y


def minibatches(seed, steps=6, rows=200, batch=16):
    draws = np.random.default_rng(seed)
    return [draws.integers(0, rows, batch) for _ in range(steps)]


class Conversation(unittest.TestCase):
    """A process with the numpy model of 6-5-3, asked as fedpace asks it."""

    def setUp(self):
        self.files, (self.x, self.y) = Files(), blobs()
        self.host = Host([MLP_SCRIPT, "6", "5", "3"], self.files.dense(self.x, self.y, classes=3))
        self.addCleanup(self.files.file.close)

    def tearDown(self):
        _, err = self.host.close()
        self.assertEqual((err, self.host.process.returncode), ("", 0))

    def tasks(self, n):
        return [{"client": i, "rate": 0.1, "seed": i, "steps": minibatches(i)} for i in range(n)]

    def test_greeting(self):
        hello = self.host.hello
        self.assertEqual([t["shape"] for t in hello["tensors"]], [[5, 6], [5], [3, 5], [3]])
        self.assertEqual(hello["metrics"], [{"name": "accuracy", "better": "higher"}])
        self.assertEqual((hello["name"], hello["data"]), ("mlp_numpy.py", None))
        self.assertRegex(hello["class"], r"^numpy[0-9_]+-cpu-[0-9a-f]{8}$")

    def test_work(self):
        base = self.host.initialise(7)
        self.assertEqual(base.tobytes(), self.host.initialise(7).tobytes())
        self.assertNotEqual(base.tobytes(), self.host.initialise(8).tobytes())
        models = self.host.train(base, self.tasks(5))
        self.assertEqual(self.host.last, {"id": self.host.asked, "done": {}})
        here = MLP([6, 5, 3])
        for (model, loss), task in zip(models, self.tasks(5)):
            want = base.copy()
            for k, rows in enumerate(task["steps"]):
                first, gradient = here.gradient(want, self.x[rows], self.y[rows], None)
                if k == 0:
                    self.assertAlmostEqual(loss, first, 6)
                want = want - np.float32(0.1) * gradient
            np.testing.assert_allclose(model, want, atol=1e-6)
        scores = self.host.evaluate(models[0][0], np.arange(200))["scores"]
        (want, _), [(right, _)] = here.measure(models[0][0], self.x, self.y)
        self.assertAlmostEqual(scores["loss"]["sum"], want, 3)
        self.assertEqual(scores["loss"]["weight"], 200)
        self.assertEqual(scores["metrics"], [{"sum": right, "weight": 200}])

    def test_fedprox_and_scaffold(self):
        base, here = self.host.initialise(1), MLP([6, 5, 3])
        task = dict(self.tasks(1)[0], correction=np.random.default_rng(0).normal(size=len(base)).astype(np.float32))
        (model, _), = self.host.train(base, [task], proximal=0.5)
        want = base.copy()
        for rows in task["steps"]:
            gradient = here.gradient(want, self.x[rows], self.y[rows], None)[1]
            want = want - np.float32(0.1) * (gradient + np.float32(0.5) * (want - base) + task["correction"])
        np.testing.assert_allclose(model, want, atol=1e-5)

    def test_a_slot_is_written_to_when_it_has_been_taken(self):
        base = self.host.initialise(1)
        models = self.host.train(base, self.tasks(3), slots=3)
        replies = self.host.start(base, self.tasks(3), slots=1)
        self.assertEqual(next(replies)["task"]["index"], 0)
        self.host.send(cancel={})  # in the place of an acknowledgement
        self.assertEqual(list(replies), [])
        self.assertIn("cancelled", self.host.last)
        self.assertEqual(self.host.floats(self.host.stride()).tobytes(), models[0][0].tobytes())
        self.assertEqual([m.tobytes() for m, _ in self.host.train(base, self.tasks(3), slots=1)], [m.tobytes() for m, _ in models])

    def test_cancelling(self):
        base = self.host.initialise(1)
        replies = self.host.start(base, [{"client": 0, "rate": 0.1, "seed": 0, "steps": minibatches(0, 100000, batch=4)}])
        self.host.send(cancel={})
        self.assertEqual(list(replies), [])
        self.assertEqual(self.host.last, {"id": self.host.asked, "cancelled": {}})
        self.assertEqual(len(self.host.train(base, self.tasks(2))), 2)
        self.host.send(cancel={})  # too late: there is nothing to cancel
        self.assertEqual(len(self.host.train(base, self.tasks(2))), 2)

    def test_divergence(self):
        base = self.host.initialise(1)
        tasks = self.tasks(2)
        tasks[1]["rate"] = 1e30
        self.assertEqual(len(self.host.train(base, tasks)), 1)
        said = self.host.last["diverged"]
        self.assertEqual((said["index"], said["cause"]), (1, "the loss is nan"))
        self.assertGreater(said["step"], 0)


class Failures(unittest.TestCase):
    def start(self, text, **options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = Files()
        self.addCleanup(files.file.close)
        x, y = blobs()
        return Host([script(folder.name, text)], files.dense(x, y, classes=3), **options)

    def test_an_exception_says_where(self):
        host = self.start("""\
            import fedpace

            class Own(fedpace.Trainer):
                tensors = [fedpace.Tensor("a", (3,))]

                def gradient(self, model, x, y, draws):
                    print("seen", len(x))
                    return helper(x)

            def helper(x):
                raise KeyError("there is no such thing")

            fedpace.run(Own())
            """)
        self.assertEqual(host.train(np.zeros(3, np.float32), [{"client": 4, "rate": 1, "seed": 0, "steps": [[1, 2]]}]), [])
        self.assertEqual(host.last["error"], {"index": 0, "text": "KeyError: 'there is no such thing'", "file": "own_model.py", "line": 11})
        self.assertIn("error", host.evaluate(np.zeros(3, np.float32), [0]))  # measure is not written
        out, err = host.close()
        self.assertEqual(out, "seen 2\n")
        self.assertIn("Traceback", err)

    def test_an_exception_at_the_start(self):
        host = self.start("""\
            import fedpace

            class Own(fedpace.Trainer):
                def begin(self, setting):
                    raise KeyError("there is no such thing")

            fedpace.run(Own())
            """)
        self.assertEqual(host.last, {"id": 0, "error": {"index": -1, "text": "KeyError: 'there is no such thing'", "file": "own_model.py", "line": 5}})
        self.assertEqual(host.close()[1].count("there is no such thing"), 2)  # the line of the script, and the error

    def test_what_is_no_score_and_no_loss(self):
        """One number is not taken for a sum and a weight, nor the loss for a metric; a loss that is no number diverges."""
        host = self.start("""\
            import fedpace

            class Own(fedpace.Trainer):
                tensors = [fedpace.Tensor("a", (3,))]
                metrics = [fedpace.Metric("accuracy")]

                def measure(self, model, x, y):
                    return [(0.5, []), ((1, 2), [])][len(x) - 1]

                def train(self, job, alive):
                    yield job.base, float("nan"), b""

            fedpace.run(Own())
            """)
        base = np.zeros(3, np.float32)
        for rows in ([0], [0, 1]):
            said = host.evaluate(base, rows)["error"]
            self.assertRegex(said["text"], "measure returns .*; want a sum and a weight of the loss, and of each of 1 metrics")
            self.assertEqual((said["file"], said["line"]), ("own_model.py", 7))
        self.assertEqual(host.train(base, [{"client": 4, "rate": 1, "seed": 0, "steps": [[1, 2]]}]), [])
        self.assertEqual(host.last["diverged"], {"index": 0, "step": 1, "cause": "the loss is nan"})
        host.close()

    def test_names_of_metrics(self):
        for metrics, says in (
            ('[fedpace.Metric("top-1")]', 'metric "top-1" is not 1 to 40 letters, digits and _'),
            ("[fedpace.Metric(7)]", "metric 7 is not 1 to 40 letters, digits and _"),
            ('[fedpace.Metric("loss")]', 'a metric has the name "loss", which results have already'),
            ('2 * [fedpace.Metric("error")]', 'two metrics have the name "error"'),
        ):
            with self.subTest(metrics):
                host = self.start(f"import fedpace; own = fedpace.Trainer(); own.metrics = {metrics}; fedpace.run(own)")
                self.assertEqual(host.last["error"]["text"], "ValueError: " + says)
                host.close()

    def test_another_protocol(self):
        host = self.start("import fedpace; fedpace.run(fedpace.Trainer())", protocol=3)
        self.assertIsNone(host.hello)
        self.assertIn("protocol 2 and fedpace 3", host.close()[1])

    def test_the_digest_is_of_script_and_declared_files(self):
        def digest(weights, more=""):
            with open(os.path.join(folder, "weights"), "wb") as f:
                f.write(weights)
            host = self.start(f"""\
                import fedpace

                own = fedpace.Trainer()
                own.tensors = [fedpace.Tensor("a", (1,))]
                own.files = ["{folder}/weights"]{more}
                fedpace.run(own)
                """)
            host.close()
            return host.hello["digest"]

        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(digest(b"1"), digest(b"1"))
            self.assertNotEqual(digest(b"1"), digest(b"2"))
            self.assertNotEqual(digest(b"1"), digest(b"1", more="  # a comment"))
            paths = [os.path.join(folder, name) for name in ("a", "b")]
            digests = set()
            for contents in (b"ab", b"c"), (b"a", b"bc"):
                for path, content in zip(paths, contents):
                    with open(path, "wb") as f:
                        f.write(content)
                digests.add(trainer._digest(paths))
            self.assertEqual(len(digests), 2)
        own = fedpace.Trainer()
        own.files = ["weights", "/weights"]  # the first lies beside the script
        folder = os.path.dirname(trainer._script())
        self.assertEqual(trainer._files(own)[:3], [trainer._script(), os.path.join(folder, "weights"), "/weights"])

    def test_the_digest_is_of_arguments(self):
        own = fedpace.Trainer()
        own.arguments = []
        none = trainer._identity(own)
        self.assertEqual(none, trainer._digest(trainer._files(own)))

        def digest(*arguments):
            own.arguments = arguments
            return trainer._identity(own)

        self.assertEqual(digest("--rate=0.1"), digest("--rate=0.1"))
        different = [none, *map(digest, ("--rate=0.1", "--rate=0.2", "1/3", "2/3", "a.h5"))]
        self.assertEqual(len(set(different)), 6)
        # A folder of this machine does not count, what lies in it does.
        self.assertEqual(digest("/mnt/a.h5", "--net=/home/me/n.pt"), digest("/data/set/a.h5", "--net=/n.pt"))
        self.assertNotEqual(digest("/mnt/a.h5"), digest("/mnt/b.h5"))
        own.arguments = None  # all that stand behind the script
        with unittest.mock.patch.object(sys, "argv", ["mine.py", "--rate=0.1"]):
            self.assertEqual(trainer._identity(own), digest("--rate=0.1"))

    def test_the_digest_is_of_imported_modules(self):
        texts = {
            "net.py": "import numpy, deep as d\n",
            "deep.py": "import net\n",
            "rules/__init__.py": "",
            "rules/best.py": "from . import __init__\n",
            "late.py": "",  # imported by a function that nobody calls
            "named.py": "",  # by a name that is no word of the script
            "other.py": "",
            "site-packages/library.py": "",
        }
        own = """\
            import importlib, sys
            import fedpace, net
            import rules.best
            sys.path.append(sys.path[0] + "/site-packages")
            importlib.import_module("na" + "med")
            importlib.import_module("lib" + "rary")

            def unused():
                from late import x

            own = fedpace.Trainer()
            own.tensors = [fedpace.Tensor("a", (1,))]
            fedpace.run(own)
            """
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "rules"))
            os.makedirs(os.path.join(folder, "site-packages"))

            def digest():
                host = Host([script(folder, own)], None)
                self.addCleanup(host.close)
                return host.hello["digest"]

            def write(name, text):
                with open(os.path.join(folder, name), "w") as f:
                    f.write(text)

            for name, text in texts.items():
                write(name, text)
            first = digest()
            for name, text in texts.items():
                with self.subTest(name):
                    write(name, text + "# changed\n")
                    counts = name not in ("other.py", "site-packages/library.py")
                    self.assertEqual(digest() != first, counts)
                    write(name, text)
            self.assertEqual(digest(), first)


class Class(unittest.TestCase):
    def test_it_names_what_decides_bits(self):
        other = trainer._blas() + ["libother.so Core"]
        classes = {trainer._numpy_class(1), trainer._numpy_class(2)}
        with unittest.mock.patch.object(trainer, "_blas", lambda: other):
            classes.add(trainer._numpy_class(1))
        self.assertEqual(len(classes), 3)
        self.assertIn(trainer._numpy_class(1), classes)


class OwnData(unittest.TestCase):
    def test_samples_and_labels_go_together(self):
        x, y = np.zeros((4, 2)), np.zeros(4)
        for clients, held_out, says in (
            ({"a": (x[:3], y), "b": (x, y[:3])}, (x, y), "client a: 3 samples and 4 labels"),  # as many in all
            ({"a": (x, y)}, (x, y[:2]), "held_out: 4 samples and 2 labels"),
        ):
            with self.assertRaisesRegex(ValueError, says):
                fedpace.Grouped(clients, held_out)
        self.assertEqual(fedpace.Grouped({7: (x, y)}, (x, y)).names, ["7"])

    def test_rows_are_numbered_client_by_client(self):
        x, y = blobs(30)
        data = fedpace.Grouped({"ann": (x[:10], y[:10]), "bob": (x[10:25], y[10:25])}, held_out=(x[25:], y[25:]))
        self.assertEqual((list(data.names), data.samples(0), data.samples(1), data.held), (["ann", "bob"], 10, 15, 5))
        np.testing.assert_array_equal(data.batch(np.array([12, 27]))[0], x[[12, 27]])
        other = fedpace.Grouped({"ann": (x[:11], y[:11]), "bob": (x[11:25], y[11:25])}, held_out=(x[25:], y[25:]))
        self.assertNotEqual(data.digest, other.digest)


def kinds(files):
    """A description of samples of each kind, and what their rows are."""
    draws = np.random.default_rng(3)
    about = {"features": 4, "classes": 3, "rows": 9, "labels": files.store(draws.integers(0, 3, 9).astype(np.int32))}
    numbers = draws.random((9, 4), np.float32)
    yield "floats", dict(about, input="dense", samples={"kind": "floats", "array": files.store(numbers)}), numbers
    raw, planes = draws.integers(0, 256, (9, 6)).astype(np.uint8), draws.random((2, 256)).astype(np.float32)
    yield "bytes", dict(about, input="dense", samples={"kind": "bytes", "array": files.store(raw), "skip": 2, "planes": planes.tolist()}), \
        np.concatenate([planes[0][raw[:, 2:4]], planes[1][raw[:, 4:]]], 1)
    yield "one plane", dict(about, input="dense", samples={"kind": "bytes", "array": files.store(raw), "skip": 2, "planes": planes[:1].tolist()}), \
        planes[0][raw[:, 2:]]
    for kind in (np.uint8, np.uint16, np.uint32, np.int32):
        tokens = draws.integers(0, 200, (9, 4)).astype(kind)
        yield f"tokens {kind.__name__}", dict(about, input="tokens", vocabulary=200, samples={"kind": "tokens", "array": files.store(tokens), "skip": 0}), tokens
    text, starts = draws.integers(0, 79, 50).astype(np.uint8), draws.integers(0, 46, 9).astype(np.uint32)
    yield "windows", dict(about, input="tokens", vocabulary=79, samples={"kind": "windows", "text": files.store(text), "starts": files.store(starts)}), \
        np.stack([text[s : s + 4] for s in starts])
    bags = [{0: 2, 3: 1}, {1: 1}, {0: 1, 1: 1, 2: 1, 3: 3}] * 3
    starts = np.cumsum([0] + [len(b) for b in bags])
    for kind in (np.uint16, np.uint32):
        word, count = (np.array([v for b in bags for v in part(b)], kind) for part in (dict.keys, dict.values))
        total = np.array([sum(b.values()) for b in bags], kind)
        stores = {name: files.store(a) for name, a in (("starts", starts.astype(np.uint32)), ("word", word), ("count", count), ("total", total))}
        dense = np.array([[b.get(w, 0) / sum(b.values()) for w in range(4)] for b in bags], np.float32)
        yield f"bags {kind.__name__}", dict(about, input="sparse", samples=dict(stores, kind="bags")), dense


class Samples(unittest.TestCase):
    def test_every_kind(self):
        files, rows = Files(), np.array([8, 0, 5, 5])
        self.addCleanup(files.file.close)
        for name, about, want in kinds(files):
            with self.subTest(name):
                x, y = fedpace.Samples(about).batch(rows)
                np.testing.assert_array_equal(x, want[rows])
                self.assertEqual(x.dtype, np.int64 if about["input"] == "tokens" else np.float32)
                self.assertEqual((y.shape, y.dtype), ((4,), np.int64))

    def test_targets(self):
        files, x = Files(), blobs()[0]
        self.addCleanup(files.file.close)
        about = files.dense(x, values=x[:, :2])
        np.testing.assert_array_equal(fedpace.Samples(about).batch(np.array([3, 1]))[1], x[[3, 1], :2])


class Rehearsal(unittest.TestCase):
    def test_by_hand(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "import fedpace, mlp_numpy\nfedpace.run(mlp_numpy.MLP([12, 8, 3]))")
            done = subprocess.run([sys.executable, path, "--features", "12", "--classes", "3", "--steps", "50"], capture_output=True, text=True,
                                  env=dict(os.environ, PYTHONPATH=HERE + os.pathsep + os.path.join(HERE, "testdata")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?s)tensor  0.weight \[8, 12\].*before  loss .* accuracy .*steps   50 of 32 samples.*after   loss ")


if __name__ == "__main__":
    unittest.main()
