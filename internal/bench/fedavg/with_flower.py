"""FedAvg in Flower's simulation: Ray, an actor for each core."""
import os

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import work

client = ClientApp()
server = ServerApp()


class Worker:
    """What an actor of Ray keeps from one client to the next. The module work holds it, as the app is pickled."""

    def __init__(self):
        self.network = work.network()
        self.samples = work.Samples()


@client.train()
def train(message: Message, context: Context):
    if not hasattr(work, "worker"):
        work.worker = Worker()
    x, y = work.worker.samples.of(int(context.node_config["partition-id"]))
    work.worker.network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = work.local_steps(work.worker.network, x, y)
    return Message(reply_to=message, content=RecordDict({
        "arrays": ArrayRecord(work.worker.network.state_dict()),
        "metrics": MetricRecord({"loss": loss, "num-examples": len(x)}),
    }))


class RoundEnds(FedAvg):
    """FedAvg that says when a round has been aggregated."""

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        work.mark()
        return arrays, metrics


@server.main()
def main(grid: Grid, context: Context):
    strategy = RoundEnds(
        fraction_train=work.COHORT / work.CLIENTS,
        fraction_evaluate=0,
        min_train_nodes=work.COHORT,
        min_available_nodes=work.CLIENTS,
    )
    result = strategy.start(grid, ArrayRecord(work.network().state_dict()), num_rounds=work.ROUNDS)
    work.keep(result.arrays.to_torch_state_dict())


if __name__ == "__main__":
    run_simulation(server, client, num_supernodes=work.CLIENTS, backend_config={
        "init_args": {"num_cpus": len(os.sched_getaffinity(0))},
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
    })
