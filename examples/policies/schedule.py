"""K falls with the cube root of the rounds, the schedule rounds of fedpace (Eq. 10)."""
import fedpace


class Rounds(fedpace.LocalSteps):
    def local_steps(self, now):
        k0, k = int(now.k0), 1
        while k**3 * now.round < k0**3:  # the smallest k of at least k0 / round^(1/3), exactly
            k += 1
        return k
