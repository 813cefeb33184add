package run

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/data/federated"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
	"fedpace/metrics/tables"
)

// shares plays FedPer (Arivazhagan et al. 2019), or FedRep (Collins et al. 2021, Algorithm 1) with
// headSteps, over the tasks of a run: every client begins with the shared model and its own last
// layer, and the means of the others' movements are what is shared. own says which parameters of the
// model are personal, in its own order.
func shares(t *testing.T, c config.Config, tasks []tables.Task, headSteps int, own func(i int) bool) (shared []float32, mine map[int][]float32, losses []float64) {
	t.Helper()
	p, err := problem.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	set, model, initial := p.Set, p.Model.(learn.Model), p.Initial
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	w, gradient := model.NewWorkspace(400, kernel), make([]float32, len(initial))
	shared, mine = slices.Clone(initial), map[int][]float32{}
	of := func(client int) []float32 {
		x := slices.Clone(shared)
		for i, v := range mine[client] {
			if own(i) {
				x[i] = v
			}
		}
		return x
	}
	batch := func(client int, rows []int32) *learn.Batch {
		var b learn.Batch
		if err := set.Batch(&b, client, rows); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	done := map[int]int64{}
	for round := int32(1); len(tasks) > 0; round++ {
		n := 0
		for n < len(tasks) && tasks[n].Round == round {
			n++
		}
		mean := make([]float64, len(shared))
		for _, task := range tasks[:n] {
			client, k := int(task.Client), int(task.LocalSteps)
			x := of(client)
			var order federated.Minibatches
			order.Reset(c.Seed, client, set.Samples(client), c.Batch, done[client])
			done[client] += int64(k)
			for step := range k {
				if _, err := w.Gradient(gradient, x, batch(client, order.Next())); err != nil {
					t.Fatal(err)
				}
				for i, g := range gradient {
					if headSteps == 0 || own(i) == (step < min(headSteps, k-1)) {
						x[i] -= float32(float32(c.Schedule.Eta0) * g)
					}
				}
			}
			for i := range x {
				mean[i] += (float64(x[i]) - float64(shared[i])) / float64(n)
			}
			mine[client] = x
		}
		for i, d := range mean {
			if !own(i) {
				shared[i] = float32(float64(shared[i]) + d)
			}
		}
		tasks = tasks[n:]
	}
	for client := range set.Clients() {
		var all []int32
		for i := range set.Samples(client) {
			all = append(all, int32(i))
		}
		loss, err := w.Evaluate(of(client), batch(client, all), make([]learn.Score, 1))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, loss/float64(len(all)))
	}
	return shared, mine, losses
}

// A run with a personal last layer is FedPer, or FedRep, written out: to 1e-6 of what moves, where
// clients have unequal K and few take part, over two hosts, and where the run is stopped and goes on.
// Evaluations by client are of each client's own model, and the personal part of the shared model
// stays as it began.
func TestPersonal_EqualsFedPer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const trained = 784*20 + 20
	sets := []string{
		"model=[flatten, dense: 20, relu, dense]", "clients=15", "cohort=5", "schedule.unit=epochs", "schedule.k0=2", "schedule.k=fixed", "schedule.eta0=0.1",
		"aggregate.weights=equal", "outputs=[tasks]", "evaluate.clients={every: 6}", "checkpoint.seconds=1000",
	}
	own := func(i int) bool { return i >= trained } // the last layer stands last
	for _, personal := range []string{"personal=[3]", "personal={names: ['3.*'], head_steps: 2}"} {
		c := runtest.Small(t, append(sets, personal)...)
		var last []float32
		s := mustRun(t, c, Options{Place: Place{Hosts: 2, Workers: 3}, Callbacks: Callbacks{Model: func(_ int, params []float32) { last = params }}})
		tasks := readTable[tables.Task](t, c.Out, tables.TasksFile)
		slices.SortStableFunc(tasks, func(a, b tables.Task) int { return int(a.Round - b.Round) })
		ks := map[int32]bool{}
		for _, task := range tasks {
			ks[task.LocalSteps] = true
		}
		if len(ks) < 3 || len(tasks) != 30 {
			t.Errorf("%d values of K in %d tasks: the test says little", len(ks), len(tasks))
		}
		plain := runtest.Small(t, sets...)
		plain.Batch = c.Batch
		want, mine, losses := shares(t, plain, tasks, c.Personal.HeadSteps, own)
		p, err := problem.Open(plain)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		initial := p.Initial
		if !slices.Equal(last[trained:], initial[trained:]) {
			t.Errorf("%s: the shared model's personal part has changed", personal)
		}
		if d := apart(last[:trained], want[:trained], initial[:trained]); d > 1e-6 {
			t.Errorf("%s: the shared model is %g of its movement off", personal, d)
		}
		if d := apart(mine[int(tasks[0].Client)][trained:], initial[trained:], want[trained:]); len(mine) < 10 || !(d > 0) {
			t.Errorf("%s: %d clients took part", personal, len(mine))
		}
		file, err := os.Open(filepath.Join(c.Out, outputs.ClientsFile))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil || len(rows) != 1+len(losses) {
			t.Fatal(len(rows), err)
		}
		at := slices.Index(rows[0], "loss")
		for client, row := range rows[1:] {
			if got, err := strconv.ParseFloat(row[at], 64); err != nil || math.Abs(got-losses[client]) > 1e-5*losses[client] {
				t.Errorf("%s: client %d has the loss %s, written out %g", personal, client, row[at], losses[client])
			}
		}
		stopped := runtest.Small(t, append(sets, personal)...)
		if again := resumed(t, stopped, 3, Options{Place: Place{Workers: 2}}); *again.ModelSHA256 != *s.ModelSHA256 {
			t.Errorf("%s: a run that was stopped ends with another model", personal)
		}
		equalFiles(t, c.Out, stopped.Out, outputs.ClientsFile)
	}
}

// apart is the distance of two vectors by the length of the way from base to the second.
func apart(got, want, base []float32) float64 {
	distance, way := 0., 0.
	for i, w := range want {
		d, m := float64(got[i])-float64(w), float64(w)-float64(base[i])
		distance, way = distance+d*d, way+m*m
	}
	return math.Sqrt(distance / way)
}

// Tasks take the time of what travels, and neither compression nor noise sees what is personal or
// frozen: here the layers in the middle travel, and 6 rounds of 4 steps take what Eq. 3 says.
func TestPersonal_DoesNotTravel(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const travels, all = 20*12 + 12, 784*20 + 20 + 20*12 + 12 + 12*62 + 62
	sets := []string{
		"model=[flatten, dense: {width: 20, frozen: true}, relu, dense: 12, relu, dense]", "personal=[5]", "clients=20", "cohort=4", "schedule.k=fixed",
		"network.download_mbps=20", "network.upload_mbps=5", "compute.seconds_per_step=0.01", "compute.std=0",
	}
	for _, x := range []struct {
		more []string
		up   float64
	}{
		{nil, 32 * travels},
		{[]string{"local={optimizer: adamw, keep: true}", "schedule.eta0=0.01"}, 32 * travels},
		{[]string{"aggregate.algorithm=fedadam"}, 32 * travels},
		{[]string{"privacy={clip: 0.1, noise_multiplier: 0.5}"}, 32 * travels},
		{[]string{"compress={method: top_k, share: 0.1, error_feedback: true}", "network.update_megabits=0.001"}, 1000},
		{[]string{"fleet=[{name: liar, weight: 1, attack: min_max}, {name: honest, weight: 3}]"}, 32 * travels},
	} {
		var first, last []float32
		s := mustRun(t, runtest.Small(t, append(sets, x.more...)...), Options{Place: Place{Hosts: 2}, Callbacks: Callbacks{Model: func(_ int, params []float32) {
			last = params
			if first == nil {
				first = params
			}
		}}})
		if len(last) != all || !slices.Equal(first[travels:], last[travels:]) || slices.Equal(first[:travels], last[:travels]) {
			t.Errorf("%v: the shared model moves elsewhere than in what travels", x.more)
		}
		if want := 6 * (32*travels/20e6 + 4*0.01 + x.up/5e6); math.Abs(s.VirtualSeconds-want) > 1e-6 {
			t.Errorf("%v: %v virtual seconds, want %v", x.more, s.VirtualSeconds, want)
		}
	}
}

// What does not go with personal parameters is said before the run.
func TestPersonal_Checked(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"personal=[4.wieght]":                        `personal.names: "4.wieght" is nothing of the model that trains (did you mean 4.weight?)`,
		"personal=[head]":                            `(want one of 0, 0.weight, 0.bias, 2,`,
		"personal=['a[']":                            `"a[" is no pattern`,
		"personal=['*']":                             "all that trains is personal",
		"personal={head_steps: 3}":                   "personal.head_steps: it is for personal parameters, and none are named",
		"personal=[4]; aggregate.algorithm=fedprox":  "aggregate.algorithm: fedprox changes local steps",
		"personal=[4]; aggregate.algorithm=scaffold": "aggregate.algorithm: scaffold changes local steps",
		"personal=[4]; aggregate.algorithm=streaming; schedule.k=fixed":                          "aggregate.algorithm: streaming changes local steps",
		"personal=[4]; select={rule: power_of_choice,candidates: 15}":                            "select: it asks clients for losses of the shared model",
		"personal=[4]; close={rule: buffered,n: 4}":                                              "close: each client keeps its personal parameters, which needs rounds that do not overlap",
		"personal=[4]; late={rule: use,limit: 2}; close={rule: deadline,seconds: 2}":             "late: each client keeps its personal parameters",
		"personal=[4]; devices.names=[pi]":                                                       "devices.names: devices send what they keep with their updates",
		"personal=[x]; task=quadratic":                                                           "personal: theory is about one model",
		"personal={names: [4],head_steps: 2}; local.momentum=0.9":                                "personal.head_steps: steps that train parts",
		"personal=[4]; limits.state_gb=0.001":                                                    "limits.state_gb: 0.001, but clients keep up to 0.00997 GB of personal parameters",
		"model=[flatten,dense: {width: 20, frozen: true},relu,dense]; personal=[1]; clients=200": `"1" is nothing of the model that trains`,
	} {
		c, err := config.Load("", append([]string{"task=femnist", "clients=200", "out=" + t.TempDir()}, strings.Split(sets, "; ")...))
		if err == nil {
			_, err = Run(t.Context(), c, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}
