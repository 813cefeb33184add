package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator/round"
	"fedpace/experiment/forecast"
	"fedpace/learn/metric"
	"fedpace/study"
	"fedpace/study/choice"
)

// Plan is the answer to a [Request]: the settings with their times, those that were trained, and a
// recommendation.
type Plan struct {
	// Seconds is the virtual time that every setting had.
	Seconds float64
	// Draws is how often the devices of the fleet were drawn for each setting.
	Draws int
	// Settings has those that were trained first, from the best tail to the worst, as fedpace compare
	// ranks them. The others follow in the order in which they would be trained, which says nothing
	// of how good they are. Settings that are ranked by the time or the energy of their updates are
	// sorted by it.
	Settings []*Setting
	// Impossible lists the points of the grid that give no valid configuration, with the reason.
	Impossible []string
	// Chosen is the setting that is recommended.
	Chosen *Setting
	// Reason says in a sentence why Chosen is recommended.
	Reason string
	// Answer says in five lines what a race found: K, the deadline, the cohort, how sure that is, and what
	// it took. Without a race there is none.
	Answer []string
	// Unknown lists in sentences what the plan does not know.
	Unknown []string

	// request is what was asked, with its defaults filled in.
	request Request
	// quality is the metric by which settings are compared. It has no name if nothing was trained.
	quality metric.Quality
	// trainedSettings are the settings that were trained; the standings of outcome are indices of this list.
	trainedSettings []*Setting
	// outcome is what training showed. It is nil if nothing was trained.
	outcome *choice.Outcome
}

// Make forecasts the time and the cost of each setting of a request without training (simulateTimes), trains as many
// as the request says and recommends one. If the request has a budget for a race, settings are trained in heats
// instead, of which the better ones go on, until that processor time is spent. Trained runs lie in dir, where
// another Make finds them. progress is called while times are simulated, with the number of draws of the fleet
// that are done, and their total.
func Make(ctx context.Context, q Request, dir string, o study.Options, progress func(done, total int)) (*Plan, error) {
	// began is the processor time of the process so far, in seconds, which a race does not count.
	began := 0.0
	if q.Race > 0 {
		began = q.ProcessorSeconds()
	}
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
	if err := q.simulateTimes(ctx, list, p.Seconds, progress); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	// Settings that had too few updates in some draws come last; among the others the sort key decides.
	slices.SortStableFunc(list, func(a, b *Setting) int {
		return cmp.Or(cmp.Compare(a.TooFewUpdates, b.TooFewUpdates), cmp.Compare(q.sortKey(a), q.sortKey(b)))
	})
	p.Settings = list
	if q.Race > 0 {
		err = p.race(ctx, dir, o, began)
	} else {
		err = p.trainSome(ctx, dir, o)
	}
	if err != nil {
		return nil, err
	}
	p.Unknown = p.unknown()
	return p, nil
}

// trainSome trains as many settings as the request says, and recommends one.
func (p *Plan) trainSome(ctx context.Context, dir string, o study.Options) error {
	if err := p.train(ctx, dir, o); err != nil {
		return err
	}
	// The request or the configuration trains nothing, so no outcome of training is there.
	if p.outcome == nil {
		p.chooseUntrained()
		return nil
	}
	p.sortByTraining()
	p.choose()
	return nil
}

// configuredSetting is the configuration as it is, which is always among the settings.
func (p *Plan) configuredSetting() *Setting {
	return p.Settings[slices.IndexFunc(p.Settings, func(s *Setting) bool { return s.AsConfigured })]
}

// sortByTraining puts the settings that were trained first, in the order of the search's standings. The
// others keep their order.
func (p *Plan) sortByTraining() {
	var sorted []*Setting
	for _, standing := range p.outcome.Standings {
		sorted = append(sorted, p.trainedSettings[standing.Setting])
	}
	for _, s := range p.Settings {
		if s.Trained == nil {
			sorted = append(sorted, s)
		}
	}
	p.Settings = sorted
}

// trainingPriority says in which order settings are trained, the highest first: it is the root of the local steps of
// all clients times the number of rounds, both medians over the draws. It does not rank the settings: the package's
// comment explains it.
func (s *Setting) trainingPriority() float64 { return math.Sqrt(s.Work.P50) * s.Rounds.P50 }

// simulateTimes simulates each setting of list q.Draws times for a number of virtual seconds, or until it has
// the updates that the request asks for, and sets its Usage. The settings run side by side. progress may be nil.
func (q *Request) simulateTimes(
	ctx context.Context,
	list []*Setting,
	seconds float64,
	progress func(done, total int),
) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	limit := round.Limits{Time: round.Time(min(math.RoundToEven(seconds*1e9), float64(round.MaxTime)))}
	// The simulation ends with the wanted number of updates. Slow settings may get few updates, so
	// they have a hundred times as long.
	if q.countsUpdates() {
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
