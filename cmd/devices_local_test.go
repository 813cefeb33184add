//go:build unix

package cmd

import (
	"slices"
	"strings"
	"testing"

	"fedpace/actors"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// A device takes its local steps by the run's optimizer, to the bit. One of a protocol
// that does not know of optimizers is refused when it joins.
func TestDevices_LocalOptimizer(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 4, 1, "devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 30}\nlocal: {momentum: 0.9, nesterov: true, weight_decay: 0.01, clip: 1}\n")
	old := s.raw("pi2")
	reply := old.ask(old.subject("join"), &bus.Join{Name: "of before", Kernel: "go", Samples: 9, Protocol: bus.ProtocolAlgorithm})
	if want := "join: protocol is 1, want at least 2 for the run's local optimizer: update the device"; reply.Status != bus.Refused || !strings.Contains(reply.Reason, want) {
		t.Errorf("a device of before is answered %v", reply)
	}
	s.actor("pi1")
	s.actor("pi2")
	if summary := s.end(); !summary.Completed || summary.Outcomes[round.Accepted] != 4 {
		t.Fatalf("outcomes %v:\n%v", summary.Outcomes, s.lines)
	}
	said := answersOf(t, s.path("run"))
	if len(said) != 2 {
		t.Fatalf("%d answers", len(said))
	}
	c, err := config.Load(s.path("run.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := synthetic.New("femnist", 202, c.DataSeed(), c.Synthetic.Heterogeneity)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	model, err := learn.Parse("mlp:784,200,200,62")
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	base := make([]float32, model.Params())
	model.Init(base, c.Seed)
	p := actors.Problem{Model: model, Set: set, Seed: c.Seed, Batch: c.Batch, Augment: c.Augment, Algorithm: c.Aggregate.Algorithm, Kernel: kernel}
	for _, o := range []learn.Optimizer{c.Local, nil} {
		p.Optimizer = o
		trainer, err := actors.NewTrainer(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range said {
			own, _, loss, err := trainer.Local(t.Context(), base, actors.Assignment{Task: a.Task, Client: a.Client, LocalSteps: 4, Rate: c.Schedule.Eta0})
			if err != nil {
				t.Fatal(err)
			}
			if same := slices.Equal(own, a.Values); loss != a.Loss || same != (o != nil) {
				t.Errorf("device %d with %v: loss %g, want %g; the same model: %v", a.Client, o, a.Loss, loss, same)
			}
		}
	}
}
