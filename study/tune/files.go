package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/internal/atomicfile"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/learn/metric"
	"fedpace/metrics/figure"
	"fedpace/study"
	"fedpace/study/choice"
)

// What a tuning leaves in its folder beside its runs.
const (
	// ConfigFile holds the best setting.
	ConfigFile = "best.yaml"
	// ResultFile holds all settings, in the form that --json prints.
	ResultFile = "tune.json"
	// FigureFile shows the settings of the grid at each rung.
	FigureFile = "tune.svg"
)

// Save writes the result into the folder dir: the best configuration, all settings as JSON, and the
// figure. It writes as much as it can and joins the errors.
func (r *Result) Save(dir string) error {
	text, err := json.Marshal(r)
	return errors.Join(err,
		atomicfile.Write(filepath.Join(dir, ConfigFile), atomicfile.Bytes(r.YAML())),
		atomicfile.Write(filepath.Join(dir, ResultFile), atomicfile.Bytes(append(text, '\n'))),
		figure.Save(filepath.Join(dir, FigureFile), r.panels()...))
}

// rungNames are the parts of the virtual time to which rungs go.
var rungNames = []string{"1/9", "1/3", "end"}

// columns returns the columns of the table of settings, for people and for files: the values of the
// grids, the schedule, the quality at each rung, and how far each setting is below the best.
func (r *Result) columns() (list table.Columns[*Setting]) {
	for i, g := range r.grids {
		list = append(
			list,
			table.Column[*Setting]{Name: g.Key, Title: g.Key, Of: func(s *Setting) any { return s.cells[0].Values[i] }},
		)
	}
	list = append(
		list,
		table.Column[*Setting]{
			Name:  "schedule_name",
			Title: "schedule",
			Of:    func(s *Setting) any { return s.cells[0].Schedule },
		},
	)
	// A setting that was left out before a rung has no value there.
	for i, name := range rungNames {
		list = append(list, table.Column[*Setting]{
			Name:  "tail_" + name,
			Title: "at " + name,
			Of:    func(s *Setting) any { return s.Tail(i) },
			Text:  func(s *Setting) string { return s.Tail(i).Digits(4) },
		})
	}
	return append(list,
		table.Column[*Setting]{
			Name: "tail_fresh",
			Of:   func(s *Setting) any { return statistics.EstimateMean(s.Fresh) },
		},
		table.Column[*Setting]{Name: "chosen", Of: func(s *Setting) any { return s.Winner }},
		table.Column[*Setting]{
			Name:  "below_best",
			Title: "below the best",
			Of:    func(s *Setting) any { return s.Below },
			Text:  func(s *Setting) string { return s.Below.Digits(2) },
		},
		table.Column[*Setting]{Name: "sgd_steps", Title: "SGD steps", Of: func(s *Setting) any { return s.Steps }})
}

// Write writes the table of settings to w for people, the best first, and behind it sentences that
// say which setting is the best.
func (r *Result) Write(w io.Writer) error {
	if err := table.WriteNumbers(w, r.columns().Texts(r.Settings)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.verdict("\n"))
	return err
}

// verdict says which setting is the best, what was chosen for each schedule and how sure that is, and how
// much of the grid's virtual time was played. newline separates its sentences.
func (r *Result) verdict(newline string) string {
	// playedPercent is the mean part of their virtual time for which settings were played.
	playedPercent := 0.0
	for _, s := range r.Settings {
		playedPercent += 100 / rungDivisors[s.lastRung()] / float64(len(r.Settings))
	}
	best := r.Settings[0]
	sentences := []string{fmt.Sprintf("Best: %s %s, with %s %s.",
		best.cells[0].Schedule, strings.Join(r.sets(best), " "), metric.Title(r.quality.Name), r.endQualityText(best))}
	for _, search := range r.Searches {
		sentences = append(sentences, r.choiceSentence(search))
	}
	sentences = append(sentences, fmt.Sprintf(
		"With the first %d %s all took %.0f %% of the virtual time of the whole grid.",
		r.Seeds,
		human.Plural(r.Seeds, "seed"),
		playedPercent,
	))
	return strings.Join(sentences, newline)
}

// endQualityText says for people what quality a setting had at the end of its runs: with the fresh seeds, by
// which it was not chosen, where there are any.
func (r *Result) endQualityText(s *Setting) string {
	seconds := human.VirtualTime(r.Seconds / rungDivisors[s.lastRung()])
	if n := len(s.Fresh); n > 0 {
		return fmt.Sprintf("%s in the last tenth of %s with %d fresh %s, by which it was not chosen",
			statistics.EstimateMean(s.Fresh).Digits(4), seconds, n, human.Plural(n, "seed"))
	}
	return fmt.Sprintf("%s in the last tenth of %s", s.Tail(s.lastRung()).Digits(4), seconds)
}

// choiceSentence returns a sentence for people that says which setting was chosen for a schedule, with
// how many seeds, whether fresh seeds confirm it, and which other settings the seeds do not tell
// from it.
func (r *Result) choiceSentence(search *Searched) string {
	chosen := search.Settings[search.Chosen().Setting]
	text := fmt.Sprintf("%s: %s, chosen with %d %s",
		chosen.cells[0].Schedule, strings.Join(r.sets(chosen), " "), len(search.Chosen().Searched),
		human.Plural(len(search.Chosen().Searched), "seed"))
	switch {
	case len(chosen.Fresh) == 0:
	case search.Confirmed:
		text += fmt.Sprintf(", the best with %d fresh ones, too", len(chosen.Fresh))
	default:
		text += fmt.Sprintf("; with %d fresh ones alone another is better", len(chosen.Fresh))
	}
	var others []string
	for _, standing := range search.Standings[1:] {
		// The seeds show that this setting is worse.
		if standing.Distinct {
			continue
		}
		other := strings.Join(r.sets(search.Settings[standing.Setting]), " ")
		if standing.SeedsToDecide != choice.Unknown {
			other += fmt.Sprintf(" (about %s seeds would)", human.Thousands(int64(standing.SeedsToDecide)))
		}
		others = append(others, other)
	}
	if len(others) > 0 {
		text += ". The seeds do not tell it from " + strings.Join(others, ", ")
	}
	if dropped := r.droppedUndecided(chosen); len(dropped) > 0 {
		text += ". Left out early, though the seeds had not told them from it: " + strings.Join(dropped, ", ")
	}
	return text + "."
}

// droppedUndecided lists those settings of a chosen setting's schedule that ended before the last rung although
// the seeds, at the rung where they ended, do not tell them from the chosen one. The rule of a rung keeps a third of
// the settings and tests nothing. Each is key=value for each grid, and the part of the time at which it ended.
func (r *Result) droppedUndecided(chosen *Setting) (list []string) {
	for _, s := range r.Settings {
		if s.cells[0].Schedule != chosen.cells[0].Schedule || s.lastRung() == chosen.lastRung() {
			continue
		}
		behind := r.behind(s, chosen)
		// A run that diverged has no quality, which decides. One seed has no interval, and tells nothing apart.
		diverged := behind.N < r.Seeds
		isWorse := behind.Mean > behind.Half
		if diverged || isWorse || r.Seeds < 2 {
			continue
		}
		list = append(list, fmt.Sprintf("%s (at %s)", strings.Join(r.sets(s), " "), rungNames[s.lastRung()]))
	}
	return list
}

// sets returns the values of a setting as assignments, key=value, one for each grid.
func (r *Result) sets(s *Setting) []string { return study.Sets(r.grids, s.cells[0].Values) }

// Best is what a comparison reads of a tuning.
type Best struct {
	// Seconds is the virtual time for which the settings were chosen.
	Seconds float64 `json:"virtual_seconds"`
	// Seed is the first of the seeds by which the settings were chosen.
	Seed uint64 `json:"seed"`
	// Seeds is the number of seeds that the search might use, the fresh ones included.
	Seeds int `json:"seeds"`
	// Sets holds, by schedule, the keys with which it ended best, as key=value.
	Sets map[string][]string `json:"best"`
}

// MarshalJSON writes the result as one JSON object: the best values for each schedule, which [Read]
// reads, and every setting with its measures.
func (r *Result) MarshalJSON() ([]byte, error) {
	first := r.Settings[0]
	best := Best{
		Seconds: r.Seconds,
		Seed:    first.cells[0].Config.Seed,
		Seeds:   len(first.cells) + len(first.furtherCells),
		Sets:    map[string][]string{},
	}
	// The settings are sorted, so the first one of a schedule is its best.
	for _, s := range r.Settings {
		if name := s.cells[0].Schedule; best.Sets[name] == nil {
			best.Sets[name] = r.sets(s)
		}
	}
	return json.Marshal(struct {
		Best
		Metric string `json:"metric"`
		// Settings holds all settings, the best first.
		Settings []map[string]any `json:"settings"`
	}{best, r.quality.Name, r.columns().Objects(r.Settings)})
}

// Read reads the result that fedpace tune has left in the folder dir: time, seeds, and the best
// values for each schedule. It refuses a file that names no best setting.
func Read(dir string) (b Best, err error) {
	path := filepath.Join(dir, ResultFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return b, fmt.Errorf("%w (fedpace tune --out %s makes it)", err, dir)
	}
	// A file without these values was not written by a complete tuning.
	err = json.Unmarshal(text, &b)
	if err == nil &&
		(len(b.Sets) == 0 || !(b.Seconds > 0) || b.Seeds < 1) {
		err = errors.New("it names no best setting")
	}
	if err != nil {
		err = fmt.Errorf("%s is no result of fedpace tune: %w", path, err)
	}
	return b, err
}

// Apply gives each schedule of a plan the keys that were found for it, the virtual time for which they
// were chosen unless the configuration has one, and seeds by which they were not chosen.
func (b Best) Apply(p *study.Plan) error {
	// Comparing tuned schedules with one that was not tuned would be unfair.
	for _, name := range p.Names() {
		if b.Sets[name] == nil {
			return fmt.Errorf(
				"schedule %s was not tuned, but %s (fedpace tune --schedules, with the same --out)",
				name,
				strings.Join(slices.Sorted(maps.Keys(b.Sets)), ", "),
			)
		}
	}
	load := p.Load
	p.BySchedule = b.Sets
	p.Load = func(sets ...string) (config.Config, error) {
		c, err := load(sets...)
		c.Stop = config.Stop{VirtualSeconds: cmp.Or(c.Stop.VirtualSeconds, b.Seconds)}
		// The seeds of the tuning favour what it chose, so the comparison starts behind them.
		if next := b.Seed + uint64(b.Seeds); c.Seed >= b.Seed && c.Seed < next {
			c.Seed = next
		}
		return c, err
	}
	return nil
}

// YAML is the content of best.yaml: the configuration of the best setting with the first seed, and a
// comment that says what it is.
func (r *Result) YAML() []byte {
	c := r.Settings[0].cells[0].Config
	c.Name += "-best"
	c.Out = config.OutFolder(c.Name)
	return append(fmt.Appendf(nil, "# What fedpace tune found. %s\n", r.verdict("\n# ")), c.YAML()...)
}

// panels returns a panel for each rung, with the quality of the settings against the values of the
// first key. Settings that differ in another key are lines of their own.
func (r *Result) panels() (panels []figure.Panel) {
	for rung, name := range rungNames {
		panel := figure.Panel{
			Title: "virtual time: " + name,
			X:     r.grids[0].Key,
			Y:     metric.Title(r.quality.Name),
			Names: r.grids[0].Values,
			Share: metric.IsShare(r.quality.Name),
		}
		// The points of a line follow each other in the order of the first key's values.
		for x, value := range panel.Names {
			for _, s := range r.Settings {
				// All cells of a setting have the same values, in the order of the keys.
				hasValue := s.cells[0].Values[0] == value
				tail := s.Tail(rung)
				if !hasValue || tail.N == 0 {
					continue
				}
				otherKeys := r.sets(s)[1:]
				line := strings.Join(append([]string{s.cells[0].Schedule}, otherKeys...), " ")
				panel.Add(line, figure.Point{X: float64(x), Y: tail.Mean, Half: tail.Half})
			}
		}
		panels = append(panels, panel)
	}
	return panels
}
