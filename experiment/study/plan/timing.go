package plan

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator/round"
	"fedpace/experiment/forecast"
)

// Score is how promising a setting is before it is learned: the higher, the more; see
// the package's comment.
func (s *Setting) Score() float64 { return math.Sqrt(s.Work.P50) * s.Rounds.P50 }

// time times the settings for so many virtual seconds, side by side. progress is told
// how many draws of how many are done; it may be nil.
func (q *Request) time(ctx context.Context, list []*Setting, seconds float64, progress func(done, of int)) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	limit := round.Limits{Time: round.Time(min(math.RoundToEven(seconds*1e9), float64(round.MaxTime)))}
	if q.toUpdates() { // of which a setting may get hardly any
		limit.Accepted, limit.Time = list[0].config.Stop.Accepted, round.Time(min(100*float64(limit.Time), float64(round.MaxTime)))
	}
	var mu sync.Mutex
	done := 0
	for _, s := range list {
		group.Go(func() (err error) {
			s.Usage, err = forecast.UsageOf(inner, s.config, limit, q.Draws, func() {
				mu.Lock()
				defer mu.Unlock()
				if done++; progress != nil {
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
