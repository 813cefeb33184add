package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/learn"
	"fedpace/registry"
)

// need is one field of [registry.Needs] that the configuration does not give.
type need struct {
	needed      func(registry.Needs) bool
	reason      string
	instead     string // beside another entry, what would give it
	relatedKeys []string
}

// lacking lists what the configuration does not give a component.
func (c *Config) lacking() []need {
	var list []need
	add := func(lacks bool, needed func(registry.Needs) bool, reason, instead string, relatedKeys ...string) {
		if lacks {
			list = append(list, need{needed, reason, instead, relatedKeys})
		}
	}
	losses := func(n registry.Needs) bool { return n.Losses }
	validation := func(n registry.Needs) bool { return n.Validation }
	add(!c.Train, losses, "decides by training losses, which train: false does not measure", "", "train")
	add(!c.Train, validation, "decides by the validation accuracy, which train: false does not measure", "", "train")
	add(
		c.Task == TaskQuadratic,
		validation,
		"decides by the validation accuracy, and a quadratic classifies nothing",
		"",
		"task",
	)
	add(
		closing.Overlaps(c.Close),
		func(n registry.Needs) bool { return n.Rounds },
		"needs rounds that do not overlap",
		"another closing rule",
		"close",
	)
	add(
		closing.Overlaps(c.Close),
		func(n registry.Needs) bool { return n.Stragglers },
		"reads the straggler share, which rounds that overlap do not have",
		"another closing rule",
		"close",
	)
	if closing.UsesLate(c.Late) {
		add(
			true,
			func(n registry.Needs) bool { return n.Candidates },
			"asks clients for their losses ahead, which does not go with late updates",
			"late: drop",
			"late",
		)
		add(
			true,
			func(n registry.Needs) bool { return n.ClientState },
			"keeps a state of each client, which late updates do not fit",
			"late: drop",
			"late",
		)
	}
	add(
		c.Close.Deadline() == 0,
		func(n registry.Needs) bool { return n.Deadline },
		"needs a deadline",
		"close: {rule: deadline, seconds: ...}",
		"close",
	)
	add(
		c.Aggregate.Weights != EqualWeights,
		func(n registry.Needs) bool { return n.EqualWeight },
		"needs updates that are weighted equally",
		"aggregate.weights: equal",
		"aggregate.weights",
	)
	add(
		!learn.Plain(c.Local),
		func(n registry.Needs) bool { return n.PlainSteps },
		"counts on plain steps of SGD, which local does not take",
		"local: sgd",
		"local",
	)
	if len(c.Devices.Names) > 0 {
		add(
			true,
			func(n registry.Needs) bool { return n.Candidates },
			"asks clients for their losses ahead of a task, and devices tell a loss only with the update of one",
			"",
			"devices.names",
		)
		add(
			true,
			func(n registry.Needs) bool { return n.Simulated },
			"keeps a state of each client, which devices do not send",
			"",
			"devices.names",
		)
		unknown := slices.ContainsFunc(c.Devices.Names, func(d Device) bool { return d.Class == "" })
		add(
			unknown && c.DrawsDevices(),
			func(n registry.Needs) bool { return n.Speeds },
			"goes by the clients' expected times, and devices that are drawn have none without a class",
			"a class for each, devices.names: {pi: class}",
			"devices.names",
		)
	}
	return list
}

// checkNeeds refuses a component that needs what the configuration does not
// give, by what it says of itself.
func (c *Config) checkNeeds() error {
	lacking := c.lacking()
	return c.choices(reflect.ValueOf(c).Elem(), "", func(path string, p *registry.Point, component any) error {
		for _, l := range lacking {
			if !l.needed(c.needs(component)) {
				continue
			}
			var use []string
			name := p.NameOf(component)
			for _, e := range p.Entries {
				if e.Name == name {
					e.Name += " with other options"
				}
				if !slices.ContainsFunc(lacking, func(l need) bool { return l.needed(c.needs(e.Value)) }) {
					use = append(use, e.Name)
				}
			}
			instead := "use " + orList(use)
			if l.instead != "" {
				instead += ", or " + l.instead
			}
			set := *c
			set.Schedule.DecayRound = 1
			if !l.needed(set.needs(component)) {
				instead += ", or set schedule.decay_round"
			}
			return problem(path, l.relatedKeys, "%q %s (%s)", name, l.reason, strings.TrimPrefix(instead, "use , or "))
		}
		return nil
	})
}

// needs is what a component needs under the configuration.
func (c *Config) needs(component any) registry.Needs {
	return schedule.NeedsOf(component, c.Schedule.Setup())
}

// DecidesByLosses is what of the configuration decides by the clients' losses, which they
// must then tell, such as "schedule.k: error"; empty if nothing does.
func (c *Config) DecidesByLosses() string {
	for _, part := range []struct {
		key       string
		component any
		name      string
		follows   bool // what the schedules see as a loss
	}{
		{"schedule.k", c.Schedule.K, schedule.Ks.NameOf(c.Schedule.K), true},
		{"schedule.eta", c.Schedule.Eta, schedule.Etas.NameOf(c.Schedule.Eta), true},
		{"select", c.Select, selection.Rules.NameOf(c.Select), false},
	} {
		if c.needs(part.component).Losses && !(part.follows && c.Schedule.Loss == ValidationLoss) {
			return part.key + ": " + part.name
		}
	}
	if c.Schedule.Loss == TrimmedLoss {
		return "schedule.loss: " + TrimmedLoss
	}
	return ""
}

// choices visits the entries that the configuration holds, with their paths.
func (c *Config) choices(
	v reflect.Value,
	path string,
	visit func(path string, p *registry.Point, component any) error,
) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if p := registry.For(v.Type()); p != nil {
			return visit(path, p, v.Interface()) // which speaks for the entries within it
		}
		return c.choices(v.Elem(), path, visit)
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.choices(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, o := range registry.Options(v.Type()) {
			f := v.FieldByIndex(o.Index)
			optionPath := join(path, o.Key)
			if f.Kind() == reflect.Interface && f.IsNil() && !o.Null {
				return problem(optionPath, nil, "is not set (%s)", o.Help)
			}
			if err := c.choices(f, optionPath, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
