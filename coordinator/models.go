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
	bus  bus.Coordinator
	list map[uint64]model
}

type model struct {
	digest bus.Digest
	params []float32
}

// add puts a version on the bus.
func (m *models) add(ctx context.Context, version uint64, x model) error {
	if !m.has(x.digest) {
		if err := m.bus.PutModel(ctx, x.digest, x.params); err != nil {
			return err
		}
	}
	m.list[version] = x
	return nil
}

// has reports whether a version is this model.
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
	return m.bus.DeleteModel(ctx, x.digest)
}
