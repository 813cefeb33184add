package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/internal/statistics"
	"fedpace/metrics"
	"fedpace/study"
)

// Plan is the answer to a [Request]: the settings with their times, those that were trained, and a
// recommendation.
type Plan struct {
	// Seconds is the virtual time that every setting had.
	Seconds float64
	// Draws is how often the devices of the fleet were drawn for each setting.
	Draws int
	// Settings are sorted with the most promising first.
	Settings []*Setting
	// Impossible lists the points of the grid that give no valid configuration, with the reason.
	Impossible []string
	// Chosen is the setting that is recommended.
	Chosen *Setting
	// Reason says in a sentence why Chosen is recommended.
	Reason string
	// Unknown lists in sentences what the plan does not know.
	Unknown []string

	request Request
	// quality is the metric by which settings are compared. It has no name if nothing was trained.
	quality folder.Metric
}

// Trained is what a setting reached in training, over its seeds.
type Trained struct {
	// Seeds is the number of seeds with which the setting was trained.
	Seeds int
	// Diverged is the number of seeds whose runs diverged. They are in no mean.
	Diverged int
	Quality  statistics.Estimated
	// Best is the best quality up to the end of the runs.
	Best   statistics.Estimated
	Joules statistics.Estimated
	Bytes  statistics.Estimated
	// Target is the time until evaluate.target was reached, in virtual seconds. Its N is the number
	// of seeds that reached it.
	Target statistics.Estimated

	cells []study.Cell
	// bests holds the best quality of each seed, or NaN.
	bests []float64
}

// Make times the settings of a request, trains the most promising ones and recommends one. Trained runs
// lie in dir, where another Make finds them. progress is told how many draws of the total are done,
// before anything is trained.
func Make(ctx context.Context, q Request, dir string, o study.Options, progress func(done, total int)) (*Plan, error) {
	list, impossible, err := q.settings(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Seconds:    q.seconds,
		Draws:      q.Draws,
		Impossible: impossible,
		request:    q,
	}
	if err := q.time(ctx, list, p.Seconds, progress); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	// Settings that had too few updates in some draws come last; among the others the rank decides.
	slices.SortStableFunc(list, func(a, b *Setting) int {
		return cmp.Or(cmp.Compare(a.Short, b.Short), cmp.Compare(q.rank(a), q.rank(b)))
	})
	p.Settings = list
	if err := p.learn(ctx, dir, o); err != nil {
		return nil, err
	}
	p.choose()
	p.Unknown = p.unknown()
	return p, nil
}

// learn trains the most promising settings and the configuration as it is. It does nothing where
// training says nothing about what is asked.
func (p *Plan) learn(ctx context.Context, dir string, o study.Options) error {
	if p.request.Learn == 0 || p.request.toUpdates() || !p.Settings[0].config.Train {
		return nil
	}
	var learned []*Setting
	var cells []study.Cell
	seeds := p.request.Seeds
	for i, s := range p.Settings {
		// The configuration as it is is always trained, because it is what the others must beat.
		if i < p.request.Learn || s.AsConfigured {
			learned = append(learned, s)
			for n := range seeds {
				cells = append(cells, p.cell(s, n, dir))
			}
		}
	}
	if err := study.Play(ctx, dir, cells, o); err != nil {
		return err
	}
	measured := func(c study.Cell) bool { return c.Diverged == "" && len(c.Summary.Metrics) > 0 }
	// All runs are compared by the same metric, which any run that completed names.
	if i := slices.IndexFunc(cells, measured); i >= 0 {
		p.quality = cells[i].Summary.Metrics[0]
	}
	// The cells of a setting follow each other, one for each seed.
	for i, s := range learned {
		s.Trained = p.trainedOf(cells[i*seeds : (i+1)*seeds])
	}
	return nil
}

// cell is the run of a setting with its n-th seed. All settings are evaluated at the same times, because the
// best of more values would be favoured by chance.
func (p *Plan) cell(s *Setting, n int, dir string) study.Cell {
	c := s.config
	c.Seed += uint64(n)
	c.Stop = config.Stop{VirtualSeconds: p.Seconds}
	if c.Evaluate.EverySeconds == 0 {
		// As often as the configuration as it is would be evaluated in its rounds.
		configured := p.configuredSetting()
		evaluations := configured.Rounds.P50 / float64(configured.config.Evaluate.Every)
		c.Evaluate.EverySeconds = p.Seconds / max(1, evaluations)
	}
	name := fmt.Sprintf("%s, seed=%d", s.Name, c.Seed)
	c.Out = filepath.Join(dir, study.FileName(name))
	return study.Cell{Name: name, Schedule: s.Schedule, Config: c}
}

// configuredSetting is the configuration as it is, which is always among the settings.
func (p *Plan) configuredSetting() *Setting {
	return p.Settings[slices.IndexFunc(p.Settings, func(s *Setting) bool { return s.AsConfigured })]
}

// trainedOf gathers the runs of a setting over its seeds. A run that diverged is in no mean.
func (p *Plan) trainedOf(cells []study.Cell) *Trained {
	t := &Trained{Seeds: len(cells), cells: cells, bests: make([]float64, len(cells))}
	mean := func(quantity func(*folder.Summary) float64) statistics.Estimated {
		return study.MeanOf(cells, func(c *study.Cell) float64 {
			// A NaN is left out of the mean.
			if c.Diverged != "" {
				return math.NaN()
			}
			return quantity(&c.Summary)
		})
	}
	t.Quality = mean(func(s *folder.Summary) float64 { return metrics.Value(s.Metric(p.quality.Name).Validation) })
	for i := range cells {
		// bests keeps its place for each seed, so that settings can be compared in pairs.
		t.bests[i] = metrics.Value(cells[i].Summary.Metric(p.quality.Name).Best)
		if cells[i].Diverged != "" {
			t.bests[i] = math.NaN()
			t.Diverged++
		}
	}
	t.Best = statistics.EstimateMean(t.bests)
	t.Joules = mean(func(s *folder.Summary) float64 { return s.EnergyJoules.All() })
	t.Bytes = mean(func(s *folder.Summary) float64 { return s.Bytes.All() })
	t.Target = mean(func(s *folder.Summary) float64 { return metrics.Value(s.TimeToTarget) })
	return t
}

// Score is how promising a setting is before it is trained: the higher, the more promising. The
// package's comment explains it.
func (s *Setting) Score() float64 { return math.Sqrt(s.Work.P50) * s.Rounds.P50 }

// time simulates the settings for a number of virtual seconds, side by side. progress may be nil.
func (q *Request) time(ctx context.Context, list []*Setting, seconds float64, progress func(done, total int)) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	limit := round.Limits{Time: round.Time(min(math.RoundToEven(seconds*1e9), float64(round.MaxTime)))}
	// The simulation ends with the wanted number of updates. Slow settings may get few updates, so
	// they have a hundred times as long.
	if q.toUpdates() {
		limit.Accepted = list[0].config.Stop.Accepted
		limit.Time = round.Time(min(100*float64(limit.Time), float64(round.MaxTime)))
	}
	var mu sync.Mutex
	done := 0
	for _, s := range list {
		// Each setting is simulated on its own; mu guards only the count for progress.
		group.Go(func() (err error) {
			s.Usage, err = forecast.UsageOf(inner, s.config, limit, q.Draws, func() {
				mu.Lock()
				defer mu.Unlock()
				done++
				if progress != nil {
					progress(done, len(list)*q.Draws)
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
