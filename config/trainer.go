package config

// Trainer is a program of the user's that takes the local steps (docs/trainers.md).
type Trainer struct {
	Command string  `key:"command" default:"" is:"short" help:"its command, e.g. python3 my_model.py; empty: none"`
	Threads int     `key:"threads" default:"1" range:"[1,1024]" help:"threads of its arithmetic, for each worker"`
	Device  string  `key:"device" default:"cpu" help:"what it is asked to calculate on, as cuda"`
	Silence float64 `key:"silence_seconds" default:"120" range:"[0.1,1e6]" unit:"seconds" is:"inert" help:"wall time of silence after which it is started again"`
}

// TrainerData is the path of samples that the trainer brings itself.
const TrainerData = "trainer"

// External reports whether a trainer takes the local steps.
func (c *Config) External() bool { return c.Trainer.Command != "" }

// IsTrainers reports whether the samples are the trainer's own.
func (c *Config) IsTrainers() bool { return c.Data.Path == TrainerData && c.Data.Reader == nil }

// elsewhere stands for the trainer's command in what hosts are told: each has its own, and
// none runs a command that another machine gives it.
const elsewhere = "each host has its own"

// checkTrainer refuses what does not go with a trainer, or not without one.
func (c *Config) checkTrainer() error {
	if !c.External() {
		if c.IsTrainers() {
			return problem(
				"data",
				[]string{"trainer"},
				"trainer is for samples that a trainer brings, and there is none (set trainer)",
			)
		}
		return nil
	}
	switch {
	case c.Task.IsConvex():
		return problem(
			"trainer",
			[]string{"task"},
			"goes with no task %s, whose objective is calculated here (remove it)",
			c.Task,
		)
	case c.setsModel():
		return problem("model", []string{"trainer"}, "is the trainer's own (remove it)")
	case c.Augment != "none":
		return problem("augment", []string{"trainer"}, "%q is done here, and the trainer takes the samples itself (set augment: none; a task's seed is for its own)", c.Augment)
	case c.Kernel != AutoKernel:
		return problem(
			"kernel",
			[]string{"trainer"},
			"%q is arithmetic of this program, and the trainer has its own (set auto)",
			c.Kernel,
		)
	case !c.Train && c.Network.ModelMegabits == 0:
		return problem(
			"network.model_megabits",
			[]string{"train", "trainer"},
			"exact is known to the trainer alone, which train: false does not start (set a number)",
		)
	case !c.Train &&
		c.IsTrainers() &&
		(c.Clients == AllClients || c.ReadsData()):
		return problem(
			"data",
			[]string{"train", "trainer"},
			"is known to the trainer alone, which train: false does not start (set clients, or train: true)",
		)
	}
	return nil
}
