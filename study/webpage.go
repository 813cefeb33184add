package study

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fedpace/internal/human"
	"fedpace/metrics"
)

// webpage is what a page for a browser shows of a comparison, beside its runs. Numbers for people are
// texts, as in [TableFile]; numbers that are drawn are those of [CSVFile].
type webpage struct {
	answer
	// Notes are what a reader must know to trust the numbers, for example which runs diverged.
	Notes []string `json:"notes"`
	// Column is the column of a run's rounds that is drawn as a mean over seeds. It is empty if
	// nothing was learned.
	Column string `json:"column"`
	// Rows are the schedules at the points of the grids, in the order of the plan, controls last.
	Rows []webRow `json:"rows"`
	// Comparisons has an entry for each quantity by which runs are compared.
	Comparisons []webComparison `json:"comparisons"`
	// Table is the table of all means, first its head.
	Table [][]string `json:"table"`
}

// webRow is one schedule at one point of the grids.
type webRow struct {
	// Name is the schedule with the values of those grids that choose it.
	Name string `json:"name"`
	// Schedule is the schedule, of a control the schedule that it controls.
	Schedule string `json:"schedule"`
	// Point has the values of the grids that do not choose the schedule. Rows with the same point
	// are drawn in one chart.
	Point string `json:"point"`
	// Folders are the folders of the row's runs that did not diverge.
	Folders []string `json:"folders"`
}

// webComparison is how all rows differ in one quantity from others with the same seeds.
type webComparison struct {
	Title string `json:"title"`
	// Rows has an entry for each row, in the order of [webpage.Rows].
	Rows []webDifference `json:"rows"`
}

// webDifference is how one row differs in one quantity.
type webDifference struct {
	// Value is the row's own mean of the quantity.
	Value string `json:"value"`
	// Against is the schedule with which the row is compared. It is empty for the reference, and all
	// fields that follow are then empty, too.
	Against string `json:"against"`
	// Text is the mean difference with half of its 95 % interval.
	Text string `json:"text"`
	// Mean and Half are the numbers of Text; null: not known.
	Mean *float64 `json:"mean"`
	Half *float64 `json:"half"`
	// Verdict says in words what the interval and Holm's p show.
	Verdict string `json:"verdict"`
	// P is Holm's p-value; "-" without a test.
	P string `json:"p"`
	// Decided says what made the difference, by the controls.
	Decided string `json:"decided"`
	// Seeds are the differences with each seed; null: one of the two runs has no value.
	Seeds []webSeed `json:"seeds"`
}

// webSeed is the difference between two runs with the same seed.
type webSeed struct {
	// Seed is text, because JavaScript's numbers are exact only up to 2^53.
	Seed  uint64   `json:"seed,string"`
	Value *float64 `json:"value"`
}

// Webpage returns what a page for a browser shows of the comparison, as a JSON document.
func (r *Comparison) Webpage() ([]byte, error) {
	t := r.Table()
	all := t.Differences()
	var notes bytes.Buffer
	r.writeNotes(&notes)
	page := webpage{
		answer:      t.answer(all),
		Notes:       append(t.divergedNotes(), paragraphs(notes.String())...),
		Column:      t.curveColumn(),
		Rows:        []webRow{},
		Comparisons: []webComparison{},
		Table:       t.printedColumns().Texts(t.Rows),
	}
	if r.Plan.IsSingle() {
		page.Table = r.columns().Texts(r.endedCells())
	}
	// Each row of the table is a point on the page.
	for _, row := range t.Rows {
		page.Rows = append(page.Rows, row.webForm(t.Grids))
	}
	for i, q := range t.quantities {
		// A quantity of which no pair of runs has values would be a table of dashes.
		if !slices.ContainsFunc(all, func(d Difference) bool { return d.Quantity == q.name && d.isMeasured() }) {
			continue
		}
		// A comparison has all rows, with differences where these were computed.
		compared := webComparison{Title: spelledTitle(q.title)}
		for _, row := range t.Rows {
			difference := webDifference{Value: row.meanText(i), Seeds: []webSeed{}}
			for k := range all {
				if all[k].Row == row && all[k].Quantity == q.name {
					difference.fill(&all[k])
				}
			}
			compared.Rows = append(compared.Rows, difference)
		}
		page.Comparisons = append(page.Comparisons, compared)
	}
	return json.Marshal(page)
}

// spelledTitle is a column's title with the unit of a time as a word: a heading has the room that a
// column lacks.
func spelledTitle(title string) string {
	if level, ok := strings.CutPrefix(title, "s to "); ok {
		return "seconds to " + level
	}
	return title
}

// isMeasured reports whether some pair of runs could be compared: both have a value, or only one of the two
// reached the level.
func (d *Difference) isMeasured() bool { return d.N+d.OnlyPartnerReaches+d.OnlyRowReaches > 0 }

// paragraphs returns the parts of a text that empty lines divide, each without space at its ends.
// Empty parts are left out.
func paragraphs(text string) (list []string) {
	for _, part := range strings.Split(text, "\n\n") {
		part = strings.TrimSpace(part)
		if part != "" {
			list = append(list, part)
		}
	}
	return list
}

// divergedNotes returns a sentence for each row of the table some of whose runs diverged: how many
// of how many seeds did. Such runs are in no mean.
func (t *Table) divergedNotes() []string {
	list := []string{}
	for _, row := range t.Rows {
		if row.Diverged > 0 {
			list = append(list, fmt.Sprintf("%s diverged with %d of %d %s. These runs are in no mean.",
				row.label(t.Grids), row.Diverged, row.Seeds, human.Plural(row.Seeds, "seed")))
		}
	}
	return list
}

// curveColumn is the column of rounds.csv that shows how well runs learned over time: the validation metric by which
// they are compared or, if a run has no tail of that metric, the training loss, as the mean over a window of rounds
// that the schedules see. It is empty if nothing was learned.
func (t *Table) curveColumn() string {
	hasValueForAllRuns := func(name string) bool {
		i := slices.IndexFunc(t.quantities, func(q quantity) bool { return q.name == name })
		return i >= 0 && !slices.ContainsFunc(t.Rows, func(row *Row) bool { return len(row.Cells) > row.Means[i].N })
	}
	switch {
	case hasValueForAllRuns(tailQuantity + t.primaryMetric):
		return "validation_" + t.primaryMetric
	case hasValueForAllRuns("tail_training_loss"):
		return "window_loss"
	}
	return ""
}

// webForm returns the row in the form in which a page in a browser has it: its label, its schedule, its
// point, and the folders of its runs. grids are those of the table.
func (r *Row) webForm(grids []Grid) webRow {
	row := webRow{
		Name:     r.labelled(settings(grids, r.Values, choosesSchedule)),
		Schedule: r.Schedule,
		Folders:  []string{},
	}
	for i := range r.Cells {
		row.Folders = append(row.Folders, r.Cells[i].Config.Out)
	}
	// A row without runs has no point.
	if len(r.Cells) == 0 {
		return row
	}
	first := &r.Cells[0]
	row.Point = settings(grids, r.Values, func(key string) bool { return !choosesSchedule(key) })
	// A control is drawn with the schedule that it controls, whose name its own begins with.
	if first.Control != "" {
		row.Schedule = strings.TrimSuffix(r.Schedule, "-"+first.Control)
	}
	return row
}

// fill sets the fields of w from the difference d: texts for people, and numbers for the drawing. A
// number that is not known (NaN) becomes nil.
func (w *webDifference) fill(d *Difference) {
	w.Against = d.Against
	w.Text = d.Digits(3)
	w.Mean = metrics.Measured(d.Mean)
	w.Half = metrics.Measured(d.Half)
	w.Verdict = d.Verdict()
	w.P = human.Known("%.2g", d.Adjusted)
	w.Decided = d.Decided
	// The differences are in the order of the row's cells, one for each seed.
	for i, v := range d.BySeed {
		w.Seeds = append(w.Seeds, webSeed{d.Row.Cells[i].Config.Seed, metrics.Measured(v)})
	}
}
