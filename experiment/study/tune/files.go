package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/actors/measure"
	"fedpace/experiment/config"
	"fedpace/experiment/study"
	"fedpace/internal/atomicfile"
	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/metrics/figure"
)

// What a tuning leaves in its folder beside its runs.
const (
	ConfigFile = "best.yaml" // the best setting
	ResultFile = "tune.json" // all of them, as --json prints them
	TableFile  = "tune.csv"  // the same as a table
	FigureFile = "tune.svg"  // the grid at each rung
)

// Save writes these files.
func (r *Result) Save(dir string) error {
	text, err := json.Marshal(r)
	return errors.Join(err,
		atomicfile.Write(filepath.Join(dir, ConfigFile), atomicfile.Bytes(r.YAML())),
		atomicfile.Write(filepath.Join(dir, ResultFile), atomicfile.Bytes(append(text, '\n'))),
		atomicfile.Write(filepath.Join(dir, TableFile), func(w io.Writer) error {
			return table.WriteCSV(w, r.columns().Records(r.rows(), -1))
		}),
		figure.Save(filepath.Join(dir, FigureFile), r.panels()...))
}

// rungName is the part of the virtual time to which a rung goes.
func rungName(i int) string {
	if rungs[i] == 1 {
		return "end"
	}
	return fmt.Sprintf("1/%g", rungs[i])
}

// columns are those of all forms of the table.
func (r *Result) columns() (list table.Columns[*Setting]) {
	for i, g := range r.grids {
		list = append(list, table.Column[*Setting]{Name: g.Key, Title: g.Key, Of: func(s *Setting) any { return s.Values[i] }})
	}
	list = append(list, table.Column[*Setting]{Name: "schedule_name", Title: "schedule", Of: func(s *Setting) any { return s.Schedule }})
	for i := range rungs {
		list = append(list, table.Column[*Setting]{
			Name: "tail_" + strings.ReplaceAll(rungName(i), "/", "_"), Title: "at " + rungName(i),
			Of: func(s *Setting) any { return s.Tail(i) }, Text: func(s *Setting) string { return s.Tail(i).Digits(4) },
		})
	}
	return append(list,
		table.Column[*Setting]{Name: "below_best", Title: "below the best", Of: func(s *Setting) any { return s.Below }, Text: func(s *Setting) string { return s.Below.Digits(2) }},
		table.Column[*Setting]{Name: "sgd_steps", Title: "SGD steps", Of: func(s *Setting) any { return s.Steps }},
		table.Column[*Setting]{Name: "diverged", Of: func(s *Setting) any { return s.Diverged }})
}

// rows are those of the table.
func (r *Result) rows() (list []*Setting) {
	for i := range r.Settings {
		list = append(list, &r.Settings[i])
	}
	return list
}

// Write writes the table for people, and what the best setting is.
func (r *Result) Write(w io.Writer) error {
	if err := table.WriteText(w, r.columns().Texts(r.rows()), true); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n", r.verdict(), r.cost())
	return err
}

// verdict says which setting is the best.
func (r *Result) verdict() string {
	best := &r.Settings[0]
	text := fmt.Sprintf("Best: %s. Its %s in the last tenth of %s is %s, %s.", r.name(best), measure.Title(r.quality.Name), human.VirtualTime(r.Seconds/rungs[best.last()]), best.Tail(best.last()).Digits(4), r.seeds())
	var alike []string
	for i := range r.Settings[1:] {
		s := &r.Settings[1+i]
		if s.Schedule == best.Schedule && s.Diverged == 0 && s.Below.Mean <= s.Below.Half {
			alike = append(alike, strings.Join(study.Sets(r.grids, s.Values), " "))
		}
	}
	if n := len(alike); n > 0 {
		text += fmt.Sprintf(" These seeds do not tell it from %d more, such as %s.", n, alike[0])
	}
	return text
}

// name names a setting.
func (r *Result) name(s *Setting) string {
	return strings.Join(append([]string{s.Schedule}, study.Sets(r.grids, s.Values)...), " ")
}

// seeds names the seeds.
func (r *Result) seeds() string {
	if r.Seeds == 1 {
		return fmt.Sprintf("with seed %d; one seed does not tell how much of that is chance (--seeds 3)", r.Seed)
	}
	return fmt.Sprintf("means over seeds %d to %d", r.Seed, r.Seed+uint64(r.Seeds)-1)
}

// cost says what the tuning took beside the whole grid.
func (r *Result) cost() string {
	played := 0.0
	for _, s := range r.Settings {
		played += 1 / rungs[s.last()]
	}
	return fmt.Sprintf("%d settings took %.0f %% of the virtual time of the whole grid.", len(r.Settings), 100*played/float64(len(r.Settings)))
}

// bests are the settings with which each schedule ended best, as keys that are set.
func (r *Result) bests() map[string][]string {
	list := map[string][]string{}
	for i := range r.Settings {
		if s := &r.Settings[i]; list[s.Schedule] == nil && s.Diverged == 0 {
			list[s.Schedule] = study.Sets(r.grids, s.Values)
		}
	}
	return list
}

// Best is what a comparison reads of a tuning.
type Best struct {
	Seconds float64             `json:"virtual_seconds"`
	Seed    uint64              `json:"seed"` // the first of those by which it chose
	Seeds   int                 `json:"seeds"`
	Sets    map[string][]string `json:"best"` // by schedule, as key=value
}

// MarshalJSON writes the result as one object: what [Read] reads, and every setting.
func (r *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Best
		Metric   string           `json:"metric"`
		Schedule string           `json:"schedule"` // of the best setting of all
		Settings []map[string]any `json:"settings"` // the best first
	}{Best{r.Seconds, r.Seed, r.Seeds, r.bests()}, r.quality.Name, r.Settings[0].Schedule, r.columns().Objects(r.rows())})
}

// Read reads what a tuning in a folder has found.
func Read(dir string) (b Best, err error) {
	path := filepath.Join(dir, ResultFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return b, fmt.Errorf("%w (fedpace tune --out %s makes it)", err, dir)
	}
	if err = json.Unmarshal(text, &b); err == nil && (len(b.Sets) == 0 || !(b.Seconds > 0) || b.Seeds < 1) {
		err = errors.New("it names no best setting")
	}
	if err != nil {
		err = fmt.Errorf("%s is no result of fedpace tune: %w", path, err)
	}
	return b, err
}

// Config is the configuration of the best setting, with the first seed.
func (r *Result) Config() config.Config {
	c := r.Settings[0].cells[0].Config
	c.Name += "-best"
	c.Out = config.OutFolder(c.Name)
	return c
}

// YAML is the file best.yaml: that configuration, with what it is.
func (r *Result) YAML() []byte {
	return append(fmt.Appendf(nil, "# What fedpace tune found. %s\n# %s\n", r.verdict(), r.cost()), r.Config().YAML()...)
}

// panels draw the grid at each rung, against its first key. Settings that differ in another key are
// lines of their own.
func (r *Result) panels() (panels []figure.Panel) {
	at, names := r.grids[0].Axis()
	settings := r.rows()
	slices.SortFunc(settings, func(a, b *Setting) int { return a.place - b.place })
	for i := range rungs {
		panel := figure.Panel{Title: "at " + rungName(i) + " of the virtual time", X: r.grids[0].Key, Y: measure.Title(r.quality.Name), Names: names}
		for _, s := range settings {
			rest := append([]string{s.Schedule}, study.Sets(r.grids, s.Values)[1:]...)
			if e := s.Tail(i); e.N > 0 {
				panel.Add(strings.Join(rest, " "), figure.Point{X: at[s.Values[0]], Y: e.Mean, Half: e.Half})
			}
		}
		panels = append(panels, panel)
	}
	return panels
}
