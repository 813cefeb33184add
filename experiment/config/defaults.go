package config

import (
	"fmt"

	"fedpace/actors/learn"
)

// Task is a learning problem.
type Task string

// The tasks. The first four are the paper's.
const (
	TaskSent140     Task = "sent140"
	TaskFEMNIST     Task = "femnist"
	TaskCIFAR100    Task = "cifar100"
	TaskShakespeare Task = "shakespeare"
	TaskQuadratic   Task = "quadratic"
	TaskLogistic    Task = "logistic"
)

// PaperTask holds what the paper gives for a task.
type PaperTask struct {
	Task             Task
	Architecture     string  // in the form that learn.Parse reads
	Classes          int     // Table 1
	Megabits         float64 // Table 1's rounded model size, 10^6 bit
	Clients          int     // Table 1
	Cohort           int     // Table 1, "clients per round"
	SamplesPerClient int     // Table 1, mean
	K0               int     // Table 1
	Eta0             float64 // Table 1
	SecondsPerStep   float64 // Table 2, mean minibatch time
	StdPerStep       float64 // Table 2, its standard deviation
	Batch            int     // the authors' published code: the paper gives none
}

// paperTasks are Tables 1 and 2. The architectures are those whose number of
// parameters gives Table 1's sizes.
var paperTasks = []PaperTask{
	{TaskSent140, "linear:5000,2", 2, 0.32, 21876, 50, 15, 60, 3.0, 5.2e-3, 2.1e-4, 8},
	{TaskFEMNIST, "mlp:784,200,200,62", 62, 6.71, 3000, 60, 170, 80, 0.3, 0.017, 5.1e-4, 32},
	{TaskCIFAR100, "cnn:3x32x32,32,64,512,100", 100, 40, 500, 25, 100, 50, 0.01, 0.31, 1.7e-2, 32},
	{TaskShakespeare, "gru:80,79,8,128,2", 79, 5.21, 660, 10, 5573, 80, 0.1, 1.5, 8.5e-2, 32},
}

// PaperTasks returns Tables 1 and 2, in their order.
func PaperTasks() []PaperTask { return append([]PaperTask(nil), paperTasks...) }

// Paper returns what the paper gives for the task; false for a task that is
// not one of its four.
func (t Task) Paper() (PaperTask, bool) {
	for _, p := range paperTasks {
		if p.Task == t {
			return p, true
		}
	}
	return PaperTask{}, false
}

// The links of the paper's runtime model (below Eq. 4).
const (
	paperDownloadMbps = 20
	paperUploadMbps   = 5
)

// Defaults is the paper's experiment on a task: 10,000 rounds of K_r-rounds
// with the constants of Tables 1 and 2; for a convex task, a run of seconds. It
// returns an error for a task that has no defaults.
func Defaults(task Task) (Config, error) {
	if task.IsConvex() {
		c, err := Defaults(TaskFEMNIST)
		c.convex(task)
		return c, err
	}
	p, ok := task.Paper()
	if !ok {
		return Config{}, &KeyError{Key: "task", Problem: taskProblem(string(task))}
	}
	augment := NoAugment
	if task == TaskCIFAR100 {
		augment = FlipCrop
	}
	c := Config{
		Name:         "demo",
		Seed:         1,
		Task:         task,
		Data:         SyntheticData,
		Synthetic:    Synthetic{Heterogeneity: 1},
		Sent140:      Sent140{MinTweets: 10},
		Model:        Model{Kind: ModelTask},
		Clients:      p.Clients,
		Cohort:       p.Cohort,
		Batch:        p.Batch,
		Augment:      augment,
		Select:       Select{Rule: Uniform},
		Availability: Availability{Model: Always},
		Schedule: Schedule{
			K: Rounds, K0: p.K0, Eta: Fixed, Eta0: p.Eta0,
			Window: 100, F0: FromWindow, Patience: 10,
		},
		Close:      Close{Rule: All},
		Aggregate:  Aggregate{Algorithm: FedAvg, Weights: EqualWeights},
		Limits:     Limits{StateGB: 8},
		Stop:       Stop{Rounds: 10000},
		Network:    Network{DownloadMbps: paperDownloadMbps, UploadMbps: paperUploadMbps, ModelMegabits: p.Megabits},
		Compute:    Compute{SecondsPerStep: p.SecondsPerStep},
		Devices:    Devices{Include: EveryRound, LivenessSeconds: 120, TaskSeconds: 600, Link: MeasuredLink},
		Train:      true,
		Evaluate:   Evaluate{Every: 50},
		Checkpoint: Checkpoint{Seconds: 10},
		Events:     Events{Sample: defaultSample},
		NATS:       NATS{URL: Embedded, Replicas: 1, AckSeconds: 10},
		Out:        OutFolder("demo"),
	}
	c.shapes()
	return c, nil
}

// Demonstration is the run that needs no configuration: FEMNIST on synthetic
// data, short enough to watch.
func Demonstration() Config {
	c, err := Defaults(TaskFEMNIST)
	if err != nil {
		panic("config: the demonstration's task has no defaults")
	}
	c.Stop = Stop{Rounds: 40}
	c.Schedule.Window = 10
	c.Evaluate.Every = 5
	return c
}

// OutFolder is where a run of that name puts its results unless told.
func OutFolder(name string) string { return "runs/" + name }

// Architecture is the model in the form that learn.Parse reads. The sizes of a
// linear model for own data are those of that data; they are not used otherwise.
func (c Config) Architecture(input learn.Input, features, classes int) string {
	switch c.Model.Kind {
	case ModelLinear:
		if input == learn.Sparse {
			return fmt.Sprintf("linear:%d,%d", features, classes)
		}
		return fmt.Sprintf("mlp:%d,%d", features, classes)
	case ModelMLP:
		s := "mlp:"
		for i, n := range c.Model.Layers {
			if i > 0 {
				s += ","
			}
			s += fmt.Sprint(n)
		}
		return s
	}
	if c.Task.IsConvex() {
		return c.convexModel(features, classes)
	}
	p, _ := c.Task.Paper()
	return p.Architecture
}
