import fedpace


class Clients(fedpace.ClientSchedule):
    """Each client's own K and learning rate; one of the two methods is enough."""

    def local_steps(self, client):
        # client.seconds are the times that 1, 2, 3, ... local steps are expected to take
        in_time = [s for s in client.seconds if client.deadline is None or s <= client.deadline]
        return len(in_time)  # at most client.local_steps; 0 leaves the client out of the round

    def learning_rate(self, client):
        return client.learning_rate  # of the round; client.samples is their number, or None
