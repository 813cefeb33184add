"""eta falls with the square root of the rounds, the schedule eta-rounds of fedpace (Eq. 12)."""
import math

import fedpace


class Rounds(fedpace.LearningRate):
    def learning_rate(self, now):
        return now.eta0 / math.sqrt(now.round)
