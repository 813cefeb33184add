package fleet

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
	"fedpace/registry"
)

// Durations are the phases of one task (Eq. 3), in nanoseconds, none negative.
type Durations struct{ Download, Compute, Upload int64 }

// Bits are the sizes of a task's transfers: the model's on its way down, and the
// update's on its way up.
type Bits struct{ Down, Up int64 }

// SameBits is one size both ways.
func SameBits(bits int64) Bits { return Bits{bits, bits} }

// Never is the time of what does not happen.
const Never = math.MaxInt64

const (
	// maxSeconds bounds a phase: what is slower is a mistake in the configuration.
	maxSeconds = 1e8 // three years
	// maxTime bounds virtual time, so that no sum of times overflows.
	maxTime = 1 << 62 // 146 years

	maxClasses = 1000
)

// Fleet is a population of simulated devices, of any size: a client costs no
// memory but for the eight bytes that say whose device it has where data decide that.
type Fleet struct {
	seed          uint64
	classes       []class
	shares        []uint64 // limits of the classes, for pick
	classPresence bool     // whether any class has an availability of its own
	homogeneous   bool     // no classes: all clients alike but for Compute.Std

	Files        []string          // the population was read from them
	Correlations []CorrelationNote // of devices with data

	// By client, where a correlation ties them to data: whose device and whose
	// availability it has. nil: its own.
	devices, presences []uint32

	// real are the classes of the real devices, and firstReal is the client number of the
	// first.
	real      []int
	firstReal int

	deadline int64 // see [Config.Deadline]

	countEnds []int // by class: the number of the first client behind those that it has by count; nil: none has
}

// NoClass is the class of a real device of which none is known.
const NoClass = -1

// NewFleet checks the configuration and reads the files that it names. Its
// errors are [*registry.OptionError].
func NewFleet(c Config, seed uint64) (*Fleet, error) {
	return newFleet(c, seed, &Files{loaded: map[string]any{}})
}

// Check returns the error of [NewFleet] without reading any file.
func (c Config) Check() error {
	_, err := newFleet(c, 0, nil)
	return err
}

func newFleet(c Config, seed uint64, files *Files) (*Fleet, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	common := class{dropout: c.Dropout}
	err := common.prepare(c.Slowdown, c.Availability, files)
	if err != nil {
		return nil, err
	}
	var steps Distribution
	if c.Compute.Measured != "" && files != nil {
		if steps, err = files.steps(c.Compute); err != nil {
			return nil, err
		}
	}
	f := &Fleet{seed: seed, firstReal: math.MaxInt, deadline: c.Deadline}
	if f.real, err = c.classesOfDevices(); err != nil {
		return nil, err
	}
	classes := c.Fleet
	if len(classes) == 0 {
		classes = []Class{{Name: "all"}}
		f.homogeneous = !c.Network.Links.isSet() && c.Compute.Measured == ""
		if f.homogeneous {
			classes[0].Name = ""
		}
	}
	weights := make([]float64, len(classes))
	for i, k := range classes {
		compiled, err := k.compile(&c, steps, common, files)
		if err != nil && len(c.Fleet) == 0 {
			return nil, registry.Below("network", err)
		}
		if err != nil {
			return nil, registry.Below(fmt.Sprintf("fleet[%d]", i), err)
		}
		f.classes = append(f.classes, compiled)
		f.classPresence = f.classPresence || compiled.ownPresence
		weights[i] = k.Weight
	}
	if files != nil {
		f.Files = files.paths
	}
	f.countEnds = countEnds(c.Fleet)
	if f.countEnds != nil && slices.Max(weights) == 0 { // the rest is of the classes without a count
		for i, k := range c.Fleet {
			if k.Count == 0 {
				weights[i] = 1
			}
		}
	}
	f.shares, err = shares(
		"fleet",
		weights,
		func(i int) bool { return slices.Contains(f.real, i) || c.Fleet[i].Count > 0 },
	)
	return f, err
}

// countEnds adds the counts of the classes up; nil: there are none.
func countEnds(classes []Class) (upTo []int) {
	all := 0
	for _, k := range classes {
		all += k.Count
		upTo = append(upTo, all)
	}
	if all == 0 {
		return nil
	}
	return upTo
}

// classesOfDevices are the numbers of the real devices' classes.
func (c *Config) classesOfDevices() ([]int, error) {
	list := make([]int, len(c.Devices))
	for i, name := range c.Devices {
		list[i] = slices.IndexFunc(c.Fleet, func(k Class) bool { return k.Name == name })
		if list[i] < 0 && name != "" {
			return nil, registry.Errorf(fmt.Sprintf("devices[%d]", i), "%q is no class of the fleet", name)
		}
	}
	return list, nil
}

// check checks what a configuration holds without preparing it.
func (c Config) check() error {
	if n := len(c.Fleet); n > maxClasses {
		return registry.Errorf("fleet", "%d classes (at most %d)", n, maxClasses)
	}
	if err := registry.Check(c); err != nil {
		return err
	}
	m := c.Compute
	switch {
	case (m.Measured == "") != (m.Reference == ""):
		return registry.Errorf(
			"compute.reference",
			"measured and reference are set together: a file, and the device in it that takes seconds_per_step",
		)
	case m.Measured != "" && (m.Std != 0 || m.SecondsPerStep == 0):
		return registry.Errorf(
			"compute.measured",
			"needs seconds_per_step above 0 and std 0 (a class in fleet may have a step_cv)",
		)
	}
	seen := map[string]bool{}
	for i, k := range c.Fleet {
		if k.Name != "" && seen[k.Name] {
			return registry.Errorf(fmt.Sprintf("fleet[%d].name", i), "%q is the name of two classes", k.Name)
		}
		seen[k.Name] = true
	}
	return c.Correlation.check(c.Fleet)
}

// SetDevices says that real devices are the clients from one number on. Those that have a
// class take, as simulated clients, what devices of that class take: see
// [Config.Devices]. It comes before any use of the fleet.
func (f *Fleet) SetDevices(first int) { f.firstReal = first }

// DeviceClass is the class of a real device; [NoClass] where none is known, and for
// simulated clients.
func (f *Fleet) DeviceClass(client int) int {
	if i := client - f.firstReal; i >= 0 && i < len(f.real) {
		return f.real[i]
	}
	return NoClass
}

// Reseeded is the same population with another seed: other clients of the same classes.
// Who has whose device where data decide that stays as it is.
func (f *Fleet) Reseeded(seed uint64) *Fleet {
	reseeded := *f
	reseeded.seed = seed
	return &reseeded
}

// class is a client's class, with the key of its device.
func (f *Fleet) class(client int) (*class, uint64) {
	return f.classOf(assignedNumber(f.devices, client))
}

// classOf is a device's class, with its key.
func (f *Fleet) classOf(device int) (*class, uint64) {
	if f.homogeneous { // no client has speeds of its own
		return &f.classes[0], 0
	}
	h := keyed.Hash(f.seed, keyed.Device, uint64(device))
	return &f.classes[f.pick(device, h)], h
}

// Class is the number of a client's class.
func (f *Fleet) Class(client int) int {
	device := assignedNumber(f.devices, client)
	return f.pick(device, keyed.Hash(f.seed, keyed.Device, uint64(device)))
}

// pick is the number of a device's class; h is the device's key.
func (f *Fleet) pick(device int, h uint64) int {
	if device >= f.firstReal {
		if k := f.DeviceClass(device); k != NoClass {
			return k
		}
	}
	if n := len(f.countEnds); n > 0 && device < f.countEnds[n-1] {
		return sort.SearchInts(f.countEnds, device+1)
	}
	return pick(f.shares, keyed.Nth(h, drawClass))
}

// Classes names the classes in their order. Without classes it is one name, empty.
func (f *Fleet) Classes() []string {
	names := make([]string, len(f.classes))
	for i := range f.classes {
		names[i] = f.classes[i].name
	}
	return names
}

// Durations is the time client takes for a task of so many local steps with
// transfers of so many bits: |x|/D + K beta + |x|/U (Eq. 3), at its own speeds and
// in this task's conditions. The task starts at virtual time at, which matters
// to link traces and slowdowns alone. It fails when a phase would take longer
// than three years.
//
// With a standard deviation of the minibatch times the compute time is the sum
// of K independent normal ones, which is itself normal with mean K beta and
// standard deviation sqrt(K) std: one draw, keyed (client, task). It is cut at
// zero.
func (f *Fleet) Durations(client int, task uint64, steps int, bits Bits, start int64) (Durations, error) {
	k, h := f.class(client)
	return f.durations(k, h, client, task, steps, bits, start)
}

// durations is Durations of a client with a device of a class; h is the device's key.
func (f *Fleet) durations(
	k *class,
	h uint64,
	client int,
	task uint64,
	steps int,
	bits Bits,
	start int64,
) (Durations, error) {
	if start < 0 || start > maxTime {
		return Durations{}, fmt.Errorf(
			"clientmodel: task %d of client %d starts at %d ns, want 0 to %d",
			task,
			client,
			start,
			int64(maxTime),
		)
	}
	d := k.durations(f.seed, client, h, task, steps, bits, start)
	err := d.check(steps, bits)
	if err == nil && k.delay != nil {
		d.Compute += k.delay(d.Total(), f.deadline) - d.Total()
		if d.Compute > maxSeconds*second {
			err = fmt.Errorf("its attack takes over %g s, three years (lower its factor)", float64(maxSeconds))
		}
	}
	if err != nil {
		return Durations{}, fmt.Errorf("clientmodel: task %d of client %d: %w", task, client, err)
	}
	return d, nil
}

// durations is Durations with -1 for what is out of bounds; h is the device's key.
func (k *class) durations(seed uint64, client int, h, task uint64, steps int, bits Bits, start int64) (d Durations) {
	random := keys{client: h}
	switch {
	case k.shared:
		random.task = keyed.Hash(seed, keyed.Together, uint64(start))
	case k.varies:
		random.task = keyed.Hash(seed, keyed.Vary, uint64(client), task)
	}
	var trace *linkTrace
	var position int64
	if k.links != nil {
		trace, position = k.links.locate(h, start)
		d.Download = trace.download.transfer(bits.Down, position)
	} else {
		d.Download = k.transfer(&k.download, random, seed, client, bits.Down, start)
	}
	if d.Download < 0 {
		return d
	}
	d.Download += overheadOf(k.overhead.Download, bits.Down)
	d.Compute = k.compute(random, seed, client, task, steps, start+d.Download)
	if d.Compute < 0 {
		return d
	}
	d.Compute += overheadOf(k.overhead.Compute, int64(steps))
	if trace != nil {
		d.Upload = trace.upload.transfer(bits.Up, trace.wrap(position+d.Download+d.Compute))
	} else {
		d.Upload = k.transfer(&k.upload, random, seed, client, bits.Up, start+d.Download+d.Compute)
	}
	if d.Upload >= 0 {
		d.Upload += overheadOf(k.overhead.Upload, bits.Up)
	}
	return d
}

// withOverhead is d and the overhead of a task.
func (d Durations) withOverhead(overhead Durations, steps int, bits Bits) Durations {
	d.Download += overheadOf(overhead.Download, bits.Down)
	d.Compute += overheadOf(overhead.Compute, int64(steps))
	d.Upload += overheadOf(overhead.Upload, bits.Up)
	return d
}

// overheadOf is the overhead of so much work: none of none.
func overheadOf(overhead, work int64) int64 {
	if work == 0 {
		return 0
	}
	return overhead
}

// transfer is the time of so many bits from a time on, over a link of one speed.
func (k *class) transfer(q *quantity, random keys, seed uint64, client int, bits, start int64) int64 {
	ns := transfer(bits, q.draw(random))
	if k.slow != nil && ns > 0 && k.slow.Transfers() {
		return k.slow.Stretch(seed, client, start, ns)
	}
	return ns
}

// compute is the time of so many steps from a time on.
func (k *class) compute(random keys, seed uint64, client int, task uint64, steps int, start int64) int64 {
	var ns int64
	switch n := float64(steps); {
	case k.step.fixed && k.std == 0 && k.cv == 0:
		ns = int64(steps) * k.stepNs
		if float64(n*k.step.client.Min) > maxSeconds {
			return -1
		}
	default:
		beta := k.step.draw(random)
		s := float64(n * beta)
		if k.std > 0 || k.cv > 0 {
			std := float64(k.std*k.step.factor(keyed.Nth(random.task, k.step.part))) + float64(k.cv*beta)
			z := portable.Normal(keyed.Hash(seed, keyed.Compute, uint64(client), task))
			s += float64(float64(math.Sqrt(n)*std) * z)
		}
		ns = roundDuration(max(0, s) * second)
	}
	if k.slow != nil && ns > 0 {
		return k.slow.Stretch(seed, client, start, ns)
	}
	return ns
}

// Mean is the mean time of a task. Without classes, or where the fleet is
// Constant, it is that of devices without spread, exactly (Eq. 3); slowdowns
// then count at their long run's pace. Otherwise it is the mean over the first
// tasks of 4,096 clients, all started at time 0.
func (f *Fleet) Mean(steps int, bits Bits) (Durations, error) {
	if f.homogeneous || f.Constant() {
		return f.classes[0].mean(f.seed, steps, bits)
	}
	return f.sample(steps, bits, f.classOf)
}

// MeanOf is [Fleet.Mean] over the devices of one class; [NoClass]: of all.
func (f *Fleet) MeanOf(number, steps int, bits Bits) (Durations, error) {
	if number == NoClass {
		return f.Mean(steps, bits)
	}
	k := &f.classes[number]
	if k.constant() {
		return k.mean(f.seed, steps, bits)
	}
	return f.sample(steps, bits, func(device int) (*class, uint64) {
		return k, keyed.Hash(f.seed, keyed.Device, uint64(device))
	})
}

// mean is the time of a task without the spread of minibatches, at the long run's pace.
func (k class) mean(seed uint64, steps int, bits Bits) (Durations, error) {
	slow := k.slow
	overhead := k.overhead
	k.std = 0
	k.slow = nil
	k.overhead = Durations{}
	d := inLongRun(slow, k.durations(seed, 0, 0, 0, steps, bits, 0), true)
	if err := d.check(steps, bits); err != nil {
		return d, err
	}
	return d.withOverhead(overhead, steps, bits), nil
}

// sample is the mean over the first tasks of 4,096 clients.
func (f *Fleet) sample(steps int, bits Bits, classOf func(device int) (*class, uint64)) (Durations, error) {
	const sample = 4096
	var down, compute, up float64
	for client := range sample {
		k, h := classOf(assignedNumber(f.devices, client))
		start := int64(0)
		if k.shared { // both ways would be one draw
			start = int64(client)
		}
		d, err := f.durations(k, h, client, 0, steps, bits, start)
		if err != nil {
			return Durations{}, err
		}
		down += float64(d.Download)
		compute += float64(d.Compute)
		up += float64(d.Upload)
	}
	return Durations{roundDuration(down / sample), roundDuration(compute / sample), roundDuration(up / sample)}, nil
}

// Interval90 are the seconds of each phase that 90 % of the tasks of a class's devices lie between.
func (f *Fleet) Interval90(number, steps int, bits Bits) (low, high [3]float64, err error) {
	const tasks, beyond = 199, 9 // draws, and those on either side
	var drawn [3][]float64
	for client := range tasks {
		d, err := f.durations(
			&f.classes[number],
			keyed.Hash(f.seed, keyed.Device, uint64(client)),
			client,
			0,
			steps,
			bits,
			int64(client)*3600*second,
		)
		if err != nil {
			return low, high, err
		}
		for i, ns := range [...]int64{d.Download, d.Compute, d.Upload} {
			drawn[i] = append(drawn[i], float64(ns)/second)
		}
	}
	for i := range drawn {
		slices.Sort(drawn[i])
		low[i] = drawn[i][beyond]
		high[i] = drawn[i][tasks-1-beyond]
	}
	return low, high, nil
}

// Constant tells whether every client takes [Fleet.Mean] for every task, exactly,
// is always there and never leaves: then the length of a round follows from
// Eq. 4 without drawing anything.
func (f *Fleet) Constant() bool {
	return len(f.classes) == 1 && f.classes[0].constant()
}

// constant tells whether every client of the class takes the same for every task, is
// always there and never leaves.
func (k *class) constant() bool {
	return k.links == nil &&
		k.download.fixed &&
		k.upload.fixed &&
		k.step.fixed &&
		k.std == 0 && k.cv == 0 && k.slow == nil && k.presence == nil && k.dropout == Dropout{} && k.battery == nil && k.delay == nil
}

func (d Durations) check(steps int, bits Bits) error {
	switch {
	case steps < 0 || bits.Down < 0 || bits.Up < 0:
		return fmt.Errorf("%d steps and %d bits, want neither negative", steps, min(bits.Down, bits.Up))
	case d.Download >= 0 && d.Compute >= 0 && d.Upload >= 0:
		return nil
	}
	return fmt.Errorf("%d steps, or a transfer of %d bits, take over %g s, three years (bound what is drawn: at_most for seconds_per_step, at_least for download_mbps and upload_mbps)", steps, max(bits.Down, bits.Up), float64(maxSeconds))
}

// transfer is the time of so many bits at so many megabits per second; -1 when
// it is out of bounds.
func transfer(bits int64, mbps float64) int64 {
	return roundDuration(float64(bits) / (mbps * 1e6) * second)
}

// nanoseconds rounds to the nearest, ties to even.
func nanoseconds(seconds float64) int64 { return int64(math.RoundToEven(seconds * second)) }

// roundDuration rounds nanoseconds as nanoseconds does; -1 when they are out of bounds.
func roundDuration(ns float64) int64 {
	if !(ns >= 0 && ns <= maxSeconds*second) {
		return -1
	}
	return int64(math.RoundToEven(ns))
}

// presenceOf is the model of a client's availability, nil for one that is always there,
// and the number by which it draws.
func (f *Fleet) presenceOf(client int) (p Presence, number int) {
	k := &f.classes[0]
	if f.classPresence {
		k, _ = f.class(client)
	}
	return k.presence, f.presenceNumber(client)
}

// presenceNumber says whose availability a client has: that of its device where the
// device's class has an availability of its own.
func (f *Fleet) presenceNumber(client int) int {
	if f.classPresence && len(f.devices) > 0 {
		if k, _ := f.class(client); k.ownPresence {
			return assignedNumber(f.devices, client)
		}
	}
	return assignedNumber(f.presences, client)
}

// Available tells whether a client can be asked at virtual time t. Times
// before 0 or after 146 years count as those.
func (f *Fleet) Available(client int, t int64) bool {
	p, number := f.presenceOf(client)
	return p == nil || p.Present(f.seed, number, clamp(t))
}

// NextChange is a time after t up to which the client's availability stays
// what it is at t, and at which it changes; [Never] when it does not within
// 146 years. Where a change is very far away (after 4,096 periods, days or
// draws) the time may come before it, and nothing changes there.
func (f *Fleet) NextChange(client int, t int64) int64 {
	p, number := f.presenceOf(client)
	if p == nil {
		return Never
	}
	return changeOrNever(p.Change(f.seed, number, clamp(t)))
}

// NextAny is the first time from t on at which any of the clients 0 to
// clients-1 is available, t itself when one is; [Never] when none will be. As
// in NextChange it may be earlier where that is very far away. It looks at the
// clients one by one until it finds one available at t.
func (f *Fleet) NextAny(clients int, t int64) int64 {
	t = clamp(t)
	first := int64(Never)
	for client := range clients {
		p, number := f.presenceOf(client)
		if p == nil || p.Present(f.seed, number, t) {
			return t
		}
		first = min(first, p.Change(f.seed, number, t))
	}
	return changeOrNever(first)
}

// changeOrNever is a time of change, or Never when it lies beyond virtual time.
func changeOrNever(t int64) int64 {
	if t > maxTime {
		return Never
	}
	return t
}

func clamp(t int64) int64 { return min(max(t, 0), maxTime) }
