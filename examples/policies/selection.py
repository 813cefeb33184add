"""Clients are asked in turn, again and again: round_robin of fedpace."""
import fedpace


class RoundRobin(fedpace.Selection):
    def select(self, now, memory):
        first = (now.round - 1) * now.cohort
        return [(first + i) % now.clients for i in range(now.clients)]
