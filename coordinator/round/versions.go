package round

import (
	"maps"
	"slices"
)

// versions counts the tasks that start from each version of the model, so that
// the driver keeps no other. The newest is kept whether or not a task names it.
type versions map[uint64]int

// sorted lists the versions, oldest first.
func (v versions) sorted() []uint64 { return slices.Sorted(maps.Keys(v)) }

// drop takes back a task's name for its base model, which is released with its
// last one.
func (m *Machine) drop(model uint64) {
	if !m.config.Train {
		return
	}
	n, kept := m.versions[model]
	if !kept { // too old for the tasks that name it, released before
		return
	}
	m.versions[model] = n - 1
	if n == 1 && model != m.s.Model {
		m.release(model)
	}
}

// dropStale releases the versions that nothing will name again: unnamed ones,
// and those from which every update would be late.
func (m *Machine) dropStale() {
	for _, model := range m.versions.sorted() {
		if model != m.s.Model && (m.versions[model] == 0 || m.stale(model)) {
			m.release(model)
		}
	}
}

func (m *Machine) release(model uint64) {
	delete(m.versions, model)
	m.out.Release = append(m.out.Release, model)
}
