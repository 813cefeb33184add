package study

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/coordinator/measure"
	"fedpace/experiment/folder"
	"fedpace/metrics"
)

// Tables of runs that are compared by a metric of their own show it in the place of the
// accuracy, and the validation loss where models are compared by that.
func TestTablesShowMetrics(t *testing.T) {
	cell := func(schedule, name string, best float64) Cell {
		c := Cell{Schedule: schedule, Summary: folder.Summary{Rounds: 7, BestTrainingLoss: metrics.Measured(1)}}
		c.Summary.Metrics = []folder.Metric{{Name: name, Better: measure.Lower, Validation: metrics.Measured(2 * best), Best: metrics.Measured(best)}}
		if name != measure.Loss {
			c.Summary.Metrics = append(c.Summary.Metrics, folder.Metric{Name: "f1", Better: measure.Higher, Best: metrics.Measured(0.75)})
		}
		return c
	}
	for name, titles := range map[string]string{"mae": "best mae  best f1", measure.Loss: "best validation loss"} {
		cells := []Cell{cell("fixed", name, 0.5), cell("k-rounds", name, 0.25)}
		var b bytes.Buffer
		if err := (&Comparison{Runs: cells, Reference: "fixed"}).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		if !strings.Contains(lines[0], titles) || !strings.Contains(lines[1], "0.5000") || !strings.Contains(lines[2], "0.2500") || strings.Contains(lines[0], "accuracy") {
			t.Errorf("%s:\n%s", name, b.String())
		}
		table := NewSweepTable(Sweep{}, cells)
		path := filepath.Join(t.TempDir(), "compare.csv")
		if err := table.WriteCSV(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || strings.Contains(string(text), "accuracy") {
			t.Fatalf("%s: %v, %s", name, err, text)
		}
		for i, column := range rows[0] {
			if column == "best_validation_"+name && (rows[1][i] != "0.5" || rows[2][i] != "0.25") || column == "validation_"+name && rows[1][i] != "1" {
				t.Errorf("%s: %s is %s and %s", name, column, rows[1][i], rows[2][i])
			}
		}
		if !strings.Contains(string(text), ",validation_"+name+",") || !strings.Contains(string(text), ",best_validation_"+name+",") {
			t.Errorf("%s has no column in %s", name, text)
		}
		if got := cells[0].story(0); !strings.Contains(got, "best "+measure.Title(name)+" 0.5000") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A summary of an earlier version has an accuracy, and no list of metrics.
func TestTablesShowEarlierSummaries(t *testing.T) {
	s := folder.Summary{ValidationAccuracy: metrics.Measured(0.5), BestValidationAccuracy: metrics.Measured(0.75)}
	if m := s.Metric(measure.Accuracy); len(s.Shown()) != 1 || *m.Validation != 0.5 || *m.Best != 0.75 || m.Better != measure.Higher {
		t.Errorf("%+v", s.Shown())
	}
	if timed := (&folder.Summary{}).Shown(); len(timed) != 0 {
		t.Errorf("a run that learned nothing shows %+v", timed)
	}
}
