package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"fedpace/bus"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
)

// deaf is a bus that nobody answers on. What waits for it is told only that its context
// has ended.
type deaf struct {
	bus.Transport
	bus.Coordinator
	life context.Context
}

// OpenCoordinator returns the bus itself.
func (d *deaf) OpenCoordinator(context.Context, string, bus.CoordinatorConfig) (bus.Coordinator, error) {
	return d, nil
}

// Life returns the context that the test ends.
func (d *deaf) Life() context.Context { return d.life }

// SendTask does nothing.
func (*deaf) SendTask(int, *bus.Task) error { return nil }

// Close does nothing.
func (*deaf) Close(ctx context.Context) error { return nil }

// TakePlans waits for the end of ctx.
func (*deaf) TakePlans(ctx context.Context, _ []bus.ClientPlan) ([]bus.ClientPlan, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// PutModel waits for the end of ctx.
func (*deaf) PutModel(ctx context.Context, _ bus.Digest, _ []float32) error {
	<-ctx.Done()
	return ctx.Err()
}

// A run whose bus is lost says why, also where it begins, and that its checkpoint could not
// be written besides.
func TestBus_LostHidesNoError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	errLost, errFull := errors.New("the bus is lost"), errors.New("the disk is full")
	for _, train := range []bool{false, true} { // a run that trains begins with its model
		life, end := context.WithCancelCause(t.Context())
		c := coordinator.Config{Run: "r", ModelBits: ruleBits, Round: ruleConfig(l, ruleFleet(t), closing.All{}, nil)}
		c.Round.Train = train
		c.Learning = aggregate.Learning{
			Model: l.problem.Model, Initial: initial(l), Spec: l.problem.Spec(), Kernel: l.problem.Kernel.Class(), Jobs: 1, HeldOut: l.problem.Set.HeldOut(),
		}
		steps := 0
		c.Checkpoint.Due = func() bool {
			if steps++; steps > 1 {
				end(errLost)
			}
			return false
		}
		c.Checkpoint.Save = func(*coordinator.State) error { return errFull }
		if train {
			end(errLost)
		}
		_, err := coordinator.Run(t.Context(), &deaf{life: life}, c)
		if !errors.Is(err, errLost) || errors.Is(err, context.Canceled) || errors.Is(err, errFull) == train {
			t.Errorf("train %v: %v, want %q and, once it has begun, %q", train, err, errLost, errFull)
		}
	}
}
