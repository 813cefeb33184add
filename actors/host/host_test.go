package host

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"fedpace/actors"
	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// changingSet is a set whose samples fit no model from the call of Info after the last that fits.
type changingSet struct {
	federated.Set
	calls, lastFit int
}

// Info counts the call and describes the set.
func (s *changingSet) Info() federated.Info {
	s.calls++
	info := s.Set.Info()
	if s.calls > s.lastFit {
		info.Samples = learn.Samples{}
	}
	return info
}

// idleBus is the bus of a host for which there are no jobs.
type idleBus struct {
	bus.Host
	// left is the number of workers that have stopped waiting for a job.
	left atomic.Int64
}

// NextJob waits until ctx is cancelled.
func (b *idleBus) NextJob(ctx context.Context, _ string) (bus.Delivery, error) {
	<-ctx.Done()
	b.left.Add(1)
	return nil, ctx.Err()
}

// TestTrain_LaterWorkerFails gives the second worker a problem that no longer fits: Train returns its error
// only after the first worker has ended, too.
func TestTrain_LaterWorkerFails(t *testing.T) {
	model, err := learn.Parse("mlp:784,4,62")
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := synthetic.New("femnist", 3, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	// The set fits for as many calls as one worker makes.
	set := &changingSet{Set: samples, lastFit: 1 << 30}
	problem := actors.Problem{
		Model:     model,
		Set:       set,
		Seed:      1,
		Batch:     2,
		Augment:   actors.NoAugment,
		Algorithm: algorithm.Default,
		Kernel:    kernel,
	}
	probe, err := actors.NewTrainer(problem)
	if err != nil {
		t.Fatal(err)
	}
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	set.lastFit = 2 * set.calls
	jobs := &idleBus{}
	h := &Host{config: Config{Workers: 3, Problem: problem}, bus: jobs}
	err = h.Train(t.Context())
	if err == nil || !strings.Contains(err.Error(), "model: ") {
		t.Errorf("Train returned %v, want the error of the second worker", err)
	}
	if n := jobs.left.Load(); n != 1 {
		t.Errorf("%d workers have ended when Train returns, want 1", n)
	}
}
