package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/study"
	"fedpace/internal/statistics"
	"fedpace/metrics"
)

// Plan is what became of a request.
type Plan struct {
	Seconds  float64   // virtual time that every setting had
	Draws    int       // of the fleet
	Settings []Setting // the most promising first
	Left     []string  // points of the grid that make no configuration, and why
	Chosen   int       // the recommended setting
	Why      string    // it is, in a sentence
	Unknown  []string  // what the plan does not know, in sentences

	request Request
	quality folder.Metric // by which settings are compared; without a name: nothing was trained
}

// Trained is what a setting came to by learning, over its seeds.
type Trained struct {
	Seeds    int
	Diverged int // seeds whose runs did, and are in no mean
	Quality  statistics.Estimated
	Best     statistics.Estimated // so far
	Joules   statistics.Estimated
	Bytes    statistics.Estimated
	Target   statistics.Estimated // virtual seconds to evaluate.target; N seeds reached it

	cells []study.Cell // that did not diverge
	bests []float64    // by seed; NaN: none
}

// Make times the settings of a request and trains the most promising ones. What is
// trained is in out, where another Make finds it. progress is told how many draws of how
// many are done, before anything is trained.
func Make(ctx context.Context, q Request, out string, o study.Options, progress func(done, of int)) (*Plan, error) {
	list, left, err := q.settings(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{Seconds: q.seconds, Draws: q.Draws, Left: left, request: q}
	if err := q.time(ctx, list, p.Seconds, progress); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	slices.SortStableFunc(list, func(a, b Setting) int { return cmp.Compare(b.Score(), a.Score()) })
	p.Settings = list
	if err := p.learn(ctx, out, o); err != nil {
		return nil, err
	}
	p.choose()
	p.Unknown = p.unknown()
	return p, nil
}

// learn trains the most promising settings, and the configuration's own.
func (p *Plan) learn(ctx context.Context, out string, o study.Options) error {
	if p.request.Learn == 0 || !p.Settings[0].config.Train {
		return nil
	}
	var cells []study.Cell
	var of []int // setting of each
	for i := range p.Settings {
		s := &p.Settings[i]
		if i >= p.request.Learn && !s.Own {
			continue
		}
		for n := range p.request.Seeds {
			cell := p.cell(s, n)
			cell.Config.Out = filepath.Join(out, study.FileName(cell.Name))
			cells, of = append(cells, cell), append(of, i)
		}
	}
	if err := study.Play(ctx, out, cells, o); err != nil {
		return err
	}
	for i := range p.Settings {
		var own []study.Cell
		for n := range cells {
			if of[n] == i {
				own = append(own, cells[n])
			}
		}
		if own != nil {
			p.Settings[i].take(own)
		}
	}
	for i := range cells {
		if shown := cells[i].Summary.Metrics; cells[i].Diverged == "" && len(shown) > 0 {
			p.quality = shown[0]
			break
		}
	}
	return nil
}

// cell is the run of a setting with its n-th seed.
func (p *Plan) cell(s *Setting, n int) study.Cell {
	c := s.config
	c.Seed += uint64(n)
	c.Stop = config.Stop{VirtualSeconds: p.Seconds}
	if c.Evaluate.EverySeconds == 0 {
		c.Evaluate.EverySeconds = p.every()
	}
	return study.Cell{Name: fmt.Sprintf("%s, seed=%d", s.Name, c.Seed), Schedule: s.Schedule, Config: c}
}

// every is the virtual time from one evaluation to the next, for all settings: as often as the
// configuration's own is evaluated by its rounds. The best of more values would be favoured by chance.
func (p *Plan) every() float64 {
	own := &p.Settings[max(0, slices.IndexFunc(p.Settings, func(s Setting) bool { return s.Own }))]
	return p.Seconds / max(1, own.Rounds.P50/float64(own.config.Evaluate.Every))
}

// take takes over what the runs of a setting came to.
func (s *Setting) take(cells []study.Cell) {
	t := &Trained{Seeds: len(cells)}
	done := slices.DeleteFunc(slices.Clone(cells), func(c study.Cell) bool { return c.Diverged != "" })
	t.Diverged, t.cells = len(cells)-len(done), done
	mean := func(of func(*folder.Summary) float64) statistics.Estimated {
		return study.MeanOf(done, func(c *study.Cell) float64 { return of(&c.Summary) })
	}
	first := func(s *folder.Summary) folder.Metric {
		if shown := s.Metrics; len(shown) > 0 {
			return shown[0]
		}
		return folder.Metric{}
	}
	t.Quality = mean(func(s *folder.Summary) float64 { return metrics.Value(first(s).Validation) })
	for i := range cells {
		t.bests = append(t.bests, math.NaN())
		if cells[i].Diverged == "" {
			t.bests[i] = metrics.Value(first(&cells[i].Summary).Best)
		}
	}
	t.Best = statistics.EstimateMean(t.bests)
	t.Joules = mean(func(s *folder.Summary) float64 {
		if s.EnergyJoules == nil {
			return math.NaN()
		}
		return s.EnergyJoules.Useful + s.EnergyJoules.Wasted
	})
	t.Bytes = mean(func(s *folder.Summary) float64 { return float64(s.Bytes.Useful + s.Bytes.Wasted) })
	t.Target = mean(func(s *folder.Summary) float64 { return metrics.Value(s.TimeToTarget) })
	s.Trained = t
}
