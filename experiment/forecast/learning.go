package forecast

import (
	"context"
	"errors"
	"time"

	"fedpace/actors"
	"fedpace/experiment/problem"
	"fedpace/internal/cputime"
	"fedpace/internal/registry"
)

// learningTime is how long one worker takes: seconds a local step, and seconds a held-out
// sample.
type learningTime struct{ step, sample float64 }

// timeLearning measures one worker in wall time, and in the time of a core, which other
// programs do not lengthen. That of a trainer's process is taken to be its wall time.
func timeLearning(ctx context.Context, p *problem.Problem) (wall, core learningTime, err error) {
	t, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		return wall, core, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	const enough = 200 * time.Millisecond
	var shared *actors.Shared
	if registry.NeedsOf(p.Algorithm).ClientState {
		shared = &actors.Shared{Weight: 1 / float64(p.Config.Clients)}
	}
	sum := make([]int64, t.SumLength(shared))
	steps := 0
	started, worked := time.Now(), cputime.Since(time.Now())
	took := func(n int) (wall, core float64) {
		wall, core = time.Since(started).Seconds(), (cputime.Since(started) - worked).Seconds()
		if p.Trainer != nil {
			core = wall
		}
		return wall / float64(n), core / float64(n)
	}
	k0, batch := p.InitialSteps(), p.Batch()
	for client := 0; client < p.Config.Clients && time.Since(started) < enough; client = (client + 1) % p.Config.Clients {
		clear(sum)
		work := []actors.Assignment{{Task: 1, Client: client, LocalSteps: k0, Rate: p.Config.Schedule.Eta0, Weight: 1}}
		if batch != nil {
			work[0].Batch = batch(client)
		}
		if _, err := t.Train(ctx, p.Initial, shared, work, sum); err != nil {
			return wall, core, err
		}
		steps += k0
	}
	wall.step, core.step = took(max(1, steps))
	n := min(p.Set.HeldOut(), 4096)
	started = time.Now()
	worked = cputime.Since(started)
	_, _, err = t.Evaluate(ctx, p.Initial, 0, n)
	wall.sample, core.sample = took(n)
	return wall, core, err
}
