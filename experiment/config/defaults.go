package config

import "reflect"

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

// IsConvex reports whether the task's objective is strongly convex.
func (t Task) IsConvex() bool { return t == TaskQuadratic || t == TaskLogistic }

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
// with the constants of Tables 1 and 2; for a convex task, a run of seconds. What
// the task does not decide is the default of its key. It returns an error for a
// task that has no defaults.
func Defaults(task Task) (Config, error) {
	var c Config
	var r reader
	r.begin(reflect.ValueOf(&c).Elem(), "", "")
	c.Task, c.Out = task, OutFolder(c.Name)
	c.Network.DownloadMbps, c.Network.UploadMbps = paperDownloadMbps, paperUploadMbps
	if task.IsConvex() {
		c.convex()
		return c, nil
	}
	p, ok := task.Paper()
	if !ok {
		return Config{}, &KeyError{Key: "task", Problem: notA(string(task), "task", taskNames())}
	}
	c.Clients, c.Cohort, c.Batch = p.Clients, p.Cohort, p.Batch
	c.Schedule.K0, c.Schedule.Eta0 = p.K0, p.Eta0
	c.Stop = Stop{Rounds: 10000}
	c.Network.ModelMegabits, c.Compute.SecondsPerStep = p.Megabits, p.SecondsPerStep
	if task == TaskCIFAR100 {
		c.Augment = FlipCrop
	}
	return c, nil
}

func taskNames() []string {
	for _, o := range optionsAt("task") {
		return o.Words
	}
	return nil
}

// convex makes the defaults of a convex task: a round's communication takes as
// long as 25 local steps, eta is below 1/(4L), and all seeds share one problem.
func (c *Config) convex() {
	c.Synthetic.Seed = 1
	c.Clients, c.Cohort, c.Batch = 50, 10, 5
	c.Schedule.K0, c.Schedule.Eta0, c.Schedule.Window = 50, 0.05, 10
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
	c.Schedule.Window = 10
	c.Evaluate.Every = 5
	return c
}

// OutFolder is where a run of that name puts its results unless told.
func OutFolder(name string) string { return "runs/" + name }
