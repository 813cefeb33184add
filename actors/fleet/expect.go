package fleet

import (
	"math"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// Expect is the time that a client can be expected to take for a task of so
// many local steps: at the client's own speeds, with what varies from task to
// task at its median, slowdowns at their long run's pace, and a link trace at
// its mean capacity. It is that of an honest client. It does not depend on the task or the time, and does not
// shrink as the steps grow. It fails where [Fleet.Durations] would.
func (f *Fleet) Expect(client, steps int, bits Bits) (Durations, error) {
	k, h := f.class(client)
	down, step, up := k.typical(h)
	d := Durations{transfer(bits.Down, down), roundDuration(float64(float64(steps) * step * second)), transfer(bits.Up, up)}
	d = inLongRun(k.slow, d, k.links == nil)
	if err := d.check(steps, bits); err != nil {
		return d, err
	}
	return d.withOverhead(k.overhead, steps, bits), nil
}

// Pace draws how far a client is from its class: for each phase a lognormal factor with median 1, whose
// relative standard deviation is the uncertainty u. Its logarithm has the variance ln(1 + u²).
func (u Uncertainty) Pace(seed uint64, client int) (factors [3]float64) {
	for p, u := range u.Phases() {
		z := portable.Normal(keyed.Hash(seed, keyed.Pace, uint64(client), uint64(p)))
		factors[p] = portable.Exp(math.Sqrt(portable.Log(1+float64(*u**u))) * z)
	}
	return factors
}

// inLongRun is the time of work at the pace of the long run; -1 stays. Transfers are
// slowed where the slowdown and its caller say so.
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

// typical are a client's own speeds, in megabits a second, and seconds of a step, with what
// varies from task to task at its median; h is its device's key.
func (k *class) typical(h uint64) (down, step, up float64) {
	step = k.step.typical(h)
	if k.links == nil {
		return k.download.typical(h), step, k.upload.typical(h)
	}
	trace, _ := k.links.locate(h, 0)
	return trace.download.mean(), step, trace.upload.mean()
}

// typical is the client's own draw with the task's factor at its median.
func (q *quantity) typical(client uint64) float64 {
	return float64(q.client.Quantile(keyed.Nth(client, q.id)) * q.vary.median())
}

// Soonest is a time that no task of any client is shorter than: its transfers over
// the fastest link that can be drawn, and their overhead. 0 where tasks may
// end early.
func (f *Fleet) Soonest(bits Bits) int64 {
	shortestTask := int64(math.MaxInt64)
	for i := range f.classes {
		k := &f.classes[i]
		if k.dropout != (Dropout{}) || k.battery != nil {
			return 0
		}
		down := 0.0
		up := 0.0
		if k.links == nil {
			down = k.download.maxDraw()
			up = k.upload.maxDraw()
		}
		for i := range k.links {
			down = max(down, k.links[i].download.max())
			up = max(up, k.links[i].upload.max())
		}
		shortestTask = min(
			shortestTask,
			(Durations{Download: shortest(bits.Down, down), Upload: shortest(bits.Up, up)}).withOverhead(
				k.overhead,
				0,
				bits,
			).Total(),
		)
	}
	return shortestTask
}

// shortest is a bound of a transfer's time from below, whatever is rounded.
func shortest(bits int64, mbps float64) int64 {
	const rounding = 1 - 1e-9
	return max(0, transfer(bits, mbps/rounding)-1)
}

// maxDraw is the largest value that can be drawn.
func (q *quantity) maxDraw() float64 {
	const top = math.MaxUint64
	if q.product {
		return q.lognormal(top, top)
	}
	return q.client.maxDraw() * q.vary.maxDraw()
}

// mean and most are a link's mean and largest capacity in megabits a second.
func (c *capacity) mean() float64 {
	n := len(c.kbps)
	return float64(c.sum[n]) / float64(n) / 1000
}

func (c *capacity) max() float64 { return float64(slices.Max(c.kbps)) / 1000 }
