"""FedAvg in NVFLARE's simulator by its recipe: two clients at a time, each task in a process of its own.

All clients take part in each round. nvflare_client.py is what a client does.
"""
import os
import pathlib
import tempfile

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

import work


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent)  # the recipe looks for the script where it is started
    with tempfile.TemporaryDirectory() as workspace:
        # Of a model the recipe takes the class alone and draws other weights.
        start = pathlib.Path(workspace) / "start.pt"
        torch.save(work.network().state_dict(), start)
        recipe = FedAvgRecipe(
            name="fedavg",
            model=work.Network(),
            initial_ckpt=str(start),
            min_clients=work.CLIENTS,
            num_rounds=work.ROUNDS,
            train_script="nvflare_client.py",
            key_metric="loss",
            key_metric_mode="min",
        )
        environment = SimEnv(num_clients=work.CLIENTS, num_threads=2, workspace_root=workspace + "/work")
        print(recipe.execute(environment).get_result())


if __name__ == "__main__":
    main()
