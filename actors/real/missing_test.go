package real

import "testing"

// A device leaves its run at the third time in a row that it cannot fetch one task's model, and at each third after it.
func TestMissingModel_SameTask(t *testing.T) {
	var m missingModel
	for i, c := range []struct {
		task   uint64
		leaves bool
	}{{1, false}, {1, false}, {2, false}, {2, false}, {2, true}, {2, false}, {2, false}, {2, true}, {3, false}} {
		if got := m.again(c.task); got != c.leaves {
			t.Errorf("failure %d, of task %d: leaves %v, want %v", i, c.task, got, c.leaves)
		}
	}
}
