package closing

import "testing"

func TestQuorum_Decides(t *testing.T) {
	rule := Quorum{N: 5, M: 3, Seconds: 0.5}
	if got := rule.Deadline(); got != 500_000_000 {
		t.Errorf("a deadline after %d ns, want half a second", got)
	}
	if got := (Quorum{N: 5, M: 3, Seconds: 1e-12}).Deadline(); got != 1 {
		t.Errorf("a deadline after %d ns, want 1: 0 would be none", got)
	}
	if got, want := rule.String(), "with the first 5 updates, or after 0.5 s with at least 3"; got != want {
		t.Errorf("rounds close %q, want %q", got, want)
	}
	for _, x := range []struct {
		accepted int
		overdue  bool
		want     bool
	}{
		{0, false, false}, {3, false, false}, {4, false, false}, {5, false, true}, {6, false, true},
		{0, true, false}, {2, true, false}, {3, true, true}, {5, true, true},
	} {
		if got := rule.Close(Standing{Cohort: 8, Accepted: x.accepted, Overdue: x.overdue}); got != x.want {
			t.Errorf("%d updates, overdue %v: %v, want %v", x.accepted, x.overdue, got, x.want)
		}
	}
}
