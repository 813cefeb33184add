package config

import (
	"time"

	"fedpace/coordinator/schedule"
)

// Flower says which Flower app a run of task flower plays, and how (docs/flower.md). The app's own
// strategy decides what the keys of a schedule, a selection and an aggregation decide elsewhere.
type Flower struct {
	App string `key:"app" is:"null,path" help:"folder of the Flower app, with its pyproject.toml"`
	// Run holds values of the app's run config in place of those in its pyproject.toml.
	Run    []RunValue `key:"run" is:"null,keyed,merged" help:"the app's run config, {learning-rate: 0.05, ...}"`
	Python string     `key:"python" default:"python3" is:"inert" help:"Python with flwr"`

	// Steps and EvaluateSteps are formulas for the local steps that a message takes; empty is the
	// usual rule.
	Steps         string `key:"steps" is:"null" help:"local steps of a message, as local_epochs * ceil(num_examples / batch_size); null: counted in PyTorch, else from usual keys"`
	EvaluateSteps string `key:"evaluate_steps" is:"null" help:"the same of an evaluation; null: a third for each minibatch"`

	// Dropout says whether the server hears of a client that has left, and Heartbeat after how
	// long.
	Dropout   string  `key:"dropout" default:"silent" words:"silent,reported" help:"clients that leave: silent, or reported after heartbeat_seconds"`
	Heartbeat float64 `key:"heartbeat_seconds" default:"60" range:"[0,1e6]" unit:"seconds" help:"time until a client that left is reported"`

	Order      string  `key:"order" default:"arrival" words:"arrival,sent" help:"order of replies: by arrival, or as messages were sent"`
	AtOnce     int     `key:"at_once" default:"0" range:"[0,1000000]" help:"concurrent messages of the older API; 0: all"`
	AnyVersion bool    `key:"any_version" default:"false" is:"inert" help:"allow untested versions of flwr"`
	Folder     string  `key:"folder" is:"null,path,inert" help:"folder in which the app runs; null: files in the run's folder"`
	Journal    float64 `key:"journal_megabytes" default:"1000" range:"[0,1e9]" unit:"MB" is:"inert" help:"size beyond which journal.log has only digests, and resumed runs train again"`
}

// RunValue is a value of an app's run config, as text: the app's own value says of which type it
// is.
type RunValue struct {
	Key   string `key:"key" help:"its key"`
	Value string `key:"value" help:"its value"`
}

// Values returns the values that the configuration sets in the app's run config, as texts by key.
// The map is never nil, and the caller may change it.
func (f *Flower) Values() map[string]string {
	values := map[string]string{}
	for _, v := range f.Run {
		values[v.Key] = v.Value
	}
	return values
}

// ReportedAfter returns the virtual time after a dropout until the server hears of it, at least 1
// ns. It is 0 if dropouts are silent: the server then never hears of them.
func (f *Flower) ReportedAfter() time.Duration {
	if f.Dropout != reportedDropout {
		return 0
	}
	// The shortest time that there is stands for at once.
	return max(1, time.Duration(f.Heartbeat*1e9))
}

// These are words of Flower.Dropout and Flower.Order.
const (
	reportedDropout = "reported"
	// SentOrder is the value of Flower.Order by which replies come in the order of their messages.
	SentOrder = "sent"
)

// PlaysFlower reports whether the run plays a Flower app, whose own strategy then decides what a
// schedule, a selection and an aggregation decide elsewhere.
func (c *Config) PlaysFlower() bool { return c.Task == TaskFlower }

// flower sets the defaults of task flower: ten clients with the paper's links. Of the keys that the
// app decides, those without a default get one that is valid.
func (c *Config) flower() {
	c.Clients = 10
	c.Batch = 1
	// The app has a schedule of its own; these values only make the configuration valid.
	c.Schedule.Label = "app"
	c.Schedule.K = schedule.FixedK{}
	c.Schedule.K0 = 1
	c.Schedule.Eta0 = 1
	c.Schedule.Window = 1
	c.Network.ModelMegabits = 1
	c.Compute.SecondsPerStep = 0.01
}

// checkFlower refuses a Flower app without task flower, and task flower without an app, with a
// trainer beside it, or with real devices. The files of the app are not read.
func (c *Config) checkFlower() error {
	switch {
	case c.PlaysFlower() && c.Flower.App == "":
		return problem(
			"flower.app",
			[]string{"task"},
			"is not set: task flower plays the app in a folder (set it, or type fedpace flower FOLDER)",
		)
	// An app beside another task would be silently ignored.
	case !c.PlaysFlower() && c.Flower.App != "":
		return problem(
			"flower.app",
			[]string{"task"},
			"is for task flower, and the task is %s (set task: flower, or remove it)",
			c.Task,
		)
	// From here on: what would take the place of the app's clients.
	case c.PlaysFlower() && c.External():
		return problem(
			"trainer",
			[]string{"task"},
			"goes with no task flower, whose app trains itself (remove it; --trainer flower:FOLDER is for other tasks)",
		)
	case c.PlaysFlower() && len(c.Devices.Names) > 0:
		return problem("devices.names", []string{"task"}, "real devices take no part in task flower (remove them)")
	}
	return nil
}
