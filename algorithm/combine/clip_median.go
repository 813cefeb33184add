package combine

import (
	"math"
	"slices"
)

// init registers the bound under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Clips.Register("median", "a multiple of the last updates' median norm", MedianNorm{})
}

// MedianNorm bounds updates by a multiple of the median norm of the latest updates, those of the
// round included. Of an even number of norms the median is the lower of the middle two, so that one
// Byzantine client beside one honest one does not raise it. Updates of norm 0 are left out.
// The memory holds the norms as they were sent: with clipped ones the bound could only fall
// where Times is 1. Byzantine clients can move the median beyond the honest norms only if at least half
// of the norms are theirs.
type MedianNorm struct {
	Times   float64 `key:"times" default:"10" range:"[1,1e6]" help:"multiple of the median norm"`
	Updates int     `key:"updates" default:"100" range:"[1,100000]" help:"accepted updates that count"`
}

// Bound returns Times the lower median of the norms of this round's updates and of the remembered ones,
// zeros left out; +Inf if there are none. The next memory has the newest Updates norms, the oldest first.
func (m MedianNorm) Bound(memory, norms []float64) (bound float64, nextMemory []float64) {
	all := slices.Concat(memory, norms)
	all = slices.DeleteFunc(all, func(norm float64) bool { return norm == 0 })
	if len(all) == 0 {
		return math.Inf(1), nil
	}
	bound = m.Times * slices.Sorted(slices.Values(all))[(len(all)-1)/2]
	return bound, all[max(0, len(all)-m.Updates):]
}
