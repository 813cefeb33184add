"""What a round costs as a run grows: a line for each thing that grows, from runs of two lengths.

The cost of a round is processor time of one core: of a run of some rounds less that of a run of
one. Memory is the peak of the longer run. docs/performance_test.go lays lines through the points.
"""
import socket
import time

from measure import CORES, ONE, Child, ended, tell

SPEED = "{dist: lognormal, mean: %s, sigma: 0.5}"
FLEET = "[{name: phone, seconds_per_step: %s, download_mbps: %s, upload_mbps: %s}]" % tuple(
    SPEED % mean for mean in (0.017, 20, 5))
# Clients of whom each has speeds of its own, three in ten are there, and rounds have a deadline.
UNEVEN = dict(fleet=FLEET, availability="{model: bernoulli, probability: 0.3, period_seconds: 600}",
              close="{rule: deadline, seconds: 4}")
TIMED = dict(train="false", task="femnist")
LEARNING = dict(task="femnist", clients=300, schedule__k="fixed", evaluate__samples=64, evaluate__every=1000000)

# Targets: client-rounds a second of wall time at full scale, on two cores; bytes there.
PACE, MEMORY = 250_000, 2e9
FULL = "a million clients, cohort 10,000, deadline"


def timed(scaled):
    """Rounds that are timed only: clients, cohorts, and the length of a run."""
    for clients in (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000):
        yield "clients", clients, scaled(300), dict(TIMED, **UNEVEN, clients=clients, cohort=1000)
    for cohort in (100, 300, 1000, 3000, 10_000):
        yield "cohort, timed only", cohort, scaled(300_000 // cohort), dict(TIMED, **UNEVEN, clients=1_000_000, cohort=cohort)
    for rounds in (1000, 3000, 10_000, 30_000):
        yield "rounds", scaled(rounds), scaled(rounds), dict(TIMED, **UNEVEN, clients=10_000, cohort=30)


def learning(scaled):
    """Rounds that learn: cohorts, K, parameters, and the jobs that a round is cut into."""
    for cohort in (10, 30, 100, 300):
        yield "cohort", cohort, scaled(1200 // cohort), dict(LEARNING, cohort=cohort, schedule__k0=8)
    for k in (1, 2, 4, 8, 16, 32, 64):
        yield "K", k, scaled(200 // k + 4), dict(LEARNING, cohort=60, schedule__k0=k)
    for width in (64, 200, 600, 2000):
        parameters = 784 * width + width + width * width + width + 62 * width + 62
        model = f"[flatten, dense: {width}, relu, dense: {width}, relu, dense]"
        yield "parameters", parameters, scaled(12_000_000 // parameters + 2), dict(LEARNING, cohort=20, schedule__k0=1, model=model)
    for workers in (1, 4, 16, 30):  # two jobs each
        yield "jobs", 2 * workers, scaled(60), dict(LEARNING, cohort=60, schedule__k0=1, procs=workers)


def point(fedpace, grows, value, rounds, sets):
    short, _, _ = fedpace.run(**sets, stop__rounds=1)
    long, _, _ = fedpace.run(**sets, stop__rounds=rounds + 1)
    return row(grows, value, rounds, (long.cpu - short.cpu) / rounds, long.peak)


def row(grows, value, rounds, seconds, peak, unit="cpu"):
    return {"grows": grows, "value": value, "rounds": rounds, "seconds": seconds, "peak_bytes": peak, "time": unit}


def hosts(fedpace, count, rounds):
    """The processor time of a round of a coordinator and so many hosts, and a host's memory."""
    cpu, peak, least = {}, 0, 10  # rounds: a host that comes after the run's end would wait for another run
    for n in (least, rounds + least):
        with socket.create_server(("127.0.0.1", 0)) as s:
            address = "127.0.0.1:%d" % s.getsockname()[1]
        sets = {k.replace("__", "."): v for k, v in dict(LEARNING, cohort=60, schedule__k0=8, stop__rounds=n, nats__listen=address).items()}
        keys = fedpace.folder / "keys"
        leader = Child(fedpace.command(sets, "--keys", keys, name="coordinator"))
        time.sleep(1)
        creds = fedpace.folder / "hosts.creds"
        if not creds.exists():
            Child([fedpace.binary, "enroll", "--keys", keys, "--host", "hosts", "--out", creds]).wait()
        others = [Child([fedpace.binary, "host", "--once", "--quiet", "--nats", f"nats://{address}", "--creds", creds,
                         "--name", f"host{i}"]) for i in range(count)]
        used = ended([leader, *others])
        cpu[n], peak = sum(u.cpu for u in used), max(u.peak for u in used[1:])
    return row("hosts", count, rounds, (cpu[rounds + least] - cpu[least]) / rounds, peak)


def whole(fedpace, scaled):
    """Runs on all cores by wall and processor time: of a million clients, and of rounds that learn."""
    for name, sets in [(FULL, UNEVEN), ("the same without a server", dict(UNEVEN, nats__url="none")),
                       ("a million alike, cohort 10,000, all", {})]:
        rounds = scaled(100)
        used, summary, _ = fedpace.run(CORES, **TIMED, **sets, clients=1_000_000, cohort=10_000, stop__rounds=rounds)
        clients = sum(summary["outcomes"].values())
        yield row(name, clients, rounds, summary["wall_seconds"], used.peak, unit="wall")
        yield row(name, clients, rounds, used.cpu, used.peak)
    for k in (80, 8, 1):
        for cores in {1: ONE, len(CORES): CORES}.values():
            rounds = scaled(400 // k + 4)
            sets = dict(LEARNING, cohort=60, schedule__k0=k)
            short, _, _ = fedpace.run(cores, **sets, stop__rounds=1)
            used, _, _ = fedpace.run(cores, **sets, stop__rounds=rounds + 1)
            yield row(f"cores, K = {k}", len(cores), rounds, (used.wall - short.wall) / rounds, used.peak, unit="wall")
            yield row(f"cores, K = {k}", len(cores), rounds, (used.cpu - short.cpu) / rounds, used.peak)


def measure(fedpace, length=1.0):
    """The rows of growth.csv, and what was measured, in words."""
    scaled = lambda rounds: max(2, round(length * rounds))
    rows = []

    def add(r):
        tell(f"{r['grows']} {r['value']:,}: {1e3 * r['seconds']:.3g} ms, {r['peak_bytes'] / 1e6:.0f} MB")
        rows.append(r)

    for of in [*timed(scaled), *learning(scaled)]:
        add(point(fedpace, *of))
    for count in (1, 2, 4):
        add(hosts(fedpace, count, scaled(40)))
    for r in whole(fedpace, scaled):
        add(r)
    _, summary, _ = fedpace.run(**LEARNING, cohort=10, stop__rounds=1)
    return rows, f"kernel class {summary['kernel']}"


def missed(rows):
    full = next(r for r in rows if r["grows"] == FULL)
    pace = full["value"] / full["seconds"]
    if pace < PACE:
        yield f"{pace:,.0f} client-rounds a second at full scale, want {PACE:,}"
    if full["peak_bytes"] > MEMORY:
        yield f"{full['peak_bytes'] / 1e6:.0f} MB at full scale, want less than {MEMORY / 1e6:.0f}"
