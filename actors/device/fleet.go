package device

import (
	"fmt"
	"math"
	"strings"

	"fedpace/internal/keyed"
)

// Config is a population of devices. Its speeds are those of all clients (the
// simplification below Eq. 4) unless Classes say otherwise.
type Config struct {
	DownloadMbps   float64 // D, megabits per second
	UploadMbps     float64 // U, megabits per second
	SecondsPerStep float64 // beta: mean time of one local SGD step
	StepStd        float64 // standard deviation of that time, seconds; 0: constant

	Classes      []Class // none: one class, all clients alike
	Slowdown     Slowdown
	Availability Availability
	Dropout      Dropout
}

// Durations are the phases of one task (Eq. 3), in nanoseconds, none negative.
type Durations struct{ Download, Compute, Upload int64 }

const (
	// maxSeconds bounds a phase: what is slower is a mistake in the configuration.
	maxSeconds = 1e8 // three years
	// maxTime bounds virtual time, so that no sum of times overflows.
	maxTime = 1 << 62 // 146 years
)

// Fleet is a population of simulated devices, of any size: a client costs no
// memory.
type Fleet struct {
	seed     uint64
	classes  []class
	shares   []uint64 // of the classes, for pick
	presence bool     // whether any client is ever absent
	plain    bool     // no classes: all clients alike but for StepStd
}

// NewFleet checks the configuration. Its errors name the field, its value and
// what it wants.
func NewFleet(c Config, seed uint64) (*Fleet, error) {
	f := &Fleet{seed: seed, plain: len(c.Classes) == 0}
	classes := c.Classes
	if f.plain {
		classes = []Class{{}}
	}
	if len(classes) > maxClasses {
		return nil, fmt.Errorf("device: %d classes, want at most %d", len(classes), maxClasses)
	}
	if err := c.check(classes); err != nil {
		return nil, err
	}
	weights := make([]float64, len(classes))
	sum := 0.0
	for i, k := range classes {
		compiled, err := k.compile(&c)
		if err != nil && f.plain {
			return nil, fmt.Errorf("device: %w", err)
		}
		if err != nil {
			return nil, fmt.Errorf("device: classes[%d] (%s): %w", i, k.Name, err)
		}
		f.classes = append(f.classes, compiled)
		f.presence = f.presence || compiled.presence != nil
		weights[i] = k.Weight
		sum += k.Weight
	}
	var err error
	if f.shares, err = shares("classes", weights); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	for i := range f.classes {
		if f.classes[i].weight = 1 / float64(len(classes)); sum > 0 {
			f.classes[i].weight = weights[i] / sum
		}
	}
	return f, nil
}

// check checks the speeds that some class has from the config.
func (c *Config) check(classes []Class) error {
	var down, up, step bool
	for i := range classes {
		k := &classes[i]
		down = down || k.Links == nil && !k.DownloadMbps.given()
		up = up || k.Links == nil && !k.UploadMbps.given()
		step = step || !k.SecondsPerStep.given()
	}
	for _, v := range []struct {
		name  string
		value float64
		used  bool
		zero  bool // whether zero is a value
	}{
		{"download speed (Mbps)", c.DownloadMbps, down, false},
		{"upload speed (Mbps)", c.UploadMbps, up, false},
		{"seconds per step", c.SecondsPerStep, step, true},
		{"standard deviation of a step", c.StepStd, step, true},
	} {
		if v.used && (math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0 || (v.value == 0 && !v.zero)) {
			return fmt.Errorf("device: %s is %v, want a positive number", v.name, v.value)
		}
	}
	if step && (c.SecondsPerStep > maxSeconds || c.StepStd > maxSeconds) {
		return fmt.Errorf("device: a step of %g ± %g s, want at most %g s", c.SecondsPerStep, c.StepStd, float64(maxSeconds))
	}
	return nil
}

// class is a client's class, with the client's key.
func (f *Fleet) class(client int) (*class, uint64) {
	if f.plain { // which has no speeds of a client's own
		return &f.classes[0], 0
	}
	h := keyed.Hash(f.seed, keyed.Device, uint64(client))
	return &f.classes[pick(f.shares, keyed.Nth(h, ofClass))], h
}

// Class is the number of a client's class.
func (f *Fleet) Class(client int) int {
	return pick(f.shares, keyed.Nth(keyed.Hash(f.seed, keyed.Device, uint64(client)), ofClass))
}

// Classes names the classes in their order. Without classes it is one name,
// empty.
func (f *Fleet) Classes() []string {
	names := make([]string, len(f.classes))
	for i := range f.classes {
		names[i] = f.classes[i].name
	}
	return names
}

// Durations is the time client takes for a task of so many local steps with a
// model of so many bits: |x|/D + K beta + |x|/U (Eq. 3), at its own speeds and
// in this task's conditions. The task starts at virtual time at, which matters
// to link traces and slowdowns alone. It fails when a phase would take longer
// than three years.
//
// With a standard deviation of the minibatch times the compute time is the sum
// of K independent normal ones, which is itself normal with mean K beta and
// standard deviation sqrt(K) std: one draw, keyed (client, task). It is cut at
// zero.
func (f *Fleet) Durations(client int, task uint64, steps int, bits, at int64) (Durations, error) {
	if at < 0 || at > maxTime {
		return Durations{}, fmt.Errorf("device: task %d of client %d starts at %d ns, want 0 to %d", task, client, at, int64(maxTime))
	}
	k, h := f.class(client)
	d := k.durations(f.seed, client, h, task, steps, bits, at)
	if d.Download < 0 || d.Compute < 0 || d.Upload < 0 {
		return Durations{}, fmt.Errorf("device: task %d of client %d: %w", task, client, d.check(steps, bits))
	}
	return d, nil
}

// durations is Durations with -1 for what is out of bounds; h is the client's
// key.
func (k *class) durations(seed uint64, client int, h, task uint64, steps int, bits, at int64) (d Durations) {
	random := keys{client: h}
	if k.varies {
		random.task = keyed.Hash(seed, keyed.Vary, uint64(client), task)
	}
	var trace *linkTrace
	var position int64
	if k.links != nil {
		trace, position = k.links.place(h, at)
		d.Download = trace.download.transfer(bits, position)
	} else {
		d.Download = k.transfer(&k.download, random, seed, client, bits, at)
	}
	if d.Download < 0 {
		return d
	}
	if d.Compute = k.compute(random, seed, client, task, steps, at+d.Download); d.Compute < 0 {
		return d
	}
	if trace != nil {
		d.Upload = trace.upload.transfer(bits, trace.wrap(position+d.Download+d.Compute))
	} else {
		d.Upload = k.transfer(&k.upload, random, seed, client, bits, at+d.Download+d.Compute)
	}
	return d
}

// transfer is the time of so many bits from a time on, over a link of one speed.
func (k *class) transfer(q *quantity, random keys, seed uint64, client int, bits, at int64) int64 {
	ns := transfer(bits, q.draw(random))
	if k.slow != nil && k.slow.links && ns > 0 {
		return k.slow.stretch(seed, client, at, ns)
	}
	return ns
}

// compute is the time of so many steps from a time on.
func (k *class) compute(random keys, seed uint64, client int, task uint64, steps int, at int64) int64 {
	var ns int64
	switch n := float64(steps); {
	case steps < 0:
		return -1
	case k.step.fixed && k.std == 0 && k.cv == 0:
		ns = bounded(float64(n*k.step.own.a), int64(steps)*k.stepNs)
	default:
		beta := k.step.draw(random)
		s := float64(n * beta)
		if k.std > 0 || k.cv > 0 {
			std := float64(k.std*k.step.factor(random)) + float64(k.cv*beta)
			z := normal(keyed.Hash(seed, keyed.Compute, uint64(client), task))
			s += float64(float64(math.Sqrt(n)*std) * z)
		}
		ns = bounded(s, nanoseconds(max(0, s)))
	}
	if k.slow != nil && ns > 0 {
		return k.slow.stretch(seed, client, at, ns)
	}
	return ns
}

// Mean is the mean time of a task. Without classes, or where the fleet is
// Constant, it is that of devices without spread, exactly (Eq. 3); slowdowns
// then count at their long run's pace. Otherwise it is the mean over the first
// tasks of 4,096 clients, all started at time 0.
func (f *Fleet) Mean(steps int, bits int64) (Durations, error) {
	if f.plain || f.Constant() {
		k := f.classes[0]
		slow := k.slow
		k.std, k.slow = 0, nil
		d := k.durations(f.seed, 0, 0, 0, steps, bits, 0)
		if slow != nil {
			d.Compute = whole(float64(d.Compute) / slow.pace)
			if slow.links {
				d.Download, d.Upload = whole(float64(d.Download)/slow.pace), whole(float64(d.Upload)/slow.pace)
			}
		}
		return d, d.check(steps, bits)
	}
	const sample = 4096
	var down, compute, up float64
	for client := range sample {
		d, err := f.Durations(client, 0, steps, bits, 0)
		if err != nil {
			return Durations{}, err
		}
		down += float64(d.Download)
		compute += float64(d.Compute)
		up += float64(d.Upload)
	}
	return Durations{whole(down / sample), whole(compute / sample), whole(up / sample)}, nil
}

// Constant tells whether every client takes [Fleet.Mean] for every task, exactly,
// is always there and never leaves: then the length of a round follows from
// Eq. 4 without drawing anything.
func (f *Fleet) Constant() bool {
	k := &f.classes[0]
	return len(f.classes) == 1 && k.links == nil && k.download.fixed && k.upload.fixed && k.step.fixed &&
		k.std == 0 && k.cv == 0 && k.slow == nil && k.presence == nil && k.dropout == dropout{}
}

func (d Durations) check(steps int, bits int64) error {
	if d.Download >= 0 && d.Compute >= 0 && d.Upload >= 0 {
		return nil
	}
	if steps < 0 || bits < 0 {
		return fmt.Errorf("%d steps and %d bits, want neither negative", steps, bits)
	}
	return fmt.Errorf("%d steps, or a transfer of %d bits, take over %g s, three years (bound what is drawn: at_most for seconds_per_step, at_least for download_mbps and upload_mbps)", steps, bits, float64(maxSeconds))
}

// transfer is the time of so many bits at so many megabits per second; -1 when
// it is out of bounds.
func transfer(bits int64, mbps float64) int64 {
	s := float64(bits) / (mbps * 1e6)
	if s < 0 {
		return -1
	}
	return bounded(s, nanoseconds(s))
}

// bounded is ns, or -1 when the seconds it stands for are out of bounds.
func bounded(seconds float64, ns int64) int64 {
	if !(seconds <= maxSeconds) {
		return -1
	}
	return ns
}

// nanoseconds rounds to the nearest, ties to even.
func nanoseconds(seconds float64) int64 { return int64(math.RoundToEven(seconds * 1e9)) }

// Available tells whether a client can be asked at virtual time t. Times
// before 0 or after 146 years count as those.
func (f *Fleet) Available(client int, t int64) bool {
	if !f.presence {
		return true
	}
	k, _ := f.class(client)
	return k.presence == nil || k.presence.on(f.seed, client, clamp(t))
}

// NextChange is a time after t up to which the client's availability stays
// what it is at t, and at which it changes; [Never] when it does not within
// 146 years. Where a change is very far away (after 4,096 periods, days or
// draws) the time may come before it, and nothing changes there.
func (f *Fleet) NextChange(client int, t int64) int64 {
	if !f.presence {
		return Never
	}
	k, _ := f.class(client)
	if k.presence == nil {
		return Never
	}
	return known(k.presence.change(f.seed, client, clamp(t)))
}

// NextAny is the first time from t on at which any of the clients 0 to
// clients-1 is available, t itself when one is; [Never] when none will be. As
// in NextChange it may be earlier where that is very far away. It looks at the
// clients one by one until it finds one available at t.
func (f *Fleet) NextAny(clients int, t int64) int64 {
	if !f.presence && clients > 0 {
		return t
	}
	t = clamp(t)
	first := int64(Never)
	for client := range clients {
		k, _ := f.class(client)
		if k.presence == nil || k.presence.on(f.seed, client, t) {
			return t
		}
		first = min(first, known(k.presence.change(f.seed, client, t)))
	}
	return first
}

// known is a time of change, or Never when it lies beyond virtual time.
func known(t int64) int64 {
	if t > maxTime {
		return Never
	}
	return t
}

func clamp(t int64) int64 { return min(max(t, 0), maxTime) }

// String describes the population, a line for each class.
func (f *Fleet) String() string {
	lines := make([]string, len(f.classes))
	for i := range f.classes {
		k := &f.classes[i]
		if lines[i] = k.about; !f.plain {
			lines[i] = fmt.Sprintf("%s (%.3g%%): %s", k.name, 100*k.weight, k.about)
		}
	}
	return strings.Join(lines, "\n")
}

// describe is a class in words, its speeds filled in.
func (k *Class) describe(std float64, slow Slowdown, available Availability, drop Dropout) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if k.Links != nil {
		add("links replay %s", strings.Join(k.Links.Names(), ", "))
	} else {
		add("download %s Mbps%s", k.DownloadMbps, varied(k.Vary.Download))
		add("upload %s Mbps%s", k.UploadMbps, varied(k.Vary.Upload))
	}
	spread := ""
	if std > 0 {
		spread = fmt.Sprintf(" ± %g", std)
	}
	if k.StepCV > 0 {
		spread = fmt.Sprintf(" ± %g%%", 100*k.StepCV)
	}
	add("%s%s s a step%s", k.SecondsPerStep, spread, varied(k.Vary.Compute))
	if slow.EverySeconds > 0 {
		add("slowed by %s for %g s every %g s", slow.Factor, slow.ForSeconds, slow.EverySeconds)
	}
	if s := available.String(); s != "always" {
		add("available %s", s)
	}
	if drop.Probability > 0 {
		add("drops out of %g%% of its tasks", 100*drop.Probability)
	}
	if drop.WhenUnavailable {
		add("drops out when its availability ends")
	}
	return strings.Join(parts, "; ")
}

func varied(d Dist) string {
	if !d.given() {
		return ""
	}
	return " (each task × " + d.String() + ")"
}
