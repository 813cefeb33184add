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

// neighbours returns the indices of a member's neighbours, ascending: the members up to half of Neighbours
// places before and behind it on the ring, or all others on a small ring.
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
	for distance := 1; distance <= half; distance++ {
		before := (r.place[member] - distance + n) % n
		behind := (r.place[member] + distance) % n
		list = append(list, r.ring[before], r.ring[behind])
	}
	slices.Sort(list)
	return list
}

// fewestSurvivorsInRuns returns the smallest number of survivors that two disjoint runs of the ring have
// together, where a run is this many members in a row. survives[place] says whether the member at that
// place of the ring survives. The ring must have at least 2·run members.
func fewestSurvivorsInRuns(survives []bool, run int) int {
	n := len(survives)
	// inRun has for each place, twice around the ring, the survivors in the run that begins there.
	inRun := make([]int, 2*n)
	for place := range run {
		if survives[place%n] {
			inRun[0]++
		}
	}
	for place := 1; place < len(inRun); place++ {
		inRun[place] = inRun[place-1]
		if survives[(place-1)%n] {
			inRun[place]--
		}
		if survives[(place+run-1)%n] {
			inRun[place]++
		}
	}
	// For a run that begins at last, the first one may begin at last − n + run to last − run. The least of
	// those is at the front of a queue of places whose runs have ever more survivors.
	fewest := 2 * run
	var queue []int
	for last := run; last < len(inRun); last++ {
		place := last - run
		for len(queue) > 0 && inRun[queue[len(queue)-1]] >= inRun[place] {
			queue = queue[:len(queue)-1]
		}
		queue = append(queue, place)
		if queue[0] < last-n+run {
			queue = queue[1:]
		}
		if last >= n {
			fewest = min(fewest, inRun[queue[0]]+inRun[last])
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
