package privacy

import "fedpace/internal/registry"

// Options are what a configuration says of privacy. Their zero value, but for Delta, is a
// run without it.
type Options struct {
	Clip    float64 `key:"clip" is:"null" range:"(0,1e4]" help:"norm to which updates are shortened; null: no differential privacy"`
	Noise   float64 `key:"noise_multiplier" is:"null" range:"[0.01,1e4]" help:"deviation of the noise on a round's sum, in clips"`
	Delta   float64 `key:"delta" default:"1e-5" range:"[1e-15,0.1]" help:"probability that epsilon does not hold; below 1 over the number of clients"`
	Epsilon float64 `key:"epsilon" is:"null" range:"(0,1e6]" help:"budget: the run stops with the last round within it; null: none"`

	Local Local `key:"local"`
}

// On reports whether the models of the run are private.
func (o Options) On() bool { return o.Clip > 0 && o.Noise > 0 }

// Validate returns a [*registry.OptionError] when options do not fit each other.
func (o Options) Validate() error {
	if err := checkNoise(o.Clip, o.Noise); err != nil {
		return err
	}
	if !o.On() && o.Epsilon > 0 {
		return registry.Errorf("epsilon", "%g is spent by noise, and there is none (set privacy.clip and privacy.noise_multiplier)", o.Epsilon)
	}
	return o.Local.Validate()
}

// checkNoise returns a [*registry.OptionError] where a clip and a noise multiplier do not fit
// each other.
func checkNoise(clip, multiplier float64) error {
	switch {
	case (clip > 0) != (multiplier > 0):
		return registry.Errorf("", "clip and noise_multiplier belong together: the noise is so many times the clip (set both, or neither)")
	case clip*multiplier > mostDeviation:
		return registry.Errorf("noise_multiplier", "%g times the clip, %g, is more noise than a sum holds (lower one of them: at most %g together)", multiplier, clip, float64(mostDeviation))
	}
	return nil
}

// mostDeviation bounds the noise: the largest draw, of 11.7 deviations, is below
// 2^16 · 2^44, so that a sum with it stays below algorithm.Limit.
const mostDeviation = 4096
