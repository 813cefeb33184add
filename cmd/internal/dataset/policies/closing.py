import fedpace


class Closing(fedpace.Closing):
    """It is asked whenever an update has come, and at the deadline (deadline_seconds)."""

    def close(self, now):
        # now.cohort were wanted, now.tasks were given, now.accepted updates have come so far
        if now.overdue:  # the deadline is past: half of the cohort is enough
            return now.accepted >= now.cohort / 2
        # one more update must never turn True into False
        return now.accepted >= 0.9 * now.cohort
