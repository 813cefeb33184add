#!/usr/bin/env bash
# flwr 1.42.0 with ray 2.55.1: simulated clients run at niceness 15, the server at its caller's.
#
# One expects: a simulation's clients have the priority of the program that started it.
# It happens: Ray's workers, in which the clients train, set their own niceness to 15 (its variable
# RAY_worker_niceness, of which Flower says nothing). So beside any other busy program they get about
# a thirtieth of a core that both want, while the ServerApp keeps its share.
# Why it matters: measured times of rounds and of clients on a shared machine are those of whatever
# else ran there, far more than for a simulator whose clients are its own processes; and a comparison
# of simulators on a busy machine says how they yield, not how fast they are.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

client = ClientApp()
server = ServerApp()


@client.train()
def train(message, context):
    metrics = MetricRecord({"niceness": os.nice(0), "num-examples": 1})
    return Message(reply_to=message, content=RecordDict({"arrays": message.content["arrays"], "metrics": metrics}))


@server.main()
def main(grid, context):
    result = FedAvg(fraction_evaluate=0).start(grid, ArrayRecord([np.zeros(1, np.float32)]), num_rounds=1)
    niceness = result.train_metrics_clientapp[1]["niceness"]
    print(f"niceness of the ServerApp {os.nice(0)}, of the ClientApps {niceness:g}")
    with open("seen", "w") as file:
        file.write(f"{os.nice(0)} {niceness:g}")


if __name__ == "__main__":
    run_simulation(server, client, num_supernodes=2, backend_config={
        "init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0}})
    assert open("seen").read() == "0 15", "clients no longer run at niceness 15"
END
# The script's own niceness must be 0, or it adds to what is seen.
uv run --quiet --no-project --python 3.11 --with 'flwr[simulation]==1.42.0' --with ray==2.55.1 \
  python play.py 2> messages || { cat messages >&2; exit 1; }
