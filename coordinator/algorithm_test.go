package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"fedpace/actors"
	"fedpace/actors/fleet"
	"fedpace/actors/host"
	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/data/synthetic"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// lab is a small learning problem that runs over the embedded server.
type lab struct {
	problem actors.Problem
	closing closing.Rule
	rounds  int
	batch   func(client int) int // nil: all have the problem's
}

// own returns the size of a client's minibatches, 0 for that of the problem.
func (l *lab) own(client int) int {
	if l.batch == nil {
		return 0
	}
	return l.batch(client)
}

// newLab returns a lab with a small learning problem on synthetic FEMNIST.
func newLab(t *testing.T) *lab {
	t.Helper()
	model, err := learn.Parse("mlp:784,8,62")
	if err != nil {
		t.Fatal(err)
	}
	set, err := synthetic.New("femnist", 30, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	problem := actors.Problem{Model: model, Set: set, Seed: 1, Batch: 8, Augment: actors.NoAugment, Algorithm: algorithm.Default, Kernel: kernel}
	return &lab{problem: problem, closing: closing.All{}, rounds: 5}
}

// algorithm returns the algorithm of this name, with its options at their defaults.
func (l *lab) algorithm(t *testing.T, name string) *algorithm.Instance {
	t.Helper()
	c, err := config.Load("", []string{"aggregate.algorithm=" + name}) // with its options at their defaults
	if err != nil {
		t.Fatal(err)
	}
	p, params := l.problem, l.problem.Model.Params()
	p.Algorithm = c.Aggregate.Algorithm
	return algorithm.NewInstance(p.Algorithm, c.Compress, params, params, p.MemoryValues(), p.Set.Clients())
}

// startServer starts a NATS server. connect makes a connection to it, which is open until the test ends.
func startServer(ctx context.Context, t *testing.T) (connect func() *natsbus.Conn, closeServer func()) {
	t.Helper()
	server, err := embedded.Start(ctx, embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	store := natsbus.NewStore()
	connect = func() *natsbus.Conn {
		conn, err := natsbus.Connect(ctx, natsconn.Config{Server: server}, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	return connect, server.Close
}

// run plays a run with this many hosts of one worker each and jobs a round, and returns all that it leaves behind, as
// text.
func (l *lab) run(t *testing.T, a *algorithm.Instance, hosts, jobs int) (string, error) {
	t.Helper()
	problem := l.problem
	problem.Algorithm = a.Algorithm
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	connect, closeServer := startServer(ctx, t)
	defer closeServer()
	fleet, err := fleet.NewFleet(fleet.Config{Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5}, Compute: fleet.Compute{SecondsPerStep: 0.01, Std: 0.005}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range hosts {
		host, err := host.Start(ctx, connect(), host.Config{Run: "r", Fleet: fleet, Workers: 1, Problem: problem})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		group.Go(func() error { return host.Train(ctx) })
	}
	initial := make([]float32, l.problem.Model.Params())
	l.problem.Model.(learn.Model).Init(initial, 1)
	config := coordinator.Config{
		Run: "r", ModelBits: 1e6,
		Round: round.Config{
			Seed: 1, Clients: l.problem.Set.Clients(), Cohort: 7, Closing: l.closing,
			Setup: schedule.Setup{K0: 6, Eta0: 0.3}, K: schedule.RoundsK{}, Eta: schedule.FixedEta{},
			Window: schedule.WindowConfig{Size: 2}, Plateau: schedule.PlateauConfig{Patience: 3}, Metrics: []metric.Metric{{Name: metric.Accuracy}},
			Train: true, Stop: round.Limits{Rounds: l.rounds},
		},
		Learning: aggregate.Learning{
			Model: l.problem.Model, Initial: initial, Spec: problem.Spec(), Kernel: problem.Kernel.Class(), Jobs: jobs,
			HeldOut: l.problem.Set.HeldOut(), Algorithm: a,
		},
	}
	var result *coordinator.Result
	group.Go(func() (err error) {
		defer stop()
		result, err = coordinator.Run(ctx, connect(), config)
		return err
	})
	if err := group.Wait(); err != nil {
		return "", err
	}
	left := fmt.Sprint(result.Params, a.Server.State())
	if a.ClientStates != nil {
		left += fmt.Sprint(a.ClientStates.State())
	}
	return left, nil
}

// Every algorithm leaves the same model and the same state behind, whoever
// trains and however rounds are split; and each its own.
func TestAlgorithms_ThroughBus(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	seen := map[string]string{}
	for _, name := range algorithm.Algorithms.Names() {
		if name == "python" { // examples/policies holds it against fedavgm
			continue
		}
		want, err := l.run(t, l.algorithm(t, name), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ hosts, jobs int }{{1, 7}, {3, 4}} {
			got, err := l.run(t, l.algorithm(t, name), c.hosts, c.jobs)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s: %d hosts and %d jobs a round leave another history", name, c.hosts, c.jobs)
			}
		}
		// Where all clients of a round have the same K FedNova is FedAvg, and where no update
		// is stale so are FedBuff and REFL.
		if other, ok := seen[want]; ok && name != "fednova" && name != "fedbuff" && name != "refl" {
			t.Errorf("%s ends as %s", name, other)
		}
		seen[want] = name
	}
}

// SCAFFOLD's state after a run is that of the clients that took part, each
// variate under its own digest.
func TestScaffold_VariatesByDigest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.algorithm(t, "scaffold")
	if _, err := l.run(t, a, 2, 3); err != nil {
		t.Fatal(err)
	}
	s := a.ClientStates.State()
	if n := len(s.Clients); n < 7 || n > 30 {
		t.Fatalf("%d clients have a variate after 5 rounds of 7", n)
	}
	for i, v := range s.Values {
		if bus.DigestOf(v.Values) != v.Digest {
			t.Errorf("client %d: the digest is not that of its variate", s.Clients[i])
		}
	}
	kept := int64(len(s.Server)) * (8 + 4*int64(len(s.Clients)))
	if most := algorithm.StateBytes(a.Algorithm, nil, l.problem.Model.Params(), 0, len(s.Clients), 0); kept > most {
		t.Errorf("the state takes %d bytes, at most %d were foreseen", kept, most)
	}
}

// What optimizers remember is kept by client and digest, and any number of hosts comes to the same.
func TestOptimizers_AnyHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	forgets, err := l.run(t, l.algorithm(t, "fedavgm"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.problem.Optimizer = learn.AdamW{Moments: learn.Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, Keeping: learn.Keeping{Keep: true}}
	a := l.algorithm(t, "fedavgm")
	want, err := l.run(t, a, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.run(t, l.algorithm(t, "fedavgm"), 3, 4); err != nil || got != want || want == forgets {
		t.Errorf("3 hosts leave another history (%v)", err)
	}
	streamed, err := l.run(t, l.algorithm(t, "streaming"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.run(t, l.algorithm(t, "streaming"), 3, 4); err != nil || got != streamed || streamed == want {
		t.Errorf("3 hosts leave another history with streaming (%v)", err)
	}
	s, params := a.ClientStates.State(), l.problem.Model.Params()
	if n := len(s.Clients); n < 7 || n > 30 || len(s.Server) > 0 {
		t.Errorf("%d clients keep something after 5 rounds of 7, and a mean of %d values", n, len(s.Server))
	}
	for i, v := range s.Values {
		if bus.DigestOf(v.Values) != v.Digest || len(v.Values) != 2*params+4 {
			t.Errorf("client %d keeps %d values, or under another digest", s.Clients[i], len(v.Values))
		}
	}
	if got, want := algorithm.StateBytes(a.Algorithm, nil, params, l.problem.MemoryValues(), len(s.Clients), 0), int64(8*params+4*(2*params+4)*len(s.Clients)); got != want {
		t.Errorf("%d bytes were foreseen, it is %d", got, want)
	}
}

// An algorithm whose state came from elsewhere goes on with it: two halves of a
// run's state, moved to a fresh algorithm in between, equal the whole.
func TestState_AnotherAlgorithm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fedyogi", "scaffold"} {
		l := newLab(t)
		a := l.algorithm(t, name)
		if _, err := l.run(t, a, 1, 1); err != nil {
			t.Fatal(err)
		}
		b := l.algorithm(t, name)
		var state [][]float64
		for _, v := range a.Server.State() {
			state = append(state, slices.Clone(v))
		}
		if err := b.Server.Restore(state); err != nil {
			t.Fatal(err)
		}
		if a.ClientStates != nil {
			if err := b.ClientStates.Restore(a.ClientStates.State()); err != nil {
				t.Fatal(err)
			}
		}
		want, err := l.run(t, a, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.run(t, b, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the restored state leads elsewhere", name)
		}
	}
}

// Updates of different base models count with FedBuff's weights.
func TestAlgorithms_OverlappingRounds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.closing, l.rounds = closing.Buffered{N: 3}, 8
	for _, name := range algorithm.Algorithms.Names() {
		if name == "python" || name == "scaffold" || name == "streaming" { // of the others, what their clients keep belongs to rounds
			continue
		}
		want, err := l.run(t, l.algorithm(t, name), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.run(t, l.algorithm(t, name), 3, 4); err != nil || got != want {
			t.Errorf("%s: 3 hosts leave another history (%v)", name, err)
		}
	}
}
