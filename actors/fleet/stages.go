package fleet

import "math"

// Stages are what secure aggregation adds to each task: exchanges of messages before the download and
// after the upload, and masks that are made before the upload. The zero value adds nothing.
type Stages struct {
	// Exchanges are the stages in their order: keys and shares come before the download, survivors
	// and recovery after the upload.
	Exchanges [SecureStages]Exchange
	// WordNanoseconds is how long the masks of one word of an update take to make, in nanoseconds.
	WordNanoseconds float64
}

// SecureStages is the number of stages of secure aggregation beside the upload.
const SecureStages = 4

// Exchange is what a client does in one stage.
type Exchange struct {
	// Bits are those of its messages each way.
	Bits Bits
	// Compute is how long it computes, in nanoseconds.
	Compute int64
}

// wordBits is the size of one word of a masked update.
const wordBits = 64

// SetStages has every plan include the stages of secure aggregation.
func (f *Fleet) SetStages(s Stages) {
	f.stages = s
	f.secure = s != Stages{}
}

// stageDurations returns how long each stage of secure aggregation takes a client in a task, in
// nanoseconds: the transfers of its messages, and what the client computes in it. The client's link has in all
// stages the speed that it has at the task's start. ok is false if a stage is out of bounds.
func (f *Fleet) stageDurations(
	k *class,
	deviceKey uint64,
	client int,
	task uint64,
	start int64,
) (ns [SecureStages]int64, ok bool) {
	for i := range f.stages.Exchanges {
		exchange := &f.stages.Exchanges[i]
		const noSteps = 0
		d := k.durations(f.seed, client, deviceKey, task, noSteps, wholeBatch, exchange.Bits, start)
		if d.check(noSteps, exchange.Bits) != nil {
			return ns, false
		}
		ns[i] = d.Total() + exchange.Compute
	}
	return ns, true
}

// masks returns how long a client takes to mask an update of this size, in nanoseconds.
func (s *Stages) masks(bits int64) int64 {
	return int64(math.RoundToEven(s.WordNanoseconds * float64(bits) / wordBits))
}

// total returns the length of the task with the stages of secure aggregation, in nanoseconds. The time in
// which the client waits for others between the stages is not part of it.
func (p *Plan) total() int64 {
	sum := p.Durations.Total()
	for _, ns := range p.Stages {
		sum += ns
	}
	return sum
}

// phase returns the phase that the task is in after so many nanoseconds of work, NoPhase from its end on. p.Stages has
// the durations of the stages of secure aggregation: keys and shares come before the download, survivors and recovery
// after the upload.
func (p *Plan) phase(after int64) Phase {
	// inTask is counted from the beginning of the download, and end is when the upload ends.
	inTask := after - p.Stages[0] - p.Stages[1]
	end := p.Durations.Total()
	switch {
	case after < p.Stages[0]:
		return InKeys
	case inTask < 0:
		return InShares
	case inTask < end:
		return p.Durations.Phase(inTask)
	case inTask < end+p.Stages[2]:
		return InSurvivors
	case inTask < end+p.Stages[2]+p.Stages[3]:
		return InRecovery
	}
	return NoPhase
}
