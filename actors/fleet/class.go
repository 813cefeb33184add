package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/attack"
	"fedpace/internal/keyed"
	"fedpace/internal/portable"
	"fedpace/registry"
)

// The quantities that a client draws for itself, as numbers of its key (purpose
// Device), and those that vary by task (purpose Vary, the same numbers).
const (
	// drawClass is the number of the draw that chooses the class of a device. The others belong to the
	// quantity or option of that name.
	drawClass uint64 = iota
	drawDownload
	drawUpload
	drawStep
	drawTrace
	drawOffset
	drawCharge
)

// class is a Class checked and ready for use.
type class struct {
	// name is the class's name in the configuration, "" for one without a name.
	name string
	// download and upload are the link's speeds in Mbit/s, and step is the time of a local step in seconds.
	download, upload quantity
	step             quantity
	// stepNs is the exact time of a local step in nanoseconds, if step is fixed.
	stepNs int64
	// varies says that some quantity has a factor drawn for each task. shared says that all tasks which
	// start at the same time have the same draw.
	varies, shared bool
	// std and cv are the standard deviation of a local step's time: in seconds, and relative to its
	// mean.
	std, cv  float64
	overhead Durations
	// links are the link traces of its clients. Nil means that both directions have constant speeds.
	links linkTraces
	// slow is how its clients become slow for a while. Nil means never.
	slow Slowing
	// presence is when its clients are available. Nil means always.
	presence Presence
	dropout  Dropout
	// battery is nil for devices on mains power.
	battery *battery
	// ownPresence says that the class has an availability of its own, instead of that of all clients.
	ownPresence bool
	// attackTime returns how long an attacker takes for a task, at least the honest time; deadline is that of the
	// round, 0 for none. All are nanoseconds. Nil means that the class does not attack by its time.
	attackTime func(honest, deadline int64) int64
}

// prepare sets the class's slowdown from s and its availability from a, for which files may be read. If
// one of the two is nil, the class keeps what it has.
func (k *class) prepare(slowdown Slowdown, availability Availability, files *Files) (err error) {
	if slowdown != nil {
		k.slow, err = slowdown.Slowing()
		if err != nil {
			return registry.Below("slowdown", err)
		}
	}
	if availability != nil {
		k.presence, err = availability.Presence(files)
	}
	return registry.Below("availability", err)
}

// quantity is a speed or step time: the product of the client's own draw, which stays in all
// rounds, and a factor drawn for each task.
type quantity struct {
	// clientDraw numbers the client's random bits for this quantity, and taskDraw those of a task.
	clientDraw, taskDraw uint64
	// client is the distribution of the client's own value, and vary that of the factor by task.
	client, vary Sampler
	// fixed says that the value is the same for every client and task, client.Min.
	fixed bool
	// isLognormalProduct says that both distributions are lognormal without bounds, so that one exponential gives
	// the product.
	isLognormalProduct bool
}

// keys are the random bits of a client's device and of one of its tasks.
type keys struct{ client, task uint64 }

// draw returns the quantity for one task of one client, whose random bits follow from the keys k:
// the client's own value times the factor of the task.
func (q *quantity) draw(k keys) float64 {
	switch {
	case q.fixed:
		return q.client.Min
	// The product of two lognormal values is computed by one exponential.
	case q.isLognormalProduct:
		return q.lognormal(keyed.Nth(k.client, q.clientDraw), keyed.Nth(k.task, q.taskDraw))
	}
	return q.client.Quantile(keyed.Nth(k.client, q.clientDraw)) * q.factor(keyed.Nth(k.task, q.taskDraw))
}

// lognormal returns the product of two unbounded lognormal draws for their random bits, computed as
// one exponential of the sum of the logarithms.
func (q *quantity) lognormal(clientBits, vary uint64) float64 {
	clientLog := q.client.mu + float64(q.client.sigma*portable.Normal(clientBits))
	taskLog := q.vary.mu + float64(q.vary.sigma*portable.Normal(vary))
	return portable.Exp(clientLog + taskLog)
}

// factor returns the factor on the client's own value in one task, drawn by the random bits of the task. It is 1 if the
// quantity does not vary by task.
func (q *quantity) factor(bits uint64) float64 {
	if !q.vary.isSet() {
		return 1
	}
	return q.vary.Quantile(bits)
}

// prepare checks both distributions of a quantity and prepares them: client is that of the client's own
// value, and vary that of the factor by task. Either may be nil, and is left out then. id is the number of
// the quantity's draws, such as drawStep; where tasks share a draw, prepareSharing changes that of the factor
// afterwards. clientKey is the configuration key of client, and vary.phase that of vary, both for error messages.
func (q *quantity) prepare(id uint64, clientKey string, client Distribution, phase string, vary Distribution) error {
	q.clientDraw = id
	q.taskDraw = id
	for _, part := range []struct {
		key          string
		distribution Distribution
		sampler      *Sampler
	}{{clientKey, client, &q.client}, {"vary." + phase, vary, &q.vary}} {
		if part.distribution == nil {
			continue
		}
		sampler, err := samplerOf(part.distribution)
		// A step may take no time, but a transfer at speed zero would never end.
		if err == nil && id != drawStep && !(sampler.Min > 0) {
			err = registry.Errorf(
				"",
				"%s can come down to %g, and a transfer would never end (set at_least above 0)",
				Distributions.Text(part.distribution),
				sampler.Min,
			)
		}
		if err != nil {
			return registry.Below(part.key, err)
		}
		*part.sampler = sampler
	}
	// A fixed quantity needs no random bits at all.
	q.fixed = q.client.constant && vary == nil
	q.isLognormalProduct = q.client.lognormal && q.vary.lognormal
	return nil
}

// compile checks a class and returns it prepared for use, with what it does not give filled in from
// the configuration c. steps is the distribution of measured devices' step times, nil if no devices
// were measured. common holds the slowdown, availability and dropout that apply to all classes.
// With nil files no file is read, and the result is good for checks only.
func (k Class) compile(c *Config, steps Distribution, common class, files *Files) (class, error) {
	compiled := class{
		name:        k.Name,
		cv:          k.StepCV,
		slow:        common.slow,
		presence:    common.presence,
		ownPresence: k.Availability != nil,
		dropout:     common.dropout,
		attackTime:  attack.BehaviourOf(k.Attack).Time,
		overhead: Durations{
			Download: nanoseconds(k.Overhead.Download),
			Compute:  nanoseconds(k.Overhead.Compute),
			Upload:   nanoseconds(k.Overhead.Upload),
		},
	}
	// What the class gives itself replaces what applies to all.
	if k.Dropout != nil {
		compiled.dropout = *k.Dropout
	}
	// Transfers and steps are prepared first, because sharing looks at them.
	if err := compiled.prepareTransfers(k, c.Network, files); err != nil {
		return compiled, err
	}
	if err := compiled.prepareSteps(k, c.Compute, steps); err != nil {
		return compiled, err
	}
	if err := compiled.prepareSharing(k.Vary.Together); err != nil {
		return compiled, err
	}
	if err := compiled.prepare(k.Slowdown, k.Availability, files); err != nil {
		return compiled, err
	}
	// The battery comes last, because its charging may follow the availability.
	if k.Battery == nil {
		return compiled, nil
	}
	var err error
	compiled.battery, err = k.Battery.compile(&compiled, k.Watts, files)
	return compiled, registry.Below("battery", err)
}

// prepareTransfers sets the class's link traces or speeds. A class that gives neither has those of
// network. Traces and speeds exclude each other.
func (k *class) prepareTransfers(c Class, network Network, files *Files) error {
	givesSpeed := c.DownloadMbps != nil || c.UploadMbps != nil
	links := c.Links
	if !links.isSet() && !givesSpeed {
		links = network.Links
	}
	if links.isSet() {
		return k.prepareLinks(c, links, files)
	}
	download := orConstant(c.DownloadMbps, network.DownloadMbps)
	upload := orConstant(c.UploadMbps, network.UploadMbps)
	return cmp.Or(
		k.download.prepare(drawDownload, "download_mbps", download, "download", c.Vary.Download),
		k.upload.prepare(drawUpload, "upload_mbps", upload, "upload", c.Vary.Upload),
	)
}

// prepareLinks sets the class's link traces, and refuses speeds and factors on them, which traces
// replace. If files is nil, as when a configuration is only checked, no file is read: the class gets an empty list of
// traces, and no task can be simulated with it.
func (k *class) prepareLinks(c Class, links Links, files *Files) (err error) {
	keys := []string{"download_mbps", "upload_mbps", "vary.download", "vary.upload"}
	replaced := []Distribution{c.DownloadMbps, c.UploadMbps, c.Vary.Download, c.Vary.Upload}
	for i, d := range replaced {
		if d != nil {
			return registry.Errorf(keys[i], "%s, and links are given, too (one of the two)", Distributions.Text(d))
		}
	}
	k.links = linkTraces{}
	if files == nil {
		return nil
	}
	k.links, err = files.links(links)
	return registry.Below("links", err)
}

// prepareSteps sets the distribution of a local step's time: the class's own, that of measured
// devices (steps), or the constant of compute, in this order. The standard deviation of compute
// belongs to its constant alone.
func (k *class) prepareSteps(c Class, compute Compute, steps Distribution) error {
	if c.SecondsPerStep == nil {
		c.SecondsPerStep = steps
	}
	if c.SecondsPerStep == nil && c.StepCV == 0 {
		k.std = compute.Std
	}
	seconds := orConstant(c.SecondsPerStep, compute.SecondsPerStep)
	if err := k.step.prepare(drawStep, "seconds_per_step", seconds, "compute", c.Vary.Compute); err != nil {
		return err
	}
	// A fixed step time is also kept in nanoseconds, by which steps are multiplied exactly.
	if !k.step.fixed {
		return nil
	}
	// All values of a fixed quantity are the same, so the smallest is the step time.
	fixedSeconds := k.step.client.Min
	if fixedSeconds > maxSeconds {
		return registry.Errorf("seconds_per_step", "%g is more than three years", fixedSeconds)
	}
	k.stepNs = nanoseconds(fixedSeconds)
	return nil
}

// prepareSharing notes whether factors vary by task, and whether tasks that start at the same time, and all
// phases of each, share one draw of the factors (vary.together). Sharing without a factor that varies is
// an error.
func (k *class) prepareSharing(shared bool) error {
	k.varies = k.download.vary.isSet() || k.upload.vary.isSet() || k.step.vary.isSet()
	k.shared = shared
	if !shared {
		return nil
	}
	if !k.varies {
		return registry.Errorf("vary.together", "true, and nothing varies (give download, upload or compute)")
	}
	// Quantities with the same taskDraw take their factor from the same random bits of a task.
	k.download.taskDraw = 0
	k.upload.taskDraw = 0
	k.step.taskDraw = 0
	return nil
}

// orConstant returns the distribution d, or that of the constant value if d is nil.
func orConstant(d Distribution, value float64) Distribution {
	if d == nil {
		return Constant{Value: value}
	}
	return d
}

// shares turns weights, none negative, into ascending upper limits on 64 random bits for [pick], so
// that index i is picked with a probability in proportion to its weight. If all weights are 0 they
// count as equal. Otherwise a weight of 0 is an error unless mayBeZero returns true for its index; such an
// entry is never picked. mayBeZero may be nil, which allows none. key names the list in errors.
func shares(key string, weights []float64, mayBeZero func(i int) bool) ([]uint64, error) {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		weights = slices.Repeat([]float64{1}, len(weights))
		sum = float64(len(weights))
	}
	limits := make([]uint64, len(weights))
	upTo := 0.0
	for i, w := range weights {
		if w == 0 && (mayBeZero == nil || !mayBeZero(i)) {
			return nil, registry.Errorf(
				fmt.Sprintf("%s[%d].weight", key, i),
				"is not set (more than 0 where others have a weight)",
			)
		}
		upTo += w
		limits[i] = threshold(upTo / sum)
	}
	// Rounding may leave the last limits just below the maximum: the last entry with a weight takes all
	// bits that remain.
	last := len(weights) - 1
	for ; weights[last] == 0; last-- {
		limits[last] = math.MaxUint64
	}
	limits[last] = math.MaxUint64
	return limits, nil
}

// pick returns the index of the share that 64 random bits fall into, for limits made by shares: entry i has the
// bits from limits[i-1] to just below limits[i].
func pick(limits []uint64, bits uint64) int {
	i, found := slices.BinarySearch(limits, bits)
	// A share ends just below its limit, so bits equal to a limit belong to the next share with a
	// weight. The largest value, which is the last limit, belongs to the last share itself.
	if found && bits != math.MaxUint64 {
		for limits[i] == bits {
			i++
		}
	}
	return i
}
