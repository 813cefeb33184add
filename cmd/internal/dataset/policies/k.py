import fedpace


class Schedule(fedpace.LocalSteps):
    """K of each round; it is asked as a round opens."""

    def local_steps(self, now):
        # now.round counts from 1, now.seconds is virtual time; a loss that is not known is None
        ratio = 1 if now.loss_ratio is None else now.loss_ratio
        # as the loss falls to a part of the first one, so does K (reads: losses asks for losses)
        return max(1, now.k0 * ratio)
