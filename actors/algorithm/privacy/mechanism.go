package privacy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"fedpace/actors/algorithm"
	"fedpace/internal/portable"
)

// Mechanism adds the noise of one run. It holds no state: the noise of a round is a
// function of the key, the round and the sum.
type Mechanism struct {
	Options
	Updates int    // m, at least 1
	Key     Secret // whoever knows it can subtract the noise
}

// Secret keys noise.
type Secret [32]byte

// Public is the key of a simulation's noise, which follows from the seed so that one seed
// gives one model. It protects nothing from a reader who knows the seed.
func Public(seed uint64) Secret {
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("fedpace public noise"), seed))
}

// Share is the weight of each update in the sum, 1/m.
func (m *Mechanism) Share() float64 { return 1 / float64(m.Updates) }

// Deviation is that of the noise on each of so many parameters of a sum, in units of 2^-44.
// A clipped update's terms are each rounded twice, by at most half a unit, and its norm is
// summed in float64: it may be that much longer than the clip.
func (m *Mechanism) Deviation(params int) float64 {
	n := float64(params)
	longest := float64(m.Share()*m.Clip*algorithm.One*(1+float64(n*0x1p-52))) + math.Sqrt(n)
	return m.Noise * longest
}

// block is how many parameters have one stream of random numbers.
const block = 1 << 14

func (m *Mechanism) Add(round int, sum []int64) {
	key := m.key(round, sum)
	scale := m.Deviation(len(sum)) / math.Sqrt2
	number := uint64(0)
	var all sync.WaitGroup
	for values := range slices.Chunk(sum, block) {
		own := derive(key[:], number)
		all.Go(func() { noise(values, scale, rand.NewChaCha8(own)) })
		number++
	}
	all.Wait()
}

// noise adds a normal number, rounded to even, to each value.
func noise(values []int64, scale float64, source *rand.ChaCha8) {
	for i := range values {
		z := portable.Normal(source.Uint64()) + portable.Normal(source.Uint64())
		values[i] += int64(math.RoundToEven(scale * z))
	}
}

// key is that of a round with a sum.
func (m *Mechanism) key(round int, sum []int64) (key Secret) {
	h := hmac.New(sha256.New, m.Key[:])
	var b [8]byte
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(round)))
	for _, x := range sum {
		binary.LittleEndian.PutUint64(b[:], uint64(x))
		h.Write(b[:])
	}
	return Secret(h.Sum(nil))
}

// derive is the key of a part of a key's numbers.
func derive(key []byte, part uint64) [32]byte {
	h := hmac.New(sha256.New, key)
	h.Write(binary.LittleEndian.AppendUint64(nil, part))
	return [32]byte(h.Sum(nil))
}
