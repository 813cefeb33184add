package device

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/internal/keyed"
)

// Never is the time of what does not happen.
const Never = math.MaxInt64

// Availability says when clients can be asked: a deterministic function of
// (client, virtual time), evaluated where somebody looks. Each model reads the
// fields given with it and refuses the others; the zero Availability is always.
//
//	always
//	bernoulli  probability, period_seconds: in every period of its own phase a
//	           client is there with this probability, independently
//	markov     on_seconds, off_seconds: stays and absences of exponentially
//	           distributed length with these means (two states, continuous
//	           time), in equilibrium from time 0 on
//	daily      from_hour, to_hour, jitter_hours, probability, zones, start_hour:
//	           a client is there from one local hour to another, each end moved
//	           by up to the jitter, on days drawn with this probability
//	trace      sessions, spread: recorded sessions, repeated
type Availability struct {
	Model string

	Probability   float64 // more than 0, at most 1
	PeriodSeconds float64

	OnSeconds, OffSeconds float64

	FromHour, ToHour float64 // local time, 0 to 24; over midnight when ToHour is the lesser
	JitterHours      float64
	Zones            []Zone  // none: 24 zones of equal weight, whole hours from -11 to 12
	StartHour        float64 // UTC at virtual time 0

	// Client c has trace c modulo their number. With Spread it starts at a
	// place of its own in it, by its key.
	Sessions *Sessions
	Spread   bool
}

// Zone is a time zone and its share of the clients.
type Zone struct {
	Hours  float64 // ahead of UTC
	Weight float64
}

// maxLook bounds how many periods, points or days ahead one search looks.
const maxLook = 4096

// presence is an availability model ready for use.
type presence interface {
	// on tells whether the client is there at t.
	on(seed uint64, client int, t int64) bool
	// change is the first time after t at which on differs, or at which the
	// search gave up: on is constant from t until just before it.
	change(seed uint64, client int, t int64) int64
}

// models are the availability models and the fields of each.
var models = []struct{ model, fields string }{
	{"always", ""},
	{"bernoulli", "probability period_seconds"},
	{"markov", "on_seconds off_seconds"},
	{"daily", "from_hour to_hour jitter_hours probability zones start_hour"},
	{"trace", "sessions spread"},
}

func (a *Availability) fields() []struct {
	name string
	set  bool
} {
	return []struct {
		name string
		set  bool
	}{
		{"probability", a.Probability != 0}, {"period_seconds", a.PeriodSeconds != 0},
		{"on_seconds", a.OnSeconds != 0}, {"off_seconds", a.OffSeconds != 0},
		{"from_hour", a.FromHour != 0}, {"to_hour", a.ToHour != 0}, {"jitter_hours", a.JitterHours != 0},
		{"zones", len(a.Zones) > 0}, {"start_hour", a.StartHour != 0},
		{"sessions", a.Sessions != nil}, {"spread", a.Spread},
	}
}

// compile checks the availability; nil when clients are always there.
func (a *Availability) compile() (presence, error) {
	name := a.Model
	if name == "" {
		name = "always"
	}
	known, names := []string(nil), []string(nil)
	found := false
	for _, m := range models {
		names = append(names, m.model)
		if m.model == name {
			found, known = true, strings.Fields(m.fields)
		}
	}
	if !found {
		return nil, fmt.Errorf("model is %q, want one of %s", a.Model, strings.Join(names, ", "))
	}
	for _, f := range a.fields() {
		if f.set && !slices.Contains(known, f.name) {
			return nil, fmt.Errorf("%s does not belong to model %s", f.name, name)
		}
	}
	switch name {
	case "bernoulli":
		if err := first(a.checkProbability(), within("period_seconds", a.PeriodSeconds, minMeanSeconds, maxMeanSeconds)); err != nil {
			return nil, err
		}
		if a.Probability == 1 {
			return nil, nil
		}
		return &bernoulli{nanoseconds(a.PeriodSeconds), threshold(a.Probability)}, nil
	case "markov":
		if err := first(
			within("on_seconds", a.OnSeconds, minMeanSeconds, maxMeanSeconds),
			within("off_seconds", a.OffSeconds, minMeanSeconds, maxMeanSeconds),
		); err != nil {
			return nil, err
		}
		m := newOnOff(keyed.Availability, a.OnSeconds, a.OffSeconds)
		return &markov{m}, nil
	case "daily":
		return a.daily()
	case "trace":
		if a.Sessions == nil {
			return nil, fmt.Errorf("sessions are missing, want recorded sessions for model trace")
		}
		return &replay{a.Sessions, a.Spread}, nil
	}
	return nil, nil
}

func (a *Availability) checkProbability() error {
	return within("probability", a.Probability, math.SmallestNonzeroFloat64, 1)
}

// String is the availability in a line.
func (a Availability) String() string {
	switch a.Model {
	case "bernoulli":
		return fmt.Sprintf("bernoulli (probability %g, anew every %g s)", a.Probability, a.PeriodSeconds)
	case "markov":
		return fmt.Sprintf("markov (on for %g s, off for %g s in the mean: %.3g available)", a.OnSeconds, a.OffSeconds, a.OnSeconds/(a.OnSeconds+a.OffSeconds))
	case "daily":
		zones := "24 time zones"
		if n := len(a.Zones); n > 0 {
			zones = fmt.Sprintf("%d time zone(s)", n)
		}
		return fmt.Sprintf("daily (%g h to %g h local time, jitter %g h, on %g of the days, %s)", a.FromHour, a.ToHour, a.JitterHours, a.Probability, zones)
	case "trace":
		return fmt.Sprintf("trace (%s)", a.Sessions)
	}
	return "always"
}

// bernoulli draws once a period. The periods of a client have a phase of their
// own, so that clients do not change all at once.
type bernoulli struct {
	period int64
	on_    uint64
}

// index is the number of a client's period at t.
func (b *bernoulli) index(seed uint64, client int, t int64) (n, phase int64) {
	phase = int64(keyed.Below(keyed.Hash(seed, keyed.Availability, uint64(client)), uint64(b.period)))
	return floorDiv(t+phase, b.period), phase
}

func (b *bernoulli) draw(seed uint64, client int, n int64) bool {
	return keyed.Hash(seed, keyed.Availability, uint64(client), uint64(n)) < b.on_
}

func (b *bernoulli) on(seed uint64, client int, t int64) bool {
	n, _ := b.index(seed, client, t)
	return b.draw(seed, client, n)
}

func (b *bernoulli) change(seed uint64, client int, t int64) int64 {
	n, phase := b.index(seed, client, t)
	now := b.draw(seed, client, n)
	for range maxLook {
		if n++; b.draw(seed, client, n) != now {
			break
		}
		if n*b.period > maxTime {
			return Never
		}
	}
	return n*b.period - phase
}

// markov is the on-off chain as an availability.
type markov struct{ chain onOff }

func (m *markov) on(seed uint64, client int, t int64) bool { return m.chain.state(seed, client, t) }
func (m *markov) change(seed uint64, client int, t int64) int64 {
	return m.chain.change(seed, client, t)
}

const (
	hour = 3600 * int64(second)
	day  = 24 * hour
)

// daily is one window a local day. Windows of neighbouring days never touch.
type daily struct {
	from, length, jitter int64
	part                 uint64 // a day's draw below it: the client is there that day
	start                int64  // time of day at virtual time 0, UTC
	zones                []int64
	shares               []uint64
}

// daily checks the daily model.
func (a *Availability) daily() (presence, error) {
	length := a.ToHour - a.FromHour
	if length <= 0 {
		length += 24
	}
	if err := first(
		within("from_hour", a.FromHour, 0, 24), within("to_hour", a.ToHour, 0, 24),
		within("start_hour", a.StartHour, 0, 24), within("jitter_hours", a.JitterHours, 0, 12), a.checkProbability(),
	); err != nil {
		return nil, err
	}
	if length <= 2*a.JitterHours || length >= 24-2*a.JitterHours {
		return nil, fmt.Errorf("jitter_hours is %g with %g hours from from_hour to to_hour, want those more than %g and less than %g", a.JitterHours, length, 2*a.JitterHours, 24-2*a.JitterHours)
	}
	d := &daily{
		from: hours(a.FromHour), length: hours(length), jitter: hours(a.JitterHours),
		part: threshold(a.Probability), start: hours(a.StartHour),
	}
	zones := a.Zones
	if len(zones) == 0 {
		for h := -11; h <= 12; h++ {
			zones = append(zones, Zone{float64(h), 1})
		}
	}
	weights := make([]float64, len(zones))
	for i, z := range zones {
		if err := within(fmt.Sprintf("zones[%d].hours", i), z.Hours, -14, 14); err != nil {
			return nil, err
		}
		d.zones = append(d.zones, hours(z.Hours))
		weights[i] = z.Weight
	}
	var err error
	if d.shares, err = shares("zones", weights); err != nil {
		return nil, err
	}
	return d, nil
}

func hours(h float64) int64 { return nanoseconds(h * 3600) }

// local is t in time since the client's window opens nominally on day 0.
func (d *daily) local(seed uint64, client int, t int64) (since, shift int64) {
	zone := d.zones[pick(d.shares, keyed.Hash(seed, keyed.Availability, uint64(client)))]
	shift = d.start + zone - d.from
	return t + shift, shift
}

// session is the window of day n, in local's time; ok when the client is there
// that day.
func (d *daily) session(seed uint64, client int, n int64) (opens, closes int64, ok bool) {
	h := keyed.Hash(seed, keyed.Availability, uint64(client), uint64(n))
	if keyed.Nth(h, 0) >= d.part {
		return 0, 0, false
	}
	opens, closes = n*day, n*day+d.length
	if d.jitter > 0 {
		spread := uint64(2*d.jitter + 1)
		opens += int64(keyed.Below(keyed.Nth(h, 1), spread)) - d.jitter
		closes += int64(keyed.Below(keyed.Nth(h, 2), spread)) - d.jitter
	}
	return opens, closes, true
}

func (d *daily) on(seed uint64, client int, t int64) bool {
	since, _ := d.local(seed, client, t)
	// The window of the day before is over by now, however long its jitter; that
	// of the day after may have opened early.
	n := floorDiv(since, day)
	for i := n; i <= n+1; i++ {
		if opens, closes, ok := d.session(seed, client, i); ok && since >= opens && since < closes {
			return true
		}
		if since < (i+1)*day-d.jitter {
			break
		}
	}
	return false
}

func (d *daily) change(seed uint64, client int, t int64) int64 {
	since, shift := d.local(seed, client, t)
	n := floorDiv(since, day)
	for i := n; i < n+maxLook; i++ {
		opens, closes, ok := d.session(seed, client, i)
		switch {
		case !ok || since >= closes:
		case since >= opens:
			return closes - shift
		default:
			return opens - shift
		}
	}
	return (n+maxLook)*day - d.jitter - shift
}
