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

// Durations are the lengths of one task's phases in nanoseconds (Eq. 3), none negative.
type Durations struct{ Download, Compute, Upload int64 }

// Bits are the sizes of a task's transfers: Down is the model, Up the update.
type Bits struct{ Down, Up int64 }

// SameBits returns the sizes of transfers that are equal in both directions.
func SameBits(bits int64) Bits { return Bits{bits, bits} }

// Never is the time of an event that does not happen.
const Never = math.MaxInt64

const (
	// maxSeconds bounds the duration of a phase to three years: what is slower is a mistake in the
	// configuration.
	maxSeconds = 1e8
	// maxTime bounds virtual time to 146 years in nanoseconds, so that no sum of times overflows.
	maxTime = 1 << 62

	// maxClasses bounds the classes of a fleet.
	maxClasses = 1000
)

// Fleet is a population of simulated devices, of any size. It is read-only after its setup
// (Correlate and SetDevices) and may be shared. It stores nothing by client, except for eight bytes
// that assign a device where a correlation does.
type Fleet struct {
	seed    uint64
	classes []class
	// shares are the limits by which devices draw their class (see pick).
	shares []uint64
	// classPresence says that some class has an availability of its own.
	classPresence bool
	// homogeneous says that there are no classes: all clients are equal but for Compute.Std.
	homogeneous bool

	// Files are the paths that the configuration was read from.
	Files []string
	// Correlations are the correlations of devices with data that were reached.
	Correlations []CorrelationNote

	// devices and presences assign to each client the number of the client whose device and whose
	// availability it has. Nil, and clients beyond the end, mean the client's own.
	devices, presences []uint32

	// deviceClasses are the classes of the real devices, and firstReal is the client number of the first device.
	deviceClasses []int
	firstReal     int

	// deadline is [Config.Deadline].
	deadline int64

	// stages are those of secure aggregation, and secure says that there are any.
	stages Stages
	secure bool

	// countEnds holds for each class the number of the first client behind those that it has by count.
	// Nil means that no class has a count.
	countEnds []int
}

// NoClass is the class of a real device whose class is not known.
const NoClass = -1

// NewFleet checks the configuration, reads the files that it names and returns the population that
// seed draws. Its errors are [*registry.OptionError].
func NewFleet(c Config, seed uint64) (*Fleet, error) {
	return newFleet(c, seed, &Files{loaded: map[string]any{}})
}

// Check returns the error of [NewFleet] without reading any file.
func (c Config) Check() error {
	_, err := newFleet(c, 0, nil)
	return err
}

// newFleet makes the fleet of a configuration as NewFleet does. If files is nil, it reads no file
// and only checks the configuration.
func newFleet(c Config, seed uint64, files *Files) (*Fleet, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	// What applies to all classes is prepared once.
	common := class{dropout: c.Dropout}
	err := common.prepare(c.Slowdown, c.Availability, files)
	if err != nil {
		return nil, err
	}
	var steps Distribution
	if c.Compute.Measured != "" && files != nil {
		steps, err = files.steps(c.Compute)
		if err != nil {
			return nil, err
		}
	}
	f := &Fleet{seed: seed, firstReal: math.MaxInt, deadline: c.Deadline}
	f.deviceClasses, err = c.classesOfDevices()
	if err != nil {
		return nil, err
	}
	// Without classes all clients alike have one, which is made of network and compute.
	classes := c.Fleet
	if len(classes) == 0 {
		f.homogeneous = !c.Network.Links.isSet() && c.Compute.Measured == ""
		classes = []Class{{Name: "all"}}
		if f.homogeneous {
			classes[0].Name = ""
		}
	}
	for i, k := range classes {
		compiled, err := k.compile(&c, steps, common, files)
		if err != nil {
			// An error names the configuration key that the user has set.
			place := fmt.Sprintf("fleet[%d]", i)
			if len(c.Fleet) == 0 {
				place = "network"
			}
			return nil, registry.Below(place, err)
		}
		f.classes = append(f.classes, compiled)
		f.classPresence = f.classPresence || compiled.ownPresence
	}
	if files != nil {
		f.Files = files.paths
	}
	f.countEnds = countEnds(c.Fleet)
	// Classes of real devices, and those with a count, may have no weight.
	mayBeZero := func(i int) bool { return slices.Contains(f.deviceClasses, i) || c.Fleet[i].Count > 0 }
	hasCounts := f.countEnds != nil
	f.shares, err = shares("fleet", classWeights(classes, hasCounts), mayBeZero)
	return f, err
}

// classWeights returns the weights by which clients are divided among the classes. hasCounts says that
// some classes have a count of clients. If no class has a weight then, the clients beyond the counts are
// divided equally among the classes without a count.
func classWeights(classes []Class, hasCounts bool) []float64 {
	weights := make([]float64, len(classes))
	for i, k := range classes {
		weights[i] = k.Weight
	}
	if !hasCounts || slices.Max(weights) > 0 {
		return weights
	}
	for i, k := range classes {
		if k.Count == 0 {
			weights[i] = 1
		}
	}
	return weights
}

// countEnds returns for each class the sum of the counts up to and including its own, nil if no class
// has a count.
func countEnds(classes []Class) (ends []int) {
	sum := 0
	for _, k := range classes {
		sum += k.Count
		ends = append(ends, sum)
	}
	if sum == 0 {
		return nil
	}
	return ends
}

// classesOfDevices returns the number of the class of each real device, in the order of c.Devices,
// and NoClass where none is named. It is an error if a name is no class of the fleet.
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

// check validates the configuration without preparing any of it, and reads no file. Its errors name
// the configuration key.
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
	// Two classes must not have the same name, by which devices and results refer to them.
	seen := map[string]bool{}
	for i, k := range c.Fleet {
		if k.Name != "" && seen[k.Name] {
			return registry.Errorf(fmt.Sprintf("fleet[%d].name", i), "%q is the name of two classes", k.Name)
		}
		seen[k.Name] = true
	}
	return c.Correlation.check(c.Fleet)
}

// SetDevices says that the clients from number first on are real devices. Where the time of a real device must be
// known beforehand, it is that of a simulated device of the class that is named for it (see [Config.Devices]).
// SetDevices must be called before any use of the fleet.
func (f *Fleet) SetDevices(first int) { f.firstReal = first }

// DeviceClass returns the number of a real device's class, or [NoClass] for simulated clients and
// for devices without one.
func (f *Fleet) DeviceClass(client int) int {
	if i := client - f.firstReal; i >= 0 && i < len(f.deviceClasses) {
		return f.deviceClasses[i]
	}
	return NoClass
}

// Reseeded returns the same population drawn with another seed: other clients of the same classes.
// Assignments by data stay as they are.
func (f *Fleet) Reseeded(seed uint64) *Fleet {
	reseeded := *f
	reseeded.seed = seed
	return &reseeded
}

// class returns a client's class and the key of its device.
func (f *Fleet) class(client int) (*class, uint64) {
	return f.classOf(assignedNumber(f.devices, client))
}

// classOf returns the class of a device, given the device's number, and its key. In a homogeneous
// fleet the key is 0, as no client draws anything of its own.
func (f *Fleet) classOf(device int) (*class, uint64) {
	// All clients of a homogeneous fleet have the same speeds.
	if f.homogeneous {
		return &f.classes[0], 0
	}
	deviceKey := keyed.Hash(f.seed, keyed.Device, uint64(device))
	return &f.classes[f.classNumber(device, deviceKey)], deviceKey
}

// Class returns the number of a client's class.
func (f *Fleet) Class(client int) int {
	device := assignedNumber(f.devices, client)
	return f.classNumber(device, keyed.Hash(f.seed, keyed.Device, uint64(device)))
}

// classNumber returns the number of a device's class. deviceKey holds the device's random bits. A real device has
// the class that is named for it, if one is. The first simulated devices belong to the classes with a count, in
// their order, and all others draw a class by weight.
func (f *Fleet) classNumber(device int, deviceKey uint64) int {
	if device >= f.firstReal {
		if k := f.DeviceClass(device); k != NoClass {
			return k
		}
	}
	if n := len(f.countEnds); n > 0 && device < f.countEnds[n-1] {
		return sort.SearchInts(f.countEnds, device+1)
	}
	return pick(f.shares, keyed.Nth(deviceKey, drawClass))
}

// Classes returns the names of the classes in their order. A fleet without classes has one, with an
// empty name.
func (f *Fleet) Classes() []string {
	names := make([]string, len(f.classes))
	for i := range f.classes {
		names[i] = f.classes[i].name
	}
	return names
}

// Durations returns how long a task with this many local steps and transfers of
// these sizes takes a client: |x|/D + K beta + |x|/U (Eq. 3), at its own speeds and
// in this task's conditions. The task starts at the virtual time start, which
// matters to link traces, slowdowns and draws that tasks share. It is an error if a
// phase would take longer than three years.
//
// With a standard deviation of the minibatch times the compute time is the sum
// of K independent normal ones, which is itself normal with mean K beta and
// standard deviation sqrt(K) std: one draw, keyed (client, task). It is cut at
// zero.
func (f *Fleet) Durations(client int, task uint64, steps int, bits Bits, start int64) (Durations, error) {
	k, deviceKey := f.class(client)
	return f.durations(k, deviceKey, client, task, steps, wholeBatch, bits, start)
}

// wholeBatch is the part of a minibatch that a local step takes where no formula gives it another size.
const wholeBatch = 1

// durations returns the phases of a task as Durations does, for a client with a device of class k, whose random
// bits are in deviceKey. task numbers the client's tasks, and start is the virtual time at which the task
// starts, in nanoseconds. part is what a local step takes of a minibatch, and so of the time of a step: above 0 and at
// most wholeBatch. The time that an attacker takes on purpose, beyond the honest time, counts as computing.
func (f *Fleet) durations(
	k *class,
	deviceKey uint64,
	client int,
	task uint64,
	steps int,
	part float64,
	bits Bits,
	start int64,
) (Durations, error) {
	if start < 0 || start > maxTime {
		return Durations{}, fmt.Errorf(
			"fleet: task %d of client %d starts at %d ns, want 0 to %d",
			task,
			client,
			start,
			int64(maxTime),
		)
	}
	d := k.durations(f.seed, client, deviceKey, task, steps, part, bits, start)
	err := d.check(steps, bits)
	// attackTime is the whole time after which the attacker answers, such as just before the round's deadline.
	if err == nil && k.attackTime != nil {
		d.Compute += k.attackTime(d.Total(), f.deadline) - d.Total()
		if d.Compute > maxSeconds*second {
			err = fmt.Errorf("its attack takes over %g s, three years (lower its factor)", float64(maxSeconds))
		}
	}
	if err != nil {
		return Durations{}, fmt.Errorf("fleet: task %d of client %d: %w", task, client, err)
	}
	return d, nil
}

// durations returns how long the phases of a task take that starts at virtual time start, with -1 for a phase that is
// out of bounds; the phases after it are 0. deviceKey holds the device's random bits. part is the part of its
// minibatch that a local step takes, 1 for all of it. bits are the sizes of the two messages. Each phase starts when
// the one before it ends, so slowdowns and traces see the right time.
func (k *class) durations(
	seed uint64,
	client int,
	deviceKey, task uint64,
	steps int,
	part float64,
	bits Bits,
	start int64,
) (d Durations) {
	// The bits of a task matter only if its times vary. Tasks that start together may share them (k.shared), as
	// all are on one busy machine.
	random := keys{client: deviceKey}
	switch {
	case k.shared:
		random.task = keyed.Hash(seed, keyed.Together, uint64(start))
	case k.varies:
		random.task = keyed.Hash(seed, keyed.Vary, uint64(client), task)
	}
	// On a link trace the capacity changes every second; otherwise the speed holds for the whole
	// transfer. position is where in its trace, in nanoseconds, the client is at the start.
	var trace *linkTrace
	var position int64
	if k.links != nil {
		trace, position = k.links.locate(deviceKey, start)
		d.Download = trace.download.transfer(bits.Down, position)
	} else {
		d.Download = k.transfer(&k.download, random, seed, client, bits.Down, start)
	}
	if d.Download < 0 {
		return d
	}
	d.Download += overheadOf(k.overhead.Download, bits.Down)
	d.Compute = k.compute(random, seed, client, task, steps, part, start+d.Download)
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

// withOverhead returns d plus the overhead of each phase that has work to do.
func (d Durations) withOverhead(overhead Durations, steps int, bits Bits) Durations {
	d.Download += overheadOf(overhead.Download, bits.Down)
	d.Compute += overheadOf(overhead.Compute, int64(steps))
	d.Upload += overheadOf(overhead.Upload, bits.Up)
	return d
}

// overheadOf returns the overhead of a phase, or 0 if it has no work (bits or steps) to do.
func overheadOf(overhead, work int64) int64 {
	if work == 0 {
		return 0
	}
	return overhead
}

// transfer returns the time in nanoseconds that a transfer of some bits takes from time start on,
// over a link of constant speed q; -1 if it is out of bounds.
func (k *class) transfer(q *quantity, random keys, seed uint64, client int, bits, start int64) int64 {
	ns := transfer(bits, q.draw(random))
	if k.slow != nil && ns > 0 && k.slow.Transfers() {
		return k.slow.Stretch(seed, client, start, ns)
	}
	return ns
}

// compute returns the time in nanoseconds that local steps take from time start on, -1 if it is out
// of bounds. part is the size of their minibatches as a share of a whole one. random holds the random bits of the
// client and the task. A fixed step time without spread is multiplied exactly; otherwise the sum of the steps
// is one normal draw (see Durations).
func (k *class) compute(
	random keys,
	seed uint64,
	client int,
	task uint64,
	steps int,
	part float64,
	start int64,
) int64 {
	var ns int64
	// n is the number of whole minibatches that take as long.
	n := float64(float64(steps) * part)
	hasSpread := k.std > 0 || k.cv > 0
	if k.step.fixed && !hasSpread {
		// All clients have the one time of a step then, Min.
		if float64(n*k.step.client.Min) > maxSeconds {
			return -1
		}
		ns = int64(steps) * k.stepNs
		// Whole minibatches need no rounding.
		if part < wholeBatch {
			ns = roundDuration(float64(n * float64(k.stepNs)))
		}
	} else {
		// beta is the mean time of a step in this task, in seconds.
		beta := k.step.draw(random)
		seconds := float64(n * beta)
		// The standard deviation of a sum of n steps is that of one times the root of n.
		if hasSpread {
			// std is the sum of an absolute deviation and one relative to beta. taskFactor, the task's own factor on
			// the time of a step, is in beta already.
			taskFactor := k.step.factor(keyed.Nth(random.task, k.step.taskDraw))
			std := float64(k.std*taskFactor) + float64(k.cv*beta)
			z := portable.Normal(keyed.Hash(seed, keyed.Compute, uint64(client), task))
			seconds += float64(float64(math.Sqrt(n)*std) * z)
		}
		ns = roundDuration(max(0, seconds) * second)
	}
	if k.slow != nil && ns > 0 {
		return k.slow.Stretch(seed, client, start, ns)
	}
	return ns
}

// Mean returns the mean time of a task. In a homogeneous or constant fleet it is exactly that of a
// device without spread (Eq. 3), with slowdowns at their long-run pace. In any other fleet it is
// the mean over the first tasks of 4,096 clients, all started at time 0.
func (f *Fleet) Mean(steps int, bits Bits) (Durations, error) {
	if f.homogeneous || f.Constant() {
		return f.classes[0].mean(f.seed, steps, bits)
	}
	return f.sample(steps, bits, f.classOf)
}

// MeanOf returns the mean durations of a task as [Fleet.Mean] does, over the devices of one class,
// given its number, or over all for [NoClass].
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

// mean returns the time of a task without the spread of minibatches, at the long-run pace of slowdowns, for a class
// whose clients are all alike but for these two. It works on a copy of the class, of which it removes the spread, the
// slowdown and the overhead.
func (k class) mean(seed uint64, steps int, bits Bits) (Durations, error) {
	slow := k.slow
	overhead := k.overhead
	k.std = 0
	k.slow = nil
	k.overhead = Durations{}
	// Without spread and slowdown, any client, device, task and start give the same times.
	const (
		client    = 0
		deviceKey = 0
		task      = 0
		start     = 0
		transfers = true
	)
	d := inLongRun(slow, k.durations(seed, client, deviceKey, task, steps, wholeBatch, bits, start), transfers)
	if err := d.check(steps, bits); err != nil {
		return d, err
	}
	return d.withOverhead(overhead, steps, bits), nil
}

// sample returns the mean duration of the first tasks of 4,096 clients. classOf gives the class of a device, by its
// number, and the key from which the device's random bits follow.
func (f *Fleet) sample(steps int, bits Bits, classOf func(device int) (*class, uint64)) (Durations, error) {
	const sample = 4096
	var down, compute, up float64
	for client := range sample {
		k, deviceKey := classOf(assignedNumber(f.devices, client))
		start := int64(0)
		// A class may have one draw for all tasks that start at the same time. Here each starts at another
		// nanosecond, so that their draws differ.
		if k.shared {
			start = int64(client)
		}
		const task = 0
		d, err := f.durations(k, deviceKey, client, task, steps, wholeBatch, bits, start)
		if err != nil {
			return Durations{}, err
		}
		down += float64(d.Download)
		compute += float64(d.Compute)
		up += float64(d.Upload)
	}
	return Durations{roundDuration(down / sample), roundDuration(compute / sample), roundDuration(up / sample)}, nil
}

// Interval90 returns for each phase (download, compute, upload) the bounds in seconds between which 90 % of
// the tasks of a class's devices lie, estimated from 199 draws an hour apart. number is that of the class.
func (f *Fleet) Interval90(number, steps int, bits Bits) (low, high [3]float64, err error) {
	// Of 199 sorted draws, 9 lie beyond each bound.
	const tasks, beyond = 199, 9
	var drawn [3][]float64
	for client := range tasks {
		d, err := f.durations(
			&f.classes[number],
			keyed.Hash(f.seed, keyed.Device, uint64(client)),
			client,
			0,
			steps,
			wholeBatch,
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

// Constant reports whether every client takes exactly [Fleet.Mean] for every task, is always
// available and never drops out. The length of a round then follows from Eq. 4 without any draw. It is
// false for a fleet of several classes, even if they are equal.
func (f *Fleet) Constant() bool {
	return len(f.classes) == 1 && f.classes[0].constant()
}

// constant reports whether every client of the class takes the same time for every task, is always
// available and never drops out.
func (k *class) constant() bool {
	switch {
	case k.links != nil || !k.download.fixed || !k.upload.fixed:
		return false
	case !k.step.fixed || k.std != 0 || k.cv != 0:
		return false
	case k.slow != nil || k.attackTime != nil:
		return false
	}
	neverLeaves := k.dropout == Dropout{} && k.battery == nil
	return k.presence == nil && neverLeaves
}

// check returns an error if steps or bits are negative or a phase is out of bounds (negative).
func (d Durations) check(steps int, bits Bits) error {
	switch {
	case steps < 0 || bits.Down < 0 || bits.Up < 0:
		return fmt.Errorf("%d steps and %d bits, want neither negative", steps, min(bits.Down, bits.Up))
	case d.Download >= 0 && d.Compute >= 0 && d.Upload >= 0:
		return nil
	}
	return fmt.Errorf(
		"%d steps, or a transfer of %d bits, take over %g s, three years "+
			"(bound what is drawn: at_most for seconds_per_step, at_least for download_mbps and upload_mbps)",
		steps,
		max(bits.Down, bits.Up),
		float64(maxSeconds),
	)
}

// transfer returns the nanoseconds that a transfer takes at a speed in megabits per second, -1 if
// that is out of bounds.
func transfer(bits int64, mbps float64) int64 {
	return roundDuration(float64(bits) / (mbps * 1e6) * second)
}

// nanoseconds converts seconds, rounding to the nearest integer and ties to even.
func nanoseconds(seconds float64) int64 { return int64(math.RoundToEven(seconds * second)) }

// roundDuration rounds a duration in nanoseconds to a whole number of them, ties to even. It returns -1 if the
// duration is negative, NaN, or more than maxSeconds.
func roundDuration(ns float64) int64 {
	if !(ns >= 0 && ns <= maxSeconds*second) {
		return -1
	}
	return int64(math.RoundToEven(ns))
}

// presenceOf returns the availability model of a client, nil for one that is always available, and
// the number by which the client draws from it.
func (f *Fleet) presenceOf(client int) (p Presence, number int) {
	k := &f.classes[0]
	if f.classPresence {
		k, _ = f.class(client)
	}
	return k.presence, f.presenceNumber(client)
}

// presenceNumber returns the number of the client whose availability this client has, which is its own
// unless a correlation has assigned it another. An availability that belongs to a class comes with the
// device; otherwise it is assigned by itself.
func (f *Fleet) presenceNumber(client int) int {
	if f.classPresence && len(f.devices) > 0 {
		if k, _ := f.class(client); k.ownPresence {
			return assignedNumber(f.devices, client)
		}
	}
	return assignedNumber(f.presences, client)
}

// Available reports whether a client is available at virtual time t. Times outside of 0 to 146 years
// count as the nearer one of these.
func (f *Fleet) Available(client int, t int64) bool {
	p, number := f.presenceOf(client)
	return p == nil || p.Present(f.seed, number, clamp(t))
}

// NextChange returns the time after t at which the client's availability changes, up to which it
// stays what it is at t; [Never] if it does not change within 146 years. A change very far away
// (after 4,096 periods, days or draws) may be reported too early: then nothing changes at the time
// returned.
func (f *Fleet) NextChange(client int, t int64) int64 {
	p, number := f.presenceOf(client)
	if p == nil {
		return Never
	}
	return changeOrNever(p.Change(f.seed, number, clamp(t)))
}

// changeOrNever returns t, or Never if t lies beyond the end of virtual time.
func changeOrNever(t int64) int64 {
	if t > maxTime {
		return Never
	}
	return t
}

// clamp limits t to virtual time.
func clamp(t int64) int64 { return min(max(t, 0), maxTime) }
