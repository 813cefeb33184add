"""FedAvg of FEMNIST's network (784-200-200-62) on made samples, as one writes it for Flower.

The environment says how much is done: CLIENTS, COHORT, K local steps (0: none), ROUNDS. A line is added to
the file MARKS when a round has been aggregated.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a client trains on one core, in Flower and in fedpace

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

torch.set_num_threads(1)
CLIENTS, COHORT, K, ROUNDS = (int(os.environ[name]) for name in ("CLIENTS", "COHORT", "K", "ROUNDS"))
BATCH = 32
RATE = 0.05

client = ClientApp()
server = ServerApp()
samples_of = {}  # what this process has made already, by client


def network():
    """The network with its first weights."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62))


def samples(number):
    """The client's 224 to 384 samples of 784 features and their 62 classes."""
    if number not in samples_of:
        draw = torch.Generator().manual_seed(number)
        count = int(torch.randint(224, 385, (1,), generator=draw))
        samples_of[number] = (
            torch.rand(count, 784, generator=draw),
            torch.randint(62, (count,), generator=draw),
        )
    return samples_of[number]


@client.train()
def train(message: Message, context: Context):
    x, y = samples(int(context.node_config["partition-id"]))
    net = network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    loss = torch.zeros(())
    for _ in range(K):
        chosen = torch.randint(len(x), (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[chosen]), y[chosen])
        loss.backward()
        optimizer.step()
    return Message(reply_to=message, content=RecordDict({
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"loss": float(loss), "num-examples": len(x)}),
    }))


class Marked(FedAvg):
    """FedAvg that says when a round has been aggregated."""

    def aggregate_train(self, server_round, replies):
        result = super().aggregate_train(server_round, replies)
        with open(os.environ["MARKS"], "a", encoding="utf-8") as marks:
            marks.write(f"{server_round}\n")
        return result


@server.main()
def main(grid: Grid, context: Context):
    strategy = Marked(fraction_train=COHORT / CLIENTS, min_train_nodes=COHORT, fraction_evaluate=0,
                      min_available_nodes=CLIENTS)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=ROUNDS)


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    run_simulation(server, client, num_supernodes=CLIENTS, backend_config={
        "init_args": {"num_cpus": len(os.sched_getaffinity(0))},
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
    })
