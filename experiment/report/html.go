package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/coordinator/measure"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/metrics"
	"fedpace/metrics/figure"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"svg": inline}).Parse(pageText))

// page is what the template shows.
type page struct {
	Title, About string
	Sections     []section
}

type pageTable struct {
	Title, Note string
	Columns     []string
	Rows        []pageRow
}

type pageRow struct {
	Name  string
	Cells []pageCell
}

type pageCell struct {
	Text           string
	Left, Code     bool
	Bar            bool
	Useful, Wasted float64 // percent, of a bar
}

// HTML writes one file with everything in it.
func HTML(w io.Writer, runs []Run) error {
	tasks, err := sections(runs)
	if err == nil {
		err = pageTemplate.Execute(w, page{fmt.Sprint("fedpace: ", len(runs), " ", human.Plural(len(runs), "run")), about(runs), tasks})
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// about says in a sentence what the runs are.
func about(runs []Run) string {
	var tasks, schedules []string
	for i := range runs {
		r := &runs[i]
		tasks, schedules = appendNew(tasks, string(r.Config.Task)), appendNew(schedules, r.Config.Schedule.Name())
	}
	text := fmt.Sprintf("Tasks: %s. Schedules: %s.", strings.Join(tasks, ", "), strings.Join(schedules, ", "))
	if unfinished := len(runs) - Finished(runs); unfinished > 0 {
		text += fmt.Sprintf(" Not finished: %d.", unfinished)
	}
	return text
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// Finished is how many of the runs have come to their end.
func Finished(runs []Run) (n int) {
	for i := range runs {
		if runs[i].Summary.Completed {
			n++
		}
	}
	return n
}

// Data says what the runs learned from.
func (s section) Data() (list []string) {
	for _, g := range s.Groups {
		for _, r := range g.Runs {
			if r.Summary.Data != nil {
				list = appendNew(list, *r.Summary.Data)
			}
		}
	}
	return list
}

// Notes say how the figures are to be read.
func (s section) Notes() (list []string) {
	trained := func(r *Run) bool { return r.Config.Train }
	if !slices.ContainsFunc(s.Groups, func(g group) bool { return slices.ContainsFunc(g.Runs, trained) }) {
		list = append(list, "Nothing was trained: there are no losses.")
	}
	if slices.ContainsFunc(s.Groups, func(g group) bool { return len(g.Runs) > 1 }) {
		list = append(list, "Curves of several seeds are means; bands are 95% confidence intervals.")
	}
	return list
}

// Tables are those of the task.
func (s section) Tables() []pageTable {
	return []pageTable{s.results(), s.outcomes(), s.spending(), s.runs()}
}

// inline draws a panel as an element of the page.
func inline(panel figure.Panel) (template.HTML, error) {
	var b bytes.Buffer
	if err := figure.Write(&b, "svg", []figure.Panel{panel}); err != nil {
		return "", err
	}
	text := b.String()
	at := strings.Index(text, "<svg")
	if at < 0 {
		return "", fmt.Errorf("%s is drawn without an svg element", panel.Title)
	}
	return template.HTML(text[at:]), nil //nolint:gosec // what figure writes, names are escaped there
}

// results is the table of what the groups came to.
func (s section) results() pageTable {
	t := pageTable{Title: "Results", Columns: []string{"schedule", "runs"}}
	type column struct {
		title string
		of    func(*Run) float64
		show  func(float64) string
	}
	columns := []column{
		{"rounds", func(r *Run) float64 { return float64(r.Rounds) }, number},
		{"virtual time", func(r *Run) float64 { return r.Virtual.Seconds() }, human.VirtualTime},
		{"steps a client", func(r *Run) float64 { return float64(r.Steps) }, number},
		{"relative steps", func(r *Run) float64 { return metrics.Value(r.Summary.RelativeSGDSteps) }, number},
		{"lowest training loss", func(r *Run) float64 { return metrics.Value(r.Summary.BestTrainingLoss) }, number},
	}
	for _, m := range s.metrics() {
		columns = append(columns,
			column{best(m), func(r *Run) float64 { return metrics.Value(r.Summary.Metric(m.Name).Best) }, number},
			column{"last " + measure.Title(m.Name), func(r *Run) float64 { return metrics.Value(r.Summary.Metric(m.Name).Validation) }, number})
	}
	columns = append(columns, []column{
		{"time to target", func(r *Run) float64 { return metrics.Value(r.Summary.TimeToTarget) }, human.VirtualTime},
		{"median round", func(r *Run) float64 { return quantile(r.Durations, 0.5) }, seconds},
		{"95% of rounds within", func(r *Run) float64 { return quantile(r.Durations, 0.95) }, seconds},
		{"straggler share", func(r *Run) float64 { return metrics.Value(r.Summary.StragglerShare) }, percent},
	}...)
	for _, c := range columns {
		t.Columns = append(t.Columns, c.title)
	}
	for _, g := range s.Groups {
		row := pageRow{g.Name, texts(strconv.Itoa(len(g.Runs)))}
		for _, c := range columns {
			values := make([]float64, len(g.Runs))
			for i, r := range g.Runs {
				values[i] = c.of(r)
			}
			row.Cells = append(row.Cells, pageCell{Text: estimated(statistics.EstimateMean(values), c.show)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// metrics are what the summaries of runs show.
func (s section) metrics() (list []folder.Metric) {
	for _, g := range s.Groups {
		for _, r := range g.Runs {
			for _, m := range r.Summary.Shown() {
				if !slices.ContainsFunc(list, func(x folder.Metric) bool { return x.Name == m.Name }) {
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// best is the title of a column with the best values.
func best(m folder.Metric) string {
	return measure.Metric{Lower: m.Better == measure.Lower}.Best() + " " + measure.Title(m.Name)
}

// outcomes is the table of how tasks ended, over all seeds.
func (s section) outcomes() pageTable {
	t := pageTable{Title: "How tasks ended", Columns: []string{"schedule", "tasks"}}
	for o := range round.Outcome(round.Outcomes) {
		t.Columns = append(t.Columns, o.String())
	}
	for _, g := range s.Groups {
		var sum metrics.Outcomes
		all := int64(0)
		for _, r := range g.Runs {
			for o, n := range r.Summary.Outcomes { // with the round that the run's end cut short
				sum[o] += n
				all += n
			}
		}
		row := pageRow{Name: g.Name, Cells: []pageCell{{Text: number(float64(all))}}}
		for _, n := range sum {
			text := number(float64(n))
			if n > 0 {
				text += " (" + percent(float64(n)/float64(all)) + ")"
			}
			row.Cells = append(row.Cells, pageCell{Text: text})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// spending is the table of what clients spent, and on what.
func (s section) spending() pageTable {
	t := pageTable{
		Title:   "What clients spent",
		Note:    "Useful is what went into updates that count; all else is wasted.",
		Columns: []string{"schedule", "", "useful", "wasted", "of all", "useful | wasted"},
	}
	for _, g := range s.Groups {
		var time, joules metrics.Split[float64]
		var steps, bytes metrics.Split[int64]
		energy := false
		for _, r := range g.Runs {
			time.Add(r.Summary.ClientSeconds)
			steps.Add(r.Summary.ClientSteps)
			bytes.Add(r.Summary.Bytes)
			if e := r.Summary.EnergyJoules; e != nil {
				energy = true
				joules.Add(*e)
			}
		}
		t.Rows = append(t.Rows,
			split(g.Name, "client time", time, human.VirtualTime),
			split(g.Name, "local steps", steps, number),
			split(g.Name, "bytes", bytes, func(v float64) string { return number(v/1e6) + " MB" }))
		if energy {
			t.Rows = append(t.Rows, split(g.Name, "energy", joules, func(v float64) string { return number(v/1e3) + " kJ" }))
		}
	}
	return t
}

func split[N int64 | float64](name, what string, s metrics.Split[N], show func(float64) string) pageRow {
	share := s.WastedShare()
	bar := pageCell{Bar: true, Text: percent(share) + " of " + what + " wasted", Wasted: 100 * share}
	if s.Useful+s.Wasted > 0 {
		bar.Useful = 100 - bar.Wasted
	}
	cells := append([]pageCell{{Text: what, Left: true}}, texts(show(float64(s.Useful)), show(float64(s.Wasted)), percent(share))...)
	return pageRow{name, append(cells, bar)}
}

// runs is the table of the single runs.
func (s section) runs() pageTable {
	t := pageTable{Title: "Runs", Columns: []string{"folder", "schedule", "seed", "state", "rounds", "lowest training loss"}}
	shown := s.metrics()
	for _, m := range shown {
		t.Columns = append(t.Columns, best(m))
	}
	t.Columns = append(t.Columns, "wall time", "model", "fingerprint", "kernel", "bus", "version")
	for _, g := range s.Groups {
		for _, r := range g.Runs {
			s, state := &r.Summary, "not finished"
			if s.Completed {
				state = "complete"
			} else if r.Ended {
				state = "interrupted"
			}
			row := pageRow{r.Dir, texts(g.Name, strconv.FormatUint(r.Config.Seed, 10), state, strconv.Itoa(s.Rounds))}
			if r.Ended {
				model := fmt.Sprintf("%.12s", *cmp.Or(s.ModelSHA256, new(string)))
				row.Cells = append(row.Cells, texts(measured(s.BestTrainingLoss))...)
				for _, m := range shown {
					row.Cells = append(row.Cells, texts(measured(s.Metric(m.Name).Best))...)
				}
				row.Cells = append(row.Cells, texts(seconds(s.WallSeconds))...)
				row.Cells = append(row.Cells, pageCell{Text: model, Code: true}, pageCell{Text: s.Fingerprint, Code: true}, pageCell{Text: s.Kernel}, pageCell{Text: s.Bus}, pageCell{Text: s.Version})
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// texts are plain cells.
func texts(list ...string) (cells []pageCell) {
	for _, s := range list {
		cells = append(cells, pageCell{Text: s})
	}
	return cells
}

// measured is a number that may not exist.
func measured(v *float64) string {
	return estimated(statistics.Estimated{Mean: metrics.Value(v), Half: math.NaN()}, number)
}

// quantile is the value that a share q of the ascending list does not exceed; NaN of nothing.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return list[max(0, int(math.Ceil(q*float64(len(list))))-1)]
}

// estimated is a mean with its interval; nothing where there is none.
func estimated(e statistics.Estimated, show func(float64) string) string {
	switch {
	case math.IsNaN(e.Mean):
		return ""
	case math.IsNaN(e.Half):
		return show(e.Mean)
	}
	return show(e.Mean) + " ± " + show(e.Half)
}

// number has four digits, and all of a whole number.
func number(v float64) string {
	if v != math.Trunc(v) && math.Abs(v) < 1000 || !(math.Abs(v) < 1<<62) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return human.Thousands(int64(math.RoundToEven(v)))
}

func percent(v float64) string {
	return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) + " s" }
