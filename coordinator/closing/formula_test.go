package closing

import (
	"strings"
	"testing"

	"fedpace/registry"
)

// facts returns the facts of a round of 20 local steps of a cohort of 30. A part p of its clients is expected to be
// done within 100 p seconds.
func facts() Facts {
	return Facts{
		Round:          7,
		Seconds:        120,
		K:              20,
		K0:             80,
		Cohort:         30,
		StragglerShare: 0.25,
		Quantile:       func(part float64) float64 { return 100 * part },
		Mean:           func() float64 { return 50 },
	}
}

func TestFormula_SettlesRound(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Formula
		want Numbers
	}{
		{"what is expected", Formula{Seconds: "1.2 * expected"}, Numbers{Deadline: 60e9}},
		{"a quantile", Formula{Seconds: "quantile(0.8)"}, Numbers{Deadline: 80e9}},
		{"all names", Formula{Seconds: "r + t + k / k0 + straggler_share"}, Numbers{Deadline: 127.5e9}},
		{"a whole number of updates", Formula{N: "0.1 * cohort"}, Numbers{N: 3}},
		{"rounded up", Formula{N: "0.11 * cohort"}, Numbers{N: 4}},
		{"at most the cohort", Formula{N: "2 * cohort"}, Numbers{N: 30}},
		{"a quorum", Formula{Seconds: "k", N: "cohort - 5", M: "10"}, Numbers{Deadline: 20e9, N: 25, M: 10}},
	} {
		got, err := c.rule.In(facts())
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func TestFormula_ImpossibleValues(t *testing.T) {
	for _, c := range []struct{ seconds, want string }{
		{"k - 20", "close.seconds: k - 20 is 0 in round 7"},
		{"log(0 - k)", "is NaN in round 7"},
		{"1e12", "at most 4e+09"},
		{"quantile(2) / 0", "is +Inf in round 7"},
	} {
		if _, err := (Formula{Seconds: c.seconds}).In(facts()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.seconds, err, c.want)
		}
	}
}

func TestFormula_MistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		rule Formula
		want string
	}{
		{Formula{}, "seconds: is not set, nor is n"},
		{Formula{N: "5", M: "3"}, "m: is for the time after a deadline"},
		{Formula{Seconds: "loss"}, "seconds: character 1: unknown name loss (a formula may name abs"},
		{Formula{N: "cohort *"}, "n: character 8: unexpected end"},
	} {
		if err := c.rule.Validate(30); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.rule, err, c.want)
		}
	}
}

func TestFormula_NeedsReadValues(t *testing.T) {
	for _, c := range []struct {
		rule Formula
		want registry.Needs
	}{
		{Formula{Seconds: "10 + k"}, registry.Needs{}},
		{Formula{Seconds: "expected"}, registry.Needs{Times: true}},
		{Formula{Seconds: "10", N: "quantile(0.5)"}, registry.Needs{Times: true}},
		{Formula{N: "cohort * (1 - straggler_share)"}, registry.Needs{Stragglers: true}},
	} {
		if got := c.rule.Needs(); got != c.want {
			t.Errorf("%+v needs %+v, want %+v", c.rule, got, c.want)
		}
	}
}
