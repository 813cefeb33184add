package realdevices

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/coordinator/round"
)

// Durations are shortened in one proportion, never lengthened, and never come to more than was
// observed and a thousandth; the arithmetic is that of whole numbers without a limit.
func TestClaims_DurationsWithinObserved(t *testing.T) {
	part := rapid.OneOf(rapid.Int64Range(0, 1e10), rapid.Int64Range(0, int64(round.MaxDuration)))
	rapid.Check(t, func(t *rapid.T) {
		told := round.Plan{Download: round.Time(part.Draw(t, "download")), Compute: round.Time(part.Draw(t, "compute")), Upload: round.Time(part.Draw(t, "upload"))}
		observed := round.Time(part.Draw(t, "observed"))
		got, most := capDurations(told, observed), observed+observed/1000
		if told.Total() <= most {
			if got != told {
				t.Fatalf("%+v becomes %+v", told, got)
			}
			return
		}
		if got.Total() > most || most-got.Total() > 2 {
			t.Fatalf("%d ns count, want %d or at most 2 less", got.Total(), most)
		}
		for _, p := range [][2]round.Time{{told.Download, got.Download}, {told.Compute, got.Compute}, {told.Upload, got.Upload}} {
			want := new(big.Int).Mul(big.NewInt(int64(p[0])), big.NewInt(int64(most)))
			if want.Div(want, big.NewInt(int64(told.Total()))); want.Int64() != int64(p[1]) {
				t.Fatalf("%d of %d ns becomes %d, want %v", p[0], told.Total(), p[1], want)
			}
		}
	})
}

// The middle one of the others is that of the list without a value.
func TestClaims_MiddleOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(1, 9), 1, 9).Draw(t, "list")))
		i := rapid.IntRange(0, len(list)-1).Draw(t, "own")
		want := 0
		if others := slices.Delete(slices.Clone(list), i, i+1); len(others) > 0 {
			want = others[(len(others)-1)/2]
		}
		if got := medianOfOthers(list, list[i]); got != want {
			t.Fatalf("without the %d. of %v: %d, want %d", i+1, list, got, want)
		}
	})
}

// Honest losses stay as they are, those of simulated clients always; a lie counts with four
// times the larger of the coordinator's own loss and the middle one.
func TestClaims_Losses(t *testing.T) {
	const first = 3 // device
	d := &Devices{Config: Config{Names: []string{"a", "b", "c"}}, run: Run{First: first}, corrected: map[claimKey]uint64{}}
	tasks := func(clients ...int) (list []round.Task) {
		for _, c := range clients {
			list = append(list, round.Task{Client: c})
		}
		return list
	}
	for _, test := range []struct {
		clients []int
		losses  []float64
		own     float64
		want    []float64
	}{
		{[]int{3, 4}, []float64{0.5, 1e6}, 0.7, []float64{0.5, 2.8}},
		{[]int{3, 4}, []float64{0, 2.8}, 0.7, []float64{0, 2.8}},
		{[]int{3}, []float64{1e6}, 0.7, []float64{2.8}},
		{[]int{3, 4, 5}, []float64{2, 1e6, 3}, 0.1, []float64{2, 12, 3}}, // held-out samples that are easy
		{[]int{0, 1, 2, 3}, []float64{100, 1, 1, 9}, 1, []float64{100, 1, 1, 4}},
		{[]int{3, 4}, []float64{0.5, 1e6}, math.Inf(1), []float64{0.5, 1e6}},
	} {
		got := slices.Clone(test.losses)
		d.BoundLosses(tasks(test.clients...), got, test.own)
		if !slices.Equal(got, test.want) {
			t.Errorf("clients %v tell %v, own %g: %v count, want %v", test.clients, test.losses, test.own, got, test.want)
		}
	}
}

// A round that is tried several times corrects a claim once.
func TestClaims_CorrectedOnce(t *testing.T) {
	d := &Devices{Config: Config{Names: []string{"a"}, Notice: func(string) {}}, run: Run{First: 0}, corrected: map[claimKey]uint64{}}
	tries := func(task uint64) {
		for range 3 {
			d.BoundLosses([]round.Task{{Client: 0, Task: task}}, []float64{100}, 1)
		}
	}
	tries(7)
	tries(8)
	if want := []Correction{{0, string(loss), 2, 100, 4}}; !slices.Equal(d.corrections, want) {
		t.Errorf("corrections are %+v, want %+v", d.corrections, want)
	}
}

// A task that a device may have had before its run was resumed counts with no more time than since
// then, which is nothing to blame the device for.
func TestClaims_BeforeResume(t *testing.T) {
	d := &Devices{
		Config: Config{Names: []string{"a"}, Notice: func(string) {}}, open: map[uint64]*openTask{}, corrected: map[claimKey]uint64{},
		firstSinceResume: make([]bool, 1), accounts: accounts{list: make([]account, 1)},
	}
	if err := d.Resume(&round.State{}, nil, Findings{}); err != nil {
		t.Fatal(err)
	}
	for task, want := range []int{0, 1} {
		if err := d.Issue(&round.Task{Task: uint64(task)}, &bus.Task{}, nil, false); err != nil {
			t.Fatal(err)
		}
		n := &gateway.Event{Arrived: time.Now(), Update: &bus.DeviceUpdate{Update: &bus.Update{Task: uint64(task), ComputeNs: int64(time.Hour)}}}
		if plan := d.countedPlan(n, 0); plan.Total() >= round.Time(time.Hour) {
			t.Errorf("task %d counts with %v", task, plan)
		}
		if len(d.corrections) != want {
			t.Errorf("task %d: corrections are %+v, want %d", task, d.corrections, want)
		}
	}
}

// A vote counts once, however loud.
func TestClaims_VotesAreSigns(t *testing.T) {
	d := &Devices{run: Run{Params: 3, Trainable: 3, UpdateLength: 3, Votes: true, Spec: &bus.Spec{Compression: "sign"}}, open: map[uint64]*openTask{1: {base: make([]float32, 3)}}}
	d.TaskLimit = time.Second
	for x, want := range map[float32]bool{1: true, 0: true, -1: true, 0.5: false, 100: false, -2: false} {
		if err := d.checkUpdate(&bus.DeviceUpdate{Values: []float32{1, x, -1}, Update: &bus.Update{Task: 1}}); (err == nil) != want {
			t.Errorf("a vote of %v: %v", x, err)
		}
	}
}
