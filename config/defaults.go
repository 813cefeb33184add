package config

import (
	"reflect"
	"slices"

	"fedpace/internal/tasks"
)

// Task is a learning problem.
type Task = tasks.Task

// The tasks. The first four are the paper's.
const (
	TaskSent140     = tasks.Sent140
	TaskFEMNIST     = tasks.FEMNIST
	TaskCIFAR100    = tasks.CIFAR100
	TaskShakespeare = tasks.Shakespeare
	TaskQuadratic   = tasks.Quadratic
	TaskLogistic    = tasks.Logistic
	TaskCustom      = tasks.Custom
)

// The links of the paper's runtime model, in Mbit/s (below Eq. 4).
const paperDownload, paperUpload = 20, 5

// Defaults is the paper's experiment on a task: 10,000 rounds of K_r-rounds
// with the constants of Tables 1 and 2; for a convex task, a run of seconds. What
// the task does not decide is the default of its key. It returns an error for a
// task that has no defaults.
func Defaults(task Task) (Config, error) {
	var c Config
	var r reader
	r.begin(reflect.ValueOf(&c).Elem(), "", "", "")
	c.Task, c.Out = task, OutFolder(c.Name)
	if task == TaskCustom { // which has nothing of the paper's: checkCustom asks for the rest
		c.Data = Data{}
		c.Clients = AllClients
		return c, nil
	}
	c.Network.DownloadMbps = paperDownload
	c.Network.UploadMbps = paperUpload
	if task.IsConvex() {
		c.convex()
		return c, nil
	}
	p, ok := task.Paper()
	if !ok {
		i := slices.IndexFunc(KnownKeys(), func(k Key) bool { return k.Name == "task" })
		return Config{}, &KeyError{Key: "task", Problem: notA(string(task), "task", KnownKeys()[i].Words)}
	}
	c.Clients = p.Clients
	c.Cohort = p.Cohort
	c.Batch = p.Batch
	c.Schedule.K0 = p.K0
	c.Schedule.Eta0 = p.Eta0
	c.Stop = Stop{Rounds: 10000}
	c.Network.ModelMegabits = p.Megabits
	c.Compute.SecondsPerStep = p.SecondsPerStep
	if task == TaskCIFAR100 {
		c.Augment = "flip_crop"
	}
	return c, nil
}

// convex makes the defaults of a convex task: a round's communication takes as
// long as 25 local steps, eta is below 1/(4L), and all seeds share one problem.
func (c *Config) convex() {
	c.Synthetic.Seed = 1
	c.Clients = 50
	c.Cohort = 10
	c.Batch = 5
	c.Schedule.K0 = 50
	c.Schedule.Eta0 = 0.05
	c.Schedule.Window = 10
	if c.Task == TaskLogistic {
		c.Schedule.Eta0 = 0.2
	}
	c.Stop = Stop{Rounds: 500}
	c.Network.ModelMegabits = 1
	c.Compute.SecondsPerStep = 0.01
	c.Evaluate.Every = 10
}

// Demonstration is the run that needs no configuration: FEMNIST on synthetic
// data, short enough to watch.
func Demonstration() Config {
	c, err := Defaults(TaskFEMNIST)
	if err != nil {
		panic("config: the demonstration's task has no defaults")
	}
	c.Stop = Stop{Rounds: 40}
	c.Schedule.Window = 4
	c.Evaluate.Every = 5
	return c
}

// OutFolder is where a run of that name puts its results unless told.
func OutFolder(name string) string { return "runs/" + name }
