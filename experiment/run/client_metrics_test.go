package run

import (
	"fmt"
	"slices"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/grid"
)

// The order of a map differs from call to call. The columns that a bounded table keeps, and the value that it keeps
// of two names of one column, must not.
func TestKeepMetrics_OrderOfNames(t *testing.T) {
	reply := &grid.Task{Category: "train", TaskReport: round.TaskReport{Client: 3}, Metrics: map[string]float64{}}
	var want []string
	for i := range maxClientColumns + 50 {
		name := fmt.Sprintf("train_%03d", i)
		reply.Metrics[name] = float64(i)
		if i < maxClientColumns-1 {
			want = append(want, name)
		}
	}
	// Both are names of the column train_000_a, of which the last in alphabetical order counts.
	reply.Metrics["train_000-a"] = -1
	reply.Metrics["train_000_a"] = -2
	want = slices.Sorted(slices.Values(append(want, "train_000_a")))
	for range 10 {
		r := &flowerRun{clientValues: map[string]map[int]float64{}}
		r.keepMetrics(reply)
		var got []string
		for _, c := range r.clientColumns() {
			got = append(got, c.Name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("columns %v, want %v", got, want)
		}
		if v := r.clientValues["train_000_a"][3]; v != -2 {
			t.Fatalf("train_000_a is %v, want -2", v)
		}
	}
}
