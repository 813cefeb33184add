package run

import (
	"fedpace/experiment/run/runtest"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// ownRow is the layout for data of one's own.
type ownRow struct {
	Client string    `parquet:"client"`
	X      []float32 `parquet:"x,list"`
	Y      int32     `parquet:"y"`
}

// ownData is a file of 12 clients with two classes that a line separates.
func ownData(t *testing.T) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var rows []ownRow
	for c := range 12 {
		for range 30 {
			x := []float32{r.Float32()*2 - 1, r.Float32()*2 - 1, r.Float32()*2 - 1}
			y := int32(0)
			if x[0]+x[1] > 0 {
				y = 1
			}
			rows = append(rows, ownRow{fmt.Sprintf("site-%02d", c), x, y})
		}
	}
	path := filepath.Join(t.TempDir(), "own.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

// Data of one's own, with a model named in the configuration, learns; a model
// that does not fit it is refused with both sizes.
func TestOwnData(t *testing.T) {
	path := ownData(t)
	for _, model := range []string{"model={mlp: [3, 8, 2]}", "model=linear"} {
		c := runtest.Small(t, "data="+path, model, "clients=all", "cohort=6", "batch=8", "schedule.k0=20", "stop.rounds=20", "schedule.eta0=0.5")
		s := mustRun(t, c, Options{})
		if *s.ValidationAccuracy < 0.85 {
			t.Errorf("%s: validation accuracy %.3f on separable data", model, *s.ValidationAccuracy)
		}
	}
	c := runtest.Small(t, "data="+path, "model={mlp: [4, 8, 2]}", "clients=all", "cohort=6")
	if _, err := Run(t.Context(), c, Options{}); err == nil {
		t.Error("a model with four features ran on data with three")
	} else if _, statErr := os.Stat(c.Out); statErr == nil {
		t.Error("a folder was left behind")
	} else {
		t.Log(err)
	}
}
