package study

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Tables of runs that are compared by a metric of their own show it in the place of the
// accuracy, and the validation loss where models are compared by that.
func TestTable_Metrics(t *testing.T) {
	cell := func(schedule, name string, best float64) Cell {
		c := Cell{Schedule: schedule, Summary: folder.Summary{Rounds: 7, BestTrainingLoss: metrics.Measured(1)}}
		c.Summary.Metrics = []folder.Metric{{Name: name, Better: metric.Lower, Validation: metrics.Measured(2 * best), Best: metrics.Measured(best)}}
		if name != metric.Loss {
			c.Summary.Metrics = append(c.Summary.Metrics, folder.Metric{Name: "f1", Better: metric.Higher, Best: metrics.Measured(0.75)})
		}
		return c
	}
	for name, titles := range map[string]string{"mae": "best mae  best f1", metric.Loss: "best validation loss"} {
		cells := []Cell{cell("fixed", name, 0.5), cell("rounds", name, 0.25)}
		var b bytes.Buffer
		if err := (&Comparison{Runs: cells, Reference: "fixed"}).Write(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		if !strings.Contains(lines[0], titles) || !strings.Contains(lines[1], "0.5000") || !strings.Contains(lines[2], "0.2500") || strings.Contains(lines[0], "accuracy") {
			t.Errorf("%s:\n%s", name, b.String())
		}
		table := (&Comparison{Runs: cells}).Table()
		path := filepath.Join(t.TempDir(), "compare.csv")
		if err := atomicfile.Write(path, table.WriteCSV); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "accuracy") {
			t.Errorf("%s: %s", name, text)
		}
		rows, _ := readRows(t, path)
		if best := "best_validation_" + name; rows[0][best] != "0.5" || rows[1][best] != "0.25" || rows[0]["validation_"+name] != "1" {
			t.Errorf("%s: %v", name, rows)
		}
		if !strings.Contains(string(text), ",validation_"+name+",") || !strings.Contains(string(text), ",best_validation_"+name+",") {
			t.Errorf("%s has no column in %s", name, text)
		}
		if got := cells[0].outcomeText(0); !strings.Contains(got, "best "+metric.Title(name)+" 0.5000") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Of an error less is better: the model says it, where the configuration does not.
func TestPlan_LowerErrorIsBetter(t *testing.T) {
	out := filepath.Join(t.TempDir(), "homes")
	load := func(more ...string) (config.Config, error) {
		return config.Load("../examples/regression/regression.yaml", append([]string{"data.path=../examples/regression/synthetic_homes.csv", "evaluate.metric=null", "stop={rounds: 12}", "out=" + out}, more...))
	}
	p := Plan{Load: load, Schedules: []string{schedule.Fixed, "slow={k: fixed, eta0: 0.0001}"}, Seeds: 3}
	for _, again := range []bool{false, true} {
		r, err := Run(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`slow +fixed +[0-9.]+ ± \S+ +\S+ +worse`).MatchString(b.String()) {
			t.Errorf("played before: %v: a larger error is not worse:\n%s", again, b.String())
		}
		for i := range r.Runs {
			c := &r.Runs[i]
			if c.Reused != again || c.Schedule == schedule.Fixed && c.Tail > c.Level {
				t.Errorf("played before: %v: %s ends at %g, the level is %g", again, c.Schedule, c.Tail, c.Level)
			}
		}
	}
}

// Tables show how evenly models serve clients where that was measured, by what runs are
// compared by; CSV has it of all metrics.
func TestTable_Fairness(t *testing.T) {
	cell := func(schedule, name string, mean float64, measured bool) Cell {
		c := Cell{Schedule: schedule, Summary: folder.Summary{Rounds: 7, BestTrainingLoss: metrics.Measured(1)}}
		c.Summary.Metrics = []folder.Metric{{Name: name, Better: metric.Higher}, {Name: "f1", Better: metric.Higher}}
		if measured {
			fair := folder.Fairness{Clients: 3, Loss: mean, WorstLoss: mean / 2, Metrics: []folder.MetricFairness{
				{Name: "f1", Mean: metrics.Measured(0.75), Worst: metrics.Measured(0.125), Jain: metrics.Measured(0.25)},
			}}
			if name == metric.Accuracy {
				fair.Accuracy, fair.WorstAccuracy, fair.Jain = metrics.Measured(mean), metrics.Measured(mean/2), metrics.Measured(0.875)
			}
			c.Summary.ClientEvaluation = &folder.ClientEvaluation{Fairness: fair}
		}
		return c
	}
	for name, want := range map[string][2]string{
		metric.Accuracy: {"  clients' accuracy|  clients' accuracy, worst tenth|  clients' accuracy, Jain's index", "mean_accuracy=0.5 worst_decile_accuracy=0.25 jain_accuracy=0.875 mean_f1=0.75 worst_decile_f1=0.125 jain_f1=0.25"},
		metric.Loss:     {"  clients' loss|  clients' loss, worst tenth  time to", "mean_loss=0.5 worst_decile_loss=0.25 mean_f1=0.75 worst_decile_f1=0.125 jain_f1=0.25"},
	} {
		cells := []Cell{cell("fixed", name, 0.5, true), cell("rounds", name, 0.5, false)}
		var b bytes.Buffer
		if err := (&Comparison{Runs: cells, Reference: "fixed"}).Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, title := range strings.Split(want[0], "|") {
			if !strings.Contains(b.String(), title) {
				t.Errorf("%s: no column %q:\n%s", name, title, b.String())
			}
		}
		if worst := regexp.MustCompile(`(?m)^ +fixed .*0\.2500`); len(worst.FindAllString(b.String(), -1)) != 1 || strings.Count(b.String(), "0.2500") != 1 {
			t.Errorf("%s:\n%s", name, b.String())
		}
		path := filepath.Join(t.TempDir(), "compare.csv")
		if err := atomicfile.Write(path, (&Comparison{Runs: cells}).Table().WriteCSV); err != nil {
			t.Fatal(err)
		}
		rows, _ := readRows(t, path)
		got := rows[0]
		for _, x := range strings.Fields(want[1]) {
			if column, value, _ := strings.Cut(x, "="); got[column] != value {
				t.Errorf("%s: %s is %q, want %s", name, column, got[column], value)
			}
		}
	}
	grams := 12.5
	traced := cell("fixed", metric.Accuracy, 1, false)
	traced.Summary.CarbonGrams = &grams
	list := optionalQuantities([]string{metric.Accuracy}, []Cell{traced})
	if len(list) != 1 || list[0].name != "carbon_grams" || list[0].value(&traced) != grams {
		t.Errorf("runs with a trace of the grid, without prices, have the columns %v", list)
	}
	if list := fairness([]string{metric.Accuracy}, []Cell{cell("fixed", metric.Accuracy, 1, false)}); list != nil {
		t.Errorf("runs without an evaluation by client have columns of it: %v", list)
	}
}
