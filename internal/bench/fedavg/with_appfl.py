"""FedAvg in APPFL, in one process.

    with_appfl.py serial|vsim

serial: a loop over agents, as APPFL's examples simulate. vsim: its driver with a virtual clock, which waits for
the whole cohort. Its collections of garbage after each client (optimize_memory) are off, which saves it time.
"""
import os
import random
import sys
import tempfile

from appfl.agent import ClientAgent, ServerAgent
from appfl.config import ServerAgentConfig
from appfl.vsim import ClientProfile, SyncSimDriver, VsimLogger
from omegaconf import OmegaConf
from torch.utils.data import TensorDataset

import work

THIS_FILE = os.path.abspath(__file__)
NETWORK_FILE = os.path.abspath(work.__file__)
samples = work.Samples()


def client_data(client):
    """A client's training samples, and none for validation. APPFL finds it by the name of its file and its own."""
    return TensorDataset(*samples.of(client)), None


def accuracy(labels, outputs):
    return float((outputs.argmax(1) == labels).mean())


def make_server(logs):
    client_configs = {
        "train_configs": {
            "trainer": "VanillaTrainer",
            "mode": "step",
            "num_local_steps": work.K,
            "optim": "SGD",
            "optim_args": {"lr": work.RATE},
            "loss_fn": "CrossEntropyLoss",
            "metric_path": THIS_FILE,
            "metric_name": "accuracy",
            "train_batch_size": work.BATCH,
            "train_data_shuffle": True,
            "do_validation": False,
            "do_pre_validation": False,
            "optimize_memory": False,
        },
        "model_configs": {"model_path": NETWORK_FILE, "model_name": "network"},
    }
    server_configs = {
        "num_clients": work.COHORT,
        "num_global_epochs": work.ROUNDS,
        "scheduler": "SyncScheduler",
        "scheduler_kwargs": {"num_clients": work.COHORT, "optimize_memory": False},
        "aggregator": "FedAvgAggregator",
        "aggregator_kwargs": {"client_weights_mode": "sample_size", "optimize_memory": False},
        "device": "cpu",
        "logging_output_dirname": logs,
        "optimize_memory": False,
    }
    return ServerAgent(OmegaConf.structured(ServerAgentConfig(
        client_configs=OmegaConf.create(client_configs),
        server_configs=OmegaConf.create(server_configs),
    )))


def make_clients(server, logs):
    agents = []
    for client in range(work.CLIENTS):
        agent = ClientAgent(OmegaConf.create({
            "client_id": str(client),
            "train_configs": {"device": "cpu", "logging_output_dirname": logs},
            "data_configs": {
                "dataset_path": THIS_FILE,
                "dataset_name": "client_data",
                "dataset_kwargs": {"client": client},
            },
            "optimize_memory": False,
        }))
        agent.load_config(server.get_client_configs())
        server.set_sample_size(agent.get_id(), agent.get_sample_size())
        agents.append(agent)
    return agents


def serial(server, agents):
    draw = random.Random(work.SEED)
    model = server.get_parameters(serial_run=True)
    while not server.training_finished():
        for agent in draw.sample(agents, work.COHORT):
            agent.load_parameters(model)
            agent.train()
            trained = agent.get_parameters()
            metadata = {}
            if isinstance(trained, tuple):
                trained, metadata = trained
            update = server.global_update(agent.get_id(), trained, blocking=False, **metadata)
        model = update.result()
        work.mark()


class VirtualClock(SyncSimDriver):
    def _aggregate_round(self, accepted):
        super()._aggregate_round(accepted)
        work.mark()


def main(mode):
    with tempfile.TemporaryDirectory() as logs:
        server = make_server(logs)
        agents = make_clients(server, logs)
        if mode == "serial":
            serial(server, agents)
        else:
            profiles = {agent.get_id(): ClientProfile(bandwidth=20) for agent in agents}
            VirtualClock(
                server,
                agents,
                profiles,
                work.COHORT,
                VsimLogger(),
                base_step_time=0.01,
                target_rounds=work.ROUNDS,
            ).run()
        work.keep(server.get_parameters(serial_run=True))


if __name__ == "__main__":
    main(sys.argv[1])
