package config

import (
	"fedpace/algorithm"
	"fedpace/coordinator/closing"
	"fedpace/learn"
	"fedpace/registry"
)

// Personal names the parameters of the model that each client trains and keeps to itself, while the
// others are shared (FedPer, FedRep). Without names, all parameters are shared.
type Personal struct {
	Names     []string `key:"names" is:"short,null" help:"layers, tensors or patterns, e.g. [head, 4.*] (FedPer)"`
	HeadSteps int      `key:"head_steps" default:"0" range:"[0,1000000]" unit:"steps" help:"first steps of a task, at most K - 1, that train these alone; later ones train the rest (FedRep); 0: all train both"`
}

// checkPersonal refuses settings that cannot be combined with personal parameters, of which each
// client has its own values that the server never sees.
func (c *Config) checkPersonal() error {
	refuse := func(key, format string, args ...any) error {
		return problem(key, []string{"personal"}, format, args...)
	}
	a := c.Aggregate.Algorithm
	// An algorithm that changes the clients' local steps would also change how personal parameters are trained, so
	// it is refused below. It has a part that runs in the client, which Client returns for a model of a number of
	// parameters, here 1; other algorithms return nil.
	changesSteps := a.Client(1) != nil
	_, streams := algorithm.Streams(a)
	const localParameters = "each client keeps its personal parameters, which "
	switch hasHeadSteps := c.Personal.HeadSteps > 0; {
	// Steps of the head alone need a head, that is, personal parameters.
	case len(c.Personal.Names) == 0 && hasHeadSteps:
		return refuse("personal.head_steps", "it is for personal parameters, and none are named (set personal.names)")
	case len(c.Personal.Names) == 0:
		return nil
	// A client could start a task before its personal parameters have come back from the last one.
	case closing.Overlaps(c.Close):
		return refuse("close", localParameters+"needs rounds that do not overlap (use another closing rule)")
	case closing.UsesLate(c.Late):
		return refuse("late", localParameters+"late updates do not fit (set late: drop)")
	case len(c.Devices.Names) > 0:
		return refuse("devices.names", "devices send what they keep with their updates, and personal parameters "+
			"stay with the client (leave devices out, or personal)")
	case streams || changesSteps:
		return refuse("aggregate.algorithm", "%s changes local steps, which also train what is personal (use one "+
			"that differs at the server alone, such as fedavg, fedavgm or fedadam)", algorithm.Algorithms.NameOf(a))
	case registry.NeedsOf(c.Select).Candidates:
		return refuse(
			"select",
			"it asks clients for losses of the shared model, of which each has a part of its own (set uniform)",
		)
	// The theory is about a single model that all clients share.
	case c.Task.IsConvex() || c.UsesTheory():
		return refuse(
			"personal",
			"theory is about one model for all (leave personal out, or take another task and schedule.k)",
		)
	case hasHeadSteps && !learn.Plain(c.Local):
		return refuse("personal.head_steps", "steps that train parts of the model in turn are plain SGD (set "+
			"local: sgd without options, or head_steps: 0)")
	// Steps of the head alone must be steps of this program.
	case hasHeadSteps && c.External():
		return refuse("personal.head_steps", "a trainer trains all parts of its model together (set head_steps: 0)")
	}
	return nil
}
