package selection

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"fedpace/internal/keyed"
	"fedpace/registry"
	"fedpace/simclock"
)

// Time is virtual time: nanoseconds since the run's start.
type Time = simclock.Time

// Limits of one run.
const (
	// MaxTime is the latest time at which a task starts, 146 years after the run's start.
	MaxTime   = Time(1) << 62
	MaxRounds = 1<<31 - 1
)

// Needs is what a rule must be given by its run.
type Needs = registry.Needs

// Rules are the ways to choose clients, by name. One is one file that registers a
// struct of its options; [Uniform] is the shortest example. A rule may also be
// [ByLosses] or [Limiting], its order may be [SingleOrder] or [Following], and it may
// have the methods Needs() Needs, Validate(cohort, clients int) error (clients is 0
// where their number is not known yet) and String() string.
var Rules = registry.New[Rule]("way to choose clients", "rule")

// init retires names that a configuration could use before, each with a hint for its user.
func init() {
	Rules.Retire("size", "use uniform with aggregate.weights: samples, which weighs updates by their samples")
	Rules.Retire("last_losses", "use oort, which goes by the losses of the last updates, or power_of_choice")
}

// Rule is how a round's clients are chosen among those that are available.
type Rule interface {
	// Order makes the order in which clients are given tasks, once for a run.
	Order(s Setup) (Order, error)
}

// Order is an order of clients for each round. It is a function of the setup,
// of the round and its time and, if it is [Following], of what it remembers: a run that
// is resumed begins the order of its round again.
type Order interface {
	// Start begins the order of a round, numbered from 1, at the virtual time now. If
	// no client of the order was available, it is called again later in the same round,
	// and may give another order if other clients are free then.
	Start(round int, now Time)
	// Next returns the next client of the round's order, none twice. ok is false if
	// there is none left. The caller passes over clients that are away or have a task,
	// so it may call Next more often than a cohort has clients.
	Next() (client int, ok bool)
}

// SingleOrder is an order that can also give single clients: where rounds overlap
// each task that completes is followed by another at once. A rule whose order is none
// needs rounds that do not overlap ([Needs].Rounds).
type SingleOrder interface {
	Order
	// Pick maps 64 random bits to a client.
	Pick(h uint64) int
	// Weight is proportional to the probability that Pick gives a client; the
	// weights of all clients come to less than 2^64.
	Weight(client int) uint64
}

// Following is an order that also follows what its clients do. Its methods are called for the clients
// that the selection draws, not for real devices that take part beside them. In every run of a seed
// the calls have the same order.
type Following interface {
	Order
	// Ended reports the outcome of a client's task of a number of local steps, and how long it
	// took.
	Ended(client, steps int, took Time, accepted bool)
	// Trained reports the loss of a client whose update was accepted, at the first of its local
	// steps. It is called only for a rule that needs losses.
	Trained(client int, loss float64)
	// Closed reports that a round is complete, after all of the above, and its training loss. That
	// is NaN if the round has none.
	Closed(round int, loss float64)

	// Memory is what the order remembers between two steps, in any layout (see
	// [Remember]), and Restore takes it over.
	Memory() []byte
	Restore(memory []byte) error
}

// Remember encodes the exported fields of what an order remembers from round to round, for a checkpoint.
// [Recall] decodes the result.
func Remember[T any](memory *T) []byte {
	var encoded bytes.Buffer
	if err := gob.NewEncoder(&encoded).Encode(memory); err != nil {
		panic(fmt.Sprintf("selection: a memory of %T: %v", memory, err))
	}
	return encoded.Bytes()
}

// Recall decodes into result what [Remember] has encoded from a value of the same type. If the memory
// cannot be read, it returns an error and leaves result as it was.
func Recall[T any](memory []byte, result *T) error {
	// A new value is read, because gob does not write zeros over what is there.
	var read T
	err := gob.NewDecoder(bytes.NewReader(memory)).Decode(&read)
	if err == nil {
		*result = read
	}
	return err
}

// ByLosses is a rule that decides by losses: the first Query clients of the round's
// order are candidates, each is asked for its loss on the newest model, and those with
// the highest losses become the cohort.
type ByLosses interface {
	Rule
	// Query returns the number of candidates, at least the cohort; 0 asks none.
	Query() int
	// DrawsBy returns the rule that draws the candidates. It chooses alone where no losses are
	// measured.
	DrawsBy() Rule
}

// Limiting is a rule that also limits each client's local steps. Unless it is [Fit], it needs rounds that do
// not overlap.
type Limiting interface {
	Rule
	// Limit returns a client's number of local steps, from 1 to k, where k is what its
	// schedule gives. 0 means that the client is left out of the round.
	Limit(s *Setup, client, k int) int
	// Deadline returns how long the tasks of a round with these clients are to take, 0 for
	// any time. steps returns a client's local steps without a limit. Where the closing rule
	// has no deadline, Limit gets this one in its Setup.
	Deadline(s *Setup, clients []int32, steps func(client int) int) Time
}

// Rating is a rule that also says at which learning rate each client takes its local steps.
type Rating interface {
	Rule
	// Rate returns the learning rate, finite and at least 0, of a client's task with this many local
	// steps. rate is the round's.
	Rate(s *Setup, client, steps int, rate float64) float64
}

// Setup is what a rule may know of its run. Functions are pure, and nil where the run
// does not know.
type Setup struct {
	Seed uint64
	// Clients is their number. Orders are of the clients 0 to Clients-1.
	Clients int
	// Cohort is how many clients are selected in a round.
	Cohort int
	// Deadline is that of the closing rule, 0 if it has none.
	Deadline Time

	// Samples is a client's number of training samples. A device reports its own as it joins and
	// with each update, so the number may change.
	Samples func(client int) int
	// Expect is the time that a client is expected to take for a task of some local steps. It
	// never falls as steps rise. Orders are given what follows from the configuration; Limit and
	// Deadline are given what devices have taken so far, too.
	Expect func(client, steps int) Time
	// Steps is a client's local steps in round 1, before a rule limits them.
	Steps func(client int) int
	// Free reports whether a client could be given a task now. Orders call it in
	// Start.
	Free func(client int) bool
	// AvailableShare is the share of the time from start to end in which a client is available.
	// nil means that clients always are. It knows the first Simulated clients; the others are
	// devices.
	AvailableShare func(client int, start, end Time) float64
	Simulated      int
}

// atMost returns an error for the option key if its value n is more than the number of clients, which
// is 0 as long as it is not known.
func atMost(key string, n, clients int) error {
	if clients > 0 && n > clients {
		return registry.Errorf(key, "%d is more than there are clients (at most %d)", n, clients)
	}
	return nil
}

// QueryOf returns how many candidates a rule asks for their losses in each round. It is 0 for a
// rule that asks none.
func QueryOf(rule Rule) int {
	if byLosses, ok := rule.(ByLosses); ok {
		return byLosses.Query()
	}
	return 0
}

// OrUniform returns the rule or, if it is nil, the default, which is the uniform selection.
func OrUniform(rule Rule) Rule {
	if rule == nil {
		return Uniform{}
	}
	return rule
}

// LimitingOf returns what limits the clients' local steps under a rule: the rule itself if it is
// [Limiting], or else the rule that draws its candidates, if that is. It is nil if neither is.
func LimitingOf(rule Rule) Limiting {
	limiting, limits := rule.(Limiting)
	if byLosses, asks := rule.(ByLosses); asks && !limits {
		return LimitingOf(byLosses.DrawsBy())
	}
	return limiting
}

// LimitOf returns a client's number of local steps under a rule, where steps is what its schedule gives:
// steps itself if the rule sets no limits, 0 if the rule leaves the client out.
func LimitOf(rule Rule, setup *Setup, client, steps int) int {
	if limiting := LimitingOf(rule); limiting != nil {
		return limiting.Limit(setup, client, steps)
	}
	return steps
}

// Validate returns an error if an option of a rule is out of its range, or does not fit the cohort, the
// number of clients of a round, or clients, the number of all clients, which is 0 if it is not known yet. A
// nil rule is valid.
func Validate(rule Rule, cohort, clients int) error {
	if rule == nil {
		return nil
	}
	if err := registry.Check(rule); err != nil {
		return err
	}
	if validated, ok := rule.(interface {
		Validate(cohort, clients int) error
	}); ok {
		return validated.Validate(cohort, clients)
	}
	return nil
}

// tries is the number of draws of a client that is busy or away after which the available clients are
// listed.
const tries = 64

// Draw draws an available client for the task with this number, with probabilities in proportion to the
// clients' weights. It draws among all clients until one is available or, after some tries, among a list of
// the available ones. forEachIdle calls its argument for every client without a task. The draws are
// functions of the seed, the task and the number of the try. ok is false if no client is available.
func Draw(
	order SingleOrder,
	seed, task uint64,
	available func(client int) bool,
	forEachIdle func(func(client int)),
) (client int, ok bool) {
	// A few tries find a client quickly as long as many are free.
	for try := range uint64(tries) {
		if client := order.Pick(keyed.Hash(seed, keyed.Replacement, task, try)); available(client) {
			return client, true
		}
	}
	total := uint64(0)
	var free []int32
	forEachIdle(func(client int) {
		if weight := order.Weight(client); weight > 0 && available(client) {
			free = append(free, int32(client))
			total += weight
		}
	})
	if total == 0 {
		return 0, false
	}
	// The draw falls into one client's part of the total weight.
	position := keyed.Below(keyed.Hash(seed, keyed.Replacement, task, tries), total)
	for _, client := range free {
		weight := order.Weight(int(client))
		if position < weight {
			return int(client), true
		}
		position -= weight
	}
	panic("selection: weights that do not add up")
}
