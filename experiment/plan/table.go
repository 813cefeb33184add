package plan

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"fedpace/actors/measure"
	"fedpace/experiment/forecast"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/metrics"
)

// shown is how many settings a table for people has, besides those that were trained.
const shown = 20

// maxLeft is how many points of the grid that make no configuration it names.
const maxLeft = 5

// table is the most promising settings and those that were trained, for people, and how
// many are left out. The first column marks the recommended one.
func (p *Plan) table() (head []string, rows [][]string, hidden int) {
	energy, target := !math.IsNaN(p.Settings[0].Joules.P50), false
	for i := range p.Settings {
		target = target || p.Settings[i].Trained != nil && p.Settings[i].Trained.Target.N > 0
	}
	optional := func(is bool, cell string, cells []string) []string {
		if is {
			return append(cells, cell)
		}
		return cells
	}
	head = optional(energy, "energy kJ", []string{"", "setting", "rounds", "client steps", "wasted time", "MB"})
	if p.trained() > 0 {
		head = append(head, "best "+measure.Title(p.quality.Name))
	}
	head = optional(target, "s to target", head)
	for i := range p.Settings {
		s := &p.Settings[i]
		if i >= shown && s.Trained == nil && i != p.Chosen {
			hidden++
			continue
		}
		mark := ""
		if i == p.Chosen {
			mark = "*"
		}
		rounds := text(s.Rounds, 1)
		if s.AtMost {
			rounds += " at K_0"
		}
		cells := optional(energy, text(s.Joules, 1e-3), []string{mark, s.Name, rounds, text(s.Work, 1), fmt.Sprintf("%.1f %%", 100*s.Wasted.P50), text(s.Bytes, 1e-6)})
		if p.trained() > 0 {
			cells = append(cells, s.Trained.best())
		}
		if s.Trained != nil {
			cells = optional(target, s.Trained.Target.Digits(4), cells)
		}
		rows = append(rows, cells)
	}
	return head, rows, hidden
}

// notes say what a table leaves out, and how it is to be read.
func (p *Plan) notes(hidden int) (left, about string) {
	if hidden > 0 {
		left = fmt.Sprintf("%d settings that are less promising are in %s.", hidden, TableFile)
	}
	about = fmt.Sprintf("Every setting had %s; intervals hold 90 %% of %d draws of the fleet", human.VirtualTime(p.Seconds), p.Draws)
	if p.trained() > 0 {
		about += ", and 95 % for the mean over seeds"
	}
	return left, about + "."
}

// Write writes the plan for people: a table, the recommendation, and what is not known.
func (p *Plan) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head, rows, hidden := p.table()
	for _, cells := range append([][]string{head}, rows...) {
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	left, about := p.notes(hidden)
	if left != "" {
		fmt.Fprintln(w, left)
	}
	fmt.Fprintf(w, "\n%s\n\nRecommended: %s\n%s\n", about, p.Settings[p.Chosen].Name, p.Why)
	for i, line := range p.Unknown {
		if i == 0 {
			fmt.Fprintln(w, "\nWhat this does not know:")
		}
		fmt.Fprintf(w, "- %s\n", line)
	}
	for i, line := range p.Left {
		if i == maxLeft {
			fmt.Fprintf(w, "Left out: %d others (--json has them)\n", len(p.Left)-i)
			break
		}
		fmt.Fprintf(w, "Left out: %s\n", line)
	}
	return nil
}

// text is the median with its interval, in another unit.
func text(s forecast.Interval, unit float64) string {
	if s.P05 == s.P95 {
		return short(unit * s.P50)
	}
	return fmt.Sprintf("%s (%s to %s)", short(unit*s.P50), short(unit*s.P05), short(unit*s.P95))
}

// short is a number with four digits, and all of a large one.
func short(v float64) string {
	if math.Abs(v) >= 1000 && math.Abs(v) < 1e15 {
		return human.Thousands(int64(math.Round(v)))
	}
	return fmt.Sprintf("%.4g", v)
}

func (t *Trained) best() string {
	switch {
	case t == nil:
		return ""
	case t.Diverged > 0:
		return fmt.Sprintf("%s, %d of %d diverged", t.Best.Digits(4), t.Diverged, t.Seeds)
	}
	return t.Best.Digits(4)
}

// The files of a plan in its folder.
const (
	TableFile  = "plan.csv"
	ConfigFile = "plan.yaml"
	FigureFile = "plan.svg"
	PageFile   = "plan.html"
)

// WriteCSV writes every setting, the most promising first.
func (p *Plan) WriteCSV(w io.Writer) error {
	header := []string{"setting", "schedule"}
	for _, g := range p.request.Grids {
		header = append(header, g.Key)
	}
	for _, name := range []string{"rounds", "local_steps", "client_sgd_steps", "wasted_time_share", "energy_joules", "bytes"} {
		header = append(header, name+"_p05", name+"_p50", name+"_p95")
	}
	header = append(header, "at_most", "score", "seeds", "diverged", "metric", "best", "best_ci95", "validation", "validation_ci95", "recommended")
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for i := range p.Settings {
		s := &p.Settings[i]
		record := []string{s.Name, s.Schedule}
		for g := range p.request.Grids {
			value := ""
			if g < len(s.Values) {
				value = s.Values[g]
			}
			record = append(record, value)
		}
		for _, x := range s.intervals() {
			record = append(record, decimal(x.P05), decimal(x.P50), decimal(x.P95))
		}
		record = append(record, strconv.FormatBool(s.AtMost), decimal(s.Score()))
		if t := s.Trained; t != nil {
			record = append(record, strconv.Itoa(t.Seeds), strconv.Itoa(t.Diverged), p.quality.Name, decimal(t.Best.Mean), decimal(t.Best.Half), decimal(t.Quality.Mean), decimal(t.Quality.Half))
		} else {
			record = append(record, "0", "0", "", "", "", "", "")
		}
		if err := out.Write(append(record, strconv.FormatBool(i == p.Chosen))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (s *Setting) intervals() []forecast.Interval {
	return []forecast.Interval{s.Rounds, s.Steps, s.Work, s.Wasted, s.Joules, s.Bytes}
}

// decimal is a cell; empty: not known.
func decimal(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// MarshalJSON writes the plan as one object.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type mean struct {
		Mean *float64 `json:"mean"`
		Half *float64 `json:"ci95"` // half the width of the interval; null with fewer than two seeds
		N    int      `json:"n"`
	}
	type setting struct {
		Name     string            `json:"setting"`
		Schedule string            `json:"schedule"`
		Values   map[string]string `json:"values"` // of the grids, by key
		Own      bool              `json:"as_configured"`
		Rounds   forecast.Interval `json:"rounds"`
		Steps    forecast.Interval `json:"local_steps"`
		Work     forecast.Interval `json:"client_sgd_steps"`
		Wasted   forecast.Interval `json:"wasted_time_share"`
		Joules   forecast.Interval `json:"energy_joules"`
		Bytes    forecast.Interval `json:"bytes"`
		AtMost   bool              `json:"at_most"`
		Score    float64           `json:"score"`
		Seeds    int               `json:"seeds"` // that were trained
		Diverged int               `json:"diverged"`
		Best     *mean             `json:"best"`
		Final    *mean             `json:"validation"`
		Target   *mean             `json:"seconds_to_target"`
	}
	meanOf := func(e statistics.Estimated) *mean {
		return &mean{metrics.Measured(e.Mean), metrics.Measured(e.Half), e.N}
	}
	list := make([]setting, len(p.Settings))
	for i := range p.Settings {
		s := &p.Settings[i]
		x := setting{
			Name: s.Name, Schedule: s.Schedule, Values: map[string]string{}, Own: s.Own, AtMost: s.AtMost, Score: s.Score(),
			Rounds: s.Rounds, Steps: s.Steps, Work: s.Work, Wasted: s.Wasted, Joules: s.Joules, Bytes: s.Bytes,
		}
		for g, v := range s.Values {
			x.Values[p.request.Grids[g].Key] = v
		}
		if t := s.Trained; t != nil {
			x.Seeds, x.Diverged, x.Best, x.Final, x.Target = t.Seeds, t.Diverged, meanOf(t.Best), meanOf(t.Quality), meanOf(t.Target)
		}
		list[i] = x
	}
	return json.Marshal(struct {
		Seconds     float64   `json:"virtual_seconds"`
		Draws       int       `json:"draws"`
		Metric      string    `json:"metric"` // by which settings are compared; empty: nothing was trained
		Recommended string    `json:"recommended"`
		Why         string    `json:"why"`
		Unknown     []string  `json:"what_is_unknown"`
		Left        []string  `json:"left_out"`
		Settings    []setting `json:"settings"`
	}{p.Seconds, p.Draws, p.quality.Name, p.Settings[p.Chosen].Name, p.Why, p.Unknown, p.Left, list})
}
