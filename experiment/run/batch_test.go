package run

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/data/federated"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/learn"
	"fedpace/metrics/tables"
)

// A formula gives each round's tasks minibatches that follow K: a local step takes that part of the time
// of a whole one, with and without training, and the models are those of a loop over these minibatches.
func TestBatch_FollowsFormula(t *testing.T) {
	t.Parallel()
	const whole, k0, rounds, step = 12, 9, 8, 0.1
	sets := []string{
		"task=sent140", "clients=5", "cohort=5", fmt.Sprint("batch=", whole), fmt.Sprint("schedule.k0=", k0),
		"schedule.k={rule: expression, formula: 'k0 - r + 1'}", "schedule.batch=12 * k / k0 + (r > 6 ? 100 : 0)",
		fmt.Sprint("compute.seconds_per_step=", step), fmt.Sprint("stop.rounds=", rounds), "outputs=[tasks]",
	}
	sizeIn := func(round int) int {
		if round > 6 {
			return whole
		}
		return int(math.Ceil(whole*float64(k0-round+1)/k0 - 1e-9))
	}
	c := runtest.Small(t, sets...)
	var models [][]float32
	trained := mustRun(t, c, Options{Place: Place{Hosts: 2, Workers: 3}, Callbacks: Callbacks{
		Model: func(_ int, params []float32) { models = append(models, params) },
	}})
	timed := mustRun(t, runtest.Small(t, append(sets, "train=false")...), Options{})
	if timed.Fingerprint != trained.Fingerprint {
		t.Errorf("without training the fingerprint is %s, want %s", timed.Fingerprint, trained.Fingerprint)
	}
	p, err := problem.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	work, now := p.Model.(learn.Model).NewWorkspace(whole, kernel), p.Initial
	done, sizes := int64(0), map[int]bool{}
	tasks := readTable[tables.Task](t, c.Out, tables.TasksFile)
	for round := 1; round <= rounds; round++ {
		mean := make([]float64, len(now))
		size, k := sizeIn(round), k0-round+1
		sizes[size] = true
		for client := range 5 {
			i := slices.IndexFunc(tasks, func(task tables.Task) bool {
				return int(task.Round) == round && int(task.Client) == client
			})
			want := float64(k) * step * float64(size) / whole
			if got := tasks[i].ComputeSeconds; math.Abs(got-want) > 1e-8 {
				t.Fatalf("round %d: %d steps take %g s, want %g", round, k, got, want)
			}
			var order federated.Minibatches
			order.Reset(c.Seed, client, p.Set.Samples(client), size, done)
			local := slices.Clone(now)
			for range k {
				var b learn.Batch
				if err := p.Set.Batch(&b, client, order.Next()); err != nil {
					t.Fatal(err)
				}
				if _, err := work.Step(local, &b, float32(c.Schedule.Eta0)); err != nil {
					t.Fatal(err)
				}
			}
			for j, x := range local {
				mean[j] += float64(x) / 5
			}
		}
		done += int64(k)
		for j, x := range mean {
			if math.Abs(x-float64(models[round-1][j])) > 1e-6 {
				t.Fatalf("round %d: parameter %d is %g, want %g", round, j, models[round-1][j], x)
			}
		}
		now = models[round-1]
	}
	if len(sizes) < 5 {
		t.Errorf("%d sizes of minibatches: the test says little", len(sizes))
	}
}
