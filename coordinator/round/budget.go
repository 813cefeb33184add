package round

// Used is what clients have used on tasks that have ended, whether their updates count or not.
type Used struct {
	// Time is the time that clients spent on tasks.
	Time Time
	// Bytes are those of models and updates, both ways.
	Bytes int64
	// Joules is the energy of clients whose power is known, Grams what it emits of CO2, and Cost what
	// it costs. The last two are 0 where no trace of the grid is given.
	Joules, Grams, Cost float64
}

// add adds what one more task has used. Sums are formed in the order in which tasks end.
func (u *Used) add(more Used) {
	u.Time += more.Time
	u.Bytes += more.Bytes
	u.Joules += more.Joules
	u.Grams += more.Grams
	u.Cost += more.Cost
}

// Part returns what one part of a run may use if the run's use is divided into this many equal
// parts. parts need not be a whole number.
func (u Used) Part(parts float64) Used {
	return Used{
		Time:   Time(float64(u.Time) / parts),
		Bytes:  int64(float64(u.Bytes) / parts),
		Joules: u.Joules / parts,
		Grams:  u.Grams / parts,
		Cost:   u.Cost / parts,
	}
}

// budgets returns, for each amount that a budget can limit, how much of it is used, its limit (0 means
// none), and the unit of both in words for the user.
func (u *Used) budgets(budget *Used) [5]struct {
	used, limit float64
	unit        string
} {
	// hour is an hour in nanoseconds.
	const hour = 3600e9
	return [5]struct {
		used, limit float64
		unit        string
	}{
		{float64(u.Time) / hour, float64(budget.Time) / hour, "hours of clients"},
		{float64(u.Bytes), float64(budget.Bytes), "bytes"},
		{u.Joules, budget.Joules, "joules"},
		{u.Grams, budget.Grams, "grams of CO2"},
		{u.Cost, budget.Cost, "of energy costs"},
	}
}

// countUse adds to the run's totals what those tasks have used that ended in this step and are not counted
// yet. usesCounted is the number of them, in the order of m.effects.Ended, that are.
func (m *Machine) countUse() error {
	uses := m.config.Stop.Uses
	if uses == nil {
		return nil
	}
	for i := m.usesCounted; i < len(m.effects.Ended); i++ {
		e := &m.effects.Ended[i]
		// The task was counted when it was accepted, and what it has used stays used.
		if e.Revises {
			continue
		}
		used, err := uses(e)
		if err != nil {
			return err
		}
		m.stop.Used.add(used)
	}
	m.usesCounted = len(m.effects.Ended)
	return nil
}
