package measure

import "slices"

// Timetable says after which rounds of a run the model is measured. The zero value has none.
type Timetable struct {
	Every  int   // rounds from one measurement to the next; 0: none by their number
	Rounds []int // further rounds, in any order
	// Grid is the time from one instant of a grid to the next, in virtual nanoseconds: the
	// first round that ends at an instant or later is measured. 0: there is no grid.
	Grid int64
}

func (t *Timetable) Any() bool { return t.Every > 0 || t.Grid > 0 || len(t.Rounds) > 0 }

// Due reports whether the model is measured after a round. before is the virtual time at
// which the round before it ended, 0 of the first, and end its own, in nanoseconds. Several
// instants within one round are one measurement: its model is one.
func (t *Timetable) Due(round int, before, end int64) bool {
	return t.Every > 0 && round%t.Every == 0 || slices.Contains(t.Rounds, round) || t.Grid > 0 && end/t.Grid > before/t.Grid
}
