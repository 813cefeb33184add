package aggregate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"fedpace/bus"
)

// model is one model of the run with what is known of it.
type model struct {
	// params holds the model's values, which are never changed, only replaced.
	params []float32
	digest bus.Digest
	// communicated is the digest of the values that devices fetch; zero where they fetch the
	// whole model.
	communicated bus.Digest
	// degraded says that much of what was learned before is lost with this model: what devices make
	// of it is no evidence against them.
	degraded bool
}

// newModel makes a model of its parameters, which must not be changed any more.
func newModel(params []float32) model { return model{params: params, digest: bus.DigestOf(params)} }

// models are the versions of the model that tasks may start from, and all vectors that trainers
// and devices can fetch. Several holders may need a vector of the same values at a time (two
// versions are equal where every update was zero), so a vector stays on the bus until its last
// holder has let go of it.
type models struct {
	bus      bus.Coordinator
	versions map[uint64]model
	// newest is the number of the newest version; the own models of sites do not count.
	newest uint64
	// holders counts, for each vector on the bus, how many need it there.
	holders map[bus.Digest]int

	// Where a part of the model is frozen, devices fetch the first values of each version, and the
	// frozen rest once.
	// communicated is the number of those values, 0 where devices fetch whole models.
	communicated int
	// frozen is the digest of the other values, which never change.
	frozen bus.Digest

	// candidate is the digest of a model on the bus that is no version yet, zero if there is none.
	candidate bus.Digest
}

// newModels makes an empty set of versions on a bus.
func newModels(channel bus.Coordinator) models {
	return models{bus: channel, versions: map[uint64]model{}, holders: map[bus.Digest]int{}}
}

// publish puts a vector on the bus, or counts one more holder if it is there already. The values must not
// be changed any more.
func (m *models) publish(ctx context.Context, digest bus.Digest, values []float32) error {
	m.holders[digest]++
	if m.holders[digest] > 1 {
		return nil
	}
	return m.bus.PutModel(ctx, digest, values)
}

// unpublish counts one holder less of a vector, and takes it off the bus with the last one.
func (m *models) unpublish(ctx context.Context, digest bus.Digest) error {
	m.holders[digest]--
	if m.holders[digest] > 0 {
		return nil
	}
	delete(m.holders, digest)
	return m.bus.DeleteModel(ctx, digest)
}

// splitFrozen makes devices download only the first communicated values of each version, and the frozen
// rest once. It publishes that rest, which is the same in all versions, from params, the values of one of
// them. It is called before any version is added.
func (m *models) splitFrozen(ctx context.Context, params []float32, communicated int) error {
	m.communicated = communicated
	m.frozen = bus.DigestOf(params[communicated:])
	return m.publish(ctx, m.frozen, params[communicated:])
}

// add publishes model x and makes it the version with this number, which tasks can name from now on. Where
// devices download only a part of the model, that part is also published, under a digest of its own. A
// candidate that was published before is withdrawn.
func (m *models) add(ctx context.Context, version uint64, x model) error {
	if err := m.publish(ctx, x.digest, x.params); err != nil {
		return err
	}
	if err := m.withdrawCandidate(ctx); err != nil {
		return err
	}
	if m.communicated > 0 {
		part := x.params[:m.communicated]
		x.communicated = bus.DigestOf(part)
		if err := m.publish(ctx, x.communicated, part); err != nil {
			return err
		}
	}
	m.versions[version] = x
	return nil
}

// addNewest publishes model x as the version with this number and makes it the newest one, from
// which new tasks start.
func (m *models) addNewest(ctx context.Context, version uint64, x model) error {
	if err := m.add(ctx, version, x); err != nil {
		return err
	}
	m.newest = version
	return nil
}

// current returns the newest version of the model.
func (m *models) current() model { return m.versions[m.newest] }

// publishCandidate publishes a model that may become a version, in place of the candidate before.
func (m *models) publishCandidate(ctx context.Context, x model) error {
	if x.digest == m.candidate {
		return nil
	}
	if err := m.withdrawCandidate(ctx); err != nil {
		return err
	}
	m.candidate = x.digest
	return m.publish(ctx, x.digest, x.params)
}

// withdrawCandidate takes the last candidate off the bus; a model that has also become a version stays,
// because the version holds it. It does nothing without a candidate.
func (m *models) withdrawCandidate(ctx context.Context) error {
	if m.candidate.IsZero() {
		return nil
	}
	candidate := m.candidate
	m.candidate = bus.Digest{}
	return m.unpublish(ctx, candidate)
}

// release forgets a version that no task will name again and takes its vectors off the bus: the whole model and,
// where devices fetch only a part of it, that part (communicated). It is an error if the version does not exist.
func (m *models) release(ctx context.Context, version uint64) error {
	x, ok := m.versions[version]
	if !ok {
		return fmt.Errorf("coordinator: version %d of the model is released and not kept", version)
	}
	delete(m.versions, version)
	if !x.communicated.IsZero() {
		if err := m.unpublish(ctx, x.communicated); err != nil {
			return err
		}
	}
	return m.unpublish(ctx, x.digest)
}

// nameInTask writes into t, a device's task, the digest of the version that the task starts from. Where
// devices download only the communicated part of a model, these are the digests of that part and of the
// frozen rest.
func (m *models) nameInTask(t *bus.Task, version uint64) {
	x := m.versions[version]
	t.ModelDigest = x.digest.Bytes()
	if !x.communicated.IsZero() {
		t.ModelDigest = x.communicated.Bytes()
		t.FrozenDigest = m.frozen.Bytes()
	}
}

// firstSiteVersion is the version of the own model of site 0. The versions of sites lie beyond those
// that rounds make, at most one each.
const firstSiteVersion = 1 << 60

// siteVersion returns the version that stands for the own model of a site.
func siteVersion(site int) uint64 { return firstSiteVersion + uint64(site) }

// isSiteVersion reports whether a version is the own model of a site.
func isSiteVersion(version uint64) bool { return version >= firstSiteVersion }

// releaseSites releases the models of all sites at the end of a round, in the order of their versions.
func (m *models) releaseSites(ctx context.Context) error {
	for _, version := range slices.Sorted(maps.Keys(m.versions)) {
		if !isSiteVersion(version) {
			continue
		}
		if err := m.release(ctx, version); err != nil {
			return err
		}
	}
	return nil
}
