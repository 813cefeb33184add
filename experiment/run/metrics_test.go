package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/metrics/live"
	"fedpace/metrics/outputs"
	"fedpace/metrics/tables"
)

func init() { learn.Models.Register("judged", "dense layers that count their mistakes", Judged{}) }

// Judged is a classifier that does not tell its accuracy: its first metric is the share
// of samples that it gets wrong, and its second one the share that it gets right.
type Judged struct {
	Layers []int `key:"layers" range:"[1,1048576]" help:"widths"`
}

func (a Judged) Model(of learn.Samples) (learn.Model, error) {
	m, err := learn.MLP{Layers: a.Layers}.Model(of)
	return judged{m}, err
}

type judged struct{ learn.Model }

func (m judged) String() string { return "judged:" + strings.TrimPrefix(m.Model.String(), "mlp:") }

func (judged) Metrics() []learn.Metric {
	return []learn.Metric{{Name: "mistakes", Lower: true}, {Name: "hits"}}
}

func (m judged) NewWorkspace(most int, k learn.Kernel) learn.Workspace {
	return judge{m.Model.NewWorkspace(most, k)}
}

type judge struct{ learn.Workspace }

func (w judge) Evaluate(params []float32, b *learn.Batch, scores []learn.Score) (float64, error) {
	found := make([]learn.Score, 1)
	loss, err := w.Workspace.Evaluate(params, b, found)
	right, n := found[0].Sum, found[0].Weight
	for i, x := range []float64{n - right, right} {
		scores[i].Sum += x
		scores[i].Weight += n
	}
	return loss, err
}

// judgedSets are the settings of a run whose models are judged, and of the same with an
// accuracy. Both learn the same.
func judgedSets(t *testing.T, model string, more ...string) []string {
	return slices.Concat(runtest.Custom, []string{
		"data=" + runtest.CustomData(t), "model=" + model, "clients=all", "cohort=6", "batch=8", "schedule.k0=5", "stop.rounds=12",
		"evaluate.every=2", "evaluate.clients={every: 6}", "checkpoint.seconds=1000",
	}, more)
}

const (
	judgedModel = "{model: judged, layers: [3, 8, 2]}"
	plainModel  = "{mlp: [3, 8, 2]}"
)

// Metrics of a model's own go through hosts and the bus, with NATS and without, to the
// tables, the summary and the page. Nothing of them shows an accuracy.
func TestMetrics_OfModel(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	plain := runtest.Small(t, judgedSets(t, plainModel)...)
	accurate := mustRun(t, plain, Options{})
	rows, err := runtest.ReadRounds(filepath.Join(plain.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, bus := range []string{"nats.url=none", "nats.url=embedded"} {
		c := runtest.Small(t, judgedSets(t, judgedModel, bus)...)
		s := mustRun(t, c, Options{Place: Place{Hosts: 2}})
		if *s.ModelSHA256 != *accurate.ModelSHA256 || s.Fingerprint != accurate.Fingerprint || s.ValidationAccuracy != nil || s.BestValidationAccuracy != nil {
			t.Fatalf("%s: %+v, with an accuracy %+v", bus, s, accurate)
		}
		got, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
		if err != nil || len(got) != len(rows) {
			t.Fatal(len(got), err)
		}
		fewest := 1.0
		for i, r := range got {
			if want := rows[i]; r.Evaluated {
				right := want.Metrics[0]
				fewest = min(fewest, r.Metrics[0])
				if len(r.Metrics) != 2 || r.Metrics[1] != right || r.Metrics[0] < 1-right-1e-12 || r.Metrics[0] > 1-right+1e-12 || r.ValidationLoss != want.ValidationLoss {
					t.Errorf("%s: round %d has %v, the accuracy is %v", bus, r.Round, r.Metrics, right)
				}
			}
		}
		if m := s.Metrics; len(m) != 2 || m[0].Name != "mistakes" || m[1].Name != "hits" || m[0].Better != "lower" || m[1].Better != "higher" ||
			*m[0].Best != fewest || *m[1].Validation != *accurate.ValidationAccuracy || *m[1].Best != *accurate.BestValidationAccuracy {
			t.Errorf("%s: the summary has %+v", bus, m)
		}
		if e := s.ClientEvaluation; e.Accuracy != nil || len(e.Metrics) != 2 || *e.Metrics[1].Mean != *accurate.ClientEvaluation.Accuracy ||
			*e.Metrics[1].Worst != *accurate.ClientEvaluation.WorstAccuracy || *e.Metrics[0].Worst < *e.Metrics[0].Mean {
			t.Errorf("%s: clients' own samples gave %+v, with an accuracy %+v", bus, e, accurate.ClientEvaluation)
		}
		if best := fileText(t, c.Out, outputs.BestModelFile); !strings.Contains(best, "best validation mistakes") {
			t.Errorf("%s: %s does not say what it is best in", bus, outputs.BestModelFile)
		}
		type row struct {
			Mistakes *float64 `parquet:"validation_mistakes,optional"`
			Hits     *float64 `parquet:"validation_hits,optional"`
		}
		for i, r := range readTable[row](t, c.Out, tables.RoundsFile) {
			if want := got[i]; want.Evaluated != (r.Mistakes != nil) || want.Evaluated && (*r.Mistakes != want.Metrics[0] || *r.Hits != want.Metrics[1]) {
				t.Errorf("%s: row %d of %s has %v and %v, want %v", bus, i, tables.RoundsFile, r.Mistakes, r.Hits, want.Metrics)
			}
		}
		for name, want := range map[string]string{
			folder.RoundsFile: folder.RoundsHeader("mistakes", "hits") + "\n", folder.ConfigFile: "metric: {name: mistakes, better: lower}",
			outputs.ClientsFile:  "round,client,class,samples,loss,mistakes,hits\n",
			outputs.FairnessFile: "round,class,clients,mean_mistakes,worst_decile_mistakes,jain_mistakes,mean_hits,worst_decile_hits,jain_hits,mean_loss,worst_decile_loss\n",
			live.File:            `"metrics":[{"name":"mistakes","first":true,"target":null},{"name":"hits","first":false,"target":null}]`,
		} {
			text := fileText(t, c.Out, name)
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s does not hold %q", bus, name, want)
			}
			if name != live.File && name != folder.ConfigFile && strings.Contains(text, "accuracy") { // the page's script knows the word
				t.Errorf("%s: %s has an accuracy", bus, name)
			}
		}
	}
}

func fileText(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A run that is stopped and goes on has the metrics, the best of them and the best model
// of one that was never stopped.
func TestMetrics_Resumed(t *testing.T) {
	t.Parallel()
	whole := runtest.Small(t, judgedSets(t, judgedModel)...)
	want := mustRun(t, whole, Options{})
	stopped := runtest.Small(t, judgedSets(t, judgedModel, "pace=60")...)
	s := resumed(t, stopped, 8, Options{}) // just before an evaluation
	a, errA := json.Marshal(want.Metrics)
	b, errB := json.Marshal(s.Metrics)
	if err := errors.Join(errA, errB); err != nil || string(a) != string(b) || *s.ModelSHA256 != *want.ModelSHA256 {
		t.Errorf("%s, of a run that was never stopped %s, %v", b, a, err)
	}
	equalFiles(t, whole.Out, stopped.Out, folder.RoundsFile, outputs.ClientsFile, outputs.FairnessFile, outputs.BestModelFile, tables.RoundsFile)
}

// A metric that is better lower ends a run when it is low enough, and its time is told. The
// metric of a configuration decides, in its direction.
func TestMetrics_StopRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	free := runtest.Small(t, judgedSets(t, judgedModel, "evaluate.every=1")...)
	best := *mustRun(t, free, Options{}).Metrics[0].Best
	rows := reportsOf(t, free.Out)
	goal := (rows[0].Metrics[0] + best) / 2
	first := slices.IndexFunc(rows, func(r round.Report) bool { return r.Metrics[0] <= goal })
	for _, sets := range [][]string{
		{fmt.Sprintf("stop.metric=%g", goal)},
		{fmt.Sprintf("stop.metric={name: mistakes, reaches: %g}", goal), "evaluate.metric=loss"},
		{fmt.Sprintf("stop.metric={name: hits, reaches: %g}", 1-goal), "evaluate.metric=hits"},
	} {
		c := runtest.Small(t, judgedSets(t, judgedModel, append(sets, "evaluate.every=1", "http=127.0.0.1:0")...)...)
		var base string
		var shown scraped
		s := mustRun(t, c, Options{
			Callbacks: Callbacks{Notice: func(line string) {
				if m := regexp.MustCompile(`http://[^/]+/`).FindString(line); m != "" {
					base = m
				}
			}, Progress: func(p Progress) {
				if p.Done {
					shown = scrapeOf(t, base+"metrics")
				}
			}},
		})
		if s.Rounds != first+1 {
			t.Errorf("%v: stopped after round %d, the first with %g is %d", sets, s.Rounds, goal, first+1)
		}
		if told := s.TimeToTarget != nil; told != (len(sets) == 1 || strings.Contains(sets[1], "hits")) || told && *s.TimeToTarget != s.VirtualSeconds {
			t.Errorf("%v: the target's time is %v", sets, s.TimeToTarget)
		}
		if want := strings.TrimPrefix(sets[len(sets)-1], "evaluate.metric="); s.Metrics[0].Name != want && (len(sets) > 1 || s.Metrics[0].Name != "mistakes") {
			t.Errorf("%v: %s is shown first", sets, s.Metrics[0].Name)
		}
		for _, m := range s.Metrics {
			if m.Name != metric.Loss && shown[fmt.Sprintf(`fedpace_validation_metric metric=%q`, m.Name)] != *m.Validation {
				t.Errorf("%v: %s is shown as %v, want %v", sets, m.Name, shown[fmt.Sprintf(`fedpace_validation_metric metric=%q`, m.Name)], *m.Validation)
			}
		}
		for series := range shown {
			if strings.Contains(series, "accuracy") {
				t.Errorf("%v: %s is shown", sets, series)
			}
		}
	}
}

func init() {
	learn.Models.Register("graded", "dense layers whose accuracy has another scale", Graded{})
}

// Graded is a classifier whose accuracy is multiplied, as one in percent is, or weighs
// nothing.
type Graded struct {
	Layers []int   `key:"layers" range:"[1,1048576]" help:"widths"`
	Sum    float64 `key:"sum" range:"[0,100]" help:"factor of the correct samples"`
	Weight float64 `key:"weight" range:"[0,1]" help:"weight of a sample"`
}

func (a Graded) Model(of learn.Samples) (learn.Model, error) {
	m, err := learn.MLP{Layers: a.Layers}.Model(of)
	return graded{m, a}, err
}

type graded struct {
	learn.Model
	of Graded
}

func (m graded) NewWorkspace(most int, k learn.Kernel) learn.Workspace {
	return grader{m.Model.NewWorkspace(most, k), m.of}
}

type grader struct {
	learn.Workspace
	of Graded
}

func (w grader) Evaluate(params []float32, b *learn.Batch, scores []learn.Score) (float64, error) {
	found := make([]learn.Score, 1)
	loss, err := w.Workspace.Evaluate(params, b, found)
	scores[0].Sum += w.of.Sum * found[0].Sum
	scores[0].Weight += w.of.Weight * found[0].Weight
	return loss, err
}

// An accuracy that is none is said to be that, and is no divergence; one that was measured
// on nothing is not known.
func TestMetrics_NoAccuracies(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"sum: 100, weight: 1": "on the held-out samples: coordinator: accuracy is ",
		"sum: 1, weight: 0":   "accuracy is measured on none of the held-out samples: its weights are 0",
	} {
		c := runtest.Small(t, judgedSets(t, "{model: graded, layers: [3, 8, 2], "+model+"}")...)
		_, err := Run(t.Context(), c, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, coordinator.ErrDiverged) {
			t.Errorf("%s: %v, want %q", model, err, want)
		}
	}
	c := runtest.Small(t, judgedSets(t, "{model: graded, layers: [3, 8, 2], sum: 100, weight: 1}", "evaluate.every=100", "evaluate.clients={rounds: [1]}")...)
	if _, err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), "on the own samples of client 0: coordinator: accuracy is ") {
		t.Errorf("on clients' own samples: %v", err)
	}
}

// What a model does not measure is refused before the run starts, with what it does.
func TestMetrics_Missing(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"evaluate.metric=accuracy":                                `evaluate.metric: "accuracy" is not measured; the model has mistakes, hits, loss`,
		"stop.metric={name: f1, reaches: 1}":                      `stop.metric: "f1" is not measured; the model has mistakes, hits, loss`,
		"stop.validation_accuracy=0.5":                            `stop.validation_accuracy: "accuracy" is not measured`,
		"schedule.k={rule: expression, formula: 'k0 * accuracy'}": "schedule.k: it reads the validation accuracy, which judged:3,8,2 does not have",
	} {
		c := runtest.Small(t, judgedSets(t, judgedModel, sets)...)
		if _, err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}
