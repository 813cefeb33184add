package runtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Sample is a row of custom data.
type Sample struct {
	Client string    `parquet:"client"`
	X      []float32 `parquet:"x,list"`
	Y      int32     `parquet:"y"`
}

// CustomData is a file of 12 clients with two classes that a line separates.
func CustomData(t testing.TB) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var rows []Sample
	for c := range 12 {
		for range 30 {
			x := []float32{r.Float32()*2 - 1, r.Float32()*2 - 1, r.Float32()*2 - 1}
			y := int32(0)
			if x[0]+x[1] > 0 {
				y = 1
			}
			rows = append(rows, Sample{fmt.Sprintf("site-%02d", c), x, y})
		}
	}
	path := filepath.Join(t.TempDir(), "custom.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}
