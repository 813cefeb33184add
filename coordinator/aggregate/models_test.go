package aggregate

import (
	"context"
	"testing"

	"fedpace/bus"
)

// shelf is a bus that keeps models and nothing else.
type shelf struct {
	bus.Coordinator
	models map[bus.Digest][]float32
}

// PutModel keeps a model.
func (s *shelf) PutModel(_ context.Context, d bus.Digest, params []float32) error {
	s.models[d] = params
	return nil
}

// DeleteModel forgets a model.
func (s *shelf) DeleteModel(_ context.Context, d bus.Digest) error {
	delete(s.models, d)
	return nil
}

// What is frozen stays for devices that have yet to fetch it, also where what travels of a
// version that is let go of has the same values: as many zeros, say.
func TestModels_FrozenValuesStay(t *testing.T) {
	on := &shelf{models: map[bus.Digest][]float32{}}
	m := newModels(on)
	first := newModel([]float32{0, 0, 0, 0})
	next := newModel([]float32{1, 2, 0, 0})
	if err := m.splitFrozen(t.Context(), first.params, 2); err != nil {
		t.Fatal(err)
	}
	for version, x := range []model{first, next} {
		if err := m.add(t.Context(), uint64(version), x); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var task bus.Task
	m.nameInTask(&task, 1)
	for _, d := range [][]byte{task.ModelDigest, task.FrozenDigest} {
		if on.models[bus.DigestFrom(d)] == nil {
			t.Errorf("a task names %s, which is not on the bus", bus.DigestFrom(d))
		}
	}
	if len(on.models) != 3 {
		t.Errorf("%d models are on the bus, want the version's, its part, and what is frozen", len(on.models))
	}
}
