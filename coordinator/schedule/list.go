package schedule

import (
	"fmt"

	"fedpace/registry"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("list", "a list of values, by round or time", ListK{})
	Etas.Register("list", "a list of values, by round or time", ListEta{})
}

// From is where a value of a list begins to hold. If neither field is set, that is the round of the
// value's place in the list, which counts from 1.
type From struct {
	Round   int     `key:"from_round" is:"null" range:"[1,1000000000]" help:"first round; null: its place in the list"`
	Seconds float64 `key:"from_seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time in place of from_round"`
}

// StepsFrom is one value of [ListK], with where it begins to hold.
type StepsFrom struct {
	Value int `key:"value" range:"[1,1000000]" is:"short" help:"K"`
	From
}

// ListK takes K from a list. Before the first value holds, K is K_0; the last value holds to the
// end.
type ListK struct {
	Values []StepsFrom `key:"values" is:"short" help:"values of K, as [8, 4, 2] or [{from_round: 100, value: 4}, {from_round: 200, value: 2}]"`
}

// RateFrom is one value of [ListEta], with where it begins to hold.
type RateFrom struct {
	Value float64 `key:"value" range:"(0,1000000]" is:"short" help:"eta"`
	From
}

// ListEta takes eta from a list. Before the first value holds, eta is eta_0; the last value holds
// to the end.
type ListEta struct {
	Values []RateFrom `key:"values" is:"short" help:"rates, as [0.1, 0.05] or [{from_seconds: 60, value: 0.05}]"`
}

// start returns where the value begins to hold. The values of both kinds of lists have this method by
// embedding From.
func (f From) start() From { return f }

// starts returns for each value of a list where it begins to hold: at a round or at a time. It is the zero
// [From] where the list gives neither: then value number n, from 1 on, belongs to round n.
func starts[V interface{ start() From }](values []V) (starts []From) {
	for _, v := range values {
		starts = append(starts, v.start())
	}
	return starts
}

// checkStarts returns an error if a list of values is empty, if some of them begin at a round and others at
// a time or at neither, and if a value does not begin after the one before it. starts says where each value
// begins to hold.
func checkStarts(starts []From) error {
	if len(starts) == 0 {
		return registry.Errorf("values", "is empty (at least one value is wanted)")
	}
	firstStart := starts[0]
	for i, start := range starts {
		at := fmt.Sprintf("values[%d]", i)
		// The first entry settles whether values begin at rounds, at times, or at neither.
		hasRoundLikeFirst := (start.Round != 0) == (firstStart.Round != 0)
		hasTimeLikeFirst := (start.Seconds != 0) == (firstStart.Seconds != 0)
		isLikeFirst := hasRoundLikeFirst && hasTimeLikeFirst
		switch {
		case start.Round != 0 && start.Seconds != 0:
			return registry.Errorf(at+".from_seconds", "goes with no from_round (keep one of the two)")
		case !isLikeFirst:
			return registry.Errorf(
				at,
				"is not of the form of the first (give all a from_round, all a from_seconds, or none anything)",
			)
		case i > 0 &&
			start != (From{}) &&
			start.Round <= starts[i-1].Round &&
			start.Seconds <= starts[i-1].Seconds:
			return registry.Errorf(at, "does not begin after the one before it (list the values in their order)")
		}
	}
	return nil
}

// indexInForce returns the index of the value that holds in the round of p, or -1 before the first value
// begins to hold. starts says where each value begins; it must have passed checkStarts, so either all
// values begin at a round, all at a time, or all at their places in the list.
func indexInForce(starts []From, p Progress) int {
	if starts[0] == (From{}) {
		return min(p.Round, len(starts)) - 1
	}
	// begun is the number of values that have begun to hold, of which the last one is in force.
	begun := 0
	for begun < len(starts) && starts[begun].hasCome(p) {
		begun++
	}
	return begun - 1
}

// hasCome reports whether a start, at a round or at a time, has come in the round of p.
func (f From) hasCome(p Progress) bool {
	byRound := f.Round > 0 && f.Round <= p.Round
	bySeconds := f.Seconds > 0 && f.Seconds <= p.Seconds
	return byRound || bySeconds
}

// Validate returns an error if the values do not begin one after the other, see checkStarts.
func (s ListK) Validate() error { return checkStarts(starts(s.Values)) }

// LocalSteps returns the value of the list that is in force, in the unit of the schedule, or K_0
// before the first value begins to hold.
func (s ListK) LocalSteps(p Progress) int {
	if i := indexInForce(starts(s.Values), p); i >= 0 {
		return s.Values[i].Value * p.partsPerUnit()
	}
	return p.K0
}

// Validate returns an error if the values do not begin one after the other, see checkStarts.
func (s ListEta) Validate() error { return checkStarts(starts(s.Values)) }

// LearningRate returns the value of the list that is in force, or eta_0 before the first value
// begins to hold.
func (s ListEta) LearningRate(p Progress) float64 {
	if i := indexInForce(starts(s.Values), p); i >= 0 {
		return s.Values[i].Value
	}
	return p.Eta0
}
