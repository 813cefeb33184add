package fleet

import (
	"fmt"
	"math"

	"fedpace/internal/keyed"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register("markov", "stays and absences of exponentially distributed length", Markov{})
}

// Markov makes each client available by a two-state Markov chain in continuous time, with
// exponentially distributed stays and absences.
type Markov struct {
	OnSeconds  float64 `key:"on_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of a stay"`
	OffSeconds float64 `key:"off_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of an absence"`
}

// Presence implements [Availability]. It reads no file.
func (m Markov) Presence(*Files) (Presence, error) {
	return newPresenceChain(m.OnSeconds, m.OffSeconds), nil
}

// String describes the model for people: the mean lengths of stays and absences in seconds, and the
// share of the time in which clients are available.
func (m Markov) String() string {
	return fmt.Sprintf(
		"markov (on for %g s, off for %g s in the mean: %.3g available)",
		m.OnSeconds,
		m.OffSeconds,
		m.OnSeconds/(m.OnSeconds+m.OffSeconds),
	)
}

// onOff is a two-state continuous-time Markov chain whose state at any time can
// be calculated without a history.
//
// A chain with rates a (off to on) and b (on to off) is the same process as
// this one: at the points of a Poisson process of rate a+b the state is drawn
// again, on with probability a/(a+b), whatever it was before; its generator,
// (a+b)(1 pi - I), is the chain's. Poisson points in separate windows are
// independent, so that a window's points are a function of (client, window)
// alone, and the state at t is the draw at the last point up to t. Windows are
// 1/(a+b) long: one point each in the mean, and about 0.6 windows to look back.
type onOff struct {
	purpose keyed.Purpose
	// window is the length of a window in nanoseconds.
	window int64
	// onBelow is the value below which a point's random bits mean the state on.
	onBelow uint64
	// kind tells the points of two processes of one purpose apart; 0 where there is one.
	kind uint64
}

// newOnOff returns the chain with these mean lengths of the states on and off, in seconds. purpose
// separates its draws from those of other chains.
func newOnOff(purpose keyed.Purpose, meanOn, meanOff float64) onOff {
	// The chain goes on at the rate a = 1/meanOff and off at b = 1/meanOn. The state is drawn afresh at the rate
	// a+b, once in a window of 1/(a+b), and is "on" with the probability a/(a+b).
	return onOff{
		purpose: purpose,
		window:  nanoseconds(meanOn * meanOff / (meanOn + meanOff)),
		onBelow: threshold(meanOn / (meanOn + meanOff)),
	}
}

// threshold returns the value that 64 uniform random bits are below with probability p.
func threshold(p float64) uint64 {
	if p >= 1 {
		return math.MaxUint64
	}
	return uint64(p * 0x1p64)
}

// point is a point of the Poisson process, identified by its window and its number there.
type point struct {
	// time is when the point lies, in nanoseconds.
	time int64
	// windowKey holds the random bits of the point's window.
	windowKey uint64
	number    uint64
}

// The numbers of the draws of a window's key.
const (
	// drawCount is the draw of the number of points in the window.
	drawCount = 0
	// drawPosition + i is the draw of the position of point i, drawState + i that of the state there,
	// and drawFactor + i that of the factor of a slow period (see slowPeriods).
	drawPosition = 1 << 8
	drawState    = 2 << 8
	drawFactor   = 3 << 8
)

// maxEmpty bounds the search for a point: that many empty windows in a row have
// probability e^-64. The window behind them counts as if it had a point at its start.
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

// point returns the last point of the client's chain at or before t (direction -1) or the first
// after t (direction +1). Points are the random times at which the client's state is drawn afresh. Virtual time is
// cut into windows of m.window nanoseconds, and the points of a window, one in the mean, follow from random bits
// keyed by the window. Of several points in the same nanosecond both directions find the same. If maxEmpty windows
// in a row have no point, the window behind them counts as if it had one at its start.
func (m *onOff) point(seed uint64, client int, t, direction int64) point {
	windowNumber := floorDiv(t, m.window)
	// Each pass looks at the points of one window of time. They follow from its key, so that
	// nothing has to be remembered.
	for range maxEmpty {
		best := point{windowKey: m.key(seed, client, windowNumber)}
		found := false
		windowStart := windowNumber * m.window
		for i := range countPoints(best.windowKey) {
			position := keyed.Below(keyed.Nth(best.windowKey, drawPosition+i), uint64(m.window))
			time := windowStart + int64(position)
			isOnSide := (time > t) == (direction > 0)
			isNearer := !found || direction*time <= direction*best.time
			if isOnSide && isNearer {
				best.time = time
				best.number = i
				found = true
			}
		}
		if found {
			return best
		}
		windowNumber += direction
	}
	return point{time: windowNumber * m.window, windowKey: m.key(seed, client, windowNumber), number: 0}
}

// key returns the random bits from which the points of a client's window follow; windowNumber counts windows
// from virtual time 0. A chain that is the only one of its purpose has kind 0, which is left out of the hash.
func (m *onOff) key(seed uint64, client int, windowNumber int64) uint64 {
	if m.kind != 0 {
		return keyed.Hash(seed, m.purpose, uint64(client), uint64(windowNumber), m.kind)
	}
	return keyed.Hash(seed, m.purpose, uint64(client), uint64(windowNumber))
}

// countPoints returns the number of points in a window, given the window's random bits. It is a draw of a Poisson
// variable of mean 1 by inversion: the number of values of its distribution function, poisson, that do not
// exceed the draw.
func countPoints(window uint64) uint64 {
	h := keyed.Nth(window, drawCount)
	n := 0
	for n < len(poisson) && h >= poisson[n] {
		n++
	}
	return uint64(n)
}

// draw returns whether the chain is in its state "on" from a point until the next one: it is with a
// probability of m.onBelow/2^64.
func (m *onOff) draw(p point) bool { return keyed.Nth(p.windowKey, drawState+p.number) < m.onBelow }

// Present implements [Presence]: it reports whether the client is available at time t, by the state that
// was drawn at the last point up to t.
func (m *onOff) Present(seed uint64, client int, t int64) bool {
	return m.draw(m.point(seed, client, t, -1))
}

// Change implements [Presence]: it returns when the client's presence next differs from that at
// time t. After maxLook points without a change it returns the last point.
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

// ChangeBy implements boundedPresence: it returns the first time after from, and at most to, at which
// the client's presence differs from present, its presence at from. It returns Never if there is none.
func (m *onOff) ChangeBy(seed uint64, client int, present bool, from, to int64) int64 {
	for t := from; ; {
		p := m.point(seed, client, t, +1)
		switch {
		case p.time > to:
			return Never
		case m.draw(p) != present:
			return p.time
		}
		t = p.time
	}
}

// Interval implements boundedPresence: it returns the mean time between two points, which is a window,
// since a window holds one point in the mean.
func (m *onOff) Interval() int64 { return m.window }

// floorDiv divides a by b and rounds the quotient towards minus infinity, also for a negative a. b
// must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
