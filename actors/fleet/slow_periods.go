package fleet

import (
	"fedpace/internal/keyed"
	"fedpace/registry"
)

// Slowdown is a configured way in which clients become stragglers for a while.
type Slowdown interface {
	// Slowing prepares the slowdown. Nil means that no client ever slows down.
	Slowing() (Slowing, error)
}

// Slowdowns are the ones that a configuration can name by the key law.
var Slowdowns = registry.New[Slowdown]("slowdown", "law").Standard("spells")

// Slowing is a slowdown ready for use. It may be called from any goroutine.
type Slowing interface {
	// Stretch returns how long work, given in nanoseconds at full pace, takes a client from time start
	// on. The result is at least work, or -1 if it is more than three years.
	Stretch(seed uint64, client int, start, work int64) int64
	// MeanPace returns the work done per unit of time in the long run, at most 1.
	MeanPace() float64
	// Transfers reports whether transfers slow down, too. Transfers over link traces never do.
	Transfers() bool
}

// init registers the model under the name by which a configuration chooses it.
func init() {
	Slowdowns.Register("spells", "periods in which a client is slow", SlowPeriods{})
}

// SlowPeriods slow a client down for periods of exponentially distributed length, by a two-state
// Markov chain of its own in continuous time. Work under way when a period begins or ends changes
// its pace at that moment. Without EverySeconds there are none.
type SlowPeriods struct {
	EverySeconds float64      `key:"every_seconds" is:"null" range:"[2e-3,1e8]" unit:"seconds" help:"mean time between the starts of such periods"`
	ForSeconds   float64      `key:"for_seconds" is:"null" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of such a period"`
	Factor       Distribution `key:"factor" is:"null" help:"factor of a step's time, at least 1"`
	Links        bool         `key:"links" default:"false" help:"transfers slow down, too, except on link traces"`
}

// Slowing checks the options and prepares the slowdown; it returns nil if none is set. The mean
// pace of clients is 1 − slow + slow · E[1/factor], where slow is the share of the time in slow
// periods.
func (s SlowPeriods) Slowing() (Slowing, error) {
	// minSeconds is the shortest mean time of a slow period, and of the time between two.
	const minSeconds = 1e-3
	switch {
	case s == SlowPeriods{}:
		return nil, nil
	// A slowdown needs both mean times and a factor.
	case s.EverySeconds == 0:
		return nil, registry.Errorf("every_seconds", "is not set (the mean time from one spell to the next)")
	case !(s.ForSeconds >= minSeconds && s.ForSeconds <= s.EverySeconds-minSeconds):
		return nil, registry.Errorf(
			"for_seconds",
			"%g is out of range (from %g to %g, within every_seconds)",
			s.ForSeconds,
			minSeconds,
			s.EverySeconds-minSeconds,
		)
	case s.Factor == nil:
		return nil, registry.Errorf("factor", "is not set (a number or a distribution, at least 1)")
	}
	factor, err := samplerOf(s.Factor)
	if err != nil {
		return nil, registry.Below("factor", err)
	}
	// A factor below 1 would make clients faster.
	if factor.Min < 1 {
		return nil, registry.Errorf(
			"factor",
			"%s comes down to %g (at least 1: at_least: 1)",
			Distributions.Text(s.Factor),
			factor.Min,
		)
	}
	c := &slowPeriods{
		chain:     newOnOff(keyed.Slowdown, s.ForSeconds, s.EverySeconds-s.ForSeconds),
		factor:    factor,
		transfers: s.Links,
	}
	// The mean of 1/factor is taken over the midpoints of equal cells of the random bits.
	const cells = 256
	inverseSum := 0.0
	for cell := range uint64(cells) {
		midpoint := cell<<56 | 1<<55
		inverseSum += 1 / factor.Quantile(midpoint)
	}
	slow := s.ForSeconds / s.EverySeconds
	c.meanPace = 1 - slow + float64(slow*inverseSum/cells)
	return c, nil
}

// slowPeriods is a SlowPeriods ready for use.
type slowPeriods struct {
	// chain is on while the client is slow.
	chain onOff
	// factor is the distribution of the factor on the time of work, drawn at each point of the chain.
	factor Sampler
	// transfers says that transfers slow down, too.
	transfers bool
	// meanPace is the work done per unit of time in the long run, at most 1.
	meanPace float64
}

// MeanPace implements [Slowing]: it returns the work done per unit of time in the long run, at most 1.
func (s *slowPeriods) MeanPace() float64 { return s.meanPace }

// Transfers implements [Slowing]: it reports whether transfers slow down, too.
func (s *slowPeriods) Transfers() bool { return s.transfers }

// maxPaceChanges bounds the changes of pace that one phase follows exactly. Work that remains after
// them is done at the mean pace.
const maxPaceChanges = 256

// Stretch implements [Slowing]: it returns how many nanoseconds a client takes from time start on for work
// that takes it work nanoseconds at full pace, and -1 if that is more than maxSeconds. The client's chain is "on"
// while it is slow. Its points are the times at which the state, and a slow client's factor, are drawn afresh, so
// that the pace is constant from one to the next. After maxPaceChanges points the rest has the mean pace.
func (s *slowPeriods) Stretch(seed uint64, client int, start, work int64) int64 {
	t := start
	remaining := float64(work)
	p := s.chain.point(seed, client, t, -1)
	for range maxPaceChanges {
		// Between two points the client has one pace.
		factor := 1.0
		if s.chain.draw(p) {
			factor = s.factor.Quantile(keyed.Nth(p.windowKey, drawFactor+p.number))
		}
		p = s.chain.point(seed, client, t, +1)
		span := float64(p.time - t)
		// The work ends before the next point.
		if need := float64(remaining * factor); need <= span {
			return roundDuration(float64(t-start) + need)
		}
		remaining -= span / factor
		t = p.time
		if float64(t-start) > maxSeconds*second {
			return -1
		}
	}
	return roundDuration(float64(t-start) + remaining/s.meanPace)
}
