"""Virtual time for the thread of a ServerApp: time.time, time.sleep and their kin go by fedpace's clock.

The module replaces the functions of the module time when it is imported, which must be before
flwr is: Flower's strategies and an app's own loops then wait in virtual time. Other threads, and
what runs inside real_time, keep the machine's clock.
"""

import contextlib
import threading
import time

# EPOCH is what time.time() returns at virtual time 0, in seconds.
EPOCH = 1_700_000_000.0

_REAL = {name: getattr(time, name) for name in ("time", "sleep", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")}


class Clock:
    """The virtual time that the server's thread has reached, in nanoseconds since the run's start."""

    def __init__(self):
        """Begins at 0, and governs no thread."""
        self.now = 0
        self._thread = None
        self._real = False

    def govern(self):
        """Lets the calling thread go by this clock."""
        self._thread = threading.get_ident()

    def governs(self):
        """Says whether the calling thread goes by this clock now."""
        return self._thread == threading.get_ident() and not self._real

    @contextlib.contextmanager
    def real_time(self):
        """Lets the calling thread go by the machine's clock for a while."""
        before = self._real
        self._real = True
        try:
            yield
        finally:
            self._real = before

    def advance(self, seconds):
        """Lets virtual time pass. The next frame to fedpace says so, which plays what happens meanwhile."""
        self.now += max(0, round(seconds * 1e9))

    def until(self, timeout):
        """Returns when a timeout in seconds ends, in nanoseconds. None, which is no timeout, stays None."""
        if timeout is None:
            return None
        return self.now + max(0, round(timeout * 1e9))


CLOCK = Clock()


def _sleep(seconds):
    """Replaces time.sleep."""
    if CLOCK.governs():
        CLOCK.advance(seconds)
    else:
        _REAL["sleep"](seconds)


def _seconds(name, start):
    """Returns the replacement of a function that tells the time in seconds."""
    real = _REAL[name]
    return lambda: start + CLOCK.now / 1e9 if CLOCK.governs() else real()


def _nanoseconds(name, start):
    """Returns the replacement of a function that tells the time in nanoseconds."""
    real = _REAL[name]
    return lambda: int(start * 1e9) + CLOCK.now if CLOCK.governs() else real()


time.sleep = _sleep
time.time = _seconds("time", EPOCH)
time.monotonic = _seconds("monotonic", 0.0)
time.perf_counter = _seconds("perf_counter", 0.0)
time.time_ns = _nanoseconds("time_ns", EPOCH)
time.monotonic_ns = _nanoseconds("monotonic_ns", 0.0)
time.perf_counter_ns = _nanoseconds("perf_counter_ns", 0.0)
