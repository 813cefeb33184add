package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/internal/human"
)

// EqualTimes keeps how long rounds of K-eta-fixed take, for the runs of one study,
// which ask for the same. It may be used from several goroutines.
type EqualTimes struct {
	known sync.Map // func() (round.Time, error) by configuration
}

// of is the time of a configuration, found out once.
func (e *EqualTimes) of(c config.Config, find func() (round.Time, error)) (round.Time, error) {
	if e == nil {
		return find()
	}
	c.Out, c.Name = "", "" // change no time
	once, _ := e.known.LoadOrStore(string(c.YAML()), sync.OnceValues(find))
	return once.(func() (round.Time, error))()
}

// timedEvery is how often it is told how far timing the fixed schedule is, in
// wall time.
const timedEvery = 10 * time.Second

// playFixed plays n rounds of the problem, which is one of K-eta-fixed without
// learning, and returns their time.
func (p *problem) playFixed(ctx context.Context, o Options, n int) (round.Time, error) {
	o.notice(fmt.Sprintf("Rounds are not all alike: timing %d of the fixed schedule first.", n))
	e, err := startLocal(ctx, p, o)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	started := time.Now()
	told := started
	result, err := e.play(ctx, 0, coordinator.Observer{Report: func(r *round.Report) error {
		if now := time.Now(); now.Sub(told) >= timedEvery {
			told = now
			left := now.Sub(started).Seconds() * float64(n-r.Round) / float64(r.Round)
			o.notice(fmt.Sprintf("Timed %d of %d rounds of the fixed schedule, about %s left.", r.Round, n, human.Duration(time.Duration(left*1e9))))
		}
		return nil
	}})
	if err != nil {
		return 0, err
	}
	if result.Stop.Rounds < n {
		return 0, fmt.Errorf("the fixed schedule ends after %d of %d rounds: %s", result.Stop.Rounds, n, result.Stop.Reason)
	}
	return result.Stop.At, nil
}
