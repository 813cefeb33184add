"""The server: FedAvg in a workflow whose training is SecAgg+."""

import hashlib

import numpy as np
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the workflow and leaves a digest of the model."""
    config = context.run_config
    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=1.0,
        initial_parameters=ndarrays_to_parameters([np.zeros(6)]),
        evaluate_metrics_aggregation_fn=lambda list: {"mse": sum(n * m["mse"] for n, m in list) / sum(n for n, _ in list)},
    )
    legacy = LegacyContext(
        context=context, config=ServerConfig(num_rounds=config["num-server-rounds"]), strategy=strategy
    )
    secure = SecAggPlusWorkflow(
        num_shares=config["num-shares"],
        reconstruction_threshold=config["threshold"],
        max_weight=100,
        timeout=config["timeout"],
    )
    DefaultWorkflow(fit_workflow=secure)(grid, legacy)
    model = next(iter(legacy.state.array_records.values())).to_numpy_ndarrays()
    np.savez("model.npz", *model)
    with open("digest.txt", "w") as file:
        file.write(hashlib.sha256(model[0].tobytes()).hexdigest() + "\n")
