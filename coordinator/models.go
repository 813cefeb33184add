package coordinator

import (
	"context"
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// models are the versions of the model that tasks may name, on the bus by their
// digests. Versions may be equal, when every update was zero.
type models struct {
	bus      bus.Coordinator
	next     uint64
	digests  map[uint64]bus.Digest // by version
	versions map[bus.Digest]int    // how many versions are this model
	values   map[bus.Digest][]float32
}

func newModels(channel bus.Coordinator) models {
	return models{bus: channel, digests: map[uint64]bus.Digest{}, versions: map[bus.Digest]int{}, values: map[bus.Digest][]float32{}}
}

// add puts the next version on the bus: 0, 1, ...
func (m *models) add(ctx context.Context, digest bus.Digest, params []float32) error {
	if m.versions[digest] == 0 {
		if err := m.bus.PutModel(ctx, digest, params); err != nil {
			return err
		}
	}
	m.versions[digest]++
	m.values[digest] = params
	m.digests[m.next] = digest
	m.next++
	return nil
}

func (m *models) digest(version uint64) bus.Digest { return m.digests[version] }

// params are a version's, false when it is not kept.
func (m *models) params(version uint64) ([]float32, bool) {
	digest, ok := m.digests[version]
	return m.values[digest], ok
}

// release deletes a version that no task will name again.
func (m *models) release(ctx context.Context, version uint64) error {
	digest, ok := m.digests[version]
	if !ok {
		return fmt.Errorf("coordinator: version %d of the model is released and not kept", version)
	}
	delete(m.digests, version)
	m.versions[digest]--
	if m.versions[digest] > 0 {
		return nil
	}
	delete(m.versions, digest)
	delete(m.values, digest)
	return m.bus.DeleteModel(ctx, digest)
}

// releaseModels deletes what the machine has released since it was last asked.
func (d *driver) releaseModels(ctx context.Context) error {
	for _, version := range d.release {
		if err := d.learner.models.release(ctx, version); err != nil {
			return err
		}
	}
	d.release = d.release[:0]
	return nil
}

// splitByModel cuts tasks, which are in the order of their base models, into
// contiguous spans of one base model each, each base's as many of the parts as
// it has of the tasks, at least one.
func splitByModel(tasks []round.Task, parts int) []span {
	var spans []span
	for from := 0; from < len(tasks); {
		to := from + 1
		for to < len(tasks) && tasks[to].Model == tasks[from].Model {
			to++
		}
		n := to - from
		for _, s := range split(n, max(1, (parts*n+len(tasks)-1)/len(tasks))) {
			spans = append(spans, span{from + s.from, from + s.to})
		}
		from = to
	}
	return spans
}
