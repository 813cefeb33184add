package external

import (
	"slices"
	"testing"
)

// What decides bits in a process is the same in all of them.
func TestEnvironment(t *testing.T) {
	t.Setenv("PYTHONHASHSEED", "random")
	t.Setenv("OMP_NUM_THREADS", "7")
	list := (&Config{}).environment()
	for first, last := range map[string]string{"PYTHONHASHSEED=random": "PYTHONHASHSEED=0", "OMP_NUM_THREADS=7": "OMP_NUM_THREADS=1"} {
		if at := slices.Index(list, last); at < slices.Index(list, first) { // the last one counts
			t.Errorf("%s does not stand behind %s", last, first)
		}
	}
}
