package metrics

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
)

const second = round.Time(1e9)

// A FEMNIST client with K = 80 (Tables 1 and 2): 6.71 Mb at 20 Mbps, 80 steps
// of 17 ms, 6.71 Mb at 5 Mbps.
var femnist = round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000}

// span is one phase's place on the clock.
type span struct {
	phase    Phase
	from, to round.Time
}

// spans are a task's phases, without those that take no time.
func spans(e *round.TaskReport) (list []span) {
	at := e.Start
	for phase, length := range PartsOf(e) {
		if length != 0 {
			list = append(list, span{Phase(phase), at, at + length})
		}
		at += length
	}
	return list
}

func TestPhases_OfTask(t *testing.T) {
	for _, test := range []struct {
		name string
		task round.TaskReport
		want []span
	}{
		{
			"to its end", round.TaskReport{Start: second, End: second + femnist.Total(), Plan: femnist, Outcome: round.Accepted},
			[]span{{Download, second, 1_335_500_000}, {Compute, 1_335_500_000, 2_695_500_000}, {Upload, 2_695_500_000, 4_037_500_000}},
		},
		{
			"late: cut at the deadline of 3 s, in its upload", round.TaskReport{Start: 0, End: 3 * second, Plan: femnist, Outcome: round.Late},
			[]span{{Download, 0, 335_500_000}, {Compute, 335_500_000, 1_695_500_000}, {Upload, 1_695_500_000, 3 * second}},
		},
		{
			"dropped while it computes", round.TaskReport{Start: 0, End: second, Plan: round.Plan{Download: femnist.Download, Compute: femnist.Compute, Upload: femnist.Upload, Drops: true, Dropout: second}, Outcome: round.Dropped},
			[]span{{Download, 0, 335_500_000}, {Compute, 335_500_000, second}},
		},
		{"cancelled as it began", round.TaskReport{Start: second, End: second, Plan: femnist, Outcome: round.Cancelled}, nil},
		{
			"chosen as a candidate, it has the model already", round.TaskReport{Start: 0, End: 2_702_000_000, Plan: round.Plan{Compute: femnist.Compute, Upload: femnist.Upload}, Outcome: round.Accepted},
			[]span{{Compute, 0, 1_360_000_000}, {Upload, 1_360_000_000, 2_702_000_000}},
		},
		{
			"a device that fell silent", round.TaskReport{Start: second, End: 121 * second, Outcome: round.Lost},
			[]span{{Waiting, second, 121 * second}},
		},
	} {
		if diff := gocmp.Diff(test.want, spans(&test.task), gocmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestSteps_Done(t *testing.T) {
	for _, test := range []struct {
		name string
		task round.TaskReport
		want int64
	}{
		{"to its end", round.TaskReport{End: femnist.Total(), Plan: femnist}, 80},
		{"cut in its upload", round.TaskReport{End: 3 * second, Plan: femnist, Outcome: round.Late}, 80},
		{"cut in the middle of its computing", round.TaskReport{End: femnist.Download + femnist.Compute/2, Plan: femnist, Outcome: round.Late}, 40},
		{"cut in its download", round.TaskReport{End: femnist.Download - 1, Plan: femnist, Outcome: round.Dropped}, 0},
		{"computing that takes no time", round.TaskReport{End: femnist.Download, Plan: round.Plan{Download: femnist.Download, Upload: second}, Outcome: round.Late}, 80},
		{"a candidate", round.TaskReport{End: femnist.Total(), Plan: femnist, Probe: true}, 0},
		{"a device that fell silent", round.TaskReport{End: 120 * second, Outcome: round.Lost}, 0},
	} {
		test.task.LocalSteps = 80
		p := PartsOf(&test.task)
		if got := p.Steps(&test.task); got != test.want {
			t.Errorf("%s: %d steps, want %d", test.name, got, test.want)
		}
	}
}

// anyTask draws a task of any outcome, cut anywhere.
func anyTask(t *rapid.T) round.TaskReport {
	length := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, int64(round.MaxDuration)))
	e := round.TaskReport{
		Task: rapid.Uint64Range(1, 1<<40).Draw(t, "task"), Client: rapid.IntRange(0, 50).Draw(t, "client"),
		Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(t, "outcome")),
		Start:   round.Time(rapid.Int64Range(0, int64(round.MaxTime)).Draw(t, "start")),
		Plan: round.Plan{
			Download: round.Time(length.Draw(t, "download")), Compute: round.Time(length.Draw(t, "compute")), Upload: round.Time(length.Draw(t, "upload")),
		},
	}
	e.End = e.Start + round.Time(rapid.Int64Range(0, int64(e.Plan.Total())+3).Draw(t, "took"))
	return e
}

func TestPhases_TileTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyTask(t)
		spans := spans(&e)
		at, before := e.Start, -1
		for _, s := range spans {
			if s.from != at || s.to <= s.from || int(s.phase) <= before {
				t.Fatalf("%+v of %+v", spans, e)
			}
			at, before = s.to, int(s.phase)
		}
		if at != e.End {
			t.Fatalf("%+v end at %d, the task at %d", spans, at, e.End)
		}
		planned := Parts{e.Plan.Download, e.Plan.Compute, e.Plan.Upload}
		for phase, length := range PartsOf(&e) {
			if Phase(phase) != Waiting && length > planned[phase] {
				t.Fatalf("%v takes %d of %d ns", Phase(phase), length, planned[phase])
			}
		}
	})
}

// What is kept is what sorting all tasks would give, in whatever order they end.
func TestTasks_Kept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slowest, sample := rapid.IntRange(0, 6).Draw(t, "slowest"), rapid.IntRange(0, 6).Draw(t, "sample")
		c := newCollector(&Run{
			Seed: rapid.Uint64().Draw(t, "seed"), Slowest: slowest, Sample: sample,
			Clients: 45, Class: func(client int) int { return client % 3 },
		})
		for number := range 2 {
			tasks := rapid.SliceOfNDistinct(rapid.Custom(anyTask), 0, 40, func(e round.TaskReport) uint64 { return e.Task }).Draw(t, "tasks")
			stop := rapid.IntRange(0, len(tasks)).Draw(t, "stop") // and go on from there
			for i := range tasks {
				if i == stop {
					before := c
					c = newCollector(c.run)
					c.restore(before.keptTasks(nil), before.ended)
				}
				c.task(&tasks[i])
			}
			want := map[uint64]bool{} // by task: whether it is slow
			others := slices.DeleteFunc(slices.Clone(tasks), func(e round.TaskReport) bool { return e.Client >= 45 })
			for _, e := range tasks {
				if e.Client >= 45 {
					want[e.Task] = false
				}
			}
			slices.SortFunc(others, func(a, b round.TaskReport) int {
				return cmp.Or(cmp.Compare(c.hash(a.Client), c.hash(b.Client)), cmp.Compare(a.Task, b.Task))
			})
			for _, e := range others[:min(sample, len(others))] {
				want[e.Task] = false
			}
			slices.SortFunc(others, func(a, b round.TaskReport) int {
				return cmp.Or(-cmp.Compare(a.End-a.Start, b.End-b.Start), -cmp.Compare(a.Plan.Total(), b.Plan.Total()), cmp.Compare(a.Task, b.Task))
			})
			for _, e := range others[:min(slowest, len(others))] {
				want[e.Task] = true
			}
			r := c.report(&round.Report{Round: number + 1})
			got := map[uint64]bool{}
			for _, task := range r.Tasks {
				got[task.Task] = task.Slow
				if !task.Real && task.Class != task.Client%3 || task.Real && task.Class != 0 || task.Real != (task.Client >= 45) {
					t.Fatalf("%+v", task)
				}
			}
			if diff := gocmp.Diff(want, got); diff != "" || len(got) != len(r.Tasks) {
				t.Fatal(diff)
			}
			if !slices.IsSortedFunc(r.Tasks, func(a, b Task) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Task, b.Task)) }) {
				t.Fatalf("not by start and number: %+v", r.Tasks)
			}
			if r.Round != number+1 || r.Ended != len(tasks) {
				t.Fatalf("round %d with %d tasks, want %d with %d", r.Round, r.Ended, number+1, len(tasks))
			}
		}
	})
}

// The same clients are shown from round to round: of those of a cohort, the
// ones with the smallest hashes.
func TestCollector_SampleIsStable(t *testing.T) {
	c := newCollector(&Run{Seed: 7, Sample: 5, Clients: 100})
	shown := map[int]int{}
	for r := range 20 {
		for client := range 100 { // all of them, in another order each time
			e := round.TaskReport{Task: uint64(100*r + client + 1), Client: (client*37 + r) % 100, Plan: femnist, End: femnist.Total()}
			c.task(&e)
		}
		for _, task := range c.report(&round.Report{}).Tasks {
			shown[task.Client]++
		}
	}
	if len(shown) != 5 {
		t.Errorf("%d clients in all, want 5", len(shown))
	}
	for client, n := range shown {
		if n != 20 {
			t.Errorf("client %d in %d of 20 rounds", client, n)
		}
	}
}

// A task that was accepted and then refused, as all of a round are whose masked sum is not recovered, is shown as
// refused, whoever did it.
func TestCollector_RevisedOutcome(t *testing.T) {
	const clients = 3
	for _, client := range []int{0, clients} {
		c := newCollector(&Run{Slowest: 1, Sample: 1, Clients: clients})
		task := round.TaskReport{Task: 5, Client: client, Plan: femnist, End: femnist.Total(), Outcome: round.Accepted}
		c.task(&task)
		task.Outcome = round.Refused
		task.Revises = true
		c.task(&task)
		kept := c.report(&round.Report{})
		if len(kept.Tasks) != 1 || kept.Ended != 1 || kept.Tasks[0].Outcome != round.Refused {
			t.Errorf("client %d: %d ended, kept %+v, want one refused task", client, kept.Ended, kept.Tasks)
		}
	}
}

// A population of any size costs what is kept, and a round no allocation.
func TestMemory_Bounded(t *testing.T) {
	c := newCollector(&Run{Slowest: 8, Sample: 32, Clients: 10_000})
	play := func() {
		for i := range 20_000 {
			e := round.TaskReport{Task: uint64(i + 1), Client: i, End: round.Time(i)}
			c.task(&e)
		}
		if n := len(c.report(&round.Report{}).Tasks); n > maxDevices+8+32 {
			t.Fatalf("%d tasks are kept", n)
		}
	}
	play()
	if n := testing.AllocsPerRun(3, play); n > 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// A timing-only run plays 300,000 tasks a second: 3,300 ns each.
func BenchmarkTask(b *testing.B) {
	const cohort = 1000
	random := rand.New(rand.NewPCG(1, 2))
	tasks := make([]round.TaskReport, cohort)
	for i := range tasks {
		tasks[i] = round.TaskReport{Task: uint64(i + 1), Client: random.IntN(1_000_000), Plan: femnist, End: round.Time(random.Int64N(1e10))}
	}
	slices.SortFunc(tasks, func(a, b round.TaskReport) int { return cmp.Compare(a.End, b.End) }) // as the clock gives them
	c := newCollector(&Run{Slowest: 8, Sample: 32, Clients: 1_000_000})
	for i := 0; b.Loop(); i++ {
		if i%cohort == 0 && i > 0 {
			c.report(&round.Report{})
		}
		c.task(&tasks[i%cohort])
	}
}
