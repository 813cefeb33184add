package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"fedpace/bus"
)

// jobsBecomeSums sends a job with a model of several chunks and takes its sum: job, model and sum arrive
// as they were sent, and the trainer may change its values once the sum is accepted.
func jobsBecomeSums(t *testing.T, p *Bus) {
	ctx := t.Context()
	c, h := p.Coordinator(t, "r"), p.Host(t, "r")
	// The model takes three chunks, and its sum takes six.
	params := make([]float32, 300_000)
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
	if diff := cmp.Diff(sent, d.Job(), protocmp.Transform(), protocmp.IgnoreFields(sent, "fence")); diff != "" {
		t.Fatalf("job (-sent +received):\n%s", diff)
	}
	got, err := h.Model(ctx, bus.DigestFrom(d.Job().ModelDigest))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, params) {
		t.Fatal("the model is not the one that was put")
	}
	sum := Result(1, digest, make([]int64, len(params)), &bus.ClientLoss{Task: 9, FirstStepLoss: 1.5})
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
		// The values belong to the trainer again.
		clear(sum.Values)
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
}

// repeatedSumsDiscarded sends a sum three times: the coordinator gets it once, and every repeat is
// answered as the first one.
func repeatedSumsDiscarded(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	d.Send(1)
	x := d.Next()
	first, second := d.Post(d.Sum(1)), d.Post(d.Sum(1))
	s := d.Take()
	// The repeat waits for the decision.
	d.Quiet()
	s.Accept()
	d.OK(<-first)
	d.OK(<-second)
	// A repeat that comes later still is answered, too.
	d.OK(<-d.Post(d.Sum(1)))
	d.Quiet()
	d.OK(x.Done(t.Context()))
	if got := d.C.Ignored(); got != 2 {
		t.Errorf("%d messages ignored, want the 2 repeats", got)
	}
}

// sumsTakenBeforeAcknowledged checks that the host's SendSum, after which a trainer may
// acknowledge the job, returns only when the coordinator has decided, with the reason of a rejection, and that a
// rejected job can be done again.
func sumsTakenBeforeAcknowledged(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	d.Send(1)
	x := d.Next()
	done := d.Post(d.Sum(1))
	s := d.Take()
	select {
	case err := <-done:
		t.Fatalf("SendSum returned %v before the sum was accepted", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Reject("the coordinator's disk is full")
	if err := <-done; !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("got %v, want the refusal with its reason", err)
	}
	d.OK(x.Release(false))
	// The released job comes again.
	x = d.Next()
	done = d.Post(d.Sum(1))
	d.Take().Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
}

// sumsOfOtherJobsRefused sends sums that do not answer their job. Each is refused with a reason, and the
// job stays open.
func sumsOfOtherJobsRefused(t *testing.T, p *Bus) {
	other := bus.DigestOf([]float32{7})
	for _, c := range []struct {
		name  string
		spoil func(s *bus.Result)
		want  string
	}{
		{"other model", func(s *bus.Result) { s.ModelDigest = other.Bytes() }, "model_digest is " + other.String()},
		{"values missing", func(s *bus.Result) { s.Values = s.Values[:2] }, "number of values is 2, want 3"},
		{"values too many", func(s *bus.Result) { s.Values = make([]int64, 4) }, "4"},
		{"client missing", func(s *bus.Result) { s.Clients = nil }, "number of clients is 0, want 1"},
		{"other client", func(s *bus.Result) { s.Clients[0].Task = 8 }, "clients[0].task is 8, want 9"},
		{"loss is not finite", func(s *bus.Result) { s.Clients[0].FirstStepLoss = nan }, "first_step_loss is NaN"},
		{"evaluation", func(s *bus.Result) { s.Shards = []*bus.ShardScore{{}} }, "number of shards is 1, want 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := p.Ends(t, bus.CoordinatorConfig{})
			d.Send(1)
			s := d.Sum(1)
			c.spoil(s)
			if err := <-d.Post(s); !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			}
			d.Quiet()
			// The job is still open, so another sum of it can be sent.
			done := d.Post(d.Sum(1))
			d.Take().Accept()
			d.OK(<-done)
		})
	}
}

// failuresReachCoordinator sends a failure in place of a sum, which arrives as it was sent.
func failuresReachCoordinator(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	d.Send(1)
	want := &bus.Failure{Kind: "diverged", Task: 9, Client: 4, Text: "diverged: task 9, client 4"}
	sum := Result(1, d.Digest, nil)
	sum.Failure = want
	done := d.Post(sum)
	s := d.Take()
	if !proto.Equal(s.Failure, want) {
		t.Errorf("got %+v, want %+v", s.Failure, want)
	}
	s.Accept()
	d.OK(<-done)
}

// evaluationsReturnScores sends a job of evaluation and takes the losses and scores of its shards.
func evaluationsReturnScores(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	j := Job(1, d.Digest, len(Model))
	j.Kind, j.Clients = bus.Evaluate, nil
	j.Spec = proto.CloneOf(j.Spec)
	j.Spec.Metrics = []string{"accuracy", "perplexity"}
	j.Shards = []*bus.Shard{{Index: 3, From: 3072, Count: 1024}, {Index: 4, From: 4096, Count: 7}}
	d.OK(d.C.SendJob(t.Context(), j))
	x := d.Next()
	sum := Result(1, d.Digest, nil)
	sum.Shards = []*bus.ShardScore{
		{Index: 3, LossSum: 70.5, Scores: []*bus.Score{{Sum: 1000, Weight: 1000}, {Sum: -2.5, Weight: 0.25}}},
		{Index: 4, LossSum: 1, Scores: []*bus.Score{{Sum: 7, Weight: 9}, {}}},
	}
	done := d.Post(sum)
	s := d.Take()
	if len(s.Shards) != 2 || !proto.Equal(s.Shards[0], sum.Shards[0]) || !proto.Equal(s.Shards[1], sum.Shards[1]) {
		t.Errorf("got %+v, want %+v", s.Shards, sum.Shards)
	}
	s.Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
}

// modelsStoredUntilDeleted checks that a host gets a model after PutModel and before DeleteModel, and
// otherwise an error that wraps ErrNoModel.
func modelsStoredUntilDeleted(t *testing.T, p *Bus) {
	d := p.Ends(t, bus.CoordinatorConfig{})
	next := []float32{4, 5, 6}
	if _, err := d.H.Model(t.Context(), bus.DigestOf(next)); !errors.Is(err, bus.ErrNoModel) {
		t.Errorf("got %v, want ErrNoModel", err)
	}
	d.OK(d.C.PutModel(t.Context(), bus.DigestOf(next), next))
	d.OK(d.C.DeleteModel(t.Context(), d.Digest))
	// Deleting a model that is not there is harmless.
	d.OK(d.C.DeleteModel(t.Context(), d.Digest))
	if _, err := d.H.Model(t.Context(), d.Digest); !errors.Is(err, bus.ErrNoModel) {
		t.Errorf("got %v, want ErrNoModel", err)
	}
	if _, err := d.H.Model(t.Context(), bus.DigestOf(next)); err != nil {
		t.Error(err)
	}
}
