"""The client: least squares with the older API, behind the mod of SecAgg+."""

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import Context


class Regression(NumPyClient):
    """Least squares on rows that follow from the partition."""

    def __init__(self, part):
        """Makes the rows."""
        rng = np.random.default_rng(part)
        self.x = rng.normal(size=(30, 6))
        self.y = self.x @ np.arange(6.0)

    def fit(self, parameters, config):
        """Takes ten steps."""
        w = parameters[0].copy()
        for _ in range(10):
            w -= 0.1 * self.x.T @ (self.x @ w - self.y) / len(self.y)
        return [w], len(self.y), {}

    def evaluate(self, parameters, config):
        """Measures the mean squared error."""
        error = float(np.mean((self.x @ parameters[0] - self.y) ** 2))
        return error, len(self.y), {"mse": error}


def client_fn(context: Context):
    """Makes the client of a node."""
    return Regression(context.node_config["partition-id"]).to_client()


app = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
