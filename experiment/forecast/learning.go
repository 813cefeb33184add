package forecast

import (
	"context"
	"errors"
	"time"

	"fedpace/actors"
	"fedpace/actors/algorithm"
	"fedpace/experiment/problem"
	"fedpace/internal/cputime"
)

// timeLearning is how long one worker takes: seconds of a core for a local step and for a held-out
// sample, which other programs do not lengthen. A trainer's process is timed by the wall clock.
func timeLearning(ctx context.Context, p *problem.Problem) (step, sample float64, err error) {
	t, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	started := time.Now()
	now := func() float64 {
		if p.Trainer != nil {
			return time.Since(started).Seconds()
		}
		return cputime.Since(started).Seconds()
	}
	const enough = 200 * time.Millisecond
	var shared *actors.Shared
	if algorithm.KeepsVariates(p.Algorithm) {
		shared = &actors.Shared{Weight: 1 / float64(p.Config.Clients)}
	}
	sum := make([]int64, t.SumLength(shared))
	k0, batch, steps, from := p.InitialSteps(), p.Batch(), 0, now()
	for client := 0; client < p.Config.Clients && time.Since(started) < enough; client = (client + 1) % p.Config.Clients {
		clear(sum)
		work := []actors.Assignment{{Task: 1, Client: client, LocalSteps: k0, Rate: p.Config.Schedule.Eta0, Weight: 1}}
		if batch != nil {
			work[0].Batch = batch(client)
		}
		if _, err := t.Train(ctx, p.Initial, shared, work, sum); err != nil {
			return 0, 0, err
		}
		steps += k0
	}
	trained, n := now(), min(p.Set.HeldOut(), 4096)
	_, _, err = t.Evaluate(ctx, p.Initial, actors.Measured{Client: actors.HeldOut, Count: n})
	return (trained - from) / float64(max(1, steps)), (now() - trained) / float64(max(1, n)), err
}
