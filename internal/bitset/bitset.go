package bitset

import "math/bits"

// Set is a set of the numbers 0 to n-1. Bit i%64 of word i/64 is set if number i is in it.
type Set []uint64

// New makes an empty set for the numbers below n.
func New(n int) Set { return make(Set, (n+63)/64) }

// Add puts the number i into the set, which may have it already.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes the number i out of the set, which may lack it already.
func (s Set) Remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// Has reports whether the number i is in the set.
func (s Set) Has(i int) bool { return s[i>>6]>>(i&63)&1 == 1 }

// Absent calls f with each of the numbers below n that are not in the set, in order. n must not exceed the n
// with which the set was made.
func (s Set) Absent(n int, f func(i int)) {
	for word, set := range s {
		// Each turn takes the lowest bit of the word that is not set, and clears it in absent.
		for absent := ^set; absent != 0; absent &= absent - 1 {
			i := 64*word + bits.TrailingZeros64(absent)
			if i >= n {
				return
			}
			f(i)
		}
	}
}
