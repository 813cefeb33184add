package plan

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/statistics"
	"fedpace/metrics"
	"fedpace/study"
	"fedpace/study/choice"
)

// Trained is what a setting reached in training, over its seeds.
type Trained struct {
	// Seeds is the number of seeds with which the setting was trained.
	Seeds int
	// Diverged is the number of seeds whose runs diverged. They are in no mean.
	Diverged int
	// Tail is the quality in the last tenth of the plan's time, over all seeds.
	Tail statistics.Estimated
	// Fresh is the quality in the last tenth of the plan's time over the fresh seeds, by which the
	// setting was not chosen. It has no value if the setting was not trained with them.
	Fresh statistics.Estimated
	// Quality is the quality of the final models.
	Quality statistics.Estimated
	// Best is the best quality up to the end of the runs. It is favoured by chance, so nothing is chosen
	// by it.
	Best statistics.Estimated
	// Joules is the energy of all clients in a run.
	Joules statistics.Estimated
	// Bytes is the number of bytes that all clients transfer in a run.
	Bytes statistics.Estimated
	// Target is the time until evaluate.target was reached, in virtual seconds. Its N is the number
	// of seeds that reached it.
	Target statistics.Estimated
	// Standing compares the setting with the chosen one, seed by seed.
	Standing choice.Standing

	// cells are the runs of the search, one for each seed, and then those with fresh seeds.
	cells []study.Cell
	// tails holds the quality in the last tenth of the plan's time for each of the cells. It is NaN where
	// the run diverged.
	tails []float64
}

// train trains the first settings, and the configuration as it is, with as many seeds as it takes to find
// the best of them. Runs lie in dir. It does nothing if the request trains nothing, if it ranks settings by
// their updates alone, or if the configuration does not train.
func (p *Plan) train(ctx context.Context, dir string, o study.Options) error {
	if p.request.Learn == 0 || p.request.countsUpdates() || !p.Settings[0].config.Train {
		return nil
	}
	// alwaysFresh has the indices among the trained settings of those that get fresh seeds in any case.
	var alwaysFresh []int
	for i, s := range p.Settings {
		// The configuration as it is is always trained, because it is what the others must beat.
		if i < p.request.Learn || s.AsConfigured {
			if s.AsConfigured {
				alwaysFresh = append(alwaysFresh, len(p.trainedSettings))
			}
			s.Trained = &Trained{}
			p.trainedSettings = append(p.trainedSettings, s)
		}
	}
	// search finds the best of the trained settings. errorOf gives the error of a setting's run by the index of the
	// run among the setting's cells.
	search := func(errorOf func(*Setting, int) float64) (err error) {
		try := p.trial(ctx, dir, o, errorOf)
		p.outcome, err = choice.Search(len(p.trainedSettings), alwaysFresh, p.request.Limits, try)
		return err
	}
	if err := search(p.rankingError()); err != nil {
		return err
	}
	// Settings that miss the target with fewer seeds rank first. So if the chosen one misses it with a seed, no
	// setting that was tried with as many seeds reaches it with all, and the quality at the end decides instead. The
	// search is then repeated; its runs are complete, so they are only read again.
	missesTarget := slices.ContainsFunc(p.outcome.Chosen().Searched, math.IsNaN)
	if p.request.Goal == Target && missesTarget {
		for _, s := range p.trainedSettings {
			s.Trained = &Trained{}
		}
		if err := search(p.tailError); err != nil {
			return err
		}
	}
	for _, standing := range p.outcome.Standings {
		s := p.trainedSettings[standing.Setting]
		s.Trained.Standing = standing
		s.Trained.summarize(p.quality.Name, len(standing.Searched))
	}
	return nil
}

// trial returns the function by which a search tries settings: it trains them with further seeds, in folders
// below dir, and returns the error of each setting with each of these seeds. errorOf gives the error of a
// setting's run by the run's index among the setting's cells.
func (p *Plan) trial(
	ctx context.Context,
	dir string,
	o study.Options,
	errorOf func(*Setting, int) float64,
) choice.Play {
	return func(settings []int, first, count int) ([][]float64, error) {
		var cells []study.Cell
		for _, i := range settings {
			// Seeds are counted on from first, so that no run is made twice.
			for n := range count {
				cells = append(cells, p.cell(p.trainedSettings[i], first+n, dir))
			}
		}
		if err := study.Play(ctx, dir, cells, o); err != nil {
			return nil, err
		}
		var lists [][]float64
		for j, i := range settings {
			s := p.trainedSettings[i]
			var list []float64
			// The cells of a setting follow each other, one for each seed.
			for _, c := range cells[j*count : (j+1)*count] {
				if err := p.addRun(s, c); err != nil {
					return nil, err
				}
				// addRun has appended the run to the setting's cells, so it is the last of them.
				list = append(list, errorOf(s, len(s.Trained.cells)-1))
			}
			lists = append(lists, list)
		}
		return lists, nil
	}
}

// addRun adds cell c, which has been played, to the runs of setting s, with its quality in the last
// tenth of the time. It fails if the run's folder cannot be read.
func (p *Plan) addRun(s *Setting, c study.Cell) error {
	tail, quality, err := c.EndTail()
	if err != nil {
		return err
	}
	// All runs are compared by the same metric, which any run that completed names.
	if c.Diverged == "" {
		p.quality = quality
	}
	s.Trained.cells = append(s.Trained.cells, c)
	s.Trained.tails = append(s.Trained.tails, tail)
	return nil
}

// rankingError returns the function by whose value settings are ranked, the lower the better: the virtual
// seconds to the target where the plan asks for that, NaN if a run never reaches it, and else the error at the end
// of a run. The function takes a setting and the index of one of its cells.
func (p *Plan) rankingError() func(*Setting, int) float64 {
	if p.request.Goal == Target {
		return func(s *Setting, run int) float64 {
			return metrics.Value(s.Trained.cells[run].Summary.TimeToTarget)
		}
	}
	return p.tailError
}

// tailError is the quality in the last tenth of a run as an error, of which lower is better. run is the index
// of the run among the setting's cells. It is NaN if the run diverged.
func (p *Plan) tailError(s *Setting, run int) float64 { return p.quality.Error(s.Trained.tails[run]) }

// cell is the run of a setting with its n-th seed, counted from 0, for the plan's virtual time. Its folder is below
// dir. All settings are evaluated at the same times, because the mean over the end of a run must not depend on how
// often it was evaluated.
func (p *Plan) cell(s *Setting, n int, dir string) study.Cell {
	c := s.config
	c.Seed += uint64(n)
	c.Stop = config.Stop{VirtualSeconds: p.Seconds}
	if c.Evaluate.EverySeconds == 0 {
		// The configuration itself would be evaluated so often in the plan's time: after every Evaluate.Every of
		// its rounds, of which the median over the draws counts.
		configured := p.configuredSetting()
		evaluations := configured.Rounds.P50 / float64(configured.config.Evaluate.Every)
		if p.request.Race > 0 {
			evaluations = raceEvaluations
		}
		c.Evaluate.EverySeconds = p.Seconds / max(1, evaluations)
	}
	name := fmt.Sprintf("%s, seed=%d", s.Name, c.Seed)
	c.Out = filepath.Join(dir, study.FileName(name))
	return study.Cell{Name: name, Schedule: s.Schedule, Config: c}
}

// summarize computes the means over the seeds. A tail is the quality in the last tenth of the plan's time, NaN for a
// run that diverged, which is in no mean. searched is the number of seeds of the search. Fresh seeds follow behind
// them: the setting was not chosen by these, so chance does not favour it there. metric names the quality.
func (t *Trained) summarize(metric string, searched int) {
	mean := func(quantity func(*folder.Summary) float64) statistics.Estimated {
		return study.MeanOf(t.cells, func(c *study.Cell) float64 {
			// A NaN is left out of the mean.
			if c.Diverged != "" {
				return math.NaN()
			}
			return quantity(&c.Summary)
		})
	}
	t.Seeds = len(t.cells)
	for i := range t.cells {
		if t.cells[i].Diverged != "" {
			t.Diverged++
		}
	}
	t.Tail = statistics.EstimateMean(t.tails)
	// The tails behind those of the search are of fresh seeds.
	t.Fresh = statistics.EstimateMean(t.tails[searched:])
	t.Quality = mean(func(s *folder.Summary) float64 { return metrics.Value(s.Metric(metric).Validation) })
	t.Best = mean(func(s *folder.Summary) float64 { return metrics.Value(s.Metric(metric).Best) })
	t.Joules = mean(func(s *folder.Summary) float64 { return s.EnergyJoules.All() })
	t.Bytes = mean(func(s *folder.Summary) float64 { return s.Bytes.All() })
	t.Target = mean(func(s *folder.Summary) float64 { return metrics.Value(s.TimeToTarget) })
}

// sameAs reports whether two settings had the same results with every seed that both were trained with: the
// same quality, bytes and local steps to the bit. Then they are one setting under two names.
func (t *Trained) sameAs(other *Trained) bool {
	shared := min(len(t.cells), len(other.cells))
	if shared == 0 {
		return false
	}
	// The cells of both are in the order of their seeds.
	for i := range shared {
		a := &t.cells[i]
		b := &other.cells[i]
		sameCost := a.Summary.Bytes == b.Summary.Bytes && a.Summary.SGDSteps == b.Summary.SGDSteps
		sameSeed := a.Config.Seed == b.Config.Seed
		if !sameSeed || !sameCost || t.tails[i] != other.tails[i] {
			return false
		}
	}
	return true
}
