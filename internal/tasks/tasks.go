package tasks

// Task is a learning problem.
type Task string

// The tasks. The first four are the paper's; custom is data and a model of one's own.
const (
	Sent140     Task = "sent140"
	FEMNIST     Task = "femnist"
	CIFAR100    Task = "cifar100"
	Shakespeare Task = "shakespeare"
	Quadratic   Task = "quadratic"
	Logistic    Task = "logistic"
	Custom      Task = "custom"
	Flower      Task = "flower"
)

// Row holds what the paper gives for a task. Values without another source are those of Table 1.
type Row struct {
	Task Task
	// Architecture is the model in the form that learn.Parse reads.
	Architecture string
	Classes      int
	// Megabits is the rounded size of the model, in 10^6 bits.
	Megabits float64
	Clients  int
	// Cohort is the number of clients per round.
	Cohort int
	// SamplesPerClient is a mean.
	SamplesPerClient int
	K0               int
	Eta0             float64
	// SecondsPerStep is the mean time of a minibatch, and StdPerStep its standard deviation (Table 2).
	SecondsPerStep float64
	StdPerStep     float64
	// Batch is the size of a minibatch in the authors' published code. The paper gives none.
	Batch int
}

// rows are Tables 1 and 2. The architectures are those whose number of
// parameters gives Table 1's sizes.
var rows = []Row{
	{Sent140, "linear:5000,2", 2, 0.32, 21876, 50, 15, 60, 3.0, 5.2e-3, 2.1e-4, 8},
	{FEMNIST, "mlp:784,200,200,62", 62, 6.71, 3000, 60, 170, 80, 0.3, 0.017, 5.1e-4, 32},
	{CIFAR100, "cnn:3x32x32,32,64,512,100", 100, 40, 500, 25, 100, 50, 0.01, 0.31, 1.7e-2, 32},
	{Shakespeare, "gru:80,79,8,128,2", 79, 5.21, 660, 10, 5573, 80, 0.1, 1.5, 8.5e-2, 32},
}

// Paper returns Tables 1 and 2, in their order.
func Paper() []Row { return append([]Row(nil), rows...) }

// IsConvex reports whether the task's objective is strongly convex.
func (t Task) IsConvex() bool { return t == Quadratic || t == Logistic }

// Paper returns what the paper gives for the task. The result false says that the task is not one of its four.
func (t Task) Paper() (Row, bool) {
	for _, p := range rows {
		if p.Task == t {
			return p, true
		}
	}
	return Row{}, false
}
