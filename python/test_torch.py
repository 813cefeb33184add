"""Tests of trainers with PyTorch: steps against plain PyTorch, and bits that must not change."""
import contextlib
import copy
import functools
import io
import os
import re
import sys
import tempfile
import unittest

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata")]

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy, mse_loss
except ImportError as e:
    raise unittest.SkipTest(f"no PyTorch: {e}")

import fedpace
from fedpace import trainer as library
from host import Files, Host
from test_numpy import blobs, kinds, minibatches, script

X, Y = blobs()


def dense():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def normed():
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def dropping():
    return nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3))


def loss(model, x, y):
    return cross_entropy(model(x), y)


def accuracy(model, x, y):
    return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}


FILES = Files()
LABELS = FILES.dense(X, Y, classes=3)
TARGETS = FILES.dense(X, values=X[:, :2])


def trainer(model, of=loss, metrics=accuracy, about=LABELS, **options):
    kind = library._Batched if options.get("batched") else library._Torch
    made = kind(model, of, metrics, **options)
    made.begin(fedpace.Setting(None if options.get("data") else about))
    return made


def task(client, rate=0.1, **options):
    return fedpace.Task(client, str(client), rate, client, minibatches(client, **options))


def run(t, job):
    return [(model.copy(), first) for model, first, _ in t.train(job, lambda: None)]


def plain(model, base, task, mu=0.0, correction=None, optimizer=None, clip=0.0):
    """Local steps as one writes them in PyTorch, on a model whose tensors have the values of base."""
    module = model()
    parameters = list(module.parameters())
    tensors = parameters + [b for b in module.buffers() if b.is_floating_point()]
    nn.utils.vector_to_parameters(torch.from_numpy(base.copy()), tensors)
    start = [p.detach().clone() for p in parameters]
    pull = None
    if correction is not None:
        pull = [p.detach().clone() for p in parameters]
        nn.utils.vector_to_parameters(torch.from_numpy(correction), pull)
    steps = optimizer(parameters) if optimizer else torch.optim.SGD(parameters, task.rate)
    torch.manual_seed(task.seed)
    module.train()
    for rows in task.steps:
        steps.zero_grad()
        loss(module, torch.from_numpy(X[rows]), torch.from_numpy(Y[rows])).backward()
        for i, p in enumerate(parameters):
            p.grad += mu * (p.detach() - start[i])
            if pull:
                p.grad += pull[i]
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        steps.step()
    return torch.cat([t.detach().reshape(-1) for t in tensors]).numpy()


def torch_gradient(model, x, y):
    """The loss and the gradient of the dense model, for steps in numpy."""
    module = dense()
    nn.utils.vector_to_parameters(torch.from_numpy(model.copy()), module.parameters())
    found = loss(module, torch.from_numpy(x), torch.from_numpy(y))
    found.backward()
    return float(found), torch.cat([p.grad.reshape(-1) for p in module.parameters()]).numpy()


class Steps(unittest.TestCase):
    def test_plain_steps(self):
        t = trainer(dense)
        base = t.initialise(1)
        torch.manual_seed(1)
        self.assertEqual(base.tobytes(), nn.utils.parameters_to_vector(dense().parameters()).detach().numpy().tobytes())
        (model, first), = run(t, fedpace.Job(base, [task(3)]))
        np.testing.assert_allclose(model, plain(dense, base, task(3)), atol=1e-6)
        rows = task(3).steps[0]
        (total, _), _ = t.evaluate(base, rows, lambda: None)
        self.assertAlmostEqual(first, total / len(rows), 5)

    def test_a_model_is_made_by_the_sizes(self):
        sizes = []

        def made(data, width=5):
            sizes.append((data.features, data.classes, data.targets, data.vocabulary, data.image))
            return nn.Linear(data.features, data.classes)

        self.assertEqual([p.shape for p in trainer(made).tensors], [(3, 6), (3,)])
        self.assertEqual(set(sizes), {(6, 3, 0, 0, (0, 0, 0))})
        self.assertEqual([p.shape for p in trainer(functools.partial(nn.Linear, 6, 3)).tensors], [(3, 6), (3,)])

    def test_fedprox_and_scaffold_leave_statistics_alone(self):
        t = trainer(normed)
        base = t.initialise(1)
        self.assertEqual([p.name for p in t.tensors if not p.trainable], ["1.running_mean", "1.running_var", "1.num_batches_tracked"])
        self.assertFalse(any(p.frozen for p in t.tensors))
        correction = np.random.default_rng(0).normal(size=t.trainable).astype(np.float32) / 10
        for name, mu, c in (("fedprox", 0.5, None), ("scaffold", 0.0, correction), ("both", 0.5, correction)):
            with self.subTest(name):
                work = copy.copy(task(2))
                object.__setattr__(work, "correction", c)
                (model, _), = run(t, fedpace.Job(base, [work], proximal=mu))
                want = plain(normed, base, task(2), mu, c)
                np.testing.assert_allclose(model[:-1], want, atol=1e-5)
                self.assertEqual(model[-1], len(task(2).steps))
                self.assertGreater(np.abs(want - plain(normed, base, task(2))).max(), 1e-3)

    def test_local_optimizers(self):
        base = trainer(dense).initialise(1)
        work = task(1, steps=50)
        for options, make in (
            ({"optimizer": "sgd", "momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
            ({"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "clip": 0.5},
             lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
            ({"optimizer": "sgd", "clip": 0.2}, lambda p: torch.optim.SGD(p, 0.1)),
            ({"optimizer": "adam", "beta1": 0.8, "weight_decay": 0.01}, lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.999), weight_decay=0.01)),
            ({"optimizer": "adamw"}, lambda p: torch.optim.AdamW(p, 0.1)),
        ):
            with self.subTest(options):
                job = fedpace.Job(base, [work, work], optimizer=options)
                (model, _), (again, _) = run(trainer(dense), job)
                np.testing.assert_allclose(model, plain(dense, base, work, optimizer=make, clip=options.get("clip", 0)), atol=1e-5)
                self.assertEqual(model.tobytes(), again.tobytes())  # what it remembers begins at zero
                # The formulas of fedpace, in numpy.
                step, x = library._NumpySteps(options, len(base)), base.copy()
                module = dense()
                for rows in work.steps:
                    nn.utils.vector_to_parameters(torch.from_numpy(x.copy()), module.parameters())
                    module.zero_grad()
                    loss(module, torch.from_numpy(X[rows]), torch.from_numpy(Y[rows])).backward()
                    step(x, torch.cat([p.grad.reshape(-1) for p in module.parameters()]).numpy(), np.float32(0.1))
                np.testing.assert_allclose(model, x, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "this version knows sgd"):
            run(trainer(dense), fedpace.Job(base, [work], optimizer={"optimizer": "lion"}))

    def test_what_is_kept(self):
        """Tasks of a client that keeps its optimizer's state are one long task of it, whatever another client does between them."""
        base = trainer(dense).initialise(1)
        whole = task(1, steps=12)
        for options, make in (
            ({"optimizer": "sgd", "momentum": 0.9, "keep": True}, lambda p: torch.optim.SGD(p, 0.1, 0.9)),
            ({"optimizer": "adamw", "keep": True}, lambda p: torch.optim.AdamW(p, 0.1)),
        ):
            want = plain(dense, base, whole, optimizer=make)
            for kind in ("torch", "numpy"):
                with self.subTest(kind, optimizer=options["optimizer"]):
                    t = trainer(dense)
                    if kind == "numpy":
                        t.train = lambda job, alive: library.Trainer.train(t, job, alive)
                        t.gradient = lambda model, x, y, draws: torch_gradient(model, x, y)
                        t.batch = lambda rows: (X[rows], Y[rows])
                    model, state = base, b""
                    for at in range(0, 12, 3):
                        part = fedpace.Task(1, "1", 0.1, 1, whole.steps[at : at + 3], None, state)
                        for (found, _, kept), mine in zip(t.train(fedpace.Job(model, [part, task(2)], optimizer=options), lambda: None), (True, False)):
                            if mine:
                                following, state = found.copy(), kept
                        model = following
                    np.testing.assert_allclose(model, want, atol=1e-5)
                    self.assertLessEqual(len(state), 8 * len(base) + 16)
                    self.assertGreater(np.abs(model - plain(dense, model, whole, optimizer=make)).max(), 1e-3)
        with self.assertRaisesRegex(ValueError, "no bytes of the script's"):
            run(trainer(dense, batched=2, state=1), fedpace.Job(base, [task(1)]))

    def test_what_is_kept_side_by_side(self):
        """Clients side by side keep what they keep one after the other, also where their counts of steps differ."""
        for options in ({"optimizer": "sgd", "momentum": 0.9, "keep": True}, {"optimizer": "adamw", "clip": 0.5, "keep": True}):
            ends = []
            for batched in (0, 2):
                t = trainer(dense, batched=batched)
                states, models = [b""] * 3, []
                for clients in ((0, 1, 2), (1, 2), (0, 1, 2)):
                    tasks = [fedpace.Task(c, str(c), 0.1, c, task(c).steps, None, states[c]) for c in clients]
                    for c, (model, _, kept) in zip(clients, t.train(fedpace.Job(t.initialise(1), tasks, optimizer=options), lambda: None)):
                        states[c] = kept
                        models.append(model.copy())
                ends.append(models)
            for a, b in zip(*ends):
                np.testing.assert_allclose(a, b, atol=1e-5)

    def test_a_state_of_the_scripts_own(self):
        seen = []
        t = trainer(dense, state=4, recall=lambda m, s: seen.append(s), keep=lambda m: bytes([len(seen)]))
        base = t.initialise(1)
        for options in (None, {"optimizer": "adam", "keep": True}):
            seen.clear()
            (_, _, kept), = t.train(fedpace.Job(base, [task(1)], optimizer=options), lambda: None)
            again = fedpace.Task(1, "1", 0.1, 1, task(1).steps, None, kept)
            self.assertEqual(kept[-1:], b"\x01")
            list(t.train(fedpace.Job(base, [again], optimizer=options), lambda: None))
            self.assertEqual(seen, [b"", b"\x01"])

    def test_an_optimizer_of_ones_own(self):
        t = trainer(dense, optimizer=lambda parameters, rate: torch.optim.RMSprop(parameters, rate))
        self.assertEqual((list(t.optimizers), list(trainer(dense).optimizers)), ([], ["sgd", "adam", "adamw"]))
        base = t.initialise(1)
        (model, _), = run(t, fedpace.Job(base, [task(1, 0.01)]))
        np.testing.assert_allclose(model, plain(dense, base, task(1), optimizer=lambda p: torch.optim.RMSprop(p, 0.01)), atol=1e-6)
        with self.assertRaisesRegex(ValueError, "optimizer of its own"):
            run(t, fedpace.Job(base, [task(1)], optimizer={"optimizer": "adam"}))

    def test_an_own_optimizer_takes_corrected_steps(self):
        """SCAFFOLD adds to the gradient whichever optimizer takes the step."""
        own = trainer(dense, optimizer=lambda parameters, rate: torch.optim.SGD(parameters, rate))
        base = own.initialise(1)
        pull = np.linspace(-1, 1, own.trainable, dtype=np.float32)
        work = task(1)
        object.__setattr__(work, "correction", pull)
        (model, _), = run(own, fedpace.Job(base, [work]))
        np.testing.assert_allclose(model, plain(dense, base, work, correction=pull), atol=1e-6)

    def test_the_greeting_says_what_an_own_optimizer_does(self):
        own = lambda make: trainer(dense, optimizer=make).steps
        self.assertIsNone(trainer(dense).steps)
        self.assertEqual(own(lambda p, rate: torch.optim.SGD(p, rate)), {"optimizer": "SGD", "momentum": 0.0, "plain": True})
        self.assertEqual(own(lambda p, rate: torch.optim.SGD(p, rate, momentum=0.9)), {"optimizer": "SGD", "momentum": 0.9, "plain": False})
        self.assertFalse(own(lambda p, rate: torch.optim.SGD(p, 2 * rate))["plain"])
        decayed = own(lambda p, rate: torch.optim.SGD(p, rate, weight_decay=0.1))
        self.assertEqual(decayed, {"optimizer": "SGD (weight decay 0.1)", "momentum": 0.0, "plain": False})
        self.assertEqual(own(lambda p, rate: torch.optim.Adam(p, rate))["optimizer"], "Adam")

    def test_integers_and_booleans_travel(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = normed()
                self.register_buffer("mask", torch.tensor([True] * 5 + [False]))
                self.register_buffer("seen", torch.tensor(0))
                self.register_buffer("level", torch.tensor([-3, 4], dtype=torch.int8))
                self.register_buffer("hidden", torch.tensor(7), persistent=False)

            def forward(self, x):
                if self.training:
                    self.seen += len(x)
                    self.mask[0] = ~self.mask[0]
                    self.level -= 1
                    self.hidden += 1
                return self.net(x * self.mask)

        with contextlib.redirect_stdout(io.StringIO()) as said:
            t = trainer(Masked, buffers={"level": "mean"})
            base = t.initialise(1)
            (model, _), (again, _) = run(t, fedpace.Job(base, [task(3), task(3)]))
        self.assertEqual([(p.name, p.type, p.rule, p.frozen) for p in t.tensors if p.type], [
            ("mask", "bool", "majority", False), ("seen", "int64", "largest", False), ("level", "int8", "mean", False),
            ("net.1.num_batches_tracked", "int64", "largest", False)])
        np.testing.assert_array_equal(base[-10:], [1] * 5 + [0] + [0, -3, 4, 0])
        steps = len(task(3).steps)
        flipped = 1 - steps % 2
        samples = sum(len(rows) for rows in task(3).steps)
        np.testing.assert_array_equal(model[-10:], [flipped, 1, 1, 1, 1, 0, samples, -3 - steps, 4 - steps, steps])
        self.assertEqual(model.tobytes(), again.tobytes())
        self.assertIn("mask (bool): majority, seen (int64): largest. Others are named", said.getvalue())
        self.assertNotIn("num_batches_tracked", said.getvalue())
        # A task begins with what the model holds.
        (further, _), = run(t, fedpace.Job(model, [task(4)]))
        self.assertEqual(further[-4], samples + sum(len(rows) for rows in task(4).steps))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            trainer(normed)
        self.assertEqual(said.getvalue(), "")

    def test_constants_are_kept_to_the_bit(self):
        constants = {
            "mask": torch.full((3, 3), float("-inf")).triu(1), "hash": torch.tensor([2**62 + 1, -5]), "a_half": torch.tensor([1.5, float("nan")]).half(),
            "brain": torch.tensor([-2.5]).bfloat16(), "a_double": torch.tensor(1 / 3, dtype=torch.float64), "on": torch.tensor([True, False]),
            "a_byte": torch.tensor([255], dtype=torch.uint8), "a_short": torch.tensor([-32768], dtype=torch.int16), "word": torch.tensor([-7], dtype=torch.int32)}

        class Constant(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(6, 3)
                for name, value in constants.items():
                    self.register_buffer(name, value.clone())

            def forward(self, x):
                if self.training:
                    self.on[1] = True
                return self.inner(x)

        kept = {name: "kept" for name in constants if name not in ("mask", "hash")}  # these two are by default
        with contextlib.redirect_stdout(io.StringIO()) as said:
            t = trainer(Constant, buffers=kept)
            base = t.initialise(1)
            self.assertTrue(np.isfinite(base).all())
            for name, value in constants.items():
                at, part = 0, None
                for p in t.tensors:
                    part = base[at : at + p.size] if p.name == name else part
                    at += p.size
                words = part.astype("u1" if value.element_size() == 1 else "<u2")
                self.assertEqual(words.tobytes(), value.reshape(-1).view(torch.uint8).numpy().tobytes(), name)
            (model, _), = run(t, fedpace.Job(base, [task(3)]))
        np.testing.assert_array_equal(model[t.trainable :], base[t.trainable :])
        self.assertTrue(all(p.frozen for p in t.tensors if not p.trainable))
        self.assertIn("mask (float32): kept, hash (int64): kept.", said.getvalue())
        self.assertIn('Steps change on, kept as at first for every task: name a rule by serve(..., buffers={"on": "majority"})', said.getvalue())
        # Another model's constants replace the script's, as after init.
        other = base.copy()
        other[-1] = 1
        list(t.train(fedpace.Job(other, [task(3)]), lambda: None))
        self.assertNotEqual(t._module.word.item(), -7)

    def test_clients_side_by_side_keep_masks(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(6, 3)
                self.register_buffer("mask", torch.tensor([True] * 5 + [False]))

            def forward(self, x):
                return self.inner(x * self.mask)

        with contextlib.redirect_stdout(io.StringIO()):
            lanes, single = trainer(Masked, batched=2), trainer(Masked)
            base = lanes.initialise(1)
            job = fedpace.Job(base, [task(1), task(2), task(3)])
            found, want = run(lanes, job), run(single, job)
        self.assertEqual([p.rule for p in lanes.tensors], ["", "", "kept"])
        for (model, _), (other, _) in zip(found, want):
            np.testing.assert_allclose(model, other, atol=1e-6)
            np.testing.assert_array_equal(model[lanes.trainable :], base[lanes.trainable :])

    def test_buffers_that_cannot_be(self):
        def holding(**buffers):
            class Holding(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.Linear(6, 3)
                    for name, value in buffers.items():
                        self.register_buffer(name, value)

                def forward(self, x):
                    if self.training and "seen" in buffers:
                        self.seen += 2**23
                    return self.inner(x)

            return Holding

        one = torch.tensor(1)
        for make, rules, want in (
            (holding(a=one), {"b": "kept"}, "buffers names b; the model's buffers are a"),
            (holding(a=one), {"a": "newest"}, 'buffers={"a": "newest"}: want largest, majority, mean for integers'),
            (holding(a=one.float()), {"a": "largest"}, "a is float32"),
            (holding(a=one.double()), {}, "tensor a is torch.float64"),
        ):
            with self.subTest(want), self.assertRaisesRegex((ValueError, TypeError), re.escape(want)):
                trainer(make, buffers=rules)
        with contextlib.redirect_stdout(io.StringIO()):
            t = trainer(holding(seen=one.clone()))
            with self.assertRaisesRegex(ValueError, "in buffer seen, and integers travel up to 16777216: keep it"):
                run(t, fedpace.Job(t.initialise(1), [task(3)]))

    def test_the_seed_decides_dropout(self):
        t = trainer(dropping)
        base = t.initialise(1)
        once, alone = run(t, fedpace.Job(base, [task(1), task(2)])), run(t, fedpace.Job(base, [task(2)]))
        self.assertEqual(once[1][0].tobytes(), alone[0][0].tobytes())
        other = fedpace.Task(2, "2", 0.1, 2**64 - 1, task(2).steps)
        self.assertNotEqual(once[1][0].tobytes(), run(t, fedpace.Job(base, [other]))[0][0].tobytes())
        np.testing.assert_allclose(alone[0][0], plain(dropping, base, task(2)), atol=1e-6)
        module = dropping().eval()  # nothing is dropped where models are measured
        nn.utils.vector_to_parameters(torch.from_numpy(base.copy()), module.parameters())
        want = cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(Y), reduction="sum")
        self.assertAlmostEqual(t.evaluate(base, np.arange(200), lambda: None)[0][0], want.item(), 3)

    def test_no_task_depends_on_the_one_before(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(6, 3)
                self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

            def forward(self, x):
                self.seen += 1
                return self.inner(x) / self.seen

        t = trainer(Counting)
        base = t.initialise(1)
        (first, _), (second, _) = run(t, fedpace.Job(base, [task(1), task(1)]))
        self.assertEqual(first.tobytes(), second.tobytes())
        self.assertEqual(len(t.tensors), 3)

    def test_a_loss_that_is_not_finite(self):
        steps = []

        def bad(model, x, y):
            steps.append(x)
            return loss(model, x, y) * (float("inf") if len(steps) in (1 + 6 + 3, 1 + 6 + 5) else 1)  # one to try the model

        t = trainer(dense, bad)
        with self.assertRaises(fedpace.Diverged) as caught:
            run(t, fedpace.Job(t.initialise(1), [task(1), task(2)]))
        self.assertEqual((caught.exception.index, caught.exception.step, caught.exception.cause), (1, 3, "the loss is inf"))

    def test_targets(self):
        t = trainer(lambda: nn.Linear(6, 2), lambda m, x, y: mse_loss(m(x), y),
                    lambda m, x, y: {"loss": (((m(x) - y) ** 2).sum() / 2, len(y)), "absolute": ((m(x) - y).abs().sum(), y.numel())},
                    about=TARGETS, lower=["absolute"])
        self.assertEqual(t.metrics, [fedpace.Metric("absolute", "lower")])
        base = t.initialise(1)
        (model, _), = run(t, fedpace.Job(base, [task(1, steps=100)]))
        before, after = (t.evaluate(m, np.arange(200), lambda: None) for m in (base, model))
        self.assertLess(after[0][0], before[0][0] / 10)
        self.assertEqual(after[1][0][1], 400)


class Models(unittest.TestCase):
    def test_a_trained_module_keeps_its_values(self):
        module = dense()
        module[0].bias.requires_grad = False
        t = trainer(module)
        self.assertEqual([(p.name, p.trainable, p.frozen) for p in t.tensors],
                         [("0.weight", True, False), ("2.weight", True, False), ("2.bias", True, False), ("0.bias", False, True)])
        self.assertEqual(t.initialise(1).tobytes(), t.initialise(2).tobytes())
        base = t.initialise(1)
        (model, _), = run(t, fedpace.Job(base, [task(1)]))
        self.assertEqual(model[-5:].tobytes(), base[-5:].tobytes())
        self.assertNotEqual(model[:-5].tobytes(), base[:-5].tobytes())

    def test_what_is_refused(self):
        for says, model, options in (
            ("float64", lambda: dense().double(), {}),
            ("no trainable tensor", lambda: nn.ReLU(), {}),
            ("running statistics", normed, {"batched": 4}),
            ("leave out optimizer=", dense, {"batched": 4, "optimizer": torch.optim.RMSprop}),
            ("lower names error", dense, {"lower": ["error"]}),
            *([] if torch.cuda.is_available() else [("device cuda: PyTorch .* sees no card", dense, {"device": "cuda"})]),
            ("shapes cannot be multiplied", lambda: nn.Linear(7, 3), {}),
        ):
            with self.subTest(says), self.assertRaisesRegex(Exception, says):
                trainer(model, **options)

    def test_what_the_users_functions_return(self):
        def names(model, x, y):
            return {"accuracy": model(x).argmax(1)[0]}

        made = trainer(dense)
        for says, change in (
            ("returns a float; want a tensor", {"_loss": lambda model, x, y: 0.5}),
            (r"returns a tensor of shape \[\d+\]; want", {"_loss": lambda model, x, y: model(x)[:, 0]}),
            ("returns a tensor without a gradient", {"_loss": lambda model, x, y: loss(model, x, y).detach()}),
            ("a sum and a weight each", {"_measure": names}),
        ):
            with self.subTest(says), self.assertRaisesRegex(TypeError, says) as raised:
                for name, value in change.items():
                    setattr(made, name, value)
                list(made.train(fedpace.Job(made.initialise(1), [task(0)]), lambda: None))
                made.evaluate(made.initialise(1), np.arange(5), lambda: None)
            self.assertEqual(library._place(raised.exception)[0], "test_torch.py")
            self.assertGreater(library._place(raised.exception)[1], 0)
            made = trainer(dense)
        made._measure = lambda model, x, y: {"precision": (1, 2)}
        with self.assertRaisesRegex(TypeError, "the same metrics every time: precision, loss; at first loss, accuracy") as raised:
            made.evaluate(made.initialise(1), np.arange(5), lambda: None)
        self.assertEqual(library._place(raised.exception)[0], "test_torch.py")

    def test_tensors_that_a_step_replaces(self):
        """They would be no part of the model any more, and a task would find what the one before has left."""
        class Centred(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(6, 3)
                self.register_buffer("mean", torch.zeros(6))
                self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

            def forward(self, x):
                return self.inner(x - self.mean)

        def averages(m):
            m.mean = 0.9 * m.mean + 0.1

        def counts(m):
            m.seen = m.seen + 1

        def clamps(m):
            m.inner.weight.data = m.inner.weight.data.clamp(-0.1, 0.1)

        def renews(m):
            m.inner.bias = nn.Parameter(m.inner.bias.data)

        def grows(m):
            m.more = nn.Linear(2, 2, bias=False)

        for replace, name in ((averages, "mean"), (counts, "seen"), (clamps, "inner.weight"), (renews, "inner.bias"), (grows, "more.weight")):
            with self.subTest(name):
                t = trainer(Centred, lambda m, x, y: (m.training and replace(m), loss(m, x, y))[1])
                with self.assertRaisesRegex(TypeError, f"^a step replaces {name}: "):
                    run(t, fedpace.Job(t.initialise(1), [task(0)]))

    def test_the_shape_of_a_sample(self):
        seen = []

        def metrics(model, x, y):
            seen.append(tuple(x.shape))
            return {}

        trainer(lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), metrics=metrics, shape=(2, 3))
        self.assertEqual(seen, [(2, 2, 3)])

    def test_data_of_its_own(self):
        own = fedpace.Grouped({"a": (X[:50], Y[:50]), "b": (X[50:150], Y[50:150])}, (X[150:], Y[150:]))
        base = trainer(dense).initialise(1)
        self.assertEqual(*(run(t, fedpace.Job(base, [task(1)]))[0][0].tobytes() for t in (trainer(dense), trainer(dense, data=own))))

    def test_every_kind_of_sample(self):
        files, rows = Files(), np.array([8, 0, 5, 5])
        self.addCleanup(files.file.close)
        for name, about, want in kinds(files):
            with self.subTest(name):
                x, y = library._Resident(about, torch.device("cpu")).batch(torch.from_numpy(rows))
                np.testing.assert_array_equal(x.numpy(), want[rows])
                self.assertEqual((x.dtype, y.dtype), (torch.int64 if about["input"] == "tokens" else torch.float32, torch.int64))


class Batched(unittest.TestCase):
    def test_it_equals_the_plain_loop(self):
        one, many = trainer(dense), trainer(dense, batched=4)
        base = one.initialise(1)
        self.assertEqual(base.tobytes(), many.initialise(1).tobytes())
        correction = np.full(len(base), 0.01, np.float32)
        tasks = [fedpace.Task(c, str(c), 0.1, c, minibatches(c, steps=4 + c % 2, batch=16 - c % 3), correction if c == 2 else None) for c in range(11)]
        for options in ({}, {"proximal": 0.3}, {"optimizer": {"optimizer": "adam"}}, {"optimizer": {"optimizer": "sgd", "momentum": 0.9, "clip": 0.3}}):
            with self.subTest(options):
                job = fedpace.Job(base, tasks, **options)
                for (a, la), (b, lb) in zip(run(one, job), run(many, job)):
                    np.testing.assert_allclose(a, b, atol=1e-5)
                    self.assertAlmostEqual(la, lb, 5)
        self.assertEqual(*(t.evaluate(base, np.arange(200), lambda: None) for t in (one, many)))

    def test_bits_do_not_depend_on_the_job(self):
        t = trainer(dense, batched=4)
        base, tasks = t.initialise(1), [task(c) for c in range(10)]
        together = [m.tobytes() for m, _ in run(t, fedpace.Job(base, tasks))]
        for job in (tasks[:3], tasks[3:4], tasks[4:]):
            self.assertEqual([m.tobytes() for m, _ in run(t, fedpace.Job(base, job))], [together[w.client] for w in job])

    def test_shared_tensors(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 6, bias=False)
                self.b = nn.Linear(6, 6, bias=False)
                self.b.weight = self.a.weight

            def forward(self, x):
                return self.b(torch.tanh(self.a(x)))

        one, many = trainer(Tied), trainer(Tied, batched=2)
        self.assertEqual([t.name for t in many.tensors], ["a.weight"])
        base = one.initialise(1)
        job = fedpace.Job(base, [task(1), task(2)])
        for (a, _), (b, _) in zip(run(one, job), run(many, job)):
            np.testing.assert_allclose(a, b, atol=1e-5)

    def test_random_numbers_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "random"):
            trainer(dropping, batched=2)

    def test_which_client_diverged(self):
        t = trainer(dense, batched=4)
        tasks = [task(c) for c in range(6)]
        X_bad = fedpace.Task(5, "5", 0.1, 5, tasks[5].steps, np.full(t.trainable, 1e38, np.float32))
        with self.assertRaises(fedpace.Diverged) as caught:
            run(t, fedpace.Job(t.initialise(1), [*tasks[:5], X_bad]))
        self.assertEqual(caught.exception.index, 5)


class Recorded(unittest.TestCase):
    """What a card would record is taken step by step here: only the recording is CUDA's."""

    def test_a_recording_takes_the_same_steps(self):
        for options in ({}, {"batched": 3}):
            with self.subTest(options):
                t = trainer(dense, **options)
                base, recorded = t.initialise(1), []

                def record(step, index):
                    recorded.append(len(index))
                    for _ in range(3):
                        step(index)  # as the steps before a recording
                    static = index.clone()

                    def replay(i):
                        static.copy_(i)
                        return step(static)

                    return replay

                job = fedpace.Job(base, [task(c, steps=10) for c in range(4)], proximal=0.1)
                want = [m.tobytes() for m, _ in run(t, job)]
                t.record = record
                self.assertEqual([m.tobytes() for m, _ in run(t, job)], want)
                self.assertEqual(len(recorded), 1)  # one recording serves all tasks
                pulled = [fedpace.Task(w.client, w.name, w.rate, w.seed, w.steps, np.full(len(base), i / 10, np.float32)) for i, w in enumerate(job.tasks)]
                for other in (fedpace.Job(base, pulled), fedpace.Job(base, [task(c, 0.2, steps=10) for c in range(2)])):
                    played = [m.tobytes() for m, _ in run(t, other)]
                    t.record = None
                    self.assertEqual([m.tobytes() for m, _ in run(t, other)], played)
                    t.record = record
                done = len(recorded)
                self.assertEqual(done, 3)
                run(t, fedpace.Job(base, [task(1, steps=10)], optimizer={"optimizer": "adam"}))  # has state: not recorded
                run(t, fedpace.Job(base, [task(1, steps=3)]))  # too short
                self.assertEqual(len(recorded), done)
                t.record, t._recording = lambda step, index: None, (None, None)  # it cannot be recorded
                self.assertEqual([m.tobytes() for m, _ in run(t, job)], want)


class Processes(unittest.TestCase):
    SCRIPT = """\
        import fedpace, torch
        from torch import nn

        def model():
            return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))

        def loss(model, x, y):
            if len(x) == 7:
                raise ValueError("seven samples")
            return nn.functional.cross_entropy(model(x), y)

        fedpace.serve(model, loss)
        """

    def start(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Host([script(folder.name, self.SCRIPT)], LABELS)

    def test_federated_averaging_of_a_batch_norm(self):
        """Four rounds of three clients equal a plain loop of FedAvg, twice to the same bits."""
        ends = []
        for _ in range(2):
            host = self.start()
            self.assertEqual([t["trainable"] for t in host.hello["tensors"]], [True] * 6 + [False] * 3)
            model = host.initialise(3)
            want = model[:-1]
            for r in range(4):
                tasks = [{"client": c, "rate": 0.1, "seed": c, "steps": minibatches(10 * r + c)} for c in range(3)]
                model = np.mean([m for m, _ in host.train(model, tasks)], 0, dtype=np.float64).astype(np.float32)
                want = np.mean([plain(normed, want, fedpace.Task(t["client"], "", 0.1, t["seed"], t["steps"])) for t in tasks], 0)
                want = want.astype(np.float32)
            np.testing.assert_allclose(model[:-1], want, atol=1e-5)
            self.assertEqual(model[-1], 4 * len(tasks[0]["steps"]))
            ends.append(model.tobytes())
            self.assertEqual(host.evaluate(model, np.arange(200))["scores"]["metrics"], [])
            self.assertEqual(host.close(), ("", ""))
        self.assertEqual(*ends)

    def test_an_exception_in_the_loss(self):
        host = self.start()
        base = host.initialise(1)
        tasks = [{"client": c, "rate": 0.1, "seed": c, "steps": minibatches(c, batch=16 if c == 0 else 7)} for c in range(2)]
        self.assertEqual(len(host.train(base, tasks)), 1)
        self.assertEqual(host.last["error"], {"index": 1, "text": "ValueError: seven samples", "file": "own_model.py", "line": 9})
        self.assertEqual(len(host.train(base, tasks[:1])), 1)  # it is still there
        host.close()

    def test_a_rehearsal_says_what_is_missing(self):
        def regression(data):
            return nn.Linear(data.features, data.targets)

        def rehearse(*options):
            sys.argv = ["own_model.py", "--features", "4", "--steps", "2", *options]
            library._rehearse(library._Torch(regression, lambda model, x, y: mse_loss(model(x), y.float())))

        argv = sys.argv
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaisesRegex(SystemExit, "4 numbers a sample and labels of 2 classes and no targets.*--targets N"):
                    rehearse()
                rehearse("--targets", "1")
        finally:
            sys.argv = argv
        self.assertIn("after ", out.getvalue())


if __name__ == "__main__":
    unittest.main()
