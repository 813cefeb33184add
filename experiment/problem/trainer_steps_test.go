package problem

import (
	"strings"
	"testing"

	"fedpace/actors/external"
	"fedpace/config"
)

// Schedule theory is about plain steps: a trainer whose greeting has others is refused by it, and by no other
// schedule.
func TestCheckTrainerSteps_Theory(t *testing.T) {
	momentum := &external.OwnSteps{Optimizer: "SGD", Momentum: 0.9}
	plain := &external.OwnSteps{Optimizer: "SGD", Plain: true}
	for name, x := range map[string]struct {
		sets  []string
		steps *external.OwnSteps
		want  string
	}{
		"momentum":      {[]string{"schedule.k=theory", "task=logistic"}, momentum, "trainer a.py takes its own, SGD with momentum 0.9"},
		"plain":         {[]string{"schedule.k=theory", "task=logistic"}, plain, ""},
		"the run's own": {[]string{"schedule.k=theory", "task=logistic"}, nil, ""},
		"rounds":        {[]string{"schedule.k=rounds"}, momentum, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load("", x.sets)
			if err != nil {
				t.Fatal(err)
			}
			p := &Problem{Trainer: &external.Program{Greeting: external.Greeting{Name: "a.py", Steps: x.steps}}}
			p.Config = c
			err = p.checkTrainerSteps()
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}
