package conformance

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"fedpace/bus"
)

// Patience is how long a test waits for what must arrive. It is long, since the
// machine may be busy.
const Patience = 2 * time.Minute

// Bus is where the parts of a test's runs meet.
type Bus struct {
	// Connect makes a connection, which ends with the test. For [TestLines] it is a [bus.Line], too.
	Connect func(t testing.TB) bus.Transport
	// PublishModels is that of coordinators, unless a test asks for it.
	PublishModels bool
}

// Coordinator opens a run, which is closed at the end of the test.
func (b *Bus) Coordinator(t testing.TB, run string) bus.Coordinator {
	t.Helper()
	return b.CoordinatorWith(t, run, bus.CoordinatorConfig{})
}

// CoordinatorWith opens a run with this configuration and the kernel class go, which is closed at the
// end of the test. Models are published if the configuration or the bus says so.
func (b *Bus) CoordinatorWith(t testing.TB, run string, config bus.CoordinatorConfig) bus.Coordinator {
	t.Helper()
	config.Kernel = "go"
	config.PublishModels = config.PublishModels || b.PublishModels
	// The lease outlasts every pause of a busy machine.
	config.Lease = cmp.Or(config.Lease, time.Minute)
	c, err := b.Connect(t).OpenCoordinator(t.Context(), run, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Host opens a host of a run, which is closed at the end of the test.
func (b *Bus) Host(t testing.TB, run string) bus.Host {
	t.Helper()
	h, err := b.Connect(t).OpenHost(t.Context(), run, bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Ends are the coordinator and the host of a run with one model on the bus. Their methods end
// the test on an error.
type Ends struct {
	*testing.T
	C bus.Coordinator
	H bus.Host
	// Digest is the digest of Model.
	Digest bus.Digest
}

// Ends opens a run called r with a coordinator, a host and Model.
func (b *Bus) Ends(t *testing.T, config bus.CoordinatorConfig) *Ends {
	t.Helper()
	d := &Ends{T: t, C: b.CoordinatorWith(t, "r", config), H: b.Host(t, "r"), Digest: bus.DigestOf(Model)}
	d.OK(d.C.PutModel(t.Context(), d.Digest, Model))
	return d
}

// OK ends the test if err is an error.
func (d *Ends) OK(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// Send has the coordinator queue the training job with number n, and returns it.
func (d *Ends) Send(n uint64) *bus.Job {
	d.Helper()
	j := Job(n, d.Digest, len(Model))
	d.OK(d.C.SendJob(d.Context(), j))
	return j
}

// Next returns the next job that the host takes from the queue.
func (d *Ends) Next() bus.Delivery {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), Patience)
	defer cancel()
	x, err := d.H.NextJob(ctx, "go")
	d.OK(err)
	return x
}

// None checks that the host gets no job within this time.
func (d *Ends) None(wait time.Duration) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), wait)
	defer cancel()
	if x, err := d.H.NextJob(ctx, "go"); !errors.Is(err, context.DeadlineExceeded) {
		d.Fatalf("got %v, %v, want no job", x, err)
	}
}

// Sum returns a valid result of the training job with number n.
func (d *Ends) Sum(n uint64) *bus.Result {
	return Result(n, d.Digest, []int64{4, 5, 6}, &bus.ClientLoss{Task: 9, FirstStepLoss: 0.25})
}

// Post has the host send a sum in the background. The channel gets the result of SendSum.
func (d *Ends) Post(s *bus.Result) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.H.SendSum(d.Context(), s) }()
	return done
}

// Take returns the next sum that the coordinator gets.
func (d *Ends) Take() *bus.ReceivedSum {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), Patience)
	defer cancel()
	s, err := d.C.TakeSum(ctx)
	d.OK(err)
	return s
}

// Quiet checks that the coordinator gets no sum for a moment.
func (d *Ends) Quiet() {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := d.C.TakeSum(ctx); !errors.Is(err, context.DeadlineExceeded) {
		d.Fatalf("got %v, %v, want no sum", s, err)
	}
}

// PlanFailure calls TakePlans until it fails, and returns the error.
func PlanFailure(t *testing.T, c bus.Coordinator) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		if _, err := c.TakePlans(ctx, nil); err != nil {
			return err
		}
	}
}
