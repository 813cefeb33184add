package study

import (
	"fmt"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/run"
)

// forks finds the cells that agree with another one until the validation error converges, as the
// schedules named step do with fixed ones. They go on from its last checkpoint before that, and are
// played after it. What has begun is left as it is.
func forks(cells []Cell) (of map[*Cell][]*Cell, forked map[*Cell]bool, err error) {
	fresh := map[string]*Cell{} // by what they compute
	for i := range cells {
		if c := &cells[i]; !c.Begun && !c.Reused && !c.anew {
			fresh[c.ID] = c
		}
	}
	of = map[*Cell][]*Cell{}
	forked = map[*Cell]bool{}
	for i := range cells {
		c := &cells[i]
		trunk := cells[i].Config
		_, k := trunk.Schedule.K.(schedule.StepK)
		_, eta := trunk.Schedule.Eta.(schedule.StepEta)
		if !(k || eta) ||
			!trunk.Train ||
			trunk.Schedule.DecayRound > 0 ||
			fresh[c.ID] != c {
			continue
		}
		if k {
			trunk.Schedule.K = schedule.FixedK{}
		}
		if eta {
			trunk.Schedule.Eta = schedule.FixedEta{}
		}
		id, err := Identity(trunk)
		if err != nil {
			return nil, nil, err
		}
		if root := fresh[id]; root != nil {
			of[root] = append(of[root], c)
			forked[c] = true
		}
	}
	return of, forked, nil
}

// fork makes forks of a cell's run when its validation error converges. One that cannot be made, as
// without a checkpoint, is played whole.
func (p *player) fork(c *Cell, forks []*Cell) func(*round.Report) {
	s := c.Config.Schedule
	plateau := schedule.NewPlateau(schedule.PlateauConfig{Patience: s.Patience, MinDelta: s.MinDelta})
	return func(r *round.Report) {
		if !r.Evaluated || plateau.Converged {
			return
		}
		if c.takeMetric() != nil {
			return
		}
		q, err := c.Run().Quality()
		if err != nil {
			return
		}
		if plateau.Observe(q.Error(q.Of(r.ValidationLoss, r.Metrics))); !plateau.Converged {
			return
		}
		for _, f := range forks {
			if last, err := run.Fork(c.Config.Out, f.named()); err == nil {
				f.Begun = true
				p.Run.Tell(fmt.Sprintf("%s goes on from %s after round %d.", f.Name, c.Name, last))
			}
		}
	}
}
