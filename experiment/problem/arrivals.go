package problem

import (
	"fedpace/coordinator/round"
	"fedpace/data/federated"
)

// readsData reports whether the data must be read even if nothing is trained.
func (p *Data) readsData() bool { return p.timedFile || p.Config.ReadsData() }

// readArrivals notes when the samples of the run's clients arrive, if they do so over time. It returns an error
// if the configuration has settings that do not go with that.
func (p *Data) readArrivals() error {
	timed, ok := p.Set.(federated.Timed)
	if !ok {
		return nil
	}
	p.Arrivals = timed.Arrivals(p.Config.Clients)
	if p.Arrivals == nil {
		return nil
	}
	return p.Config.CheckArrivals()
}

// awaitSamples makes a client available only while it has a sample, and models measurable only while a
// held-out sample is there, where samples arrive over time.
func (p *Problem) awaitSamples(r *round.Config) {
	arrivals := p.Arrivals
	if arrivals == nil {
		return
	}
	isThere := r.Available
	r.Available = func(client int, t round.Time) bool {
		_, count := arrivals.Samples(client, int64(t))
		return count > 0 && (isThere == nil || isThere(client, t))
	}
	nextPresence := r.NextChange
	r.NextChange = func(t round.Time) (round.Time, bool) {
		next, ok := arrivals.NextChange(int64(t))
		if nextPresence == nil {
			return round.Time(next), ok
		}
		presence, changes := nextPresence(t)
		if changes && (!ok || presence < round.Time(next)) {
			return presence, true
		}
		return round.Time(next), ok
	}
	r.Measurable = func(t round.Time) bool {
		_, count := arrivals.HeldOut(int64(t))
		return count > 0
	}
}
