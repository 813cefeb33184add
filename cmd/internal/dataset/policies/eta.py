import fedpace


class Schedule(fedpace.LearningRate):
    """The learning rate of each round; it is asked before K."""

    def learning_rate(self, now):
        # now.round counts from 1, now.seconds is virtual time, now.eta0 is schedule.eta0
        warm = min(1, now.round / 5)
        # five rounds to warm up, then down with the root of the rounds
        return now.eta0 * warm / now.round**0.5
