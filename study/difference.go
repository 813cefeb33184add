package study

import (
	"fmt"
	"io"
	"math"
	"slices"

	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/metrics/figure"
)

// Paired returns, for each run of mine, its quantity less that of the run of theirs with the same seed, in
// the order of mine. It leaves out runs whose seed theirs lacks.
func Paired[R any](mine, theirs []R, seed func(*R) uint64, quantity func(*R) float64) (differences []float64) {
	for i := range mine {
		partner := slices.IndexFunc(theirs, func(r R) bool { return seed(&r) == seed(&mine[i]) })
		if partner >= 0 {
			differences = append(differences, quantity(&mine[i])-quantity(&theirs[partner]))
		}
	}
	return differences
}

// Difference is how a row's runs differ in a quantity from others with the same seeds: from those of
// the reference or, for a control, from those that it controls.
type Difference struct {
	// Row holds the runs that are compared with others.
	Row *Row
	// Against is the schedule of the runs that Row is compared with.
	Against string
	// Quantity is the name of the compared quantity.
	Quantity string
	// BySeed holds the difference for each run of Row, Row's value less the partner's. It is NaN
	// where one of the two has no value.
	BySeed []float64
	// Estimated is the mean of BySeed with its 95 % interval.
	statistics.Estimated
	// Adjusted is the p-value by Holm's method among all differences of the table. It is NaN
	// without a test.
	Adjusted float64
	// OnlyPartnerReaches counts the seeds with which only the partner reaches the level. If there are any, there
	// is no mean.
	OnlyPartnerReaches int
	// OnlyRowReaches counts the seeds with which only Row's run reaches the level. If there are any, there
	// is no mean.
	OnlyRowReaches int
	// Decided says what made the difference, by the controls. It is empty without controls, or if
	// no difference was seen.
	Decided string

	// quantity describes what is compared, with its words for more and less turned where lower
	// values are better.
	quantity
}

// Differences compares each row with the reference, and controls with what they control, in each
// quantity by which runs are compared. The p-values are adjusted together.
func (t *Table) Differences() []Difference {
	var list []Difference
	for _, r := range t.Rows {
		for _, q := range t.quantities {
			if d := r.difference(q); d.Against != "" {
				list = append(list, d)
			}
		}
	}
	// The p-values are adjusted together, because one of many tests is significant by chance.
	p := make([]float64, len(list))
	for i := range list {
		p[i] = list[i].P()
	}
	for i, adjusted := range statistics.Holm(p) {
		list[i].Adjusted = adjusted
	}
	// The decisions need the adjusted p-values of all differences.
	for i := range list {
		list[i].decide(list)
	}
	return list
}

// difference compares the row's runs with their partners in a quantity. Against is empty if there is no
// partner, or if runs are not compared by the quantity.
func (r *Row) difference(q quantity) (d Difference) {
	if q.positiveWord == "" {
		return d
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		partner := c.reference
		// A control is compared with the run that it controls, any other run with the reference.
		if c.Control != "" {
			partner = c.controlled
		}
		d.BySeed = append(d.BySeed, c.minus(partner, q.value))
		if partner == nil {
			continue
		}
		d.Against = partner.Schedule
		// The time to the level is NaN for a run that never reaches it. Where only one of a pair does,
		// that is counted, because their difference has no value.
		missesLevel := q.name == toLevel && math.IsNaN(q.value(c))
		partnerMissesLevel := q.name == toLevel && math.IsNaN(q.value(partner))
		if missesLevel && !partnerMissesLevel {
			d.OnlyPartnerReaches++
		}
		if partnerMissesLevel && !missesLevel {
			d.OnlyRowReaches++
		}
	}
	// A larger value of such a quantity is worse where lower values of the metric are better.
	lowerIsBetter := len(r.Cells) > 0 && r.Cells[0].quality.Lower
	if q.swapsWords && lowerIsBetter {
		q.positiveWord, q.negativeWord = q.negativeWord, q.positiveWord
	}
	d.Row = r
	d.Quantity = q.name
	d.quantity = q
	// Without added seeds, firstStageSeeds is 0 and the interval that of an ordinary mean.
	d.Estimated = statistics.TwoStage(d.BySeed, r.firstStageSeeds)
	// A mean over only those seeds that were fast enough would be biased, so there is none.
	if d.OnlyPartnerReaches+d.OnlyRowReaches > 0 {
		d.Estimated = statistics.EstimateMean(nil)
	}
	return d
}

// reproduces reports whether the control alone produces the effect: whether its runs are seen to differ from the
// reference in the same direction as the schedule's runs do. d compares the control with the schedule, and
// effect the schedule with the reference. The interval of effect must leave out zero.
func (d *Difference) reproduces(effect *Difference) bool {
	var values []float64
	for i := range d.Row.Cells {
		c := &d.Row.Cells[i]
		values = append(values, c.minus(c.reference, d.value))
	}
	return intervalSign(statistics.EstimateMean(values)) == intervalSign(effect.Estimated)
}

// intervalSign is 1 where the interval of a mean is above zero, -1 where it is below, and else 0. It is 0, too, where
// there is no interval: for a single value, and for values that are all equal.
func intervalSign(e statistics.Estimated) int {
	switch {
	case e.N < 2 || e.Half == 0 || math.Abs(e.Mean) <= e.Half:
		return 0
	case e.Mean < 0:
		return -1
	}
	return 1
}

// significantSign is the direction of the difference, 1 or -1, where its interval leaves out zero and Holm's p is at
// most 0.05, and else 0.
func (d *Difference) significantSign() int {
	if d.Adjusted <= 0.05 {
		return intervalSign(d.Estimated)
	}
	return 0
}

// notDecided says that controls were played, but do not show what made a difference.
const notDecided = "not decided"

// decide sets Decided, what made the difference d of a schedule from the reference. all has the differences of
// the controls from the schedules that they control, among others; a control does as much work as its schedule.
// Decided becomes decay if the schedule is seen to be further from the reference than both its control of
// constant K and its shuffled control. It becomes less work if the control of constant K makes the difference,
// too, and the schedule is not seen to be further from the reference than that control. In other cases it
// becomes notDecided. It stays empty where no difference is seen, or where the control of constant K is missing.
func (d *Difference) decide(all []Difference) {
	direction := d.significantSign()
	// isFurther says for each kind of control whether the schedule is significantly further from the reference
	// than the control, in the direction of d.
	isFurther := map[string]bool{}
	var constant *Difference
	for i := range all {
		control := &all[i]
		if control.Quantity != d.Quantity || !control.Row.controls(d.Row) {
			continue
		}
		// A control's difference is the control less the schedule, so its sign is the opposite one where the
		// schedule is further away.
		kind := control.Row.Cells[0].Control
		isFurther[kind] = control.significantSign() == -direction
		if kind == constantK {
			constant = control
		}
	}
	// Without the control of constant K, or without a difference, there is nothing to decide.
	if constant == nil || direction == 0 {
		return
	}
	// For less work the schedule must not even be seen further away by the interval alone, without Holm's p.
	maybeFurther := intervalSign(constant.Estimated) == -direction
	switch {
	case isFurther[constantK] && isFurther[shuffledK]:
		d.Decided = "decay"
	case !maybeFurther && constant.reproduces(d):
		d.Decided = "less work"
	default:
		d.Decided = notDecided
	}
}

// controls reports whether the runs of r are controls of the runs of the other row. The name of a
// control's schedule is that of the controlled schedule, a hyphen and the kind of control.
func (r *Row) controls(controlled *Row) bool {
	return len(r.Cells) > 0 &&
		r.Cells[0].Control != "" &&
		r.Schedule == controlled.Schedule+"-"+r.Cells[0].Control &&
		slices.Equal(r.Values, controlled.Values)
}

// Verdict says in words what the interval and Holm's p-value of the difference show. Where some
// seeds have no value, it adds the number of seeds that have one.
func (d *Difference) Verdict() string {
	if d.N > 1 && d.N < d.Row.Seeds {
		return fmt.Sprintf("%s (%d of %d seeds)", d.verdict(), d.N, d.Row.Seeds)
	}
	return d.verdict()
}

// verdict returns what the difference shows, in a few words for people and without the number of
// seeds. A level that only some runs reach comes first, since their times to it cannot be compared.
func (d *Difference) verdict() string {
	switch {
	case d.OnlyRowReaches > 0 && d.OnlyPartnerReaches > 0:
		return fmt.Sprintf(
			"reached by %s alone with %d, by %s alone with %d of %d seeds",
			d.Row.Schedule,
			d.OnlyRowReaches,
			d.Against,
			d.OnlyPartnerReaches,
			len(d.BySeed),
		)
	case d.OnlyRowReaches > 0:
		return fmt.Sprintf("reached by %s alone with %d of %d seeds", d.Row.Schedule, d.OnlyRowReaches, len(d.BySeed))
	case d.OnlyPartnerReaches > 0:
		return fmt.Sprintf("reached by %s alone with %d of %d seeds", d.Against, d.OnlyPartnerReaches, len(d.BySeed))
	case d.N == 0:
		return "-"
	case d.N == 1:
		return "one seed decides nothing"
	// A positive difference is called by the word for more of the quantity.
	case d.significantSign() > 0:
		return d.positiveWord
	case d.significantSign() < 0:
		return d.negativeWord
	// All seeds gave exactly the same difference, so that its deviation cannot be estimated.
	case d.Half == 0 && d.Mean != 0:
		return "not decided: all seeds agree"
	// The interval alone excludes zero, but the adjusted p-value does not.
	case intervalSign(d.Estimated) != 0:
		return "not decided: may be chance"
	}
	return "no difference seen"
}

// differenceColumns returns the columns of a table of the differences in list: the point, what it
// is compared with, the difference with its interval, p-values, the verdict, and what decided it.
func (t *Table) differenceColumns(list []Difference) table.Columns[Difference] {
	holm := func(d Difference) string { return human.Known("%.2g", d.Adjusted) }
	decided := table.Column[Difference]{Name: "decided_by", Of: func(d Difference) any { return d.Decided }}
	// A column without a title is written to files alone.
	if slices.ContainsFunc(list, func(d Difference) bool { return d.Decided != "" }) {
		decided.Title = "decided by"
	}
	return append(pointColumns(t.Grids, func(d Difference) []string { return d.Row.Values },
		func(d Difference) string { return d.Row.Schedule }),
		table.Column[Difference]{Name: "against", Title: "against", Of: func(d Difference) any { return d.Against }},
		table.Column[Difference]{Name: "quantity", Of: func(d Difference) any { return d.Quantity }},
		table.Column[Difference]{
			Name:  "difference",
			Title: "difference",
			Of:    func(d Difference) any { return d.Estimated },
			Text:  func(d Difference) string { return d.Digits(3) },
		},
		table.Column[Difference]{Name: "p", Of: func(d Difference) any { return d.P() }},
		table.Column[Difference]{
			Name:  "holm_p",
			Title: "Holm's p",
			Of:    func(d Difference) any { return d.Adjusted },
			Text:  holm,
		},
		table.Column[Difference]{Name: "verdict", Title: "verdict", Of: func(d Difference) any { return d.Verdict() }},
		decided)
}

// writeDifferences writes the differences to w for people, in a table for each quantity that has
// any. With one seed it only says that several are needed.
func (t *Table) writeDifferences(w io.Writer) error {
	differences := t.Differences()
	if len(differences) == 0 {
		return nil
	}
	if !slices.ContainsFunc(differences, func(d Difference) bool { return d.N > 1 }) {
		_, err := fmt.Fprintln(w, "\nOne seed decides nothing: --seeds 5 shows what differs.")
		return err
	}
	for _, q := range t.quantities {
		var compared []Difference
		for _, d := range differences {
			if d.Quantity == q.name {
				compared = append(compared, d)
			}
		}
		if len(compared) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nDifferences in %s between runs with the same seeds:\n\n", q.title)
		if err := table.WriteFolded(w, t.differenceColumns(compared).Texts(compared), len(t.Grids)+2); err != nil {
			return err
		}
	}
	return nil
}

// Dots adds a column called name to the panel with this title: a dot for each value of bySeed, and their
// mean with its interval. It returns the panels, with a new one, whose y axis is labelled y, if none has the
// title. A name that the panel has already stays as it is.
func Dots(panels []figure.Panel, title, y, name string, bySeed []float64, mean statistics.Estimated) []figure.Panel {
	i := slices.IndexFunc(panels, func(p figure.Panel) bool { return p.Title == title })
	if i < 0 {
		i = len(panels)
		panels = append(panels, figure.Panel{Title: title, Y: y})
	}
	p := &panels[i]
	if slices.Contains(p.Names, name) {
		return panels
	}
	x := float64(len(p.Names))
	p.Names = append(p.Names, name)
	for _, v := range bySeed {
		p.Add("a seed", figure.Point{X: x, Y: v, Half: math.NaN()})
	}
	p.Add("mean, 95 % interval", figure.Point{X: x, Y: mean.Mean, Half: mean.Half})
	return panels
}
