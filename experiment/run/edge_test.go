package run

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/experiment/runtest"
)

// The corners of data: each works or is refused in words.
func TestData_Corners(t *testing.T) {
	t.Parallel()
	sample := func(client string, y int32) runtest.Sample {
		return runtest.Sample{Client: client, X: []float32{1, float32(y)}, Y: y}
	}
	for _, c := range []struct {
		name string
		rows []runtest.Sample
		sets []string
		want string // part of the error; empty: it runs
	}{
		{"one client", []runtest.Sample{sample("a", 0), sample("a", 1), sample("a", 0), sample("a", 1), sample("a", 1)}, []string{"cohort=1"}, ""},
		{"clients smaller than the batch", []runtest.Sample{sample("a", 0), sample("a", 1), sample("b", 0), sample("b", 1)}, []string{"cohort=2", "batch=64"}, ""},
		{"one class", []runtest.Sample{sample("a", 0), sample("a", 0), sample("b", 0), sample("b", 0)}, []string{"cohort=2"}, "class"},
		{"no samples", nil, []string{"cohort=1"}, "own.parquet"},
		{"cohort above the clients there are", []runtest.Sample{sample("a", 0), sample("a", 1)}, []string{"cohort=2"}, "cohort"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "own.parquet")
			if err := parquet.WriteFile(path, c.rows); err != nil {
				t.Fatal(err)
			}
			config := runtest.Small(t, slices.Concat(runtest.Custom, []string{"data=" + path, "model=linear", "clients=all", "batch=4", "stop.rounds=2"}, c.sets)...)
			_, err := Run(t.Context(), config, Options{})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one that names %q", err, c.want)
			case err != nil:
				t.Log(err)
			}
		})
	}
}
