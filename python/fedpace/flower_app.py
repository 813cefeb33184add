"""What both processes of a Flower app need: the app's own components and configuration, the
tested versions of flwr, and generators of random numbers that follow from a key.
"""

import contextlib
import difflib
import functools
import hashlib
import importlib
import os
import platform
import random
import sys
import tomllib

# TESTED is the range of versions of flwr with which the tests of this module are played, both ends
# included.
TESTED = ((1, 42), (1, 42))

# RUN_ID and SERVER_NODE are the identities that flwr's records ask for. FIRST_NODE is the id of
# the node with partition 0.
RUN_ID = 1
SERVER_NODE = 1
FIRST_NODE = 1000


class Refused(Exception):
    """The app cannot be played; the text says why and what would be right."""


def check_version(any_version):
    """Returns flwr's version. Raises Refused for one outside the tested range, unless any_version is set."""
    try:
        flwr = importlib.import_module("flwr")
    except ImportError as error:
        raise Refused(
            f"{sys.executable} has no flwr ({error}): install it there "
            '(pip install "flwr[simulation]==1.42.0"), or set flower.python to a Python that has it'
        ) from error
    version = getattr(flwr, "__version__", "unknown")
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not any_version and not TESTED[0] <= parts <= TESTED[1]:
        low, high = (".".join(map(str, end)) for end in TESTED)
        tested = f"{low}" if low == high else f"{low} to {high}"
        raise Refused(
            f"flwr {version} is not among the tested versions ({tested}): install one of them, "
            "or set flower.any_version to true and check the results"
        )
    return version


def code(folder):
    """Returns the paths of an app's files of Python and TOML, in their order, without what lies hidden."""
    found = []
    seen = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        # A folder that a link leads to twice, as to one around it, is looked at once.
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        shown = (name for name in files if not name.startswith(".") and name.endswith((".py", ".toml")))
        found.extend(os.path.join(parent, name) for name in shown)
    return sorted(found, key=lambda path: os.path.relpath(path, folder))


class App:
    """A Flower project folder: its pyproject.toml, its run config and its two components."""

    def __init__(self, folder, overrides):
        """Reads the folder's pyproject.toml. Overrides are texts by key, which get the types of the app's values."""
        self.folder = os.path.abspath(folder)
        path = os.path.join(self.folder, "pyproject.toml")
        try:
            with open(path, "rb") as file:
                project = tomllib.load(file)
        except OSError as error:
            raise Refused(f"{path} cannot be read ({error.strerror}): a Flower app is a folder with that file") from error
        except tomllib.TOMLDecodeError as error:
            raise Refused(f"{path}: {error}") from error
        app = project.get("tool", {}).get("flwr", {}).get("app", {})
        self.name = project.get("project", {}).get("name", os.path.basename(self.folder))
        self.components = app.get("components", {})
        self.config = _flat(app.get("config", {}))
        for key, text in overrides.items():
            self.config[key] = self._typed(key, text)

    def _typed(self, key, text):
        """Returns the value of an override, of the type that the app's own value has."""
        if key not in self.config:
            near = difflib.get_close_matches(key, self.config, 1)
            hint = f"did you mean {near[0]!r}?" if near else "it has " + ", ".join(sorted(self.config))
            raise Refused(f"flower.run.{key}: the app's run config has no such key ({hint})")
        own = self.config[key]
        try:
            if isinstance(own, bool):
                return {"true": True, "false": False}[text.lower()]
            return type(own)(text)
        except (ValueError, KeyError) as error:
            kind = {bool: "true or false", int: "an integer", float: "a number"}.get(type(own), "a text")
            raise Refused(f"flower.run.{key}: {text!r} is not {kind}, as the app's own value {own!r} is") from error

    def load(self, component):
        """Imports one component, "serverapp" or "clientapp", and returns its object."""
        reference = self.components.get(component, "")
        module, _, name = reference.partition(":")
        if not name:
            raise Refused(
                f"{self.folder}/pyproject.toml: [tool.flwr.app.components] has no {component} of the form "
                '"package.module:app"'
            )
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        return getattr(importlib.import_module(module), name)


def _flat(values, prefix=""):
    """Returns nested tables as one dictionary with dots in its keys, as flwr's run config has them."""
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def set_identity():
    """Gives this process the identity without which flwr makes no message, and keeps telemetry off."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = RUN_ID
    TaskIdentity.task_id = 1
    TaskIdentity.node_id = SERVER_NODE


# LIBRARIES are those whose version may decide the bits of an app.
LIBRARIES = (
    "flwr", "numpy", "scipy", "sklearn", "torch", "torchvision", "tensorflow", "jax", "pandas", "xgboost", "lightgbm",
    "transformers", "peft", "datasets", "flwr_datasets",
)  # fmt: skip


def libraries():
    """Returns Python, the machine's kind and the libraries that are loaded, each with its version."""
    found = [f"python {platform.python_version()}", f"machine {platform.machine()}"]
    for name in LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found.append(f"{name} {version}")
    return found


def seed_generators(*key):
    """Seeds the generators of random, numpy and torch, as far as they are imported, from a key."""
    number = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "little")
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number & 0xFFFFFFFF)
    if "torch" in sys.modules:
        _torch_seed(sys.modules["torch"])(number >> 1)


@functools.cache
def _torch_seed(torch):
    """Returns the function that seeds torch.

    torch.manual_seed formats the stack of calls each time for a device that may never be used. Where
    there is none but the processor, its generator is seeded alone.
    """
    backends = [getattr(torch, "cuda", None), getattr(torch, "xpu", None), getattr(torch.backends, "mps", None)]
    if any(backend is not None and backend.is_available() for backend in backends):
        return torch.manual_seed
    return torch.default_generator.manual_seed


@contextlib.contextmanager
def folder_of(path):
    """Lets the app run in a folder, which is made if it does not exist."""
    before = os.getcwd()
    if path:
        os.makedirs(path, exist_ok=True)
        os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def govern_default_rng(*key):
    """Lets numpy's default_rng, where it is given no seed, follow from a key and the number of such calls."""
    import numpy

    original = getattr(numpy.random.default_rng, "original", numpy.random.default_rng)
    calls = [0]

    def default_rng(seed=None):
        if seed is None:
            calls[0] += 1
            seed = int.from_bytes(hashlib.sha256(repr((*key, calls[0])).encode()).digest()[:16], "little")
        return original(seed)

    default_rng.original = original
    default_rng.__doc__ = original.__doc__
    numpy.random.default_rng = default_rng
