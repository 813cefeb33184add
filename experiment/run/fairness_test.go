package run

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
	"fedpace/metrics/tables"
)

// classes are two kinds of devices.
const classes = "fleet=[{name: phone, weight: 2}, {name: watch, weight: 1, seconds_per_step: 0.2}]"

func cellsOf(t *testing.T, dir, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// The losses and accuracies are those of each round's model on each client's samples, measured
// here one client at a time; and what they come to is in all places the same.
func TestClientEvaluations(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "clients=40", classes, "stop.rounds=7", "evaluate.clients={every: 3, rounds: [5], samples: 30}")
	models := map[int][]float32{}
	s := mustRun(t, c, Options{Callbacks: Callbacks{Model: func(round int, params []float32) { models[round] = params }}})
	p, err := prepare(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	work := p.Model.(learn.Model).NewWorkspace(30, p.Arithmetic)
	rows := cellsOf(t, c.Out, outputs.ClientsFile)
	rounds := []int{3, 5, 6, 7} // 7: the final model
	if len(rows) != len(rounds)*40 {
		t.Fatalf("%d rows", len(rows))
	}
	lowest := map[int][]float64{}
	for i, row := range rows {
		number, client := rounds[i/40], i%40
		n := min(30, p.Set.Samples(client))
		var batch learn.Batch
		var samples []int32
		for j := range n {
			samples = append(samples, int32(j*p.Set.Samples(client)/n))
		}
		if err := p.Set.Batch(&batch, client, samples); err != nil {
			t.Fatal(err)
		}
		scores := make([]learn.Score, 1)
		loss, err := work.Evaluate(models[number], &batch, scores)
		if err != nil {
			t.Fatal(err)
		}
		accuracy := scores[0].Sum / float64(n)
		want := []string{fmt.Sprint(number), fmt.Sprint(client), p.Fleet.Classes()[p.Fleet.Class(client)], fmt.Sprint(n), row[4], strconv.FormatFloat(accuracy, 'g', -1, 64)}
		if got, err := strconv.ParseFloat(row[4], 64); err != nil || math.Abs(got-loss/float64(n)) > 1e-9 || !slices.Equal(row, want) {
			t.Fatalf("row %d is %v, want %v with loss %g", i, row, want, loss/float64(n))
		}
		lowest[number] = append(lowest[number], accuracy)
	}
	all := cellsOf(t, c.Out, outputs.FairnessFile)
	if len(all) != 3*len(rounds) || all[1][1] != "phone" || all[2][1] != "watch" {
		t.Fatalf("%v", all)
	}
	for i, number := range rounds {
		slices.Sort(lowest[number])
		worst := (lowest[number][0] + lowest[number][1] + lowest[number][2] + lowest[number][3]) / 4
		if got, err := strconv.ParseFloat(all[3*i][4], 64); err != nil || math.Abs(got-worst) > 1e-12 {
			t.Errorf("round %d: the worst decile is %s, want %g", number, all[3*i][4], worst)
		}
	}
	e, last := s.ClientEvaluation, all[len(all)-3]
	if e == nil || e.Round != 7 || e.Clients != 40 || len(e.Classes) != 2 || e.Classes[0].Clients+e.Classes[1].Clients != 40 ||
		last[3] != strconv.FormatFloat(*e.Accuracy, 'g', -1, 64) || last[5] != strconv.FormatFloat(*e.Jain, 'g', -1, 64) {
		t.Errorf("the summary says %+v, %s %v", e, outputs.FairnessFile, last)
	}
	back, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil || back.ClientEvaluation == nil || *back.ClientEvaluation.WorstAccuracy != *e.WorstAccuracy {
		t.Errorf("the summary reads back as %+v, %v", back.ClientEvaluation, err)
	}
}

// An evaluation by client changes nothing in a run: it has the model, the history and the rounds
// of a run without. A run that is timed alone has none.
func TestClientEvaluations_ChangeNothing(t *testing.T) {
	slow.Test(t, "it plays runs with and without them")
	slow.NotUnderRace(t)
	t.Parallel()
	const evaluate = "evaluate.clients={every: 1}"
	for _, sets := range [][]string{
		{"schedule.k=error"}, {"close={rule: buffered, n: 4}", "compute.std=0.01"}, {"stop.rounds=null", "stop.virtual_seconds=15"},
		{"evaluate.every=4", "stop.validation_accuracy=0.02"},
	} {
		plain, watched := runtest.Small(t, sets...), runtest.Small(t, append(sets, evaluate)...)
		a, b := mustRun(t, plain, Options{}), mustRun(t, watched, Options{})
		if a.Fingerprint != b.Fingerprint || *a.ModelSHA256 != *b.ModelSHA256 || a.ClientEvaluation != nil || b.ClientEvaluation == nil || b.ClientEvaluation.Round != b.Rounds {
			t.Errorf("%v: %+v, with evaluations by client %+v", sets, a, b)
		}
		equalFiles(t, plain.Out, watched.Out, folder.RoundsFile)
	}
	timed := runtest.Small(t, evaluate, "train=false")
	if s := mustRun(t, timed, Options{}); s.ClientEvaluation != nil {
		t.Errorf("a run without training has %+v", s.ClientEvaluation)
	}
	if _, err := os.Stat(filepath.Join(timed.Out, outputs.FairnessFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without training has the file: %v", err)
	}
	convex := runtest.Small(t, "task=quadratic", evaluate)
	if s := mustRun(t, convex, Options{}); s.ClientEvaluation.Accuracy != nil || !(s.ClientEvaluation.Loss <= s.ClientEvaluation.WorstLoss) {
		t.Errorf("quadratics have %+v", s.ClientEvaluation)
	}
}

func equalFiles(t *testing.T, one, other string, names ...string) {
	t.Helper()
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(one, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(other, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s differs: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
}

// The scores are the same bits however many hosts measure, and in a run that was stopped and
// went on, also within an evaluation.
func TestClientEvaluations_SameBits(t *testing.T) {
	slow.Test(t, "it plays a run several ways")
	slow.NotUnderRace(t)
	t.Parallel()
	sets := []string{"clients=60", classes, "outputs=[tasks]", "evaluate.every=2", "evaluate.clients={every: 2}", "stop.rounds=12", "checkpoint.seconds=1000"}
	whole := runtest.Small(t, sets...)
	want := mustRun(t, whole, Options{Place: Place{Hosts: 1, Workers: 1}})
	names := []string{outputs.ClientsFile, outputs.FairnessFile, tables.TasksFile, folder.RoundsFile}

	many := runtest.Small(t, sets...)
	mustRun(t, many, Options{Place: Place{Hosts: 3, Workers: 4}})
	equalFiles(t, whole.Out, many.Out, names...)

	stopped := runtest.Small(t, append(sets, "pace=60")...)
	playInLives(t, stopped, func(life int, stop func()) Options {
		return Options{Callbacks: Callbacks{Model: func(round int, _ []float32) { // just before the evaluation
			if round == 2*life+2 && life < 4 {
				stop()
			}
		}}}
	})
	equalFiles(t, whole.Out, stopped.Out, names...)
	s, err := folder.ReadSummary(filepath.Join(stopped.Out, folder.SummaryFile))
	if err != nil || *s.ClientEvaluation.Jain != *want.ClientEvaluation.Jain || s.ClientEvaluation.Round != 12 {
		t.Errorf("the summary says %+v, %v", s.ClientEvaluation, err)
	}
}

// The metrics show the last evaluation.
func TestClientEvaluations_Shown(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	var base string
	var got scraped
	s := mustRun(t, runtest.Small(t, classes, "evaluate.clients={every: 4}", "http=127.0.0.1:0"), Options{
		Callbacks: Callbacks{Notice: func(line string) {
			if m := regexp.MustCompile(`http://[^/]+/`).FindString(line); m != "" {
				base = m
			}
		}, Progress: func(p Progress) {
			if p.Done {
				got = scrapeOf(t, base+"metrics")
			}
		}},
	})
	e := s.ClientEvaluation
	for series, want := range map[string]float64{
		`fedpace_client_evaluation_round `:                          6,
		`fedpace_client_accuracy class="",over="all"`:               *e.Accuracy,
		`fedpace_client_accuracy class="",over="worst_decile"`:      *e.WorstAccuracy,
		`fedpace_client_accuracy_jain class=""`:                     *e.Jain,
		`fedpace_client_loss class="",over="worst_decile"`:          e.WorstLoss,
		`fedpace_client_accuracy class="watch",over="worst_decile"`: *e.Classes[1].WorstAccuracy,
		`fedpace_client_loss class="phone",over="all"`:              e.Classes[0].Loss,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v; there are %v", series, v, ok, want, got)
		}
	}
}
