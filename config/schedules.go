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

// Name returns the name of the schedule as command lines and results write it: its label if it has
// one, and otherwise a name after its rules, such as dsgd, fixed, rounds or eta-step. Where both K
// and eta decay, the two names are joined by a plus sign.
func (s Schedule) Name() string {
	return cmp.Or(s.Label, schedule.Pair{K: schedule.Ks.NameOf(s.K), Eta: schedule.Etas.NameOf(s.Eta)}.String())
}

// Named returns the schedule that a text of the command line means; all keys that the text does not
// set are those of s. The text is the name of s itself, one of [schedule.Names], or the definition
// of a new schedule. A definition is NAME=FORMULA, which gives K, or NAME={k: ..., eta: ...} with
// any keys of a schedule; in both, K and eta are fixed unless they are set.
func (s Schedule) Named(text string) (Schedule, error) {
	name, definition, isDefinition := strings.Cut(text, "=")
	switch newName := schedule.Renamed(text); {
	case isDefinition:
		return s.custom(strings.TrimSpace(name), strings.TrimSpace(definition))
	// This comes before the known names, as the label of s may be no known name.
	case text == s.Name():
		return s, nil
	case newName != "":
		return s, &KeyError{Key: "schedules", Problem: fmt.Sprintf("%q is called %q", text, newName)}
	}
	// The known names are pairs of a decay of K and a decay of eta.
	pair, err := schedule.Parse(text)
	if err != nil {
		return s, &KeyError{Key: "schedules", Problem: notA(text, "schedule", schedule.Names())}
	}
	s.Label = ""
	return s, cmp.Or(readInto(&s.K, tree.Word(pair.K), "schedules"), readInto(&s.Eta, tree.Word(pair.Eta), "schedules"))
}

// custom returns the schedule that a user defines under a name, by a formula of K or by a map of
// keys. K and eta are fixed where the definition does not set them. An error names the key within
// the definition.
func (s Schedule) custom(name, definition string) (Schedule, error) {
	s.Label = name
	s.K = schedule.FixedK{}
	s.Eta = schedule.FixedEta{}
	path := "schedules " + name
	if err := checkLabel(name); err != nil || name == "" {
		return s, &KeyError{Key: "schedules", Problem: cmp.Or(err, names.CheckName(name)).Error()}
	}
	// A definition that is no map is the formula of K.
	if !strings.HasPrefix(definition, "{") {
		k := schedule.ExpressionK{Formula: definition}
		s.K = k
		return s, Error(path, schedule.Validate(k))
	}
	// A map sets any keys of the schedule, on top of those of s.
	n, err := tree.Value("--"+path, "", []byte(definition))
	if err != nil {
		return s, err
	}
	if err := readInto(&s, n, path); err != nil {
		return s, err
	}
	return s, cmp.Or(Error(path+".k", schedule.Validate(s.K)), Error(path+".eta", schedule.Validate(s.Eta)))
}

// checkLabel refuses a label that is no valid name, or that is the name of a known schedule, which
// results could not tell apart from it. Empty is no label, and allowed.
func checkLabel(name string) error {
	switch {
	case name == "":
		return nil
	case slices.Contains(schedule.Names(), name):
		return fmt.Errorf("%q is another schedule's name", name)
	}
	// A plus sign is allowed, as it stands in the names of schedules in which both K and eta decay.
	return names.CheckName(strings.ReplaceAll(name, "+", "-"))
}
