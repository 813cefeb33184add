package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/external/externaltest"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/experiment/runtest"
	"fedpace/learn"
	"fedpace/metrics/tables"
)

// arrivingRow is a row of the table that arriving writes.
type arrivingRow struct {
	client, label int
	// at is when the row arrives, in seconds of virtual time.
	at   float64
	x    [2]float32
	held bool
}

// arriving writes a table of four clients whose rows arrive over time: client 3 comes after 20 s, client 0
// stops after 10 s, and labels are the other way round from 15 s on. The column has 100 at the start of
// a run, and grows by 2 a second. Nothing is there in the first second.
func arriving(t *testing.T) (path string, rows []arrivingRow) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var text strings.Builder
	text.WriteString("user,at,a,b,label,part\n")
	for i := range 400 {
		row := arrivingRow{client: i % 4, at: 1 + 0.25*float64(r.IntN(120)), held: i%5 == 4}
		switch row.client {
		case 0:
			row.at = min(row.at, 10)
		case 3:
			row.at = max(row.at, 20)
		}
		row.x = [2]float32{r.Float32()*2 - 1, r.Float32()*2 - 1}
		isAbove := row.x[0]+row.x[1] > 0
		if isAbove != (row.at >= 15) {
			row.label = 1
		}
		part := "train"
		if row.held {
			part = "test"
		}
		fmt.Fprintf(&text, "u%d,%g,%v,%v,%d,%s\n", row.client, 100+2*row.at, row.x[0], row.x[1], row.label, part)
		rows = append(rows, row)
	}
	path = filepath.Join(t.TempDir(), "rows.csv")
	runtest.WriteFile(t, path, text.String())
	return path, rows
}

// arrivingConfig is a run of that table.
func arrivingConfig(t *testing.T, path, options string, sets ...string) config.Config {
	t.Helper()
	data := fmt.Sprintf("data={path: %s, client: user, features: [a, b], label: label, split: part, "+
		"arrival: at, arrival_start: 100, arrival_speed: 2%s}", path, options)
	return arrivingRun(t, slices.Concat([]string{data, "model=linear"}, sets)...)
}

// arrivingRun is a run of such data, which the settings name with the model.
func arrivingRun(t *testing.T, sets ...string) config.Config {
	t.Helper()
	return runtest.Small(t, slices.Concat(runtest.Custom, []string{
		"clients=all", "cohort=2", "batch=6", "schedule.k=fixed", "schedule.k0=5",
		"compute.seconds_per_step=0.1", "stop.rounds=40", "outputs=[tasks]", "evaluate.every=1", "checkpoint.seconds=1000",
	}, sets)...)
}

// Tasks train on the rows that have arrived when they start, and evaluations measure on the held-out rows
// that are there at their time, with and without a window: by a simulation that looks at every row.
func TestArrivals_Simulated(t *testing.T) {
	t.Parallel()
	path, rows := arriving(t)
	for name, x := range map[string]struct {
		options string
		window  float64
	}{"for ever": {"", math.Inf(1)}, "window": {", arrival_window: 4", 4}} {
		t.Run(name, func(t *testing.T) { playArrivals(t, arrivingConfig(t, path, x.options), rows, x.window) })
	}
}

// playArrivals plays a run and compares it with a simulation that looks at every row.
func playArrivals(t *testing.T, c config.Config, rows []arrivingRow, window float64) {
	var models [][]float32
	mustRun(t, c, Options{Place: Place{Hosts: 2, Workers: 3}, Callbacks: Callbacks{
		Model: func(_ int, params []float32) { models = append(models, params) },
	}})
	tasks := readTable[tables.Task](t, c.Out, tables.TasksFile)
	reports, err := runtest.ReadRounds(filepath.Join(c.Out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	// there lists the rows of one client, or of all, that are there at a time, in the order of their times.
	there := func(client int, at float64, held bool) (list []arrivingRow) {
		for _, row := range rows {
			isOf := row.held == held && (held || row.client == client)
			if isOf && row.at <= at+1e-12 && at+1e-12 < row.at+window {
				list = append(list, row)
			}
		}
		slices.SortStableFunc(list, func(a, b arrivingRow) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
		return list
	}
	batchOf := func(list []arrivingRow, samples []int32) *learn.Batch {
		b := new(learn.Batch)
		for _, i := range samples {
			b.X = append(b.X, list[i].x[:]...)
			b.Labels = append(b.Labels, int32(list[i].label))
			b.N++
		}
		return b
	}
	model, err := c.NewModel(learn.Samples{Features: 2, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	work := model.NewWorkspace(len(rows), kernel)
	now := make([]float32, model.Params())
	model.Init(now, c.Seed)
	done := map[int32]int64{}
	sizes, clients, unmeasured := map[int]bool{}, map[int32]bool{}, 0
	for i, report := range reports {
		mean := make([]float64, len(now))
		accepted := slices.DeleteFunc(slices.Clone(tasks), func(task tables.Task) bool {
			return int(task.Round) != report.Round || task.Outcome != "accepted"
		})
		for _, task := range accepted {
			list := there(int(task.Client), task.StartSeconds, false)
			if len(list) == 0 {
				t.Fatalf("client %d has a task at %g s and no row", task.Client, task.StartSeconds)
			}
			sizes[len(list)], clients[task.Client] = true, true
			var order federated.Minibatches
			order.Reset(c.Seed, int(task.Client), len(list), 6, done[task.Client])
			local := slices.Clone(now)
			for range task.LocalSteps {
				if _, err := work.Step(local, batchOf(list, order.Next()), float32(report.LearningRate)); err != nil {
					t.Fatal(err)
				}
			}
			done[task.Client] += int64(task.LocalSteps)
			for j, x := range local {
				mean[j] += float64(x) / float64(len(accepted))
			}
		}
		for j, x := range mean {
			if math.Abs(x-float64(models[i][j])) > 1e-6 {
				t.Fatalf("round %d: parameter %d is %g, want %g", report.Round, j, models[i][j], x)
			}
		}
		now = models[i]
		held := there(0, report.End.Seconds(), true)
		if report.Evaluated != (len(held) > 0) {
			t.Fatalf("round %d at %g s: evaluated %t, %d rows", report.Round, report.End.Seconds(), report.Evaluated, len(held))
		}
		if len(held) == 0 {
			unmeasured++
			continue
		}
		all := make([]int32, len(held))
		for j := range all {
			all[j] = int32(j)
		}
		loss, err := work.Evaluate(now, batchOf(held, all), make([]learn.Score, 1))
		if err != nil {
			t.Fatal(err)
		}
		if want := loss / float64(len(held)); math.Abs(report.ValidationLoss-want) > 1e-6 {
			t.Errorf("round %d: loss %g on %d rows, want %g", report.Round, report.ValidationLoss, len(held), want)
		}
	}
	if first := tasks[0].StartSeconds; first < 1 {
		t.Errorf("the first task starts at %g s, where no row is there", first)
	}
	if len(sizes) < 10 || len(clients) < 4 {
		t.Errorf("%d numbers of rows, clients %v, %d rounds unmeasured: the test says little", len(sizes), clients, unmeasured)
	}
}

// A run of arriving samples has the same times without training, and goes on to the same bits where it
// was stopped.
func TestArrivals_ResumedAndTimed(t *testing.T) {
	t.Parallel()
	path, _ := arriving(t)
	const window = ", arrival_window: 4"
	var last, resumed []float32
	keep := func(model *[]float32) Callbacks {
		return Callbacks{Model: func(_ int, params []float32) { *model = params }}
	}
	whole := mustRun(t, arrivingConfig(t, path, window), Options{Callbacks: keep(&last)})
	timed := mustRun(t, arrivingConfig(t, path, window, "train=false"), Options{})
	if timed.Fingerprint != whole.Fingerprint {
		t.Errorf("without training the fingerprint is %s, want %s", timed.Fingerprint, whole.Fingerprint)
	}
	stopped := arrivingConfig(t, path, window, "pace=20")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Run(ctx, stopped, Options{Version: "v", Callbacks: Callbacks{Round: func(r *round.Report) {
		if r.Round == 12 {
			stop()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again, err := Resume(t.Context(), stopped.Out, Options{Version: "v", Callbacks: keep(&resumed)})
	if err != nil {
		t.Fatal(err)
	}
	if again.Summary.Fingerprint != whole.Fingerprint || !slices.Equal(resumed, last) {
		t.Errorf("resumed: fingerprint %s, want %s; %v, want %v", again.Summary.Fingerprint, whole.Fingerprint, resumed, last)
	}
}

// Settings that count on the same samples all the time are refused by name.
func TestArrivals_Refusals(t *testing.T) {
	t.Parallel()
	path, _ := arriving(t)
	for sets, want := range map[string]string{
		"aggregate.weights=samples":                           "aggregate.weights: follow numbers of samples",
		"schedule.unit=epochs":                                "schedule.unit: epochs follow numbers of samples",
		"stop.samples=100":                                    "stop.samples: counts samples of a step",
		"evaluate.samples=10":                                 "evaluate.samples: are spread over all held-out samples",
		"evaluate.clients={every: 2}":                         "evaluate.clients: measures on all of a client's samples",
		"privacy={clip: 1, noise_multiplier: 1, delta: 1e-3}": "privacy: is accounted for clients",
	} {
		data := fmt.Sprintf("data={path: %s, client: user, features: [a, b], label: label, arrival: at}", path)
		_, err := config.Load("", slices.Concat(runtest.Custom, []string{data, "model=linear", "clients=4", "cohort=2", "schedule.k0=5", "stop.rounds=9", sets}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}

// flipping writes a table of six clients whose rows arrive over 60 s, and whose labels are the other way
// round from 30 s on.
func flipping(t *testing.T) (path string) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	var text strings.Builder
	text.WriteString("user,at,a,b,label,part\n")
	for i := range 6000 {
		at := 60 * float64(i) / 6000
		a, b := r.Float32()*2-1, r.Float32()*2-1
		label, part := 0, "train"
		if (a+b > 0) != (at >= 30) {
			label = 1
		}
		if i%10 == 9 {
			part = "test"
		}
		fmt.Fprintf(&text, "u%d,%g,%v,%v,%d,%s\n", r.IntN(6), at, a, b, label, part)
	}
	path = filepath.Join(t.TempDir(), "flips.csv")
	runtest.WriteFile(t, path, text.String())
	return path
}

// The steered K falls until labels change, and then begins anew; a run that is resumed after that has the
// same bits, and one that is not trained knows nothing of it.
func TestArrivals_SteeredK(t *testing.T) {
	t.Parallel()
	path := flipping(t)
	steered := func(sets ...string) config.Config {
		data := fmt.Sprintf("data={path: %s, client: user, features: [a, b], label: label, split: part, "+
			"arrival: at, arrival_window: 2}", path)
		return runtest.Small(t, slices.Concat(runtest.Custom, []string{
			data, "model=linear", "clients=6", "cohort=6", "batch=20", "schedule.k=auto", "schedule.k0=20",
			"compute.seconds_per_step=0.02", "network.model_megabits=1", "stop.rounds=null",
			"stop.virtual_seconds=60", "checkpoint.seconds=1000",
		}, sets)...)
	}
	var last, resumed []float32
	keep := func(model *[]float32) Callbacks {
		return Callbacks{Model: func(_ int, params []float32) { *model = params }}
	}
	c := steered()
	whole := mustRun(t, c, Options{Callbacks: keep(&last)})
	reports, err := runtest.ReadRounds(filepath.Join(c.Out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var noticed int
	for i, report := range reports[1:] {
		before := reports[i]
		changed := report.Reason.ChangeRound != before.Reason.ChangeRound
		switch {
		case changed && noticed > 0:
			t.Errorf("round %d: a second change in round %d", report.Round, report.Reason.ChangeRound)
		case changed:
			noticed = report.Reason.ChangeRound
			start := report.Start.Seconds()
			if start < 30 || start > 36 || report.LocalSteps != 20 || before.LocalSteps > 10 {
				t.Errorf("round %d at %g s has K = %d after %d", report.Round, start, report.LocalSteps, before.LocalSteps)
			}
		case i > 0 && report.LocalSteps > before.LocalSteps:
			t.Errorf("round %d: K rises from %d to %d", report.Round, before.LocalSteps, report.LocalSteps)
		}
	}
	if noticed == 0 || reports[len(reports)-1].LocalSteps != 1 {
		t.Fatalf("a change was noticed in round %d, and K ends at %d", noticed, reports[len(reports)-1].LocalSteps)
	}

	stopped := steered("pace=200")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err = Run(ctx, stopped, Options{Version: "v", Callbacks: Callbacks{Round: func(r *round.Report) {
		if r.Round == noticed+3 {
			stop()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again, err := Resume(t.Context(), stopped.Out, Options{Version: "v", Callbacks: keep(&resumed)})
	if err != nil {
		t.Fatal(err)
	}
	if again.Summary.Fingerprint != whole.Fingerprint || !slices.Equal(resumed, last) {
		t.Errorf("resumed: fingerprint %s, want %s", again.Summary.Fingerprint, whole.Fingerprint)
	}

	untrained := steered("train=false")
	mustRun(t, untrained, Options{})
	timed, err := runtest.ReadRounds(filepath.Join(untrained.Out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i, report := range timed[1:] {
		rises := i > 0 && report.LocalSteps > timed[i].LocalSteps
		if rises || report.Reason.ChangeRound != 0 {
			t.Errorf("untrained round %d: K = %d, change in %d", report.Round, report.LocalSteps, report.Reason.ChangeRound)
		}
	}
}

// A prepared file of the table gives the bits and the times of the table, alone and without training, and so
// does a trainer in another process, which gets the rows by their numbers.
func TestArrivals_PreparedAndTrainer(t *testing.T) {
	t.Parallel()
	path, _ := arriving(t)
	const window = ", arrival_window: 4"
	table := arrivingConfig(t, path, window, "model={mlp: [2, 3, 2]}")
	prepared := filepath.Join(t.TempDir(), "rows.fedpace")
	set, _, err := data.OpenPrepared(table.Data.Reader, path, prepared, federated.Options{Seed: table.Seed})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	const model = "model={mlp: [2, 3, 2]}"
	inFile := "data=" + prepared
	inTable := fmt.Sprintf("data={path: %s, client: user, features: [a, b], label: label, split: part, "+
		"arrival: at, arrival_start: 100, arrival_speed: 2%s}", path, window)
	trainer := fmt.Sprintf("trainer={command: %q}", externaltest.Command("-model", "mlp:2,3,2"))
	play := func(c config.Config) (fingerprint string, last []float32) {
		s := mustRun(t, c, Options{Callbacks: Callbacks{Model: func(_ int, params []float32) { last = params }}})
		return s.Fingerprint, last
	}
	fingerprint, last := play(table)
	for name, sets := range map[string][]string{
		"prepared":              {inFile, model},
		"prepared and timed":    {inFile, model, "train=false"},
		"number of clients":     {inFile, "train=false", "clients=4", "network.model_megabits=0.000544"},
		"trainer":               {inTable, trainer},
		"trainer with prepared": {inFile, trainer},
	} {
		c := arrivingRun(t, sets...)
		otherFingerprint, params := play(c)
		if otherFingerprint != fingerprint || c.Train && !slices.Equal(params, last) {
			t.Errorf("%s: fingerprint %s, want %s; model %v, want %v", name, otherFingerprint, fingerprint, params, last)
		}
	}
	refused := arrivingRun(t, inFile, model, "schedule.unit=epochs")
	if _, err := Run(t.Context(), refused, Options{}); err == nil || !strings.Contains(err.Error(), "schedule.unit: epochs follow") {
		t.Errorf("epochs of a prepared file: %v", err)
	}
}
