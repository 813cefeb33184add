package schedule

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]Pair{
		"dsgd":       {"dsgd", "fixed"},
		"fixed":      {"fixed", "fixed"},
		"k-rounds":   {"rounds", "fixed"},
		"k-error":    {"error", "fixed"},
		"k-step":     {"step", "fixed"},
		"eta-rounds": {"fixed", "rounds"},
		"eta-error":  {"fixed", "error"},
		"eta-step":   {"fixed", "step"},
		"k-theory":   {"theory", "fixed"},
	} {
		got, err := Parse(name)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", name, got, err, want)
		}
		if got.String() != name {
			t.Errorf("%v is called %q, want %q", want, got.String(), name)
		}
	}
	if len(Names()) != 9 {
		t.Errorf("%d names, want Table 3's 8 and k-theory", len(Names()))
	}
	for _, p := range []struct {
		pair Pair
		want string
	}{{Pair{"rounds", "step"}, "k-rounds+eta-step"}, {Pair{"dsgd", "error"}, "dsgd+eta-error"}} {
		if got := p.pair.String(); got != p.want {
			t.Errorf("%v is called %q, want %q", p.pair, got, p.want)
		}
	}
}

func TestParseListsWhatItKnows(t *testing.T) {
	for _, name := range []string{"k-round", "", strings.Repeat("x", 1e6)} {
		_, err := Parse(name)
		if err == nil || !strings.Contains(err.Error(), "want one of dsgd, fixed, k-rounds") || len(err.Error()) > 300 {
			t.Errorf("Parse(%.20q): %.400v, want a short error that lists the schedules", name, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind             string
		decay            int
		loss, validation bool
	}{
		{"dsgd", 0, false, false},
		{"fixed", 0, false, false},
		{"rounds", 0, false, false},
		{"error", 0, true, false},
		{"step", 0, false, true},
		{"step", 7, false, false},
	} {
		k, err := NewK(c.kind, 80, c.decay)
		if err != nil {
			t.Fatal(err)
		}
		if k.NeedsLoss() != c.loss || k.NeedsValidation() != c.validation {
			t.Errorf("K %s: needs loss %v, validation %v", c.kind, k.NeedsLoss(), k.NeedsValidation())
		}
		if c.kind == "dsgd" {
			continue
		}
		eta, err := NewEta(c.kind, 0.3, c.decay)
		if err != nil {
			t.Fatal(err)
		}
		if eta.NeedsLoss() != c.loss || eta.NeedsValidation() != c.validation {
			t.Errorf("eta %s: needs loss %v, validation %v", c.kind, eta.NeedsLoss(), eta.NeedsValidation())
		}
	}
	for want, f := range map[string]func() (any, error){
		"want one of dsgd, fixed":       func() (any, error) { return NewK("round", 80, 0) },
		`"dsgd" is not known as an eta`: func() (any, error) { return NewEta("dsgd", 1, 0) },
		"K_0 is 0":                      func() (any, error) { return NewK("fixed", 0, 0) },
		"eta_0 is -1":                   func() (any, error) { return NewEta("fixed", -1, 0) },
		"decay round -2":                func() (any, error) { return NewK("step", 1, -2) },
		"decay round -3":                func() (any, error) { return NewEta("step", 1, -3) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
