package closing

import "testing"

// Without deadline_seconds no round is overdue: a deadline of one nanosecond would make every round so.
func TestPython_Deadline(t *testing.T) {
	for seconds, want := range map[float64]Time{0: 0, 1.5: 1_500_000_000, 1e-12: 1} {
		if got := (Python{Seconds: seconds}).Deadline(); got != want {
			t.Errorf("%g s: a deadline of %d ns, want %d", seconds, got, want)
		}
	}
}
