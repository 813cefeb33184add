package config

// Trainer is a program of the user's that takes the local steps in place of this one, for models
// and data of its own (docs/trainers.md). It is used if Command is not empty.
type Trainer struct {
	Command string  `key:"command" default:"" is:"short" help:"its command, e.g. python3 my_model.py"`
	Threads int     `key:"threads" default:"1" range:"[1,1024]" help:"threads of each worker"`
	Device  string  `key:"device" default:"cpu" help:"device, as cuda"`
	Silence float64 `key:"silence_seconds" default:"120" range:"[0.1,1e6]" unit:"seconds" is:"inert" help:"wall time of silence before a restart"`
}

// TrainerData is the value of Data.Path for samples that the trainer brings itself.
const TrainerData = "trainer"

// External reports whether a trainer, a program of the user's, takes the local steps in place of
// this one.
func (c *Config) External() bool { return c.Trainer.Command != "" }

// UsesTrainerData reports whether the samples are the trainer's own, so that this program never reads
// them and knows only what the trainer tells.
func (c *Config) UsesTrainerData() bool { return c.Data.Path == TrainerData && c.Data.Reader == nil }

// hostsOwn takes the place of the trainer's command, and of a Flower app, in the configuration that hosts are
// sent. Each host has a command of its own, so that none runs what another machine names.
const hostsOwn = "each host has its own"

// NamesCommand reports whether the command is that of this machine, and not left to each host.
func (t *Trainer) NamesCommand() bool { return t.Command != "" && t.Command != hostsOwn }

// checkTrainer refuses settings that cannot be combined with a trainer, because it does itself what
// they are about, and data that only a trainer could bring where there is none.
func (c *Config) checkTrainer() error {
	if !c.External() {
		if c.UsesTrainerData() {
			return problem(
				"data",
				[]string{"trainer"},
				"trainer is for samples that a trainer brings, and there is none (set trainer)",
			)
		}
		return nil
	}
	switch {
	// The optimum and the constants of convex tasks are calculated from their own objective.
	case c.Task.IsConvex():
		return problem(
			"trainer",
			[]string{"task"},
			"goes with no task %s, whose objective is calculated here (remove it)",
			c.Task,
		)
	case len(c.modelKeyProblems()) > 0:
		return joined(c.modelKeyProblems())
	// The trainer takes its samples itself, so a key about them would do nothing.
	case c.Augment != "none":
		return problem("augment", []string{"trainer"}, "%q is done here, and the trainer takes the samples itself "+
			"(set augment: none; a task's seed is for its own)", c.Augment)
	case c.Kernel != AutoKernel:
		return problem(
			"kernel",
			[]string{"trainer"},
			"%q is arithmetic of this program, and the trainer has its own (set auto)",
			c.Kernel,
		)
	// A run that trains nothing does not start the trainer, and cannot ask it for sizes.
	case !c.Train && c.Network.ModelMegabits == 0:
		return problem(
			"network.model_megabits",
			[]string{"train", "trainer"},
			"exact is known to the trainer alone, which train: false does not start (set a number)",
		)
	case !c.Train &&
		c.UsesTrainerData() &&
		(c.Clients == AllClients || c.ReadsData()):
		return problem(
			"data",
			[]string{"train", "trainer"},
			"is known to the trainer alone, which train: false does not start (set clients, or train: true)",
		)
	}
	return nil
}

// modelKeyProblems returns an error for each key that the configuration sets and that only a model of this
// program can heed, with its remedy.
func (c *Config) modelKeyProblems() (problems []*KeyError) {
	scaler, canScale := c.Data.Reader.(interface{ ScalesTargets() bool })
	for _, key := range []struct {
		name    string
		isSet   bool
		problem string
	}{
		{"model", c.setsModel(), "is the trainer's own (remove it, or set task)"},
		{
			"data.target_scale",
			canScale && scaler.ScalesTargets(),
			"the trainer measures its model itself, in the unit of what it is given (remove it, or set null)",
		},
		{
			"evaluate.measures",
			len(c.Evaluate.Measures) > 0,
			"the trainer measures its model itself (remove it, or set null, and add the measures to its metrics)",
		},
	} {
		if key.isSet {
			problems = append(
				problems,
				&KeyError{Key: key.name, RelatedKeys: []string{"trainer"}, Problem: key.problem},
			)
		}
	}
	return problems
}

// joined returns one error about all problems, of which there is at least one: that of the first key,
// whose text has the others, so that the user mends all of them at once.
func joined(problems []*KeyError) error {
	first := *problems[0]
	for _, k := range problems[1:] {
		first.Problem += "; " + k.Error()
	}
	return &first
}
