package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"fedpace/bus"
)

// keptBehind is how many values the steps of a client of a variatesJob remember behind its
// control variate.
const keptBehind = 5

// variatesJob returns a job of two clients with control variates, for a model with this digest and number
// of parameters. server is the digest of the server's control variate, and client that of the first
// client's state. The second client has no state yet.
func variatesJob(digest bus.Digest, params int, server, client bus.Digest) *bus.Job {
	j := Job(1, digest, params)
	j.Method = &bus.Method{
		Variates:      true,
		VariateDigest: server.Bytes(),
		VariateWeight: 1. / 64,
		// A client's state is its control variate, a value for each parameter, and what its steps remember.
		Kept: uint32(params + keptBehind),
	}
	j.Clients[0].VariateDigest = client.Bytes()
	j.Clients = append(j.Clients, &bus.ClientWork{Task: 10, Client: 5, LocalSteps: 1, LearningRate: 0.1, Weight: 0.5})
	return j
}

// controlVariatesCarried sends control variates that take several chunks: to the trainer
// each has a message of its own, as a model, and back they are behind the sum, cut at other places.
func controlVariatesCarried(t *testing.T, p *Bus) {
	ctx := t.Context()
	c, h := p.Coordinator(t, "r"), p.Host(t, "r")
	vector := func(from float32) []float32 {
		v := make([]float32, 100_001)
		for i := range v {
			v[i] = from + float32(i)/7
		}
		return v
	}
	put := func(v []float32) bus.Digest {
		d := bus.DigestOf(v)
		if err := c.PutModel(ctx, d, v); err != nil {
			t.Fatal(err)
		}
		return d
	}
	model, server, own := vector(0), vector(1), vector(2)
	sent := variatesJob(put(model), len(model), put(server), put(own))
	if err := c.SendJob(ctx, sent); err != nil {
		t.Fatal(err)
	}
	d, err := h.NextJob(ctx, "go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, d.Job(), protocmp.Transform(), protocmp.IgnoreFields(sent, "fence")); diff != "" {
		t.Fatalf("job (-sent +received):\n%s", diff)
	}
	for digest, want := range map[bus.Digest][]float32{
		bus.DigestFrom(d.Job().Method.VariateDigest):     server,
		bus.DigestFrom(d.Job().Clients[0].VariateDigest): own,
	} {
		if got, err := h.Model(ctx, digest); err != nil || !slices.Equal(got, want) {
			t.Fatalf("a control variate is not the one that was put (%v)", err)
		}
	}
	sum := Result(1, bus.DigestFrom(sent.ModelDigest), make([]int64, 2*len(model)))
	sum.ClientStates = [][]float32{
		append(vector(3), vector(5)[:keptBehind]...),
		append(vector(4), vector(6)[:keptBehind]...),
	}
	for i := range sum.Values {
		sum.Values[i] = int64(i) - 5
	}
	for i, v := range sum.ClientStates {
		sum.Clients = append(sum.Clients, &bus.ClientLoss{
			Task:          sent.Clients[i].Task,
			FirstStepLoss: 1.5,
			VariateDigest: bus.DigestOf(v).Bytes(),
		})
	}
	done := make(chan error, 1)
	go func() {
		if err := h.SendSum(ctx, sum); err != nil {
			done <- err
			return
		}
		done <- d.Done(ctx)
	}()
	s, err := c.TakeSum(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sameClients := cmp.Equal(s.Clients, sum.Clients, protocmp.Transform())
	sameStates := slices.EqualFunc(s.ClientStates, sum.ClientStates, slices.Equal)
	if !slices.Equal(s.Values, sum.Values) || !sameClients || !sameStates {
		t.Fatal("the sum or its control variates are not those that were sent")
	}
	s.Accept()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// controlVariatesChecked sends sums whose control variates cannot be those of their job: they are
// refused.
func controlVariatesChecked(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	d.OK(d.C.SendJob(t.Context(), variatesJob(d.Digest, 3, bus.Digest{}, bus.Digest{})))
	x := d.Next()
	a, b := []float32{1, 2, 3, 0, 0, 0, 0, 7}, []float32{4, 5, 6, 0, 8, 0, 0, 0}
	good := func() *bus.Result {
		r := Result(1, d.Digest, make([]int64, 6),
			&bus.ClientLoss{Task: 9, FirstStepLoss: 1, VariateDigest: bus.DigestOf(a).Bytes()},
			&bus.ClientLoss{Task: 10, FirstStepLoss: 1, VariateDigest: bus.DigestOf(b).Bytes()})
		r.ClientStates = [][]float32{a, b}
		return r
	}
	for name, spoil := range map[string]func(*bus.Result){
		"no changes of variates": func(s *bus.Result) { s.Values = s.Values[:3] },
		"one too few":            func(s *bus.Result) { s.ClientStates = s.ClientStates[:1] },
		"none":                   func(s *bus.Result) { s.ClientStates = nil },
		"one short":              func(s *bus.Result) { s.ClientStates[1] = b[:3] },
		"no digest":              func(s *bus.Result) { s.Clients[0].VariateDigest = nil },
	} {
		s := good()
		spoil(s)
		if err := <-d.Post(s); err == nil || !strings.Contains(err.Error(), bus.ErrRefused.Error()) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	done := d.Post(good())
	d.Take().Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
}

// methodsChecked sends jobs whose methods have numbers outside their ranges, which are refused.
func methodsChecked(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	for want, m := range map[string]*bus.Method{
		"method.variate_weight is 1.5": {Variates: true, VariateWeight: 1.5},
		"method.kept is 268435457":     {Residuals: true, Kept: bus.MaxParams + 1},
	} {
		j := Job(1, d.Digest, 3)
		j.Method = m
		if err := d.C.SendJob(t.Context(), j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to say %q", m, err, want)
		}
	}
}

// buffersCarried sends buffers beside a sum, each client's with its own place and length, in chunks of
// their own where a bus cuts them. Buffers that cannot be those of the job are refused.
func buffersCarried(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	job := variatesJob(d.Digest, 3, bus.Digest{}, bus.Digest{})
	job.Method = nil
	job.Clients[0].VariateDigest = nil
	job.Params = 200_003
	job.Buffers = 200_000
	d.OK(d.C.SendJob(t.Context(), job))
	x := d.Next()
	long := make([]float32, 150_001)
	for i := range long {
		long[i] = float32(i) / 7
	}
	good := func() *bus.Result {
		r := Result(1, d.Digest, make([]int64, 200_003),
			&bus.ClientLoss{Task: 9, FirstStepLoss: 1, BufferFirst: 49_999, BufferCount: uint32(len(long))},
			&bus.ClientLoss{Task: 10, FirstStepLoss: 1, BufferFirst: 2, BufferCount: 1})
		r.Buffers = [][]float32{long, {-3e38}}
		return r
	}
	for name, spoil := range map[string]func(*bus.Result){
		"none":        func(s *bus.Result) { s.Buffers = nil },
		"one too few": func(s *bus.Result) { s.Buffers = s.Buffers[:1] },
		"too short":   func(s *bus.Result) { s.Buffers[1] = nil },
		"beyond":      func(s *bus.Result) { s.Clients[0].BufferFirst = 50_000 },
	} {
		s := good()
		spoil(s)
		if err := <-d.Post(s); err == nil || !strings.Contains(err.Error(), bus.ErrRefused.Error()) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	done := d.Post(good())
	s := d.Take()
	first, values := s.BufferOf(0)
	second, single := s.BufferOf(1)
	if first != 49_999 || !slices.Equal(values, long) || second != 2 || !slices.Equal(single, []float32{-3e38}) {
		t.Errorf("buffers from %d and %d, %d and %v", first, second, len(values), single)
	}
	s.Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
}
