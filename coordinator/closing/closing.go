package closing

import (
	"math"
	"slices"
	"sort"

	"fedpace/registry"
	"fedpace/simclock"
)

// Time is virtual time: nanoseconds since the run's start.
type Time = simclock.Time

// Rules are the closing rules by name. A rule is one file that registers a
// struct of its options:
//
//	func init() { closing.Rules.Register("half", "half of the cohort closes a round", Half{}) }
//
//	type Half struct{}
//
//	func (Half) Deadline() closing.Time          { return 0 }
//	func (Half) Close(now closing.Standing) bool { return 2*now.Accepted >= now.Cohort }
//
// A rule may have three methods more: Needs() Needs names what the run must
// give it, Validate(cohort int) error returns an [*registry.OptionError] for options
// that do not fit each other or the cohort, and String() string ends the
// sentence "Rounds close ..." of a summary.
var Rules = registry.New[Rule]("closing rule", "rule")

// Rule is a rule that says when a round closes. It keeps no state: equal
// arguments give equal answers, so a run that is resumed closes its rounds at
// the same points. A rule that is [Overlapping], too, has rounds that overlap.
type Rule interface {
	// Deadline is the virtual time from a round's first task to its deadline,
	// the same for all rounds; 0 if rounds have no deadline.
	Deadline() Time
	// Close reports whether the round closes now. The machine asks after each
	// task that completes and at the deadline; after a false it asks again when
	// the next task completes. One more accepted update never turns true into
	// false. Unless rounds overlap, a round whose last task has ended closes
	// unasked.
	//
	// The tasks that are still under way when a round closes are late after
	// the deadline, else cancelled, and their clients are free; or they go on
	// and count in a later round, see [Use].
	Close(now Standing) bool
}

// Standing is what a closing rule knows of the round under way.
type Standing struct {
	// Cohort is the run's cohort, however few clients are available.
	Cohort int
	// Tasks is the number of this round's tasks, ended and under way: fewer than the cohort if
	// clients are away, more if devices come on top.
	Tasks int
	// Accepted is the number of updates of this round's tasks that were accepted so far.
	Accepted int
	// Overdue says that the deadline of the round has passed.
	Overdue bool
}

// Overlapping is a closing rule whose tasks outlive the round in which they
// were issued: when a task completes, another client gets one at once, with the
// newest model and the local steps and learning rate of the round under way. Its
// Lateness says whose updates still count.
type Overlapping interface {
	Rule
	Lateness
}

// Graceful is an [Overlapping] rule by which a round stays open for a while once it has the updates that
// it needs.
type Graceful interface {
	Overlapping
	// Grace returns how long a round stays open from now on, because an update has just brought it to what
	// it needs; 0 if it has not. When that time is over the machine asks the rule again, with
	// [Standing].Overdue.
	Grace(now Standing) Time
}

// HasGrace reports whether a round stays open once it has the updates that it needs.
func HasGrace(c Rule) bool {
	rule, ok := c.(Graceful)
	return ok && rule.Grace(Standing{Accepted: math.MaxInt}) > 0
}

// Overlaps reports whether rounds overlap under closing rule c: tasks then outlive the round in
// which they were issued.
func Overlaps(c Rule) bool {
	_, ok := c.(Overlapping)
	return ok
}

// Fewest returns the least number of updates with which a rule closes a round of this cohort in which no
// task fails. It is the cohort if the rule never closes a round by itself, so that the round waits for all.
func Fewest(rule Rule, cohort int) int {
	const unreachable = 1 << 30
	// A rule with a deadline may close with fewer updates after it than before, so that is tried first.
	_, isGraceful := rule.(Graceful)
	hasDeadline := rule.Deadline() > 0 || isGraceful
	for _, overdue := range []bool{hasDeadline, false} {
		// One more update never makes a rule keep a round open, so the least number can be found by binary
		// search.
		n := sort.Search(unreachable, func(n int) bool {
			return rule.Close(Standing{
				Cohort:   cohort,
				Tasks:    cohort,
				Accepted: n,
				Overdue:  overdue,
			})
		})
		if n > 0 && n < unreachable {
			return n
		}
	}
	return cohort
}

// ClosesAfter returns when a round closes under a rule, in virtual time from the round's start. now is the
// round's present standing. ends has the times, from the round's start, at which its open tasks would be
// accepted; it is sorted in place. Tasks that never end are not in ends. ok is false if the round would
// wait for one of those.
func ClosesAfter(rule Rule, now Standing, ends []Time) (after Time, ok bool) {
	slices.Sort(ends)
	deadline := rule.Deadline()
	// closesAtDeadline reports whether the deadline passes before the time by, for the first time, and the
	// rule then closes the round. It notes in now that the deadline has passed.
	closesAtDeadline := func(by Time) bool {
		passes := !now.Overdue && deadline > 0 && deadline < by
		if !passes {
			return false
		}
		now.Overdue = true
		return rule.Close(now)
	}
	for _, end := range ends {
		if closesAtDeadline(end) {
			return deadline, true
		}
		now.Accepted++
		if rule.Close(now) {
			return end, true
		}
	}
	// After the last task only the deadline can close the round.
	return deadline, closesAtDeadline(math.MaxInt64)
}
