"""What a client of with_nvflare.py does: the training script of its recipe.

The first client marks that a round is over when it gets the next round's model. It keeps the last model that it gets.
"""
import nvflare.client as flare
import torch

import work


def main():
    flare.init()
    client = int(flare.get_site_name().removeprefix("site-")) - 1
    x, y = work.Samples().of(client)
    net = work.network()
    while flare.is_running():
        received = flare.receive()
        model = {name: torch.as_tensor(value) for name, value in received.params.items()}
        if client == 0 and received.current_round > 0:
            work.keep(model)
            work.mark()
        net.load_state_dict(model)
        loss = work.local_steps(net, x, y)
        flare.send(flare.FLModel(
            params=net.state_dict(),
            metrics={"loss": loss},
            meta={"NUM_STEPS_CURRENT_ROUND": len(x)},
        ))


if __name__ == "__main__":
    main()
