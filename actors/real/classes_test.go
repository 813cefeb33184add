package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/algorithm"
	"fedpace/bus"
)

// A device need not have a sample of each of the run's classes, which are numbers. One of a class
// that the run does not have is refused, also after a run that had it.
func TestClasses_MissingOnDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.csv")
	if err := os.WriteFile(path, []byte("a,b,y\n1,2,0\n2,1,1\n1,1,3\n0,1,3\n2,2,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fedavg, err := algorithm.Algorithms.Encode(algorithm.Default)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(Config{Data: path, Map: []string{"features=a,b", "label=y"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, run := range []struct {
		model  string
		params uint32
		want   string
	}{
		{"mlp:2,3,6", 33, ""},
		{"mlp:2,3,4", 25, ""},
		{"mlp:2,3,3", 21, "mlp:2,3,3 reads dense rows of 2 features in 3 classes, custom data (csv) has dense rows of 2 features in 4 classes"},
	} {
		err := d.Prepare(t.Context(), "run", &bus.Welcome{Params: run.params, Spec: &bus.Spec{Model: run.model, Batch: 2, Augment: "none", Algorithm: fedavg}})
		if (err == nil) != (run.want == "") || err != nil && !strings.Contains(err.Error(), run.want) {
			t.Errorf("%s: %v, want %q", run.model, err, run.want)
		}
	}
}
