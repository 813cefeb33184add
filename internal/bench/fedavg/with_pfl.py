"""FedAvg in pfl: its SimulatedBackend, in one process."""
import random

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn

import work


class ClientData(Dataset):
    """A client's samples in K minibatches.

    pfl's own dataset has one epoch of minibatches in one order, and local_num_steps ends with it.
    """

    def iter(self, batch_size):
        return work.minibatches(*self.raw_data, work.K)


class Trained(nn.Module):
    """The network with its loss, as pfl wants it."""

    def __init__(self):
        super().__init__()
        self.network = work.network()

    def loss(self, x, y, **_):
        return nn.functional.cross_entropy(self.network(x), y)

    def metrics(self, x, y, **_):
        return {}


class RoundEnds(TrainingProcessCallback):
    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        work.mark()
        return False, Metrics()


def drawn_clients():
    """Clients without end: each cohort is drawn without replacement."""
    draw = random.Random(work.SEED)
    while True:
        yield from draw.sample(range(work.CLIENTS), work.COHORT)


def main():
    samples = work.Samples()
    for client in range(work.CLIENTS):
        samples.of(client)
    clients = drawn_clients()
    data = FederatedDataset(
        lambda client: ClientData(raw_data=list(samples.of(client)), user_id=str(client)),
        lambda: next(clients),
    )
    trained = Trained()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=work.ROUNDS,
            evaluation_frequency=10**6,
            train_cohort_size=work.COHORT,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        model=PyTorchModel(
            trained,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(trained.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=work.K,
            local_batch_size=work.BATCH,
            local_learning_rate=work.RATE,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[RoundEnds()],
    )
    work.keep(trained.network.state_dict())


if __name__ == "__main__":
    main()
