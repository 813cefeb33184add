package fit

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"fedpace/actors/fleet"
	"fedpace/internal/keyed"
	"fedpace/internal/robust"
)

// correlationThreshold is the relative difference between the measured time of the rounds and their time with
// permuted phases ([Fit.permutedSeconds]) from which on devices count as slow together.
const correlationThreshold = 0.01

// correlate makes the devices' time models those of whole rounds, where devices are slow together, because
// they share a processor, a link or the time of day: the n-th factor of each device and phase (its time over the
// typical time) is that of its task in the n-th round, so that drawing one round for all keeps what they have in
// common, whatever it is (the bootstrap of clusters: Davison and Hinkley 1997, Bootstrap Methods and their
// Application, section 3.8). A device without a task in a round has the factors of another task of its own there.
//
// Whether they are slow together shows when the same durations are permuted among the rounds, which wait for their
// slowest device. Slow tasks of one round then come into several, and lengthen all of these: the rounds take longer
// than they took. Slow phases of one task come into several tasks, and lengthen none as much: the rounds take less.
func (f *Fit) correlate(r *record, rounds []roundRecord) {
	if len(rounds) < robust.Enough || len(f.Devices) < 2 {
		return
	}
	took := 0.0
	for _, s := range rounds {
		took += s.took
	}
	permuted := f.permutedSeconds(r, rounds)
	isAbove := permuted >= (1+correlationThreshold)*took
	isBelow := permuted <= (1-correlationThreshold)*took
	if !isAbove && !isBelow {
		return
	}
	for i := range f.Devices {
		if d := &f.Devices[i]; d.Tasks > 0 {
			f.Together = true
			d.model.useRoundFactors(r.tasksByRound(rounds, i), r.bits, f.LinksMeasured)
			d.StepCV = d.model.stepCV
		}
	}
}

// tasksByRound returns one task of the device with this index for each round. Where the device had no
// task in a round, another task of it is drawn, always the same one for the same device and round.
func (r *record) tasksByRound(rounds []roundRecord, device int) []task {
	// byRound has a task without steps for a round in which the device had none.
	byRound := make([]task, len(rounds))
	var done []task
	for i := range rounds {
		for _, x := range rounds[i].tasks {
			if x.client == r.firstDevice+device {
				byRound[i] = x
				done = append(done, x)
			}
		}
	}
	// The device had its tasks in other rounds than these.
	if len(done) == 0 {
		done = r.devices[device].tasks.Kept
	}
	for i := range byRound {
		hadTask := byRound[i].steps > 0
		if !hadTask {
			hash := keyed.Hash(0, keyed.Dealt, uint64(device), uint64(i))
			byRound[i] = done[keyed.Below(hash, uint64(len(done)))]
		}
	}
	return byRound
}

// minFactor is the least factor of a task. The overhead was estimated from other tasks and may be more than
// this one took.
const minFactor = 0.05

// useRoundFactors replaces the factors by those of these tasks, one for each round, scaled so that the mean stays. The
// scatter of single steps is part of them, so stepCV becomes 0. links says whether transfers were measured.
func (l *timeModel) useRoundFactors(tasks []task, b fleet.Bits, links bool) {
	l.stepCV = 0
	for _, p := range measuredPhases(links) {
		factors := make([]float64, len(tasks))
		for i := range tasks {
			factors[i] = max(minFactor, l.factor(&tasks[i], p, b))
		}
		floats.Scale(stat.Mean(l.phases[p].factors, nil)/stat.Mean(factors, nil), factors)
		l.phases[p].factors = factors
	}
}
