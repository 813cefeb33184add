package round

import (
	"cmp"
	"slices"
)

// models counts the tasks that name each version of the model, so that the
// driver keeps no other. The list ascends and ends with the newest version,
// which is kept whether or not it is named.
type models struct {
	list []named
}

type named struct {
	version uint64
	tasks   int
}

func (v *models) newest() *named { return &v.list[len(v.list)-1] }

func (v *models) find(version uint64) (int, bool) {
	if n := v.newest(); n.version == version {
		return len(v.list) - 1, true
	}
	return slices.BinarySearchFunc(v.list, version, func(x named, version uint64) int { return cmp.Compare(x.version, version) })
}

// drop takes back a task's name for its base model. It reports whether nothing
// will name the version again.
func (v *models) drop(version uint64) (released bool) {
	i, ok := v.find(version)
	if !ok { // too old for the tasks that name it, released before
		return false
	}
	v.list[i].tasks--
	if v.list[i].tasks > 0 || i == len(v.list)-1 {
		return false
	}
	v.list = slices.Delete(v.list, i, i+1)
	return true
}

// add makes version the newest.
func (v *models) add(version uint64) { v.list = append(v.list, named{version: version}) }

// release removes the versions that nothing will name again: unnamed ones, and
// those from which every update would be stale.
func (v *models) release(released []uint64, stale func(model uint64) bool) []uint64 {
	newest := v.newest().version
	v.list = slices.DeleteFunc(v.list, func(x named) bool {
		gone := x.version != newest && (x.tasks == 0 || stale(x.version))
		if gone {
			released = append(released, x.version)
		}
		return gone
	})
	return released
}
