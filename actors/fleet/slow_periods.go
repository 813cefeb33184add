package fleet

import (
	"fedpace/internal/keyed"
	"fedpace/registry"
)

// Slowdown says how clients become stragglers for a while.
type Slowdown interface {
	// Slowing prepares the slowdown; nil: no client ever slows down.
	Slowing() (Slowing, error)
}

// Slowdowns are the laws that a configuration can name.
var Slowdowns = registry.New[Slowdown]("slowdown", "law").Standard("spells")

// Slowing is a slowdown ready for use, from any goroutine.
type Slowing interface {
	// Stretch is how long work of so many nanoseconds takes from start on, at least
	// as long; -1 where it takes over three years.
	Stretch(seed uint64, client int, start, work int64) int64
	// MeanPace is the work done in a unit of time in the long run, at most 1.
	MeanPace() float64
	// Transfers reports whether transfers are slowed, too, except on link traces.
	Transfers() bool
}

func init() {
	Slowdowns.Register("spells", "now and then a client is slower for a while", SlowPeriods{})
}

// SlowPeriods slow a client down for spells of exponentially distributed length, by a
// chain of its own (two-state Markov, continuous time). Work under way when a
// spell begins or ends changes its pace there. Without EverySeconds there are
// none.
type SlowPeriods struct {
	EverySeconds float64      `key:"every_seconds" is:"null" range:"[2e-3,1e8]" unit:"seconds" help:"mean time between the starts of spells; null: no spells"`
	ForSeconds   float64      `key:"for_seconds" is:"null" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of a spell"`
	Factor       Distribution `key:"factor" is:"null" help:"factor of a step's time, at least 1; may vary within a spell"`
	Links        bool         `key:"links" default:"false" help:"transfers slow down, too, except on link traces"`
}

func (s SlowPeriods) Slowing() (Slowing, error) {
	const minSeconds = 1e-3 // part of mean times
	switch {
	case s.EverySeconds == 0 &&
		s.ForSeconds == 0 &&
		s.Factor == nil &&
		!s.Links:
		return nil, nil
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
	const cells = 256
	inverse := 0.0
	for i := range uint64(cells) {
		inverse += 1 / factor.Quantile(i<<56|1<<55)
	}
	slow := s.ForSeconds / s.EverySeconds
	c.pace = 1 - slow + float64(slow*inverse/cells)
	return c, nil
}

type slowPeriods struct {
	chain     onOff
	factor    Sampler
	transfers bool
	pace      float64
}

func (s *slowPeriods) MeanPace() float64 { return s.pace }
func (s *slowPeriods) Transfers() bool   { return s.transfers }

// maxPaceChanges bounds the changes of pace within one phase; what is left after
// them goes on at the long run's pace.
const maxPaceChanges = 256

func (s *slowPeriods) Stretch(seed uint64, client int, start, work int64) int64 {
	t := start
	remaining := float64(work)
	p := s.chain.point(seed, client, t, -1)
	for range maxPaceChanges {
		factor := 1.0
		if s.chain.draw(p) {
			factor = s.factor.Quantile(keyed.Nth(p.window, drawFactor+p.number))
		}
		p = s.chain.point(seed, client, t, +1)
		span := float64(p.time - t)
		if need := float64(remaining * factor); need <= span {
			return roundDuration(float64(t-start) + need)
		}
		remaining -= span / factor
		t = p.time
		if float64(t-start) > maxSeconds*second {
			return -1
		}
	}
	return roundDuration(float64(t-start) + remaining/s.pace)
}
