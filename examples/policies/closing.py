"""A round closes with the first n updates, or with m of them after its deadline: quorum of fedpace."""
import fedpace


class Quorum(fedpace.Closing):
    def __init__(self, n, m):
        self.n, self.m = n, m

    def close(self, now):
        return now.accepted >= (self.m if now.overdue else self.n)
