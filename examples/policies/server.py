"""The server keeps a momentum: fedavgm of fedpace. Updates weigh as they come."""
import fedpace


class Momentum(fedpace.Aggregation):
    def __init__(self, momentum=0.9, rate=1.0):
        self.momentum, self.rate = momentum, rate

    def weigh(self, now):
        return now.weights

    def step(self, now, model, delta, state):
        (v,) = state
        for i, d in enumerate(delta):
            v[i] = self.momentum * v[i] + d
            model[i] = model[i] + self.rate * v[i]
