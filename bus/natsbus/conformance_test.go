package natsbus_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
)

// place is one of the two ways to reach a server.
type place struct {
	name    string
	connect func(t testing.TB) *natsbus.Conn
	server  *embedded.Server
	chunks  bool // models and sums travel as bytes
}

// patience is how long what must come may take, on a machine that is busy with
// others perhaps.
const patience = 2 * time.Minute

// places runs a test against the embedded server and against a server over TCP,
// beside other tests.
func places(t *testing.T, test func(t *testing.T, p *place)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, newPlace(t, false)) })
	t.Run("tcp", func(t *testing.T) { t.Parallel(); test(t, newPlace(t, true)) })
}

func newPlace(t testing.TB, tcp bool) *place {
	t.Helper()
	p := &place{name: "embedded", chunks: tcp}
	var config embedded.Config
	if tcp {
		p.name, config.Listen, config.Open = "tcp", "127.0.0.1:0", true
	}
	s, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p.server = s
	p.connect = func(t testing.TB) *natsbus.Conn {
		t.Helper()
		c := natsbus.ConnConfig{Server: s, Name: t.Name()}
		if tcp {
			c.Server, c.URL = nil, s.URL()
		}
		conn, err := natsbus.Connect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	return p
}

func (p *place) coordinator(t testing.TB, run string) bus.Coordinator {
	t.Helper()
	return p.coordinatorWith(t, run, bus.CoordinatorConfig{})
}

func (p *place) coordinatorWith(t testing.TB, run string, config bus.CoordinatorConfig) bus.Coordinator {
	t.Helper()
	config.Kernel, config.PublishModels = "go", p.chunks
	c, err := p.connect(t).OpenCoordinator(t.Context(), run, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (p *place) host(t testing.TB, run string) bus.Host {
	t.Helper()
	h, err := p.connect(t).OpenHost(t.Context(), run, bus.HostConfig{})
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

// bare is a connection without package bus, to the same server by the same way.
func (p *place) bare(t testing.TB) *nats.Conn {
	t.Helper()
	c, err := nats.Connect("", nats.InProcessServer(p.server))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func someJob(n uint64, model bus.Digest, params int) *bus.Job {
	return &bus.Job{
		Job: n, Kind: bus.Train, Kernel: "go", Round: 2, ModelDigest: model.Bytes(), Params: uint32(params),
		Spec:    &bus.Spec{Model: "linear:5000,2", DataDigest: "ab", Seed: 7, Batch: 32},
		Clients: []*bus.ClientWork{{Task: 9, Client: 4, LocalSteps: 3, StepsDone: 12, LearningRate: 0.1, Weight: 0.5}},
	}
}

// result is a whole result of a training job.
func result(job uint64, model bus.Digest, values []int64, clients ...*bus.ClientLoss) *bus.Result {
	return &bus.Result{Sum: &bus.Sum{Job: job, ModelDigest: model.Bytes(), Clients: clients}, Values: values}
}

func someTask(n uint64) *bus.Task {
	return &bus.Task{
		Task: n, Round: 3, LocalSteps: 80, LearningRate: 0.3, StepsDone: 160,
		ModelDigest: bus.DigestOf([]float32{1}).Bytes(), ModelBits: 6_710_000,
	}
}

func TestEveryTaskIsPlannedOnceByOneOfTheHosts(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.coordinator(t, "r")
		for range 3 {
			h := p.host(t, "r")
			err := h.ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
				if diff := cmp.Diff(someTask(task.Task), task, protocmp.Transform()); diff != "" {
					t.Errorf("task (-sent +received):\n%s", diff)
				}
				plan.DownloadNs, plan.ComputeNs, plan.UploadNs = int64(client), 2, 3
				if client%2 == 1 {
					plan.Dropout = &bus.Dropout{Phase: bus.Compute, AfterNs: int64(task.Task)}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		const n = 1000
		for i := range n {
			if err := c.SendTask(i, someTask(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		got := map[int]*bus.Plan{}
		var buf []bus.ClientPlan
		for len(got) < n {
			var err error
			if buf, err = c.TakePlans(t.Context(), buf); err != nil {
				t.Fatal(err)
			}
			for _, p := range buf {
				if _, twice := got[p.Client]; twice {
					t.Fatalf("client %d planned twice", p.Client)
				}
				got[p.Client] = p.Plan
			}
		}
		for i := range n {
			want := &bus.Plan{Task: uint64(i + 1), DownloadNs: int64(i), ComputeNs: 2, UploadNs: 3}
			if i%2 == 1 {
				want.Dropout = &bus.Dropout{Phase: bus.Compute, AfterNs: int64(i + 1)}
			}
			if !proto.Equal(got[i], want) {
				t.Fatalf("client %d: got %+v, want %+v", i, got[i], want)
			}
		}
	})
}

// A driver that does not wait is slowed down, not cut off.
func TestAFloodOfTasksIsAnsweredInFull(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.coordinator(t, "r"), p.host(t, "r")
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		const n = 30_000
		for i := range n {
			if err := c.SendTask(i, someTask(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		var buf []bus.ClientPlan
		for got := 0; got < n; got += len(buf) {
			var err error
			if buf, err = c.TakePlans(t.Context(), buf); err != nil {
				t.Fatalf("after %d plans: %v", got, err)
			}
		}
	})
}

func TestAJobBecomesASum(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		ctx := t.Context()
		c, h := p.coordinator(t, "r"), p.host(t, "r")
		params := make([]float32, 300_000) // three chunks, six of the sum
		for i := range params {
			params[i] = float32(i) / 7
		}
		digest := bus.DigestOf(params)
		if err := c.PutModel(ctx, digest, params); err != nil {
			t.Fatal(err)
		}
		sent := &bus.Job{
			Job: 1, Kind: bus.Train, Kernel: "go", Round: 2, ModelDigest: digest.Bytes(), Params: uint32(len(params)),
			Spec:    &bus.Spec{Model: "linear:5000,2", DataDigest: "ab", Seed: 7, Batch: 32},
			Clients: []*bus.ClientWork{{Task: 9, Client: 4, LocalSteps: 3, StepsDone: 12, LearningRate: 0.1, Weight: 0.5}},
		}
		if err := c.SendJob(ctx, sent); err != nil {
			t.Fatal(err)
		}
		d, err := h.NextJob(ctx, "go")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, d.Job(), protocmp.Transform()); diff != "" {
			t.Fatalf("job (-sent +received):\n%s", diff)
		}
		got, err := h.Model(ctx, bus.DigestFrom(d.Job().ModelDigest))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, params) {
			t.Fatal("the model is not the one that was put")
		}
		sum := result(1, digest, make([]int64, len(params)), &bus.ClientLoss{Task: 9, FirstStepLoss: 1.5})
		for i := range sum.Values {
			sum.Values[i] = int64(i) - 5
		}
		want := append([]int64(nil), sum.Values...)
		done := make(chan error, 1)
		go func() {
			if err := h.SendSum(ctx, sum); err != nil {
				done <- err
				return
			}
			clear(sum.Values) // the trainer's again
			done <- d.Done(ctx)
		}()
		s, err := c.TakeSum(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Values, want) {
			t.Fatal("the values are not those that were sent")
		}
		if len(s.Clients) != 1 || !proto.Equal(s.Clients[0], sum.Clients[0]) {
			t.Fatalf("got the sum with %+v", s.Clients)
		}
		s.Accept()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
