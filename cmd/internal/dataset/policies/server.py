import fedpace


class Server(fedpace.Aggregation):
    """The weights of updates, and the step of the model; one of the two methods is enough."""

    def weigh(self, now):
        return [w / k for w, k in zip(now.weights, now.steps)]  # they are scaled to a sum of 1

    def step(self, now, model, delta, state):
        # delta is the weighted mean update; state has as many vectors as the key vectors, 0 at first
        for i, d in enumerate(delta):  # numpy: numpy.asarray(model)[:] += delta
            model[i] += d
