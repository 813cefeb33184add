package schedule

import (
	"fmt"

	"fedpace/registry"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("list", "a list of values, one a round, or each from a round or time on", ListK{})
	Etas.Register("list", "a list of values, one a round, or each from a round or time on", ListEta{})
}

// From is where a value of a list begins to hold. If neither field is set, that is the round of the
// value's place in the list, which counts from 1.
type From struct {
	Round   int     `key:"from_round" is:"null" range:"[1,1000000000]" help:"first round in which it holds; null: its place in the list"`
	Seconds float64 `key:"from_seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time from which it holds, in place of from_round"`
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

// from returns where the value begins to hold. Values of both lists have it.
func (f From) from() From { return f }

// froms returns for each value of a list where it begins to hold: at a round or at a time, or the zero
// value where the place in the list says it.
func froms[V interface{ from() From }](values []V) (list []From) {
	for _, v := range values {
		list = append(list, v.from())
	}
	return list
}

// checkFroms returns an error for an empty list, for a list that mixes values with a round, with a time
// and with neither, and for a value that does not begin after the one before it.
func checkFroms(list []From) error {
	if len(list) == 0 {
		return registry.Errorf("values", "is empty (at least one value is wanted)")
	}
	first := list[0]
	for i, f := range list {
		at := fmt.Sprintf("values[%d]", i)
		switch {
		case f.Round != 0 && f.Seconds != 0:
			return registry.Errorf(at+".from_seconds", "goes with no from_round (keep one of the two)")
		// The first entry settles whether values begin at rounds, at times, or at neither.
		case (f.Round != 0) != (first.Round != 0) || (f.Seconds != 0) != (first.Seconds != 0):
			return registry.Errorf(
				at,
				"is not of the form of the first (give all a from_round, all a from_seconds, or none anything)",
			)
		case i > 0 &&
			f != (From{}) &&
			f.Round <= list[i-1].Round &&
			f.Seconds <= list[i-1].Seconds:
			return registry.Errorf(at, "does not begin after the one before it (list the values in their order)")
		}
	}
	return nil
}

// inForce returns the index of the value that holds in the round of p, or -1 before the first value
// begins to hold. The list must have passed checkFroms, so its values either all have a place alone, all
// a round or all a time.
func inForce(list []From, p Progress) int {
	if list[0] == (From{}) {
		return min(p.Round, len(list)) - 1
	}
	i := 0
	for i < len(list) &&
		(list[i].Round > 0 && list[i].Round <= p.Round ||
			list[i].Seconds > 0 && list[i].Seconds <= p.Seconds) {
		i++
	}
	return i - 1
}

// Validate returns an error if the values do not begin one after the other, see checkFroms.
func (s ListK) Validate() error { return checkFroms(froms(s.Values)) }

// LocalSteps returns the value of the list that is in force, in the unit of the schedule, or K_0
// before the first value begins to hold.
func (s ListK) LocalSteps(p Progress) int {
	if i := inForce(froms(s.Values), p); i >= 0 {
		return s.Values[i].Value * p.scale()
	}
	return p.K0
}

// Validate returns an error if the values do not begin one after the other, see checkFroms.
func (s ListEta) Validate() error { return checkFroms(froms(s.Values)) }

// LearningRate returns the value of the list that is in force, or eta_0 before the first value
// begins to hold.
func (s ListEta) LearningRate(p Progress) float64 {
	if i := inForce(froms(s.Values), p); i >= 0 {
		return s.Values[i].Value
	}
	return p.Eta0
}
