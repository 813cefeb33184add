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

// need is one requirement of components, out of [registry.Needs], that the configuration does not
// meet.
type need struct {
	// needed reports whether a component has this requirement.
	needed func(registry.Needs) bool
	// reason completes a message after the component's name: why it cannot be used.
	reason string
	// instead names a change of other keys that would meet the requirement, such as "late: drop".
	// It is empty where only another component helps.
	instead string
	// relatedKeys are the keys because of which the requirement is not met.
	relatedKeys []string
}

// unmetNeeds is a list of requirements that a configuration does not meet, for the methods that add to it.
type unmetNeeds []need

// add notes requirement n if the configuration does not meet it, which isUnmet says.
func (l *unmetNeeds) add(isUnmet bool, n need) {
	if isUnmet {
		*l = append(*l, n)
	}
}

// unmetNeeds returns the requirements that the configuration does not meet, whatever components it
// has. A component that has any of these requirements cannot be used.
func (c *Config) unmetNeeds() []need {
	var list unmetNeeds
	c.addUnmetMeasures(&list)
	c.addUnmetRounds(&list)
	c.addUnmetUpdates(&list)
	c.addUnmetDevices(&list)
	return list
}

// addUnmetMeasures adds to list the requirements of measures that the run does not take of its model.
func (c *Config) addUnmetMeasures(list *unmetNeeds) {
	losses := func(n registry.Needs) bool { return n.Losses }
	validation := func(n registry.Needs) bool { return n.Validation }
	list.add(!c.Train, need{
		needed:      losses,
		reason:      "decides by training losses, which train: false does not measure",
		relatedKeys: []string{"train"},
	})
	list.add(!c.Train, need{
		needed:      validation,
		reason:      "decides by the validation accuracy, which train: false does not measure",
		relatedKeys: []string{"train"},
	})
	list.add(c.Task == TaskQuadratic, need{
		needed:      validation,
		reason:      "decides by the validation accuracy, and a quadratic classifies nothing",
		relatedKeys: []string{"task"},
	})
}

// addUnmetRounds adds to list the requirements that rounds do not meet because of how they are closed.
func (c *Config) addUnmetRounds(list *unmetNeeds) {
	list.add(closing.Overlaps(c.Close), need{
		needed:      func(n registry.Needs) bool { return n.Rounds },
		reason:      "needs rounds that do not overlap",
		instead:     "another closing rule",
		relatedKeys: []string{"close"},
	})
	list.add(closing.Overlaps(c.Close), need{
		needed:      func(n registry.Needs) bool { return n.Stragglers },
		reason:      "reads the straggler share, which rounds that overlap do not have",
		instead:     "another closing rule",
		relatedKeys: []string{"close"},
	})
	list.add(c.Schedule.Cohort != "", need{
		needed:      func(n registry.Needs) bool { return n.Cohort },
		reason:      "counts on the same cohort in each round, and schedule.cohort gives each its own",
		instead:     "no schedule.cohort",
		relatedKeys: []string{"schedule.cohort"},
	})
	// A late update answers the model of an earlier round, which candidates' losses and clients'
	// states do not fit.
	late := closing.UsesLate(c.Late)
	list.add(late, need{
		needed:      func(n registry.Needs) bool { return n.Candidates },
		reason:      "asks clients for their losses ahead, which does not go with late updates",
		instead:     "late: drop",
		relatedKeys: []string{"late"},
	})
	list.add(late, need{
		needed:      func(n registry.Needs) bool { return n.ClientState },
		reason:      "keeps a state of each client, which late updates do not fit",
		instead:     "late: drop",
		relatedKeys: []string{"late"},
	})
	list.add(c.Close.Deadline() == 0, need{
		needed:      func(n registry.Needs) bool { return n.Deadline },
		reason:      "needs a deadline",
		instead:     "close: {rule: deadline, seconds: ...}",
		relatedKeys: []string{"close"},
	})
}

// addUnmetUpdates adds to list the requirements that updates do not meet because of how they are computed and
// weighted.
func (c *Config) addUnmetUpdates(list *unmetNeeds) {
	list.add(c.Aggregate.Weights != EqualWeights, need{
		needed:      func(n registry.Needs) bool { return n.EqualWeight },
		reason:      "needs updates that are weighted equally",
		instead:     "aggregate.weights: equal",
		relatedKeys: []string{"aggregate.weights"},
	})
	list.add(!learn.Plain(c.Local), need{
		needed:      func(n registry.Needs) bool { return n.PlainSteps },
		reason:      "counts on plain steps of SGD, which local does not take",
		instead:     "local: sgd",
		relatedKeys: []string{"local"},
	})
}

// addUnmetDevices adds to list the requirements that real devices do not meet, if the run has any. They answer
// only tasks: they report no losses ahead of one, and keep no state that the coordinator could read.
func (c *Config) addUnmetDevices(list *unmetNeeds) {
	if len(c.Devices.Names) == 0 {
		return
	}
	list.add(true, need{
		needed: func(n registry.Needs) bool { return n.Candidates },
		reason: "asks clients for their losses ahead of a task, and devices tell a loss only with the update of " +
			"one",
		relatedKeys: []string{"devices.names"},
	})
	list.add(true, need{
		needed:      func(n registry.Needs) bool { return n.Simulated },
		reason:      "keeps a state of each client, which devices do not send",
		relatedKeys: []string{"devices.names"},
	})
	// The speed of a device is known only through its class.
	unknown := slices.ContainsFunc(c.Devices.Names, func(d Device) bool { return d.Class == "" })
	list.add(unknown && c.DrawsDevices(), need{
		needed:      func(n registry.Needs) bool { return n.Speeds },
		reason:      "goes by the clients' expected times, and devices that are drawn have none without a class",
		instead:     "a class for each, devices.names: {pi: class}",
		relatedKeys: []string{"devices.names"},
	})
}

// checkNeeds refuses a component that has a requirement which the configuration does not meet. The
// message proposes entries of the same plug point that could be used, and changes of other keys.
func (c *Config) checkNeeds() error {
	unmet := c.unmetNeeds()
	check := func(path string, p *registry.Point, component any) error {
		for _, missing := range unmet {
			if missing.needed(c.needs(component)) {
				remedy := c.remedyFor(missing, unmet, p, component)
				return problem(path, missing.relatedKeys, "%q %s (%s)", p.NameOf(component), missing.reason, remedy)
			}
		}
		return nil
	}
	return c.visitChoices(reflect.ValueOf(c).Elem(), "", check)
}

// remedyFor says how a user can mend a configuration in which a component, such as a closing rule, has a
// requirement that is missing: by which entries of the plug point p to use in its place, and by which changes
// of other keys. unmet are all requirements that the configuration does not meet.
func (c *Config) remedyFor(missing need, unmet []need, p *registry.Point, component any) string {
	var usable []string
	name := p.NameOf(component)
	for _, e := range p.Entries {
		// Each entry is judged with its default options, so the component's own may be usable with other options than
		// those it has now.
		if e.Name == name {
			e.Name += " with other options"
		}
		needsUnmet := func(n need) bool { return n.needed(c.needs(e.Value)) }
		if !slices.ContainsFunc(unmet, needsUnmet) {
			usable = append(usable, e.Name)
		}
	}
	instead := "use " + orList(usable)
	if missing.instead != "" {
		instead += ", or " + missing.instead
	}
	// A component that waits for convergence may need nothing if the round of the decay is set.
	decaying := *c
	decaying.Schedule.DecayRound = 1
	if !missing.needed(decaying.needs(component)) {
		instead += ", or set schedule.decay_round"
	}
	// Without a usable entry, the message begins with the change of other keys.
	return strings.TrimPrefix(instead, "use , or ")
}

// needs returns what a component requires of the run. A schedule's requirements may depend on the
// constants of the schedules, such as the round of its decay.
func (c *Config) needs(component any) registry.Needs {
	needs := schedule.NeedsOf(component, c.Schedule.Setup())
	// Rounds must not overlap (Rounds) for a component that keeps a state of each client, because a second task of a
	// client could begin before the state after its first one is known. It cannot where clients are held until then.
	if needs.ClientState && c.HoldsClients() {
		needs.Rounds = false
	}
	return needs
}

// DecidesByLosses returns the first part of the configuration that depends on the losses which
// clients report, as "key: entry", such as "schedule.k: error". It is empty if no part does, and
// clients then need not report any.
func (c *Config) DecidesByLosses() string {
	for _, part := range []struct {
		key       string
		component any
		name      string
		// seesScheduleLoss says that the component sees the loss that schedule.loss chooses, which may be that of the
		// validation instead of that of the clients.
		seesScheduleLoss bool
	}{
		{"schedule.k", c.Schedule.K, schedule.Ks.NameOf(c.Schedule.K), true},
		{"schedule.eta", c.Schedule.Eta, schedule.Etas.NameOf(c.Schedule.Eta), true},
		{"select", c.Select, selection.Rules.NameOf(c.Select), false},
	} {
		seesValidation := part.seesScheduleLoss && c.Schedule.Loss == ValidationLoss
		if c.needs(part.component).Losses && !seesValidation {
			return part.key + ": " + part.name
		}
	}
	if c.Schedule.Loss == TrimmedLoss {
		return "schedule.loss: " + TrimmedLoss
	}
	return ""
}

// PrivateLosses reports whether a schedule that works without the clients' losses must not see them: the
// guarantee of privacy does not cover them.
func (c *Config) PrivateLosses() bool {
	return c.Privacy.On() || c.Privacy.Local.On() || c.Privacy.Distributed.On()
}

// visitChoices calls visit for every component that is chosen in a part of the configuration, such as its
// closing rule or the layers of its model, with the component's path and the plug point that it was chosen
// from. It stops at the first error. v is the part, which may be any kind of value, and path is its path. A
// choice without a component is an error unless it may be null.
func (c *Config) visitChoices(
	v reflect.Value,
	path string,
	visit func(path string, p *registry.Point, component any) error,
) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		// Only types of plug points have components; other interfaces and pointers are looked into.
		if p := registry.For(v.Type()); p != nil {
			// A component answers for the components within itself, which are not visited.
			return visit(path, p, v.Interface())
		}
		return c.visitChoices(v.Elem(), path, visit)
	case reflect.Slice:
		for i := range v.Len() {
			// The elements of a list, such as classes of devices, may hold components, too.
			if err := c.visitChoices(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, o := range registry.Options(v.Type()) {
			f := v.FieldByIndex(o.Index)
			optionPath := join(path, o.Key)
			// A choice must have a component, unless it may be null.
			if f.Kind() == reflect.Interface && f.IsNil() && !o.Null {
				return problem(optionPath, nil, "is not set (%s)", o.Help)
			}
			if err := c.visitChoices(f, optionPath, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
