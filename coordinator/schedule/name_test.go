package schedule

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedpace/registry"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]Pair{
		"dsgd":       {"dsgd", "fixed"},
		"fixed":      {"fixed", "fixed"},
		"rounds":     {"rounds", "fixed"},
		"error":      {"error", "fixed"},
		"step":       {"step", "fixed"},
		"eta-rounds": {"fixed", "rounds"},
		"eta-error":  {"fixed", "error"},
		"eta-step":   {"fixed", "step"},
		"theory":     {"theory", "fixed"},
	} {
		got, err := Parse(name)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", name, got, err, want)
		}
		if got.String() != name {
			t.Errorf("%v is called %q, want %q", want, got.String(), name)
		}
		if !slices.Contains(Names(), name) {
			t.Errorf("%v are named, and not %s", Names(), name)
		}
	}
	for _, p := range []struct {
		pair Pair
		want string
	}{{Pair{"rounds", "step"}, "rounds+eta-step"}, {Pair{"dsgd", "error"}, "dsgd+eta-error"}} {
		if got := p.pair.String(); got != p.want {
			t.Errorf("%v is called %q, want %q", p.pair, got, p.want)
		}
	}
}

func TestParse_ListsSchedules(t *testing.T) {
	for _, name := range []string{"k-round", "", strings.Repeat("x", 1e6)} {
		_, err := Parse(name)
		if err == nil || !strings.Contains(err.Error(), "want one of dsgd, fixed, rounds") || len(err.Error()) > 300 {
			t.Errorf("Parse(%.20q): %.400v, want a short error that lists the schedules", name, err)
		}
	}
}

func TestSchedules_OfRun(t *testing.T) {
	for _, c := range []struct {
		name string
		run  Setup
		want Needs
	}{
		{"dsgd", Setup{K0: 80, Eta0: 0.3}, Needs{}},
		{"fixed", Setup{K0: 80, Eta0: 0.3}, Needs{}},
		{"rounds", Setup{K0: 80, Eta0: 0.3}, Needs{}},
		{"error", Setup{K0: 80, Eta0: 0.3}, Needs{Losses: true}},
		{"step", Setup{K0: 80, Eta0: 0.3}, Needs{Validation: true}},
		{"step", Setup{K0: 80, Eta0: 0.3, DecayRound: 7}, Needs{}},
		{"theory", Setup{K0: 80, Eta0: 0.3, Theory: Theory{Factor: 1}}, Needs{Losses: true}},
	} {
		k := kIn(entry(Ks, c.name), c.run)
		if got := NeedsOf(entry(Ks, c.name), c.run); got != c.want {
			t.Errorf("K %s needs %+v", c.name, got)
		}
		if got := k.LocalSteps(Progress{Round: 1}); got != 80 && c.name != "dsgd" {
			t.Errorf("K %s begins with %d local steps", c.name, got)
		}
		if c.name == "dsgd" || c.name == "theory" {
			continue
		}
		eta := etaIn(entry(Etas, c.name), c.run)
		if got := NeedsOf(entry(Etas, c.name), c.run); got != c.want {
			t.Errorf("eta %s needs %+v", c.name, got)
		}
		if got := eta.LearningRate(Progress{Round: 1}); got != 0.3 {
			t.Errorf("eta %s begins with %v", c.name, got)
		}
	}
}

// kIn returns the schedule k of a run with this setup.
func kIn(k K, run Setup) K { return inRun{run, k, nil} }

// etaIn returns the schedule eta of a run with this setup.
func etaIn(eta Eta, run Setup) Eta { return inRun{run, nil, eta} }

type inRun struct {
	run Setup
	k   K
	eta Eta
}

// LocalSteps asks the schedule of K.
func (s inRun) LocalSteps(p Progress) int {
	p.Setup = s.run
	return s.k.LocalSteps(p)
}

// LearningRate asks the schedule of eta.
func (s inRun) LearningRate(p Progress) float64 {
	p.Setup = s.run
	return s.eta.LearningRate(p)
}

// entry returns the entry with this name, with its options at their defaults.
func entry[T any](table *registry.Table[T], name string) T {
	e, _, _ := registry.For(reflect.TypeFor[T]()).Entry(name)
	return e.(T)
}
