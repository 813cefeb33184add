package tune

import (
	"context"
	"math"

	"fedpace/study"
	"fedpace/study/choice"
)

// search compares the settings of group, all of one schedule and played to the end, with more seeds
// where the first ones do not tell them apart, and confirms the choice with fresh seeds. limits say
// with how many seeds; further runs lie in dir. Seeds are numbered from the first of the tuning: those of the
// rungs (the rounds of elimination before) come first, then those that the search adds, then the fresh ones. A tail
// is a run's quality in the last tenth of its time.
func (r *Result) search(
	ctx context.Context,
	group []*Setting,
	limits choice.Limits,
	dir string,
	o study.Options,
) error {
	playTrial := func(settings []int, first, count int) ([][]float64, error) {
		// The first trial has the seeds of the rungs, whose runs were played and measured there.
		if first > 0 {
			if err := r.playFurther(ctx, group, settings, first, count, dir, o); err != nil {
				return nil, err
			}
		}
		var lists [][]float64
		for _, i := range settings {
			var list []float64
			for n := first; n < first+count; n++ {
				tail, err := group[i].endTail(n)
				if err != nil {
					return nil, err
				}
				list = append(list, r.quality.Error(tail))
			}
			lists = append(lists, list)
		}
		return lists, nil
	}
	outcome, err := choice.Search(len(group), nil, limits, playTrial)
	if err != nil {
		return err
	}
	// The standings are sorted, so the first one is the winner's.
	for i, standing := range outcome.Standings {
		s := group[standing.Setting]
		s.Winner = i == 0
		// The further seeds of the search join those of the rungs.
		for n := len(s.tails[s.lastRung()]); n < len(standing.Searched); n++ {
			tail, err := s.endTail(n)
			if err != nil {
				return err
			}
			s.tails[s.lastRung()] = append(s.tails[s.lastRung()], tail)
		}
		// Fresh seeds follow all those that the search may use.
		firstFresh := limits.Total() - limits.Fresh
		for n := range standing.Fresh {
			tail, err := s.endTail(firstFresh + n)
			if err != nil {
				return err
			}
			s.Fresh = append(s.Fresh, tail)
		}
	}
	r.Searches = append(r.Searches, &Searched{Outcome: *outcome, Settings: group})
	return nil
}

// playFurther plays those settings of a group that are at these indices with the seeds numbered first to
// first+count-1. Seeds are numbered as in [Result.search]: first is r.Seeds or more, as the rungs have played those
// before. The runs lie in the folder dir.
func (r *Result) playFurther(
	ctx context.Context,
	group []*Setting,
	settings []int,
	first, count int,
	dir string,
	o study.Options,
) error {
	// furtherCells has no runs with the seeds of the rungs, so its index 0 is seed number r.Seeds.
	begin := first - r.Seeds
	var cells []study.Cell
	for _, i := range settings {
		cells = append(cells, group[i].furtherCells[begin:begin+count]...)
	}
	if err := study.Play(ctx, dir, cells, o); err != nil {
		return err
	}
	// Play has changed the cells, so each setting takes its own back: count of them follow each other in cells.
	for j, i := range settings {
		copy(group[i].furtherCells[begin:], cells[j*count:(j+1)*count])
	}
	return nil
}

// endTail returns the quality in the last tenth of the setting's run with seed number n, counted from 0 and from the
// first seed of the tuning. The seeds of the rungs (cells) come before all others (furtherCells). The quality is NaN
// if the run diverged.
func (s *Setting) endTail(n int) (float64, error) {
	if n < len(s.cells) {
		return s.tails[s.lastRung()][n], nil
	}
	cell := &s.furtherCells[n-len(s.cells)]
	if cell.Diverged != "" {
		return math.NaN(), nil
	}
	tail, _, err := cell.EndTail()
	return tail, err
}
