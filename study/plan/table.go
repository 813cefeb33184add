package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"fedpace/experiment/forecast"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/learn/metric"
	"fedpace/study"
	"fedpace/study/choice"
)

// The files of a plan in its folder.
const (
	TableFile  = "plan.csv"
	ConfigFile = "plan.yaml"
	FigureFile = "plan.svg"
	PageFile   = "plan.html"
)

// maxShown is the number of settings in a table for people, besides those that were trained.
const maxShown = 20

// maxImpossible is the number of points that make no configuration that a table for people names.
const maxImpossible = 5

// columns returns the columns of all forms of the table: for people, for CSV and for JSON. A column without
// a title stands in files alone: some always do, and others where no setting has a value.
func (p *Plan) columns() table.Columns[*Setting] {
	energy := ""
	tail := ""
	target := ""
	if !math.IsNaN(p.Settings[0].Joules.P50) {
		energy = "energy kJ"
	}
	if p.trained() > 0 {
		tail = "tail " + metric.Title(p.quality.Name)
	}
	behind := ""
	if p.trained() > 1 {
		behind = "behind"
	}
	if slices.ContainsFunc(p.Settings, func(s *Setting) bool { return s.outcome().Target.N > 0 }) {
		target = "s to target"
	}
	updates := ""
	if p.request.countsUpdates() {
		updates = "s to the updates"
	}
	// The recommended setting has a mark before its name.
	markIf := map[bool]string{true: "*"}
	// Where K is not known before the run, the number of rounds is the most that there can be, at K_0.
	boundNoteIf := map[bool]string{true: " at K_0"}
	return table.Columns[*Setting]{
		{Title: " ", Text: func(s *Setting) string { return markIf[s == p.Chosen] }},
		{Name: "setting", Title: "setting", Of: func(s *Setting) any { return s.Name }},
		{Name: "schedule", Of: func(s *Setting) any { return s.Schedule }},
		{
			Name:  "seconds",
			Title: updates,
			Of:    func(s *Setting) any { return s.Seconds },
			Text:  func(s *Setting) string { return p.updatesText(s) },
		},
		{
			Name:  "rounds",
			Title: "rounds",
			Of:    func(s *Setting) any { return s.Rounds },
			Text:  func(s *Setting) string { return intervalText(s.Rounds, 1) + boundNoteIf[s.AtMost] },
		},
		{Name: "local_steps", Of: func(s *Setting) any { return s.Steps }},
		{
			Name:  "client_sgd_steps",
			Title: "client steps",
			Of:    func(s *Setting) any { return s.Work },
			Text:  func(s *Setting) string { return intervalText(s.Work, 1) },
		},
		{
			Name:  "wasted_time_share",
			Title: "wasted time",
			Of:    func(s *Setting) any { return s.Wasted },
			Text:  func(s *Setting) string { return fmt.Sprintf("%.1f %%", 100*s.Wasted.P50) },
		},
		{
			Name:  "bytes",
			Title: "MB",
			Of:    func(s *Setting) any { return s.Bytes },
			Text:  func(s *Setting) string { return intervalText(s.Bytes, 1e-6) },
		},
		{
			Name:  "energy_joules",
			Title: energy,
			Of:    func(s *Setting) any { return s.Joules },
			Text:  func(s *Setting) string { return intervalText(s.Joules, 1e-3) },
		},
		{Name: "at_most", Of: func(s *Setting) any { return s.AtMost }},
		{Name: "as_configured", Of: func(s *Setting) any { return s.AsConfigured }},
		{Name: "score", Of: func(s *Setting) any { return s.trainingPriority() }},
		{Name: "seeds", Of: func(s *Setting) any { return s.outcome().Seeds }},
		{Name: "diverged", Of: func(s *Setting) any { return s.outcome().Diverged }},
		{Name: "tail", Title: tail, Of: func(s *Setting) any { return s.outcome().Tail }, Text: (*Setting).tailText},
		{Name: "tail_fresh", Of: func(s *Setting) any { return s.outcome().Fresh }},
		{
			Name:  "behind_recommended",
			Title: behind,
			Of:    func(s *Setting) any { return s.outcome().Standing.Behind },
			Text:  func(s *Setting) string { return p.behindText(s) },
		},
		{Name: "told_apart", Of: func(s *Setting) any { return s.outcome().Standing.Distinct }},
		{Name: "seeds_to_decide", Of: func(s *Setting) any { return s.outcome().Standing.SeedsToDecide }},
		{Name: "best", Of: func(s *Setting) any { return s.outcome().Best }},
		{Name: "validation", Of: func(s *Setting) any { return s.outcome().Quality }},
		{
			Name:  "seconds_to_target",
			Title: target,
			Of:    func(s *Setting) any { return s.outcome().Target },
			Text:  func(s *Setting) string { return s.outcome().Target.Digits(4) },
		},
		{Name: "recommended", Of: func(s *Setting) any { return s == p.Chosen }},
	}
}

// outcome returns what the setting reached in training. For a setting that was not trained it returns
// means of no values and no seeds, so that callers need not ask.
func (s *Setting) outcome() *Trained {
	if s.Trained != nil {
		return s.Trained
	}
	none := statistics.EstimateMean(nil)
	return &Trained{
		Tail:     none,
		Fresh:    none,
		Quality:  none,
		Best:     none,
		Target:   none,
		Standing: choice.Standing{Behind: none},
	}
}

// tailText is the quality at the end of the runs for people, with the seeds that diverged.
func (s *Setting) tailText() string {
	switch t := s.outcome(); {
	case t.Seeds == 0:
		return ""
	case t.Diverged > 0:
		return fmt.Sprintf("%s, %d of %d diverged", t.Tail.Digits(4), t.Diverged, t.Seeds)
	default:
		return t.Tail.Digits(4)
	}
}

// behindText is by how much a setting is behind the recommended one, for people. The recommended setting and
// those that were not trained have nothing there.
func (p *Plan) behindText(s *Setting) string {
	if s.Trained == nil || s == p.Chosen {
		return ""
	}
	return s.Trained.Standing.Behind.Digits(3)
}

// table lists the first settings, those that were trained and the recommended one, which the first column marks,
// for people, and returns how many it hides.
func (p *Plan) table() (rows [][]string, hidden int) {
	var list []*Setting
	// What was trained or chosen is shown even if it stands far behind.
	for i, s := range p.Settings {
		if i < maxShown || s.Trained != nil || s == p.Chosen {
			list = append(list, s)
		}
	}
	return p.columns().Texts(list), len(p.Settings) - len(list)
}

// notes returns two sentences for people: omitted says what a table leaves out, hidden being the
// number of settings in none of its rows (empty: it is complete), and about says how it is to be
// read.
func (p *Plan) notes(hidden int) (omitted, about string) {
	if hidden > 0 {
		omitted = fmt.Sprintf("%d more settings are in %s.", hidden, TableFile)
	}
	about = fmt.Sprintf(
		"Every setting had %s; intervals hold 90 %% of %d draws of the fleet",
		human.VirtualTime(p.Seconds),
		p.Draws,
	)
	// Settings with equal updates differ in their times.
	if p.request.countsUpdates() {
		about = fmt.Sprintf(
			"Every setting had the time for %s updates; intervals hold 90 %% of %d draws of the fleet",
			human.Thousands(int64(p.Settings[0].config.Stop.Accepted)),
			p.Draws,
		)
	}
	if p.trained() > 0 {
		about += fmt.Sprintf(", and 95 %% for the mean over seeds; training took %d runs", p.outcome.Trials)
	}
	return omitted, about + "."
}

// Write writes the plan for people: a table, the recommendation, and what is not known.
func (p *Plan) Write(w io.Writer) error {
	// A race has an answer of a few lines, which says all that people need.
	if len(p.Answer) > 0 {
		_, err := fmt.Fprintln(w, strings.Join(p.Answer, "\n"))
		return err
	}
	rows, hidden := p.table()
	if err := table.WriteText(w, rows); err != nil {
		return err
	}
	// The table leaves out some settings that were not trained.
	omitted, about := p.notes(hidden)
	if omitted != "" {
		fmt.Fprintln(w, omitted)
	}
	fmt.Fprintf(w, "\n%s\n\nRecommended: %s\n%s\n", about, p.Chosen.Name, p.Reason)
	// What is not known goes with the recommendation.
	for i, line := range p.Unknown {
		if i == 0 {
			fmt.Fprintln(w, "\nWhat this does not know:")
		}
		fmt.Fprintf(w, "- %s\n", line)
	}
	// A few examples tell what is wrong with the grid.
	for i, line := range p.Impossible {
		if i == maxImpossible {
			fmt.Fprintf(w, "Left out: %d others (--json has them)\n", len(p.Impossible)-i)
			break
		}
		fmt.Fprintf(w, "Left out: %s\n", line)
	}
	return nil
}

// updatesText says after how many seconds a setting has its updates, and in how many draws of the fleet it never has
// them (TooFewUpdates).
func (p *Plan) updatesText(s *Setting) string {
	switch s.TooFewUpdates {
	case 0:
		return intervalText(s.Seconds, 1)
	case p.Draws:
		return "never"
	}
	return fmt.Sprintf("%s, never in %d of %d", intervalText(s.Seconds, 1), s.TooFewUpdates, p.Draws)
}

// intervalText is the median with its interval for people, all multiplied by unit, for example 1e-6 to write
// bytes as megabytes.
func intervalText(v forecast.Interval, unit float64) string {
	if v.P05 == v.P95 {
		return shortNumber(unit * v.P50)
	}
	return fmt.Sprintf("%s (%s to %s)", shortNumber(unit*v.P50), shortNumber(unit*v.P05), shortNumber(unit*v.P95))
}

// shortNumber is a number with four digits or, from 1000 on, as a whole number with separators.
func shortNumber(v float64) string {
	if math.Abs(v) >= 1000 && math.Abs(v) < 1e15 {
		return human.Thousands(int64(math.Round(v)))
	}
	return fmt.Sprintf("%.4g", v)
}

// WriteCSV writes every setting to w as a table in CSV, in the order of the plan. It has all
// columns, those without a title for people too, and one for each key of the grid.
func (p *Plan) WriteCSV(w io.Writer) error {
	columns := p.columns()
	for i, g := range p.request.Grids {
		columns = append(columns, table.Column[*Setting]{Name: g.Key, Of: func(s *Setting) any {
			if i < len(s.Values) {
				return s.Values[i]
			}
			return ""
		}})
	}
	columns = append(columns, table.Column[*Setting]{Name: "metric", Of: func(*Setting) any { return p.quality.Name }})
	return table.WriteCSV(w, columns.Records(p.Settings, -1))
}

// MarshalJSON writes the plan as one JSON object: virtual time, recommendation, what is not known,
// and every setting with its values by the keys of the grid.
func (p *Plan) MarshalJSON() ([]byte, error) {
	settings := p.columns().Objects(p.Settings)
	for i, s := range p.Settings {
		settings[i]["values"] = study.ByKey(p.request.Grids, s.Values)
	}
	return json.Marshal(struct {
		Seconds float64 `json:"virtual_seconds"`
		Draws   int     `json:"draws"`
		// Metric is the metric by which settings are compared. It is empty if nothing was trained.
		Metric      string           `json:"metric"`
		Recommended string           `json:"recommended"`
		Reason      string           `json:"why"`
		Unknown     []string         `json:"what_is_unknown"`
		Impossible  []string         `json:"left_out"`
		Settings    []map[string]any `json:"settings"`
	}{p.Seconds, p.Draws, p.quality.Name, p.Chosen.Name, p.Reason, p.Unknown, p.Impossible, settings})
}
