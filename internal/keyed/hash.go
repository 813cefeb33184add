package keyed

import (
	"math/bits"
	"math/rand/v2"
)

// Multipliers of the mixing function: odd numbers with balanced bits, those of
// wyhash's public constants (Wang Yi, 2019).
const (
	m0 = 0xa0761d6478bd642f
	m1 = 0xe7037ed1a0b428db
	m2 = 0x8ebc6af09c88c6e3
	m3 = 0x589965cc75374cc3
)

// mix folds the 128-bit product of its arguments.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// finish is the finaliser of SplitMix64 (Steele, Lea, Flood, 2014): a
// bijection after which every input bit reaches every output bit.
func finish(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// absorb adds one word to a running state. Each word is made dense by finish
// first, so that small neighbouring integers (the usual keys) share no pattern.
func absorb(state, word uint64) uint64 {
	return mix(finish(word^m2)^m0, state^m1) + state
}

// Hash returns 64 bits for the key (seed, purpose, parts...). The number of
// parts is itself part of the key.
func Hash(seed uint64, purpose Purpose, parts ...uint64) uint64 {
	state := begin(seed, purpose, len(parts))
	for _, p := range parts {
		state = absorb(state, p)
	}
	return finish(state)
}

// begin returns the state of a key with this number of parts, before it has absorbed any of them.
func begin(seed uint64, purpose Purpose, parts int) uint64 {
	return absorb(seed^m3, uint64(purpose)<<8|uint64(parts))
}

// Nth returns a further number of a key, with index i, given h, the key's Hash. It is as good as a Hash
// with i as one more part, and takes a third of the time. It is output i+1 of the SplitMix64 generator with
// h as its state (Steele, Lea, Flood, 2014); h itself is not among the outputs.
func Nth(h, i uint64) uint64 { return finish(h + (i+1)*0x9e3779b97f4a7c15) }

// Below maps 64 random bits to 0..n-1 by the high half of a product (Lemire,
// 2019). Its bias is below n/2^64, nothing for the populations here.
// It panics when n is zero.
func Below(h, n uint64) uint64 {
	if n == 0 {
		panic("keyed: Below of an empty range")
	}
	hi, _ := bits.Mul64(h, n)
	return hi
}

// Float64 maps 64 random bits to [0, 1) with 53 bits of resolution.
func Float64(h uint64) float64 { return float64(h>>11) * 0x1p-53 }

// New returns the stream of the key (seed, purpose, parts...).
func New(seed uint64, purpose Purpose, parts ...uint64) *rand.Rand {
	return rand.New(Source(seed, purpose, parts...))
}

// Source is New for consumers that take a source, such as gonum's distuv.
func Source(seed uint64, purpose Purpose, parts ...uint64) *rand.PCG {
	h := Hash(seed, purpose, parts...)
	return rand.NewPCG(h, finish(h^m3))
}

// Reseed sets an existing source to the key's stream, without allocating.
func Reseed(src *rand.PCG, seed uint64, purpose Purpose, parts ...uint64) {
	h := Hash(seed, purpose, parts...)
	src.Seed(h, finish(h^m3))
}
