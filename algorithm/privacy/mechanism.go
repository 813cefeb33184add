package privacy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"fedpace/algorithm"
	"fedpace/internal/portable"
	"fedpace/internal/vector"
	"fedpace/registry"
)

// Mechanism adds the noise of one run. It holds no state: the noise of a round is a
// function of the key, the round and the sum.
type Mechanism struct {
	Options
	// Updates is m, the number of updates in a sum, at least 1.
	Updates int
	// Key is the secret from which the noise follows: whoever knows it can subtract the noise.
	Key Secret
}

// Secret keys noise.
type Secret [32]byte

// Public returns the key of a simulation's noise, which follows from the seed so that one seed
// gives one model. It protects nothing from a reader who knows the seed.
func Public(seed uint64) Secret {
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("fedpace public noise"), seed))
}

// Share returns the weight of each update in the sum, 1/m.
func (m *Mechanism) Share() float64 { return 1 / float64(m.Updates) }

// Deviation returns the standard deviation of the noise on each of params parameters of a sum, in units of
// 2^-44: Noise times the largest norm of an update in the sum. That is a little above the clip: each value
// is rounded twice, by at most half a unit, and the norm was summed in float64.
func (m *Mechanism) Deviation(params int) float64 {
	n := float64(params)
	longest := float64(m.Share()*m.Clip*algorithm.Unit*(1+float64(n*0x1p-52))) + math.Sqrt(n)
	return m.Noise * longest
}

// blockSize is how many parameters have one stream of random numbers.
const blockSize = 1 << 14

// Add adds the normal noise of a round to its sum, each block of parameters from a stream of its own, so that cores
// share the work.
func (m *Mechanism) Add(round int, sum []int64) {
	key := deriveKey(m.Key, uint64(round), sum)
	// addNoise adds two normal numbers to each value, so that their deviation is over the root of two.
	scale := m.Deviation(len(sum)) / math.Sqrt2
	number := uint64(0)
	var all sync.WaitGroup
	for values := range slices.Chunk(sum, blockSize) {
		blockKey := deriveKey(key, number, nil)
		all.Go(func() { addNoise(values, scale, rand.NewChaCha8(blockKey)) })
		number++
	}
	all.Wait()
}

// addNoise adds normal noise to each value, rounded to a whole number: scale times the sum of two standard
// normal numbers. A single one would have too few different values far from 0 (see the package's
// documentation). source has the random bits.
func addNoise(values []int64, scale float64, source *rand.ChaCha8) {
	for i := range values {
		z := portable.Normal(source.Uint64()) + portable.Normal(source.Uint64())
		values[i] += int64(math.RoundToEven(scale * z))
	}
}

// deriveKey derives a key by HMAC-SHA-256: that of a round's noise from the run's key, the round's number
// and its sum before noise, and that of a block of parameters from the round's key, the block's number and
// no sum.
func deriveKey(key Secret, number uint64, sum []int64) Secret {
	h := hmac.New(sha256.New, key[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, number))
	h.Write(vector.Bytes(sum))
	return Secret(h.Sum(nil))
}

// Options are the section privacy of a configuration. A run whose Clip and Noise are 0 has no central
// differential privacy.
type Options struct {
	Clip    float64 `key:"clip" is:"null" range:"(0,1e4]" help:"clipping norm of updates"`
	Noise   float64 `key:"noise_multiplier" is:"null" range:"[0.01,1e4]" help:"deviation of the noise on a sum, in clips"`
	Delta   float64 `key:"delta" default:"1e-5" range:"[1e-15,0.1]" help:"probability that epsilon does not hold; below 1 over clients"`
	Epsilon float64 `key:"epsilon" is:"null" range:"(0,1e6]" help:"budget: the run stops with the last round within it"`

	Local       Local       `key:"local"`
	Distributed Distributed `key:"distributed"`
}

// On reports whether the models of the run are private.
func (o Options) On() bool { return o.Clip > 0 && o.Noise > 0 }

// Validate returns a [*registry.OptionError] if an option is out of range, or if epsilon is limited
// without any noise that would spend it.
func (o Options) Validate() error {
	if err := checkNoise(o.Clip, o.Noise); err != nil {
		return err
	}
	if !o.On() && o.Epsilon > 0 {
		return registry.Errorf(
			"epsilon",
			"%g is spent by noise, and there is none (set privacy.clip and privacy.noise_multiplier)",
			o.Epsilon,
		)
	}
	if o.Local.On() && o.Distributed.On() {
		return registry.Errorf("distributed", "and privacy.local are two kinds of clients' noise (set one of them)")
	}
	if err := o.Local.Validate(); err != nil {
		return err
	}
	return o.Distributed.Validate()
}

// checkNoise returns a [*registry.OptionError] where a clip and a noise multiplier do not fit
// each other.
func checkNoise(clip, multiplier float64) error {
	switch {
	case (clip > 0) != (multiplier > 0):
		return registry.Errorf(
			"",
			"clip and noise_multiplier belong together: the noise is so many times the clip (set both, or neither)",
		)
	case clip*multiplier > maxDeviation:
		return registry.Errorf(
			"noise_multiplier",
			"%g times the clip, %g, is more noise than a sum holds (lower one of them: at most %g together)",
			multiplier,
			clip,
			float64(maxDeviation),
		)
	}
	return nil
}

// maxDeviation bounds the deviation of the noise, in the units of the model: the largest draw, of 11.7
// deviations, is below 2^16 · 2^44 units of a sum, so that a sum with it stays below algorithm.Limit.
const maxDeviation = 4096
