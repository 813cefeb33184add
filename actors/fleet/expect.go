package fleet

import (
	"math"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// Expect returns the time that a client is expected to take for a task with the given number of
// local steps and transfer sizes: at the client's own speeds, with the factors by task at their
// median, slowdowns at their long-run pace, and a link trace at its mean capacity. An attacker is
// expected to be honest. The result depends neither on the task nor on the time and does not
// decrease with the steps. It fails where [Fleet.Durations] would.
func (f *Fleet) Expect(client, steps int, bits Bits) (Durations, error) {
	k, deviceKey := f.class(client)
	down, step, up := k.typical(deviceKey)
	d := Durations{
		Download: transfer(bits.Down, down),
		Compute:  roundDuration(float64(float64(steps) * step * second)),
		Upload:   transfer(bits.Up, up),
	}
	// Slowdowns never affect transfers over link traces.
	transfers := k.links == nil
	d = inLongRun(k.slow, d, transfers)
	if err := d.check(steps, bits); err != nil {
		return d, err
	}
	return d.withOverhead(k.overhead, steps, bits), nil
}

// Pace draws how far a client deviates from its class: for each phase a lognormal factor with median 1,
// whose relative standard deviation v is the uncertainty of the phase. The variance of the factor's
// logarithm is ln(1 + v²).
func (u Uncertainty) Pace(seed uint64, client int) (factors [3]float64) {
	for phase, uncertainty := range u.Phases() {
		v := *uncertainty
		sigma := math.Sqrt(portable.Log(1 + float64(v*v)))
		z := portable.Normal(keyed.Hash(seed, keyed.Pace, uint64(client), uint64(phase)))
		factors[phase] = portable.Exp(sigma * z)
	}
	return factors
}

// inLongRun returns the durations d stretched to the slowdown's long-run pace; d itself for a nil slowdown.
// Transfers are stretched only if transfers is true and the slowdown slows them. A negative duration, which
// is out of bounds, stays negative.
func inLongRun(s Slowing, d Durations, transfers bool) Durations {
	if s == nil {
		return d
	}
	slowed := func(ns int64) int64 {
		if ns < 0 {
			return ns
		}
		return roundDuration(float64(ns) / s.MeanPace())
	}
	d.Compute = slowed(d.Compute)
	if transfers && s.Transfers() {
		d.Download = slowed(d.Download)
		d.Upload = slowed(d.Upload)
	}
	return d
}

// typical returns a client's own download speed in megabits per second, time of a step in seconds,
// and upload speed, with the factors by task at their median. deviceKey is the key of its device.
func (k *class) typical(deviceKey uint64) (down, step, up float64) {
	step = k.step.typical(deviceKey)
	if k.links == nil {
		return k.download.typical(deviceKey), step, k.upload.typical(deviceKey)
	}
	trace, _ := k.links.locate(deviceKey, 0)
	return trace.download.mean(), step, trace.upload.mean()
}

// typical returns the client's own draw times the median of the factor by task. deviceKey is the key
// of its device.
func (q *quantity) typical(deviceKey uint64) float64 {
	return float64(q.client.Quantile(keyed.Nth(deviceKey, q.clientDraw)) * q.vary.median())
}

// Soonest returns a lower bound in nanoseconds on the time of every task of every client: its
// transfers over the fastest link that can be drawn, with their overhead. It is 0 if tasks may end
// early, by a dropout or an empty battery. The round machine relies on it to look ahead: no task that
// starts now is done before this time has passed.
func (f *Fleet) Soonest(bits Bits) int64 {
	shortestTask := int64(math.MaxInt64)
	for i := range f.classes {
		k := &f.classes[i]
		// A task of such a class may end at once.
		if k.dropout != (Dropout{}) || k.battery != nil {
			return 0
		}
		down := 0.0
		up := 0.0
		if k.links == nil {
			down = k.download.maxDraw()
			up = k.upload.maxDraw()
		}
		// With link traces, the fastest second of any trace bounds the speed.
		for i := range k.links {
			down = max(down, k.links[i].download.max())
			up = max(up, k.links[i].upload.max())
		}
		transfers := Durations{Download: shortest(bits.Down, down), Upload: shortest(bits.Up, up)}
		// Steps can be arbitrarily short, so they do not count.
		const noSteps = 0
		shortestTask = min(shortestTask, transfers.withOverhead(k.overhead, noSteps, bits).Total())
	}
	return shortestTask
}

// shortest returns a lower bound on the time of a transfer at this speed that holds despite
// rounding.
func shortest(bits int64, mbps float64) int64 {
	const rounding = 1 - 1e-9
	return max(0, transfer(bits, mbps/rounding)-1)
}

// maxDraw returns the largest value of the quantity that can be drawn, over all clients and tasks.
func (q *quantity) maxDraw() float64 {
	const top = math.MaxUint64
	if q.isLognormalProduct {
		return q.lognormal(top, top)
	}
	return q.client.maxDraw() * q.vary.maxDraw()
}

// mean returns a link's mean capacity in megabits per second.
func (c *capacity) mean() float64 {
	n := len(c.kbps)
	return float64(c.sum[n]) / float64(n) / 1000
}

// max returns a link's largest capacity in megabits per second.
func (c *capacity) max() float64 { return float64(slices.Max(c.kbps)) / 1000 }
