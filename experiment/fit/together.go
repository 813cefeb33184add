package fit

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"fedpace/actors/clientmodel"
	"fedpace/internal/keyed"
	"fedpace/internal/robust"
)

// apart is by how much the rounds with what was measured dealt anew differ from those that were
// measured, where devices are slow together.
const apart = 0.01

// together makes the devices' laws those of whole rounds, where devices are slow together, because
// they share a processor, a link or the time of day: the n-th factor of each device and phase is
// that of the n-th round, so that drawing one round for all keeps what they have in common,
// whatever it is (the bootstrap of clusters: Davison and Hinkley 1997, Bootstrap Methods and their
// Application, section 3.8). A device without a task in a round has one of its others' factors.
func (f *Fit) together(r *record, rounds []span) {
	if len(rounds) < robust.Enough || len(f.Devices) < 2 {
		return
	}
	took := 0.0
	for _, s := range rounds {
		took += s.took
	}
	if dealt := f.dealt(r, rounds); dealt < (1+apart)*took && dealt > (1-apart)*took {
		return
	}
	for i := range f.Devices {
		if l := &f.Devices[i].law; f.Devices[i].Tasks > 0 {
			f.Together = true
			l.ofRounds(f.inRounds(r, rounds, i), r.bits, f.LinksMeasured)
		}
	}
}

// inRounds are a device's tasks by round.
func (f *Fit) inRounds(r *record, rounds []span, number int) []task {
	tasks := make([]task, len(rounds))
	var own []task
	for i := range rounds {
		for _, x := range rounds[i].tasks {
			if x.client == r.first+number {
				tasks[i] = x
				own = append(own, x)
			}
		}
	}
	if len(own) == 0 {
		own = r.devices[number].tasks.Kept
	}
	for i := range tasks {
		if tasks[i].steps == 0 {
			tasks[i] = own[keyed.Below(keyed.Hash(0, keyed.Dealt, uint64(number), uint64(i)), uint64(len(own)))]
		}
	}
	return tasks
}

// ofRounds takes the factors from these tasks, scaled to the mean that the factors have. What single
// steps scatter is in them.
func (l *law) ofRounds(tasks []task, bits clientmodel.Bits, links bool) {
	of := func(p *phase, factor func(*task) float64) {
		mean := stat.Mean(p.factors, nil)
		p.factors = make([]float64, len(tasks))
		for i := range tasks {
			p.factors[i] = max(leastFactor, factor(&tasks[i])) // the overhead was taken from other tasks
		}
		for i, scale := 0, mean/stat.Mean(p.factors, nil); i < len(tasks); i++ {
			p.factors[i] *= scale
		}
	}
	of(&l.compute, func(x *task) float64 {
		return (x.compute - l.overhead.Compute) / float64(x.steps) / l.compute.typical.Value
	})
	l.cv = 0
	if links {
		of(&l.download, func(x *task) float64 {
			return (x.download - l.overhead.Download) * l.download.typical.Value * 1e6 / float64(bits.Down)
		})
		of(&l.up, func(x *task) float64 {
			return (x.upload - l.overhead.Upload) * l.up.typical.Value * 1e6 / float64(bits.Up)
		})
	}
}

// leastFactor is the least part of a typical time that a task takes beside the overhead.
const leastFactor = 0.05

// laws are a class's factors as they are, in the order of rounds.
func laws(k *clientmodel.Class, l *law, links bool) {
	values := func(factors []float64, speed bool) clientmodel.Distribution {
		list := slices.Clone(factors)
		for i, x := range list {
			if speed {
				x = 1 / x
			}
			list[i] = short(x)
		}
		return clientmodel.Empirical{Values: list}
	}
	k.Vary = clientmodel.Vary{Compute: values(l.compute.factors, false), Together: true}
	if links {
		k.Vary.Download, k.Vary.Upload = values(l.download.factors, true), values(l.up.factors, true)
	}
}
