package registry

// Needs is what a component must be given by the run it is part of. A run that
// cannot give it is refused before it starts, by name, and no component has to
// look for itself.
type Needs struct {
	Losses      bool // training losses, which a run with train: false does not measure
	Validation  bool // validations, which need training, too
	Accuracy    bool // the validation accuracy, which not all models have
	ClientState bool // one vector a client kept from task to task
	Simulated   bool // clients that no real device stands for
	Candidates  bool // losses of clients that have no task yet, which real devices do not tell
	Rounds      bool // rounds that do not overlap, which closing rule buffered has not
	Deadline    bool // a closing rule with a deadline
	Times       bool // the clients' expected times
	Speeds      bool // expected times that tell clients apart, which devices without a class do not have
	Samples     bool // the clients' numbers of samples
	EqualWeight bool // updates that are weighted equally
	Whole       bool // updates whose values compression has not thinned out
	NewestModel bool // sums of differences to the newest model, also of updates from an older one
	Copy        bool // memory for a round's single updates twice
	PlainSteps  bool // local steps of plain SGD, which other optimizers do not take
	Stragglers  bool // rounds that wait for their slowest client, which those that overlap do not
}

// NeedsOf returns what a component says that it needs, nothing if it says
// nothing.
func NeedsOf(component any) Needs {
	if c, ok := component.(interface{ Needs() Needs }); ok {
		return c.Needs()
	}
	return Needs{}
}
