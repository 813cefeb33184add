import random

import fedpace


class Selection(fedpace.Selection):
    """Clients that were slow are asked last."""

    def select(self, now, memory):
        for task in now.ended:  # client, steps, seconds, accepted, loss of each task since the last question
            memory[str(task.client)] = task.seconds  # memory is kept as JSON, whose keys are texts
        order = list(range(now.clients))
        random.Random(f"{now.seed} {now.round}").shuffle(order)  # the same each time
        return sorted(order, key=lambda c: memory.get(str(c), 0))  # list more than now.cohort: some may be away
