package coordinator

import (
	"context"
	"fmt"

	"fedpace/bus"
)

// models are the versions of the model that are on the bus, by their digests:
// those that the machine says tasks may start from. Versions may be equal, when
// every update was zero.
type models struct {
	bus     bus.Coordinator
	travels int        // of each version, so many values go to devices by themselves; 0: whole models do
	frozen  bus.Digest // of the others, which never change
	list    map[uint64]model
	offered bus.Digest // a model on the bus that is no version yet; zero: none
}

type model struct {
	digest   bus.Digest
	part     bus.Digest // of what goes to devices; zero: the whole does
	params   []float32
	doubtful bool // much that was learned before it is lost: what devices make of it says nothing of them
}

// split has devices fetch the first values of each version by themselves, and the others, which are
// frozen, once.
func (m *models) split(ctx context.Context, params []float32, travels int) error {
	m.travels, m.frozen = travels, bus.DigestOf(params[travels:])
	return m.bus.PutModel(ctx, m.frozen, params[travels:])
}

// add puts a version on the bus.
func (m *models) add(ctx context.Context, version uint64, x model) error {
	known := m.has(x.digest)
	if err := m.offer(ctx, x); err != nil {
		return err
	}
	if m.travels > 0 {
		x.part = bus.DigestOf(x.params[:m.travels])
		if !known {
			if err := m.bus.PutModel(ctx, x.part, x.params[:m.travels]); err != nil {
				return err
			}
		}
	}
	m.list[version] = x
	m.offered = bus.Digest{}
	return nil
}

// offer puts a model on the bus that may become a version, in place of the last that was
// offered.
func (m *models) offer(ctx context.Context, x model) error {
	if x.digest == m.offered {
		return nil
	}
	if err := m.withdraw(ctx); err != nil || m.has(x.digest) {
		return err
	}
	m.offered = x.digest
	return m.bus.PutModel(ctx, x.digest, x.params)
}

// withdraw deletes the model that was offered last, if it has become no version.
func (m *models) withdraw(ctx context.Context) error {
	if m.offered.IsZero() {
		return nil
	}
	last := m.offered
	m.offered = bus.Digest{}
	return m.bus.DeleteModel(ctx, last)
}

func (m *models) has(digest bus.Digest) bool {
	for _, x := range m.list {
		if x.digest == digest {
			return true
		}
	}
	return false
}

// release deletes a version that no task will name again.
func (m *models) release(ctx context.Context, version uint64) error {
	x, ok := m.list[version]
	if !ok {
		return fmt.Errorf("coordinator: version %d of the model is released and not kept", version)
	}
	delete(m.list, version)
	if m.has(x.digest) {
		return nil
	}
	if !x.part.IsZero() && x.part != m.frozen {
		if err := m.bus.DeleteModel(ctx, x.part); err != nil {
			return err
		}
	}
	return m.bus.DeleteModel(ctx, x.digest)
}

// nameFor says in a device's task which model it starts from.
func (m *models) nameFor(t *bus.Task, version uint64) {
	if x := m.list[version]; !x.part.IsZero() {
		t.ModelDigest, t.FrozenDigest = x.part.Bytes(), m.frozen.Bytes()
	}
}
