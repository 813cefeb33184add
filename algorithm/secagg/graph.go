package secagg

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// arrange finds the digest of the roster as it was encoded, and the ring, which is the members in
// ascending order of SHA-256(ringText, digest, index). Nobody can choose a member's place without
// the keys of all others.
func (r *Roster) arrange(encoded []byte) {
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

// neighbours returns the neighbours of a member in ascending order: the members up to half of
// Neighbours places before and behind it on the ring, or all others where there are no more.
func (r *Roster) neighbours(member int) []int {
	var list []int
	n := len(r.Entries)
	half := (r.Terms.Neighbours + 1) / 2
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

// indexOf returns the index in the roster of the client with this number, or notThere if it is no
// member. The entries are in ascending order of client numbers.
func (r *Roster) indexOf(client uint32) int {
	i, ok := slices.BinarySearchFunc(r.Entries, client, func(e Entry, client uint32) int {
		return int(int64(e.Client) - int64(client))
	})
	if !ok {
		return notThere
	}
	return i
}

// notThere is the index of a client that is not in the roster.
const notThere = -1
