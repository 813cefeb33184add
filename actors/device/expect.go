package device

import "fedpace/internal/keyed"

// Expect is the time that a client can be expected to take for a task of so
// many local steps: at the client's own speeds, with what varies from task to
// task at its median, slowdowns at their long run's pace, and a link trace at
// its mean capacity. It does not depend on the task or the time, and does not
// shrink as the steps grow. It fails where [Fleet.Durations] would.
func (f *Fleet) Expect(client, steps int, bits int64) (Durations, error) {
	k, h := f.class(client)
	var d Durations
	if k.links == nil {
		d.Download, d.Upload = transfer(bits, k.download.typical(h)), transfer(bits, k.upload.typical(h))
	} else {
		trace, _ := k.links.place(h, 0)
		d.Download, d.Upload = transfer(bits, trace.download.mean()), transfer(bits, trace.upload.mean())
	}
	d.Compute = whole(float64(float64(steps) * k.step.typical(h) * second))
	if k.slow != nil {
		d.Compute = slowed(d.Compute, k.pace)
		if k.transfers && k.links == nil {
			d.Download, d.Upload = slowed(d.Download, k.pace), slowed(d.Upload, k.pace)
		}
	}
	if steps < 0 {
		d.Compute = -1
	}
	return d, d.check(steps, bits)
}

// slowed is the time of work in the long run; -1 stays.
func slowed(ns int64, pace float64) int64 {
	if ns < 0 {
		return ns
	}
	return whole(float64(ns) / pace)
}

// median is the middle of 64 random bits.
const median = 1 << 63

// typical is the client's own draw with the task's factor at its median.
func (q *quantity) typical(client uint64) float64 {
	x := q.own.Quantile(keyed.Nth(client, q.id))
	if !q.vary.given() {
		return x
	}
	return float64(x * q.vary.Quantile(median))
}

// mean is a link's mean capacity in megabits a second.
func (c *capacity) mean() float64 {
	n := len(c.kbps)
	return float64(c.sum[n]) / float64(n) / 1000
}
