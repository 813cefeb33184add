"""Slow clients take fewer local steps, so that they are done by the deadline: fit of fedpace."""
import fedpace


class Fit(fedpace.ClientSchedule):
    def local_steps(self, client):
        return sum(seconds <= client.deadline for seconds in client.seconds)
