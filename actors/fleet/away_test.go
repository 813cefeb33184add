package fleet

import (
	"testing"

	"pgregory.net/rapid"
)

// passes is a presence that is given: the client is there from each first time to the second.
type passes [][2]int64

// Present reports whether the time lies in a stay.
func (s passes) Present(_ uint64, _ int, t int64) bool {
	for _, stay := range s {
		if stay[0] <= t && t < stay[1] {
			return true
		}
	}
	return false
}

// Change returns the next begin or end of a stay.
func (s passes) Change(_ uint64, _ int, t int64) int64 {
	for _, stay := range s {
		for _, at := range stay {
			if at > t {
				return at
			}
		}
	}
	return Never
}

// Transfers that pause, against a simulation that goes from nanosecond to nanosecond: downloading and
// uploading need the client to be there, and computing does not.
func TestPlan_PausesWhileAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var presence passes
		at := int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "stays") {
			at += int64(rapid.IntRange(1, 9).Draw(t, "away"))
			begin := at
			at += int64(rapid.IntRange(1, 9).Draw(t, "there"))
			presence = append(presence, [2]int64{begin, at})
		}
		plan := Plan{Durations: Durations{
			Download: int64(rapid.IntRange(0, 8).Draw(t, "download")),
			Compute:  int64(rapid.IntRange(0, 8).Draw(t, "compute")),
			Upload:   int64(rapid.IntRange(0, 8).Draw(t, "upload")),
		}}
		start := int64(rapid.IntRange(0, 20).Draw(t, "start"))

		now := start
		left := [...]int64{plan.Download, plan.Compute, plan.Upload}
		var ends [3]int64
		for phase := range left {
			for left[phase] > 0 && now < 1000 {
				isComputing := phase == 1
				if isComputing || presence.Present(0, 0, now) {
					left[phase]--
				}
				now++
			}
			ends[phase] = now
		}
		returns := now < 1000

		if got := plan.extendTransfers(presence, 0, 0, start); got != returns {
			t.Fatalf("it comes back: %v, want %v", got, returns)
		}
		if !returns {
			if plan.Dropout == NoPhase || plan.After >= plan.Total() {
				t.Fatalf("a client that does not come back has the plan %+v", plan)
			}
			return
		}
		want := Durations{Download: ends[0] - start, Compute: ends[1] - ends[0], Upload: ends[2] - ends[1]}
		if plan.Durations != want {
			t.Fatalf("the plan is %+v, want %+v", plan.Durations, want)
		}
	})
}

// A satellite that passes for 10 s of every 100 s, 5 s into its first pass: it downloads for 8 s (5 s of
// this pass, 3 s of the next), computes for 60 s, and uploads for 8 s at the pass after that.
func TestPlan_Satellite(t *testing.T) {
	satellite := passes{{0, 10 * second}, {100 * second, 110 * second}, {200 * second, 210 * second}}
	plan := Plan{Durations: Durations{Download: 8 * second, Compute: 60 * second, Upload: 8 * second}}
	if !plan.extendTransfers(satellite, 0, 0, 5*second) {
		t.Fatal("it does not come back")
	}
	// The download ends at 103 s, computing at 163 s, and the upload at 208 s.
	want := Durations{Download: 98 * second, Compute: 60 * second, Upload: 45 * second}
	if plan.Durations != want {
		t.Errorf("the plan is %+v, want %+v", plan.Durations, want)
	}
}
