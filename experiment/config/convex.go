package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"fedpace/coordinator/schedule"
)

// Quadratic shapes the federated quadratics of that task: clients' objectives
// of which L and mu are given (see [data.Quadratics]).
type Quadratic struct {
	Dimension int
	Samples   int // of each client
	Mu, L     float64
	Noise     float64 // deviation of a sample from its client's mean
}

// Logistic shapes the regularised logistic regression of that task (see
// [data.Mixtures]). Features, classes and samples are those of made data.
type Logistic struct {
	Features, Classes int
	Samples           int     // of each client
	Mu                float64 // of the regularisation
}

// Theory gives what [TheorySchedule] must know. What is not set is calculated
// where the task is convex; elsewhere only F* may be left out, and is then 0, as
// in the paper's Eq. 13.
type Theory struct {
	L, Mu, G, FStar *float64
	Time            string // Elapsed or Ahead: what stands for W in Eq. 9
}

// TheorySchedule is Eq. 9 evaluated as the run goes.
const TheorySchedule = schedule.KindTheory

// What W is in Eq. 9.
const (
	Elapsed = "elapsed" // the time since the start, as in the paper's schedules
	Ahead   = "ahead"   // the time to the end, as in the theorem
)

// IsConvex tells whether the task's objective is strongly convex.
func (t Task) IsConvex() bool { return t == TaskQuadratic || t == TaskLogistic }

var convexKeys = []key{
	whole("quadratic.dimension", "dimensions of a quadratic", func(c *Config) *int { return &c.Quadratic.Dimension }, 2, 10_000),
	whole("quadratic.samples", "samples of each client", func(c *Config) *int { return &c.Quadratic.Samples }, 1, 1_000_000),
	real("quadratic.mu", "strong convexity of every client's objective", func(c *Config) *float64 { return &c.Quadratic.Mu }, limits{hi: 1e6, above: true}),
	real("quadratic.l", "smoothness of every client's objective, L", func(c *Config) *float64 { return &c.Quadratic.L }, limits{hi: 1e6, above: true}),
	real("quadratic.noise", "deviation of samples from their client's mean, which makes gradients noisy", func(c *Config) *float64 { return &c.Quadratic.Noise }, limits{hi: 1e6}),

	whole("logistic.features", "features of made samples", func(c *Config) *int { return &c.Logistic.Features }, 1, 100_000),
	whole("logistic.classes", "classes of made samples", func(c *Config) *int { return &c.Logistic.Classes }, 2, 10_000),
	whole("logistic.samples", "made samples of each client", func(c *Config) *int { return &c.Logistic.Samples }, 1, 1_000_000),
	real("logistic.mu", "strength of the regularisation, mu/2 times the squared norm of all parameters", func(c *Config) *float64 { return &c.Logistic.Mu }, limits{lo: 1e-6, hi: 1e6}),
}

var theoryKeys = []key{
	known("theory.l", "schedule theory: smoothness L of the clients' objectives; null: calculated", func(c *Config) **float64 { return &c.Theory.L }, limits{hi: 1e30, above: true}),
	known("theory.mu", "schedule theory: their strong convexity; null: calculated", func(c *Config) **float64 { return &c.Theory.Mu }, limits{hi: 1e30, above: true}),
	known("theory.g", "schedule theory: bound on the norm of their gradients, G; null: calculated", func(c *Config) **float64 { return &c.Theory.G }, limits{hi: 1e30, above: true}),
	known("theory.f_star", "schedule theory: least training loss F*; null: calculated, or 0", func(c *Config) **float64 { return &c.Theory.FStar }, limits{lo: -1e30, hi: 1e30}),
	choice("theory.time", "schedule theory: what stands for W in Eq. 9", "kind of time", func(c *Config) *string { return &c.Theory.Time }, Elapsed, Ahead),
}

// known is a number that may be null, for not set.
func known(path, help string, field func(*Config) **float64, l limits) key {
	k := real(path, help, func(c *Config) *float64 {
		if *field(c) == nil {
			*field(c) = new(float64)
		}
		return *field(c)
	}, l)
	unset := func(c *Config) bool { return *field(c) == nil }
	read, check := k.read, k.check
	k.read = func(c *Config, n ast.Node) error {
		*field(c) = nil // never the number of another Config
		return read(c, n)
	}
	k.check = func(c *Config) error {
		if unset(c) {
			return nil
		}
		return check(c)
	}
	return optional(k, unset, func(c *Config) { *field(c) = nil })
}

// shapes gives the convex tasks' problems and constants their defaults, which
// every configuration holds.
func (c *Config) shapes() {
	c.Quadratic = Quadratic{Dimension: 20, Samples: 50, Mu: 0.1, L: 1, Noise: 1}
	c.Logistic = Logistic{Features: 20, Classes: 5, Samples: 50, Mu: 0.05}
	c.Theory = Theory{Time: Elapsed}
}

// convex makes the defaults of a paper's task those of a convex one, runs of a
// few seconds: a round's communication takes as long as 25 local steps, eta is
// below 1/(4L), and all seeds share one problem.
func (c *Config) convex(task Task) {
	c.Task, c.Synthetic.Seed = task, 1
	c.Clients, c.Cohort, c.Batch = 50, 10, 5
	c.Schedule.K0, c.Schedule.Eta0, c.Schedule.Window = 50, 0.05, 10
	if task == TaskLogistic {
		c.Schedule.Eta0 = 0.2
	}
	c.Stop = Stop{Rounds: 500}
	c.Network.ModelMegabits = 1
	c.Compute = Compute{SecondsPerStep: 0.01}
	c.Evaluate.Every = 10
}

// DataSeed is the seed of made data.
func (c *Config) DataSeed() uint64 {
	if c.Synthetic.Seed > 0 {
		return uint64(c.Synthetic.Seed)
	}
	return c.Seed
}

// convexModel is the model of a convex task. A logistic model's sizes are those
// of data that is read.
func (c *Config) convexModel(features, classes int) string {
	if c.Task == TaskQuadratic {
		return fmt.Sprintf("quadratic:%d", c.Quadratic.Dimension)
	}
	if c.IsSynthetic() {
		features, classes = c.Logistic.Features, c.Logistic.Classes
	}
	return fmt.Sprintf("logistic:%d,%d,%v", features, classes, float32(c.Logistic.Mu))
}

// fitConvex refuses what a convex task cannot have.
func fitConvex(c Config) *KeyError {
	if c.Quadratic.Mu > c.Quadratic.L {
		return &KeyError{Key: "quadratic.mu", Others: []string{"quadratic.l"},
			Problem: fmt.Sprintf("%s is more than quadratic.l, %s: no objective is more convex than it is smooth", number(c.Quadratic.Mu), number(c.Quadratic.L))}
	}
	if c.Task.IsConvex() && c.Model.Kind != ModelTask {
		return &KeyError{Key: "model", Others: []string{"task"}, Problem: fmt.Sprintf("task %s has a model of its own (set model: task)", c.Task)}
	}
	if c.Task != TaskQuadratic {
		return nil
	}
	if !c.IsSynthetic() {
		return &KeyError{Key: "data", Others: []string{"task"}, Problem: "quadratics are made, not read (set data: synthetic)"}
	}
	const why = "a quadratic classifies nothing and has no validation accuracy"
	for _, s := range []struct{ key, kind string }{{"schedule.k", c.Schedule.K}, {"schedule.eta", c.Schedule.Eta}} {
		if s.kind == Step && c.Schedule.DecayRound == 0 {
			return &KeyError{Key: s.key, Others: []string{"task"}, Problem: fmt.Sprintf("%q decides by the validation accuracy, and %s (set schedule.decay_round)", s.kind, why)}
		}
	}
	for _, s := range []struct {
		key string
		set bool
	}{{"stop.validation_accuracy", c.Stop.ValidationAccuracy != 0}, {"evaluate.target", c.Evaluate.Target != 0}} {
		if s.set {
			return &KeyError{Key: s.key, Others: []string{"task"}, Problem: why + " (remove it)"}
		}
	}
	return nil
}

// fitTheory holds Eq. 9 to what it needs.
func fitTheory(c Config) *KeyError {
	t := c.Theory
	if t.Mu != nil && t.L != nil && *t.Mu > *t.L {
		return &KeyError{Key: "theory.mu", Others: []string{"theory.l"}, Problem: fmt.Sprintf("%s is more than theory.l, %s", number(*t.Mu), number(*t.L))}
	}
	if c.Schedule.K != TheorySchedule {
		return nil
	}
	if c.Schedule.Eta != Fixed {
		return &KeyError{Key: "schedule.eta", Others: []string{"schedule.k"}, Problem: fmt.Sprintf("%q goes with no schedule.k: theory, which is the best K for a fixed rate (set schedule.eta: fixed)", c.Schedule.Eta)}
	}
	if !c.Task.IsConvex() {
		for _, s := range []struct {
			key   string
			value *float64
		}{{"theory.l", t.L}, {"theory.mu", t.Mu}, {"theory.g", t.G}} {
			if s.value == nil {
				return &KeyError{Key: s.key, Others: []string{"schedule.k"}, Problem: fmt.Sprintf("is not set: schedule.k: theory needs it, and it cannot be calculated for task %s", c.Task)}
			}
		}
	}
	if t.Time == Ahead && c.Stop.VirtualSeconds == 0 && c.Stop.EqualRuntimeRounds == 0 {
		return &KeyError{Key: "theory.time", Others: []string{"stop"}, Problem: "ahead needs an end in time (set stop.virtual_seconds or stop.equal_runtime_rounds)"}
	}
	return nil
}

// Take fills in what is not set, as a run does with what it calculates.
func (t *Theory) Take(found Theory) {
	for _, s := range []struct{ to, from **float64 }{{&t.L, &found.L}, {&t.Mu, &found.Mu}, {&t.G, &found.G}, {&t.FStar, &found.FStar}} {
		if *s.to == nil {
			*s.to = *s.from
		}
	}
}
