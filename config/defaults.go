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
	TaskFlower      = tasks.Flower
)

// paperDownload and paperUpload are the speeds of a client's link in the paper's runtime model, in
// Mbit/s (below Eq. 4).
const paperDownload, paperUpload = 20, 5

// Defaults returns the configuration of a task before anything is set. For the paper's four tasks
// it is the paper's experiment: 10,000 rounds with the constants of Tables 1 and 2. For a convex
// task it is a run of seconds, and for task custom it holds what does not depend on the data. What
// the task does not decide has the default of its key. An unknown task is a *[KeyError].
func Defaults(task Task) (Config, error) {
	var c Config
	var r reader
	// Every key gets the default of its tag first; those without one stay empty. What r notes as missing does not
	// count here, so its place and its path are left out.
	r.setDefaults(reflect.ValueOf(&c).Elem(), "", "", "")
	c.Task = task
	c.Out = OutFolder(c.Name)
	// Task custom takes nothing from the paper: checkCustom asks the user for what is missing.
	if task == TaskCustom {
		c.Data = Data{}
		c.Clients = AllClients
		return c, nil
	}
	// All other tasks have the links of the paper's clients.
	c.Network.DownloadMbps = paperDownload
	c.Network.UploadMbps = paperUpload
	if task.IsConvex() {
		c.convex()
		return c, nil
	}
	if task == TaskFlower {
		c.flower()
		return c, nil
	}
	p, ok := task.Paper()
	// The task is none that is known, so the error proposes one.
	if !ok {
		i := slices.IndexFunc(KnownKeys(), func(k Key) bool { return k.Name == "task" })
		return Config{}, &KeyError{Key: "task", Problem: notA(string(task), "task", KnownKeys()[i].Words)}
	}
	// Tables 1 and 2 of the paper give these constants for its four tasks.
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

// convex sets the defaults of a convex task. A client downloads and uploads 1 megabit in 0.25 s, which is as long
// as 25 local steps of 0.01 s. The learning rate is below 1/(4L), up to which the paper's theory holds (L is the
// smoothness of the objective). Runs of all seeds share one problem, so that they differ by their sampling alone.
func (c *Config) convex() {
	// With a fixed seed of the data, the seed of a run changes its sampling alone.
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

// Demonstration returns the configuration of a run for which nothing is set: FEMNIST on synthetic
// data for 40 rounds, short enough to watch.
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

// OutFolder returns the folder of the results of a run with this name, unless the user sets
// another.
func OutFolder(name string) string { return "runs/" + name }
