package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fedpace/config/tree"
	"fedpace/coordinator/schedule"
	"fedpace/internal/names"
)

// Name is the schedule as command lines and results write it: the name that it is given, or dsgd,
// fixed, rounds, eta-step and so on. Where both K and eta decay, both names are joined by a plus
// sign.
func (s Schedule) Name() string {
	return cmp.Or(s.Label, schedule.Pair{K: schedule.Ks.NameOf(s.K), Eta: schedule.Etas.NameOf(s.Eta)}.String())
}

// Named returns the schedule that a text means, everything else kept: this one by its name, one of
// [schedule.Names], or one's own, which is NAME=FORMULA of K, or NAME={k: ..., eta: ...} with any
// keys of a schedule; K and eta are fixed unless they are told.
func (s Schedule) Named(text string) (Schedule, error) {
	name, definition, defined := strings.Cut(text, "=")
	switch now := schedule.Renamed(text); {
	case defined:
		return s.custom(strings.TrimSpace(name), strings.TrimSpace(definition))
	case text == s.Name():
		return s, nil
	case now != "":
		return s, &KeyError{Key: "schedules", Problem: fmt.Sprintf("%q is called %q", text, now)}
	}
	pair, err := schedule.Parse(text)
	if err != nil {
		return s, &KeyError{Key: "schedules", Problem: notA(text, "schedule", schedule.Names())}
	}
	s.Label = ""
	return s, cmp.Or(set(&s.K, tree.Word(pair.K), "schedules"), set(&s.Eta, tree.Word(pair.Eta), "schedules"))
}

// custom is a schedule of one's own. An error names its place in it.
func (s Schedule) custom(name, definition string) (Schedule, error) {
	s.Label = name
	s.K = schedule.FixedK{}
	s.Eta = schedule.FixedEta{}
	path := "schedules " + name
	if err := checkLabel(name); err != nil || name == "" {
		return s, &KeyError{Key: "schedules", Problem: cmp.Or(err, names.CheckName(name)).Error()}
	}
	if !strings.HasPrefix(definition, "{") {
		k := schedule.ExpressionK{Formula: definition}
		s.K = k
		return s, Error(path, schedule.Validate(k))
	}
	n, err := tree.Value("--"+path, "", []byte(definition))
	if err != nil {
		return s, err
	}
	if err := set(&s, n, path); err != nil {
		return s, err
	}
	return s, cmp.Or(Error(path+".k", schedule.Validate(s.K)), Error(path+".eta", schedule.Validate(s.Eta)))
}

// checkLabel holds the name of a schedule of one's own to its form, and keeps the names of others.
func checkLabel(name string) error {
	switch {
	case name == "":
		return nil
	case slices.Contains(schedule.Names(), name):
		return fmt.Errorf("%q is another schedule's name", name)
	}
	return names.CheckName(strings.ReplaceAll(name, "+", "-")) // as of a control of two that decay
}
