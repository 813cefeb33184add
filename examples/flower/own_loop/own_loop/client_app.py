"""The client: least squares by SGD with a momentum that the node keeps, behind a mod that clips updates."""

import random

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

FEATURES = 8


def clip(msg: Message, context: Context, call_next):
    """A mod: shortens the node's update to the run config's norm, and counts the messages in its state."""
    before = None
    if msg.metadata.message_type == "train":
        before = msg.content["arrays"].to_numpy_ndarrays()[0]
    reply = call_next(msg, context)
    counts = context.state.metric_records.get("counts", MetricRecord({"messages": 0}))
    context.state["counts"] = MetricRecord({"messages": counts["messages"] + 1})
    if before is not None:
        change = reply.content["arrays"].to_numpy_ndarrays()[0] - before
        norm = float(np.sqrt((change * change).sum()))
        limit = context.run_config["clip"]
        if norm > limit:
            change *= limit / norm
        reply.content["arrays"] = ArrayRecord([before + change])
    return reply


app = ClientApp(mods=[clip])


def data(context: Context):
    """The node's rows, which follow from its partition."""
    part = context.node_config["partition-id"]
    rng = np.random.default_rng([7, part])
    x = rng.normal(size=(40 + part % 5, FEATURES))
    return x, x @ np.arange(1.0, FEATURES + 1) + 0.1 * rng.normal(size=len(x))


@app.query()
def size(msg: Message, context: Context):
    """Tells the number of the node's rows."""
    x, _ = data(context)
    return Message(RecordDict({"size": MetricRecord({"rows": len(x)})}), reply_to=msg)


@app.train()
def train(msg: Message, context: Context):
    """Takes local steps on rows that the node draws, with the momentum of its last message."""
    w = msg.content["arrays"].to_numpy_ndarrays()[0].copy()
    x, y = data(context)
    config = context.run_config
    velocity = np.zeros_like(w)
    if "velocity" in context.state:
        velocity = context.state["velocity"].to_numpy_ndarrays()[0].copy()
    for _ in range(config["local-steps"]):
        row = random.randrange(len(y))
        gradient = x[row] * (x[row] @ w - y[row]) / FEATURES
        velocity = config["momentum"] * velocity + gradient + 1e-3 * np.random.normal(size=FEATURES)
        w -= config["learning-rate"] * (1 - config["momentum"]) * velocity
    context.state["velocity"] = ArrayRecord([velocity])
    loss = float(np.mean((x @ w - y) ** 2))
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord([w]), "metrics": metrics}), reply_to=msg)
