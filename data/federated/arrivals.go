package federated

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Arrival says when samples that have times are there, on the virtual clock of a run.
type Arrival struct {
	// Column is the column of the times.
	Column string
	// Start is the time, as the column has it, at which a run begins.
	Start float64
	// Speed is by how much the times of the column grow in a virtual second, above 0.
	Speed float64
	// Window is for how many virtual seconds a sample is there; 0 means for ever.
	Window float64
}

// Valid reports whether all numbers are in their ranges, as those of a file need not be.
func (r *Arrival) Valid() bool {
	isFinite := !math.IsNaN(r.Start) && !math.IsInf(r.Start, 0) && !math.IsInf(r.Speed, 0)
	isWindow := r.Window >= 0 && r.Window <= 1e9
	return isFinite && r.Speed > 0 && isWindow
}

// Timed is a set whose samples arrive over time.
type Timed interface {
	Set
	// Arrivals returns when the samples of the set are there; nil if all are there from the beginning.
	// clients is the number of clients, the first ones, that take part.
	Arrivals(clients int) *Arrivals
}

// Arrivals says which samples of a set are there at which virtual time. The samples of each client are in
// the order of their times, and so are the held-out ones of all clients together, so those that are there
// are neighbours. A sample of time x is there at t if x <= t, and t < x + window where there is a window.
type Arrivals struct {
	// starts has one entry more than clients: client c has the times train[starts[c]:starts[c+1]].
	starts []int
	// train and held are the times of training and held-out samples, in nanoseconds of virtual time, which
	// ascend within each client and over all held-out samples.
	train, held []int64
	// window is how long a sample is there, in nanoseconds; 0 means for ever.
	window int64
	// changes are the times at which a client gets its first sample or loses its last, ascending.
	changes []int64
}

// Samples returns which training samples of a client are there at a virtual time in nanoseconds: so many
// from the first on.
func (a *Arrivals) Samples(client int, at int64) (first, count int) {
	return a.present(a.train[a.starts[client]:a.starts[client+1]], at)
}

// HeldOut returns which held-out samples are there at a virtual time in nanoseconds: so many from the first
// on.
func (a *Arrivals) HeldOut(at int64) (first, count int) { return a.present(a.held, at) }

// NextChange returns the next virtual time after at at which a client gets its first sample or loses its
// last. ok is false if there is none.
func (a *Arrivals) NextChange(at int64) (next int64, ok bool) {
	i, _ := slices.BinarySearch(a.changes, at+1)
	if i == len(a.changes) {
		return 0, false
	}
	return a.changes[i], true
}

// present returns which samples are there at the virtual time at: count of them, from index first on. times has
// the time of each sample, ascending. All times are in nanoseconds.
func (a *Arrivals) present(times []int64, at int64) (first, count int) {
	end, _ := slices.BinarySearch(times, at+1)
	if a.window > 0 {
		// A sample whose window ends at this time is gone.
		first, _ = slices.BinarySearch(times, at-a.window+1)
	}
	return first, end - first
}

// Arrivals returns when the samples of the first clients, as many as the argument says, and the held-out samples
// are there; nil if the samples have no times. It implements [Timed].
func (s *Grouped) Arrivals(clients int) *Arrivals {
	rule := s.About.Arrival
	if rule == nil {
		return nil
	}
	times := func(samples []int32) []int64 {
		list := make([]int64, len(samples))
		for i, sample := range samples {
			list[i] = rule.nanoseconds(s.Times[sample])
		}
		return list
	}
	a := &Arrivals{
		starts: s.Starts,
		train:  times(s.Train),
		held:   times(s.Held),
		window: int64(math.RoundToEven(rule.Window * 1e9)),
	}
	for client := range min(clients, s.Clients()) {
		a.addChanges(a.train[a.starts[client]:a.starts[client+1]])
	}
	slices.Sort(a.changes)
	a.changes = slices.Compact(a.changes)
	return a
}

// addChanges adds to changes the times at which a client gets its first sample after it had none, or loses its
// last. times are the virtual times, in nanoseconds and ascending, at which its samples arrive.
func (a *Arrivals) addChanges(times []int64) {
	for i, at := range times {
		if _, countBefore := a.present(times, at-1); countBefore == 0 {
			a.changes = append(a.changes, at)
		}
		// Without a window samples stay for ever. With one, a sample is the last if no other comes before it is gone.
		isLast := i == len(times)-1 || times[i+1] > at+a.window
		if a.window > 0 && isLast {
			a.changes = append(a.changes, at+a.window)
		}
	}
}

// latestArrival is the latest virtual time of a sample, about 290 years, beyond which time has no
// nanoseconds.
const latestArrival = 1 << 62

// nanoseconds returns the virtual time at which a sample arrives whose time the column has as x. It is 0 for
// a sample that is there from the beginning, however old, where samples stay for ever.
func (r *Arrival) nanoseconds(x float64) int64 {
	ns := math.RoundToEven(float64(float64(x-r.Start)/r.Speed) * 1e9)
	return int64(min(max(ns, -latestArrival), latestArrival))
}

// sortByTime puts the samples of each client, and the held-out ones of all, into the order of their times; those
// of one time stay in the order of their numbers.
func (s *Grouped) sortByTime() {
	byTime := func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.Times[a], s.Times[b]), cmp.Compare(a, b))
	}
	for client := range s.Clients() {
		slices.SortFunc(s.Train[s.Starts[client]:s.Starts[client+1]], byTime)
	}
	slices.SortFunc(s.Held, byTime)
}

// SetTimes gives the samples of a set their times, one for each sample of the store, and puts the clients'
// samples into their order. It returns an error if no held-out sample is there at any time of a run, which
// begins at time 0.
func (s *Grouped) SetTimes(times []float64, rule Arrival) error {
	if rule.Speed == 0 {
		rule.Speed = 1
	}
	s.Times = times
	s.About.Arrival = &rule
	s.sortByTime()
	a := s.Arrivals(s.Clients())
	_, atStart := a.HeldOut(0)
	lastArrives := len(a.held) > 0 && a.held[len(a.held)-1] > 0
	if atStart == 0 && !lastArrives {
		return fmt.Errorf("column %s: no held-out sample is there at any time from %g on", rule.Column, rule.Start)
	}
	return nil
}
