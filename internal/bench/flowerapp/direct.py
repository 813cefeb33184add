"""The app's rounds in one process, without Flower's runtime and without fedpace.

The strategy's messages go to the ClientApp by a call, so what is left is what Flower's records and
strategy, and the client itself, cost. It prints the processor time of rounds behind the first.
"""
import time

from flwr.app import Context, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from mlp.app import CLIENTS, client, main


class Direct(Grid):
    """A grid that calls the ClientApp."""

    def __init__(self):
        self.nodes = list(range(1, CLIENTS + 1))
        self.marks = []

    def set_run(self, run_id):
        pass

    @property
    def run(self):
        return None

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def get_node_ids(self):
        return self.nodes

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        self.marks.append(time.process_time())
        return [self.reply(message) for message in messages]

    def reply(self, message):
        node = message.metadata.dst_node_id
        context = Context(run_id=1, node_id=node, node_config={"partition-id": node - 1}, state=RecordDict(), run_config={})
        return client(message, context)


if __name__ == "__main__":
    # Flower makes messages for the task that a process serves.
    TaskIdentity.run_id = 1
    TaskIdentity.task_id = 1
    TaskIdentity.node_id = 0
    grid = Direct()
    main(grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}))
    print(time.process_time() - grid.marks[1])
