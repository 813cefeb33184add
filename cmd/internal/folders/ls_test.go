package folders

import (
	"strings"
	"testing"

	"fedpace/coordinator/measure"
	"fedpace/experiment/folder"
)

// A person reads columns and human figures; a program reads tabs and plain numbers.
func TestTheListOfRuns(t *testing.T) {
	best := 0.75
	list := []listedRun{
		{Folder: "runs/a", State: folder.RunComplete, Task: "femnist", Schedule: "k-rounds", Seed: 1, Rounds: 3, Virtual: 61.5, Metric: measure.Accuracy, Best: &best, Tags: []string{"paper", "k=8"}},
		{Folder: "runs/longer", State: folder.RunDamaged, Tags: []string{"old"}},
	}
	for person, want := range map[bool]string{
		true: `run          state     task     schedule  seed  rounds  virtual time  best    tags
runs/a       complete  femnist  k-rounds  1     3       61.5 s        0.7500  paper k=8
runs/longer  damaged                      0     0       0.0 s         -       old
`,
		false: `run	state	task	schedule	seed	rounds	virtual time	best	tags
runs/a	complete	femnist	k-rounds	1	3	61.5	0.7500	paper k=8
runs/longer	damaged			0	0	0		old
`,
	} {
		var b strings.Builder
		if err := writeRuns(&b, list, person); err != nil || b.String() != want {
			t.Errorf("for a person %v:\n%s, %v, want\n%s", person, b.String(), err, want)
		}
	}
}
