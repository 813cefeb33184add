package ui

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/metrics/outputs"
)

// A row of progress.csv that is torn within a number, or behind one, adds nothing.
func TestCurves_TornCosts(t *testing.T) {
	for _, torn := range []string{"", "1", "12,2", "12,24.5,30.25,70", "12,24.5,30.25,7000,"} {
		path := filepath.Join(t.TempDir(), outputs.ProgressFile)
		if err := os.WriteFile(path, []byte(outputs.ProgressHeader+"\n10,20.5,25.25,6000,0\n"+torn), 0o666); err != nil {
			t.Fatal(err)
		}
		c := &curves{rounds: 20}
		c.readCosts(path)
		if !slices.Equal(c.costs.Round, []float64{10}) || !slices.Equal(c.costs.Energy, []float64{6000}) {
			t.Errorf("%q: costs %+v", torn, c.costs)
		}
	}
}
