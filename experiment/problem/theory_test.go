package problem

import (
	"errors"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/runtest"
)

// All seeds share one problem, unless the data's seed is left to theirs.
func TestSeeds_ShareProblem(t *testing.T) {
	t.Parallel()
	digest := func(sets ...string) string {
		c := runtest.Convex(t, config.TaskQuadratic, sets...)
		p, err := Prepare(t.Context(), c, false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Set.Info().Digest
	}
	if digest("seed=1") != digest("seed=2") {
		t.Error("two seeds have two problems")
	}
	if digest("seed=1", "synthetic.seed=null") == digest("seed=2", "synthetic.seed=null") || digest() == digest("synthetic.seed=2") {
		t.Error("synthetic.seed changes nothing")
	}
}

func TestConvex_Mistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sets []string
		want string
	}{
		{[]string{"task=quadratic", "quadratic.mu=2"}, `--set quadratic.mu: 2 is more than quadratic.l, 1: no objective is more convex than it is smooth`},
		{[]string{"task=quadratic", "quadratic.dimension=1"}, `--set quadratic.dimension: 1 is out of range (a whole number from 2 to 10000)`},
		{[]string{"task=quadratic", "data=x"}, `--set data: quadratics are made, not read (set data: synthetic)`},
		{[]string{"task=quadratic", "schedule.k=step"}, `--set schedule.k: "step" decides by the validation accuracy, and a quadratic classifies nothing`},
		{[]string{"task=quadratic", "evaluate.target=5.5"}, `--set evaluate.target: a quadratic classifies nothing and has no validation accuracy (set evaluate.metric: loss)`},
		{[]string{"task=logistic", "data=x", "model=linear"}, `--set model: task logistic has a model of its own (set model: task)`},
		{[]string{"schedule.k=theory"}, `--set schedule.k: theory.l: is not set: schedule.k: theory needs it, and it cannot be calculated for task femnist`},
		{[]string{"task=quadratic", "schedule.k=theory", "schedule.eta=rounds"}, `--set schedule.eta: "rounds" goes with no schedule.k: theory, which is the best K for a fixed rate (set schedule.eta: fixed)`},
		{[]string{"task=quadratic", "schedule.k=theory", "train=false"}, `--set schedule.k: "theory" decides by training losses, which train: false does not measure`},
		{[]string{"task=quadratic", "schedule.k=theory", "theory.time=ahead"}, `--set theory.time: ahead needs an end in time (set stop.virtual_seconds or stop.equal_runtime_rounds)`},
		{[]string{"theory={l: 1, mu: 2}"}, `--set theory.mu: 2 is more than theory.l, 1`},
		{[]string{"theory.g=-1"}, `--set theory.g: -1 is out of range (more than 0 and at most 1e+30)`},
	} {
		_, err := config.Load("", test.sets)
		if err == nil {
			t.Errorf("%v is accepted; want %q", test.sets, test.want)
		} else if got, _, _ := strings.Cut(err.Error(), " (use "); got != test.want && !strings.HasSuffix(test.want, strings.TrimPrefix(got, "--set ")) {
			t.Errorf("%v:\n got %s\nwant %s", test.sets, got, test.want)
		}
	}
	p, err := Open(runtest.Small(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Convex(); !errors.Is(err, ErrNotConvex) {
		t.Errorf("FEMNIST's network is convex: %v", err)
	}
}
