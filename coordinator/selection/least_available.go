package selection

import (
	"cmp"
	"container/heap"
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/internal/keyed"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("least_available", "those expected to leave soon, first", LeastAvailable{})
}

// LeastAvailable chooses first the clients that can least be asked later (REFL's
// intelligent participant selection, Abdelmoniem et al. 2023): in the order of the
// share of a coming window in which a client is forecast to be there, and at random
// where that is equal. The window begins Seconds after the clients are chosen and is
// as long, and ends by [MaxTime]. REFL takes a moving average of the rounds' times
// for Seconds.
//
// The forecast follows from the client's availability. With the probability Error it
// is a random number instead, each one as likely.
type LeastAvailable struct {
	Seconds float64 `key:"seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time to the forecast's window, and its length; null: the deadline"`
	Error   float64 `key:"error" default:"0" range:"[0,1]" help:"part of the forecasts that is random"`
}

// Needs says that the order gives no single clients, and that a window is wanted.
func (l LeastAvailable) Needs() Needs {
	return Needs{Rounds: true, Deadline: l.Seconds == 0}
}

// Order returns an order that forecasts, as each round begins, the share of a window of virtual time
// in which each client will be available. The window begins one length after the round does. Its
// length is the rule's seconds or, without them, the round's deadline.
func (l LeastAvailable) Order(s Setup) (Order, error) {
	window := s.Deadline
	if l.Seconds > 0 {
		window = closing.Deadline{Seconds: l.Seconds}.Deadline()
	}
	return &forecasts{setup: s, window: window, randomShare: l.Error}, nil
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (l LeastAvailable) String() string {
	if l.Error > 0 {
		return fmt.Sprintf("those expected to be away soon, by forecasts of which %g %% are wrong", 100*l.Error)
	}
	return "those expected to be away soon"
}

// forecasts are a round's clients, the least available one on top of the heap.
type forecasts struct {
	setup Setup
	// window is the length of the forecast window in virtual time.
	window Time
	// randomShare is the probability, from 0 to 1, that a forecast is a random number.
	randomShare float64
	list        []forecast
}

// forecast is what is forecast of one client in a round.
type forecast struct {
	// available is the share of the window, from 0 to 1, in which the client is expected to be available.
	available float64
	// place decides at random among clients with equal shares.
	place  uint64
	client int32
}

// Start makes the forecasts of round number, which begins at the virtual time now: for each client the
// share of the time from now + window to now + 2 window in which it is available. With the probability
// randomShare a forecast is a random share instead. Equal forecasts are in a random order. A device, or a
// client of which nothing is known, counts as always available.
func (f *forecasts) Start(number int, now Time) {
	f.list = f.list[:0]
	// The window ends by the largest time.
	windowStart := min(now+f.window, MaxTime-f.window)
	for client := range f.setup.Clients {
		hash := keyed.Hash(f.setup.Seed, keyed.Forecast, uint64(number), uint64(client))
		// Of equal forecasts the one with the smaller hash comes first.
		entry := forecast{available: 1, place: hash, client: int32(client)}
		switch {
		case f.randomShare > 0 && keyed.Float64(keyed.Nth(hash, 0)) < f.randomShare:
			entry.available = keyed.Float64(keyed.Nth(hash, 1))
		case f.setup.AvailableShare != nil && client < f.setup.Simulated:
			entry.available = f.setup.AvailableShare(client, windowStart, windowStart+f.window)
		}
		f.list = append(f.list, entry)
	}
	heap.Init(f)
}

// Next returns the client with the least forecast availability of those that are left in this
// round. ok is false if none is.
func (f *forecasts) Next() (client int, ok bool) {
	if len(f.list) == 0 {
		return 0, false
	}
	return int(heap.Pop(f).(forecast).client), true
}

// Len implements [heap.Interface]: it returns the number of clients that are left.
func (f *forecasts) Len() int { return len(f.list) }

// Less implements [heap.Interface]: the least available client comes first, and equal ones are in a
// random order.
func (f *forecasts) Less(i, j int) bool {
	a := &f.list[i]
	b := &f.list[j]
	return cmp.Or(
		cmp.Compare(a.available, b.available),
		cmp.Compare(a.place, b.place),
		cmp.Compare(a.client, b.client),
	) < 0
}

// Swap implements [heap.Interface]: it exchanges the forecasts at places i and j.
func (f *forecasts) Swap(i, j int) { f.list[i], f.list[j] = f.list[j], f.list[i] }

// Push is never called: a round's forecasts are all made before the heap is.
func (f *forecasts) Push(any) {}

// Pop implements [heap.Interface]: it takes the last forecast off the list.
func (f *forecasts) Pop() any {
	last := len(f.list) - 1
	popped := f.list[last]
	f.list = f.list[:last]
	return popped
}
