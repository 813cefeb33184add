package prometheus

import "fedpace/coordinator/round"

// Kind is what a client is.
type Kind uint8

// The kinds of client.
const (
	Simulated Kind = iota
	Real
	kinds
)

var kindNames = [kinds]string{"simulated", "real"}

// String is the kind's name in labels.
func (k Kind) String() string { return kindNames[k] }

// Phases are the parts of a task (Eq. 3) in virtual time.
type Phases struct{ Download, Compute, Upload round.Time }

const phases = 3

var phaseNames = [phases]string{"download", "compute", "upload"}

func (p Phases) list() [phases]round.Time { return [phases]round.Time{p.Download, p.Compute, p.Upload} }

// Split is what clients spent: useful on updates that are in a model, and
// wasted on all else.
type Split struct{ Useful, Wasted float64 }

// Spent is what a run's clients have spent since its start.
type Spent struct {
	Seconds      Split      // of clients, in virtual time
	Steps        Split      // local steps of SGD
	Joules       Split      // of the classes that give their watts
	Energy       bool       // whether any does
	Transferred  [2]float64 // bytes of models: down, up
	Straggling   float64    // virtual seconds between the rounds' median client and their slowest
	MeanStraggle float64    // mean over rounds of that time's share of the round, 0 to 1; NaN: not known
}

// Tally collects what happens once for each client, between two rounds. It is
// not safe for concurrent use.
type Tally struct {
	phases   [kinds][][phases]histogram // by class
	outcomes [round.Outcomes]uint64     // of real devices
	modelled [phases]float64            // seconds that simulated devices would have taken for the tasks of real ones

	// Of the task whose update came last.
	slowest      Phases
	slowestKind  Kind
	slowestClass int
	slow         bool

	spent *Spent // so far; nil: not known
}

// Task counts the phases of a task whose outcome is known. Candidates that are
// only asked for their loss have none, nor does a client that drops out: none
// of its phases is known to end. The class is a simulated client's, by its
// number; those of real devices are not told apart.
func (t *Tally) Task(kind Kind, class int, p Phases) {
	of := t.phases[kind]
	h := &of[min(class, len(of)-1)]
	h[0].observe(p.Download)
	h[1].observe(p.Compute)
	h[2].observe(p.Upload)
}

// Modelled counts what a simulated device of mean speed would have taken for a
// task that a real one has answered.
func (t *Tally) Modelled(p Phases) {
	for i, d := range p.list() {
		t.modelled[i] += d.Seconds()
	}
}

// Slowest says whose accepted update was the round's last, for which the others
// waited.
func (t *Tally) Slowest(kind Kind, class int, p Phases) {
	t.slow, t.slowestKind, t.slowestClass, t.slowest = true, kind, class, p
}

// Spent says what clients have spent by the end of the round.
func (t *Tally) Spent(s Spent) { t.spent = &s }

// RealOutcome counts a real device's task; a round's report counts it too.
func (t *Tally) RealOutcome(o round.Outcome) { t.outcomes[o]++ }
