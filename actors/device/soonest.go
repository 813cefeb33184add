package device

import (
	"math"
)

// Soonest is a time that no task of any client is shorter than: a transfer of so
// many bits each way over the fastest link that can be drawn. 0 where tasks may
// end early.
func (f *Fleet) Soonest(bits int64) int64 {
	least := int64(math.MaxInt64)
	for i := range f.classes {
		k := &f.classes[i]
		if k.dropout != (dropout{}) {
			return 0
		}
		var down, up float64
		if k.links != nil {
			down, up = k.links.most()
		} else {
			down, up = k.download.most(), k.upload.most()
		}
		least = min(least, shortest(bits, down)+shortest(bits, up))
	}
	return least
}

// shortest is a bound of a transfer's time from below, whatever is rounded.
func shortest(bits int64, mbps float64) int64 {
	const rounding = 1 - 1e-9
	return max(0, transfer(bits, mbps/rounding)-1)
}

// most is the largest value that can be drawn.
func (q *quantity) most() float64 {
	const top = math.MaxUint64
	switch {
	case q.fixed:
		return q.value
	case q.product:
		return exp((q.own.mu + float64(q.own.sigma*normal(top))) + (q.vary.mu + float64(q.vary.sigma*normal(top))))
	case !q.vary.given():
		return q.own.most()
	}
	return q.own.most() * q.vary.most()
}

// most are the largest capacities of all traces in megabits a second.
func (l linkTraces) most() (down, up float64) {
	for i := range l {
		t := &l[i]
		down, up = max(down, t.download.most()), max(up, t.upload.most())
	}
	return down, up
}

func (c *capacity) most() float64 {
	most := uint32(0)
	for _, k := range c.kbps {
		most = max(most, k)
	}
	return float64(most) / 1000
}
