package metrics

import (
	"math/bits"

	"fedpace/coordinator/round"
)

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

// phase is a part of a task (Eq. 3).
type phase uint8

const (
	download phase = iota
	compute
	upload
	phases
)

var phaseNames = [phases]string{"download", "compute", "upload"}

// buckets is the number of a histogram's upper bounds: 1 ms, 2 ms, 4 ms and so
// on to 4.7 hours. Powers of two make finding one a matter of counting bits.
const buckets = 25

const firstBound = round.Time(1e6) // 1 ms

// bound is the upper bound of bucket i in seconds.
func bound(i int) float64 { return float64(firstBound<<i) / 1e9 }

// histogram counts durations. Counts are not cumulative; the last is of those
// above all bounds.
type histogram struct {
	counts [buckets + 1]uint64
	sum    round.Time
}

func (h *histogram) observe(d round.Time) {
	// The first i with d <= firstBound<<i.
	millis := (uint64(max(d, 1)) + uint64(firstBound) - 1) / uint64(firstBound)
	h.counts[min(bits.Len64(millis-1), buckets)]++
	h.sum += d
}

func (h *histogram) merge(from *histogram) {
	for i, n := range from.counts {
		h.counts[i] += n
	}
	h.sum += from.sum
}

// Tally collects what happens once for each client, between two rounds. It is
// not safe for concurrent use.
type Tally struct {
	modelBytes int64
	phases     [kinds][phases]histogram
	outcomes   [round.Outcomes]uint64 // of real devices
	transfer   [2]int64               // bytes: down, up
	dirty      [kinds]bool            // whether phases of the kind hold anything
}

// NewTally makes a tally for a model of that many bytes on the network.
func NewTally(modelBytes int64) *Tally { return &Tally{modelBytes: modelBytes} }

// Plan counts the phases and transfers of a task that a client will go
// through. Of one that drops out nothing is counted: none of its phases is
// known to end.
func (t *Tally) Plan(kind Kind, plan round.Plan) {
	if plan.Drops {
		return
	}
	p := &t.phases[kind]
	p[download].observe(plan.Download)
	p[compute].observe(plan.Compute)
	p[upload].observe(plan.Upload)
	t.transfer[0] += t.modelBytes
	t.transfer[1] += t.modelBytes
	t.dirty[kind] = true
}

// RealOutcome counts a real device's task; a round's report counts it too.
func (t *Tally) RealOutcome(o round.Outcome) { t.outcomes[o]++ }

// reset empties the tally.
func (t *Tally) reset() {
	for k := range t.phases {
		if t.dirty[k] {
			t.phases[k] = [phases]histogram{}
			t.dirty[k] = false
		}
	}
	t.outcomes = [round.Outcomes]uint64{}
	t.transfer = [2]int64{}
}
