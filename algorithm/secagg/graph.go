package secagg

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// arrangeRing sets the digest of the roster, whose bytes are encoded, and the ring: the members in
// ascending order of SHA-256(ringText, digest, index). Nobody can choose a member's place, since the digest
// depends on the keys of all members.
func (r *Roster) arrangeRing(encoded []byte) {
	r.digest = sha256.Sum256(encoded)
	n := len(r.Entries)
	keys := make([][digestBytes]byte, n)
	r.ring = make([]int, n)
	for i := range n {
		b := append([]byte(ringText), r.digest[:]...)
		keys[i] = sha256.Sum256(binary.LittleEndian.AppendUint32(b, uint32(i)))
		r.ring[i] = i
	}
	slices.SortFunc(r.ring, func(a, b int) int { return bytes.Compare(keys[a][:], keys[b][:]) })
	r.place = make([]int, n)
	for place, member := range r.ring {
		r.place[member] = place
	}
}

// neighbours returns the indices of a member's neighbours in the roster, ascending: the members up to half of
// Neighbours places before and behind it on the ring, or all others on a small ring.
func (r *Roster) neighbours(member int) []int {
	var list []int
	n := len(r.Entries)
	half := r.Terms.runLength()
	// On so small a ring the two sides would meet, and a member could be listed twice.
	if 2*half >= n-1 {
		for i := range n {
			if i != member {
				list = append(list, i)
			}
		}
		return list
	}
	// r.place has the place on the ring of each member, and r.ring the member at each place.
	for distance := 1; distance <= half; distance++ {
		before := (r.place[member] - distance + n) % n
		behind := (r.place[member] + distance) % n
		list = append(list, r.ring[before], r.ring[behind])
	}
	slices.Sort(list)
	return list
}

// fewestSurvivorsInRuns returns the smallest number of survivors that two disjoint runs of the ring have together,
// where a run is runLength members in a row. survives[place] says whether the member at that place of the ring
// survives. The ring must have at least 2·runLength members.
func fewestSurvivorsInRuns(survives []bool, runLength int) int {
	n := len(survives)
	// survivorsFrom has for each place, twice around the ring, how many survive in the run that begins there.
	survivorsFrom := make([]int, 2*n)
	for place := range runLength {
		if survives[place%n] {
			survivorsFrom[0]++
		}
	}
	for place := 1; place < len(survivorsFrom); place++ {
		survivorsFrom[place] = survivorsFrom[place-1]
		if survives[(place-1)%n] {
			survivorsFrom[place]--
		}
		if survives[(place+runLength-1)%n] {
			survivorsFrom[place]++
		}
	}
	// Let second be where the second run begins. The first run does not overlap with it, on either side, if it begins
	// from second − n + runLength to second − runLength: this window moves on with second. candidates are the places in
	// the window that may still be the best one, in ascending order: a place is dropped when a later one has no more
	// survivors. So their survivors rise, and the fewest are at the front.
	fewest := 2 * runLength
	var candidates []int
	for second := runLength; second < len(survivorsFrom); second++ {
		place := second - runLength
		for len(candidates) > 0 && survivorsFrom[candidates[len(candidates)-1]] >= survivorsFrom[place] {
			candidates = candidates[:len(candidates)-1]
		}
		candidates = append(candidates, place)
		windowStart := second - n + runLength
		if candidates[0] < windowStart {
			candidates = candidates[1:]
		}
		// From here on the window is complete.
		if second >= n {
			fewest = min(fewest, survivorsFrom[candidates[0]]+survivorsFrom[second])
		}
	}
	return fewest
}

// CheckConnected returns an error for a set of survivors whose graph of shared masks may fall apart if the
// colluders leave, too: the coordinator could then see the sum of a part of the survivors. survives is in
// the order of the ring. See [Terms.Cut].
func (t Terms) CheckConnected(survives []bool) error {
	want := t.Cut(len(survives))
	if want == 0 {
		return nil
	}
	if got := fewestSurvivorsInRuns(survives, t.runLength()); got < want {
		return fmt.Errorf("secagg: two runs of the ring have %d survivors together, want %d: the set may fall apart",
			got, want)
	}
	return nil
}

// inRingOrder returns for each place of the ring whether its member survives. survives is in the order of
// the roster.
func (r *Roster) inRingOrder(survives []bool) []bool {
	ordered := make([]bool, len(r.ring))
	for place, member := range r.ring {
		ordered[place] = survives[member]
	}
	return ordered
}

// indexOf returns the index in the roster of the client with this number, or notInRoster if it is no
// member. The entries are in ascending order of client numbers.
func (r *Roster) indexOf(client uint32) int {
	i, ok := slices.BinarySearchFunc(r.Entries, client, func(e Entry, client uint32) int {
		return int(int64(e.Client) - int64(client))
	})
	if !ok {
		return notInRoster
	}
	return i
}

// notInRoster is the index of a client that is not in the roster.
const notInRoster = -1
