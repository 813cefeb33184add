package fleet

import (
	"fmt"
	"math"

	"fedpace/internal/keyed"
)

func init() {
	Availabilities.Register("markov", "stays and absences of exponentially distributed length", Markov{})
}

// Markov is the two-state Markov chain in continuous time.
type Markov struct {
	OnSeconds  float64 `key:"on_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of a stay"`
	OffSeconds float64 `key:"off_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of an absence"`
}

func (m Markov) Presence(*Files) (Presence, error) {
	chain := newOnOff(keyed.Availability, m.OnSeconds, m.OffSeconds)
	return &chain, nil
}

func (m Markov) String() string {
	return fmt.Sprintf(
		"markov (on for %g s, off for %g s in the mean: %.3g available)",
		m.OnSeconds,
		m.OffSeconds,
		m.OnSeconds/(m.OnSeconds+m.OffSeconds),
	)
}

// onOff is a two-state continuous-time Markov chain that can be asked for its
// state at any time without a history.
//
// A chain with rates a (off to on) and b (on to off) is the same process as
// this one: at the points of a Poisson process of rate a+b the state is drawn
// anew, on with probability a/(a+b), whatever it was before; its generator,
// (a+b)(1 pi - I), is the chain's. Poisson points in separate windows are
// independent, so that a window's points are a function of (client, window)
// alone, and the state at t is the draw at the last point up to t. Windows are
// 1/(a+b) long: one point each in the mean, and about 0.6 windows to look back.
type onOff struct {
	purpose keyed.Purpose
	window  int64  // nanoseconds
	on      uint64 // a draw below it is on
}

func newOnOff(purpose keyed.Purpose, meanOn, meanOff float64) onOff {
	return onOff{purpose, nanoseconds(meanOn * meanOff / (meanOn + meanOff)), threshold(meanOn / (meanOn + meanOff))}
}

// threshold is what 64 random bits lie below with probability p.
func threshold(p float64) uint64 {
	if p >= 1 {
		return math.MaxUint64
	}
	return uint64(p * 0x1p64)
}

// point is a point of the Poisson process, by its window and its number there.
type point struct {
	time   int64
	window uint64 // random bits of the window
	number uint64
}

// What the numbers of a window's key serve: the count of its points, and for
// point i its position, the state drawn there, and more that others need.
const (
	drawCount    = 0
	drawPosition = 1 << 8
	drawState    = 2 << 8
	drawFactor   = 3 << 8
)

// maxEmpty bounds the search for a point: that many empty windows have
// probability e^-64. The state is drawn anew there as if they held one.
const maxEmpty = 64

// poisson[i] is what 64 random bits lie below when a window has at most i
// points: the distribution function of the Poisson law of mean 1.
var poisson = func() (c [18]uint64) {
	p := 1 / math.E
	sum := 0.0
	for i := range c {
		sum += p
		p /= float64(i + 1)
		c[i] = threshold(sum)
	}
	return c
}()

// point is the last point up to t (direction -1), or the first after t (+1). Of several in one nanosecond both
// directions find the same.
func (m *onOff) point(seed uint64, client int, t, direction int64) point {
	w := floorDiv(t, m.window)
	for range maxEmpty {
		best := point{window: m.key(seed, client, w)}
		found := false
		for i, n := uint64(0), count(best.window); i < n; i++ {
			time := w*m.window + int64(keyed.Below(keyed.Nth(best.window, drawPosition+i), uint64(m.window)))
			if (time > t) == (direction > 0) && (!found || direction*time <= direction*best.time) {
				best.time = time
				best.number = i
				found = true
			}
		}
		if found {
			return best
		}
		w += direction
	}
	return point{w * m.window, m.key(seed, client, w), 0}
}

// key is the random bits of a client's window.
func (m *onOff) key(seed uint64, client int, w int64) uint64 {
	return keyed.Hash(seed, m.purpose, uint64(client), uint64(w))
}

// count is how many points a window has.
func count(window uint64) uint64 {
	h := keyed.Nth(window, drawCount)
	n := 0
	for n < len(poisson) && h >= poisson[n] {
		n++
	}
	return uint64(n)
}

// draw is the state from a point on.
func (m *onOff) draw(p point) bool { return keyed.Nth(p.window, drawState+p.number) < m.on }

func (m *onOff) Present(seed uint64, client int, t int64) bool {
	return m.draw(m.point(seed, client, t, -1))
}

// Change is when the state next differs, or the last of maxLook points.
func (m *onOff) Change(seed uint64, client int, t int64) int64 {
	now := m.Present(seed, client, t)
	for range maxLook {
		p := m.point(seed, client, t, +1)
		t = p.time
		if t > maxTime {
			return Never
		}
		if m.draw(p) != now {
			break
		}
	}
	return t
}

// floorDiv rounds towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
