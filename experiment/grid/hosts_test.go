package grid

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"fedpace/actors/flower"
)

// office is a host of a test: the processes of a pool of its own, which serve frames.
type office struct {
	name    string
	workers int
	pool    *flower.Pool

	mu   sync.Mutex
	desk *flower.Desk
	// served counts the frames so far. At the frame number leaves the host goes for good, and at the frame number
	// restarts it forgets all arrays, as one that has started again; 0: never.
	served           int
	leaves, restarts int
}

// errGone is what a call to a host brings that has gone.
var errGone = errors.New("the host has gone")

// serve serves a frame, or fails as a host does that goes.
func (o *office) serve(ctx context.Context, pool *flower.Pool, frame []byte, fetched func()) ([]byte, error) {
	o.mu.Lock()
	o.served++
	number := o.served
	if number == o.restarts {
		o.desk = flower.NewDesk(o.pool)
	}
	desk := o.desk
	o.mu.Unlock()
	if o.leaves > 0 && number >= o.leaves {
		pool.SetHost(o.name, 0, nil)
		<-ctx.Done()
		return nil, errGone
	}
	fetched()
	return desk.Serve(ctx, frame)
}

// elsewhere lets hosts join a run of s. Their processes end with the test.
func elsewhere(t *testing.T, s *Config, offices ...*office) {
	t.Helper()
	for _, o := range offices {
		pool, err := flower.StartPool(t.Context(), &s.App, o.workers)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pool.Close() })
		o.pool = pool
		o.desk = flower.NewDesk(pool)
	}
	s.Join = func(_ context.Context, pool *flower.Pool, ready *flower.Ready) (func() error, error) {
		if len(ready.Libraries) != 1 {
			t.Errorf("the server has told the libraries %q", ready.Libraries)
		}
		for _, o := range offices {
			pool.SetHost(o.name, o.workers, func(ctx context.Context, _ int, frame []byte, fetched func()) ([]byte, error) {
				return o.serve(ctx, pool, frame, fetched)
			})
		}
		return func() error { return nil }, nil
	}
}

// Messages are served by processes here, on hosts, or both, to the same bits; also when a host goes in mid-run, and
// when one starts again and has forgotten the arrays that it kept.
func TestPlay_HostsServeMessages(t *testing.T) {
	t.Parallel()
	whole, result := hearing(t, settings(t, 40, plain()))
	for name, c := range map[string]struct {
		here  int
		hosts []*office
	}{
		"two hosts":                {0, []*office{{name: "a", workers: 1}, {name: "b", workers: 2}}},
		"here and on a host":       {1, []*office{{name: "a", workers: 1}}},
		"a host that goes":         {0, []*office{{name: "a", workers: 2, leaves: 9}, {name: "b", workers: 1}}},
		"a host that starts again": {0, []*office{{name: "a", workers: 1, restarts: 8}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings(t, 40, plain())
			s.Workers = c.here
			elsewhere(t, &s, c.hosts...)
			got, again := hearing(t, s)
			if !reflect.DeepEqual(got, whole) || again.Fingerprint != result.Fingerprint {
				t.Error("it is another run than with one process here")
			}
			for _, o := range c.hosts {
				if o.served < 3 {
					t.Errorf("host %s has served %d messages", o.name, o.served)
				}
			}
			if moved := again.Restarts > 0; moved != (name == "a host that goes") {
				t.Errorf("%d messages were served again", again.Restarts)
			}
		})
	}
}

// A message at which every host fails ends the run, with the name of a host.
func TestPlay_FailingHosts(t *testing.T) {
	t.Parallel()
	s := settings(t, 40, plain())
	s.Workers = 0
	failing := errors.New("no memory")
	s.Join = func(_ context.Context, pool *flower.Pool, _ *flower.Ready) (func() error, error) {
		pool.SetHost("a", 1, func(context.Context, int, []byte, func()) ([]byte, error) { return nil, failing })
		return func() error { return nil }, nil
	}
	if _, err := Play(t.Context(), s); !errors.Is(err, failing) {
		t.Errorf("%v, want %v", err, failing)
	}
}
