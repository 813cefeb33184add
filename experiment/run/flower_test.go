package run

import (
	"slices"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/grid"
	"fedpace/learn/metric"
)

// A message counts the bytes of those of its transfers that are over, and none if its node never took it up.
func TestFlowerRun_Bytes(t *testing.T) {
	plan := round.Plan{Download: 10, Compute: 10, Upload: 10}
	for _, x := range []struct {
		name  string
		taken bool
		plan  round.Plan
		took  round.Time
		want  int64
	}{
		{"whole", true, plan, 30, 11},
		{"download alone", true, plan, 15, 1},
		{"cut off", true, plan, 5, 0},
		{"never taken", false, round.Plan{}, 0, 0},
	} {
		r := &flowerRun{}
		m := &grid.Task{Taken: x.taken, DownBytes: 1, UpBytes: 10}
		m.Plan = x.plan
		m.End = x.took
		m.Outcome = round.Late
		r.addBytes(m)
		if r.bytes.Wasted != x.want || r.bytes.Useful != 0 {
			t.Errorf("%s: %+v, want %d wasted", x.name, r.bytes, x.want)
		}
	}
}

// Scores whose names become one name as columns have columns of different names.
func TestScores_SameColumnNames(t *testing.T) {
	s := scores{central: []string{"clients_f1", "f1"}, evaluate: []string{"F1", "f1"}}
	s.decide()
	names := metric.Names(s.metrics)
	slices.Sort(names)
	if len(names) != 4 || len(slices.Compact(names)) != 4 {
		t.Errorf("columns %q", names)
	}
}
