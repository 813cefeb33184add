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
	drawClass uint64 = iota
	drawDownload
	drawUpload
	drawStep
	drawTrace
	drawOffset
	drawCharge
)

// class is a Class ready for use.
type class struct {
	name             string
	download, upload quantity
	step             quantity
	stepNs           int64 // exact time of a step where it is fixed
	// whether any quantity has a factor by task, and whether tasks share it that start together
	varies, shared bool
	std, cv        float64 // spread of a minibatch: seconds, and relative to the step time
	overhead       Durations
	links          linkTraces // nil: both links have speeds
	slow           Slowing    // nil: never
	presence       Presence   // nil: always
	dropout        Dropout
	battery        *battery                           // nil: on the mains
	ownPresence    bool                               // presence is the class's own
	delay          func(honest, deadline int64) int64 // nil: it does not attack by its time
}

// prepare sets the class's slowdown and presence where it is given them.
func (k *class) prepare(s Slowdown, a Availability, files *Files) (err error) {
	if s != nil {
		if k.slow, err = s.Slowing(); err != nil {
			return registry.Below("slowdown", err)
		}
	}
	if a != nil {
		k.presence, err = a.Presence(files)
	}
	return registry.Below("availability", err)
}

// quantity is a speed or step time of a client in a task.
type quantity struct {
	id, part     uint64 // purposes of the random bits of a client, and of a task
	client, vary Sampler
	fixed        bool // the same for every client and task: own.Least
	product      bool // both lognormal and without limits
}

// keys are the random bits of a client and of its task.
type keys struct{ client, task uint64 }

// draw is the quantity for a client's task.
func (q *quantity) draw(k keys) float64 {
	switch {
	case q.fixed:
		return q.client.Min
	case q.product:
		return q.lognormal(keyed.Nth(k.client, q.id), keyed.Nth(k.task, q.part))
	}
	return q.client.Quantile(keyed.Nth(k.client, q.id)) * q.factor(keyed.Nth(k.task, q.part))
}

// lognormal is the product of two lognormals for their random bits: one exponential.
func (q *quantity) lognormal(clientBits, vary uint64) float64 {
	return portable.Exp((q.client.mu + float64(q.client.sigma*portable.Normal(clientBits))) + (q.vary.mu + float64(q.vary.sigma*portable.Normal(vary))))
}

// factor is the task's alone, for its random bits.
func (q *quantity) factor(bits uint64) float64 {
	if !q.vary.isSet() {
		return 1
	}
	return q.vary.Quantile(bits)
}

// prepare checks a quantity, whose key in its class is name and whose factor's key is
// factor. A speed must stay above zero.
func (q *quantity) prepare(id uint64, name string, client Distribution, factor string, vary Distribution) error {
	q.id = id
	q.part = id
	for _, d := range []struct {
		key string
		Distribution
		sampler *Sampler
	}{{name, client, &q.client}, {"vary." + factor, vary, &q.vary}} {
		if d.Distribution == nil {
			continue
		}
		l, err := samplerOf(d.Distribution)
		if err == nil && id != drawStep && !(l.Min > 0) {
			err = registry.Errorf(
				"",
				"%s can come down to %g, and a transfer would never end (set at_least above 0)",
				Distributions.Text(d.Distribution),
				l.Min,
			)
		}
		if err != nil {
			return registry.Below(d.key, err)
		}
		*d.sampler = l
	}
	q.fixed = q.client.constant && vary == nil
	q.product = q.client.lognormal && q.vary.lognormal
	return nil
}

// compile checks a class and fills in what it has from the config: steps is the
// distribution of measured devices' step times, nil if there are none, and common
// holds the slowdown, presence and dropout of all classes. Files are not read
// where files is nil.
func (k Class) compile(c *Config, steps Distribution, common class, files *Files) (class, error) {
	compiled := class{
		name:     k.Name,
		cv:       k.StepCV,
		slow:     common.slow,
		presence: common.presence,
		dropout:  common.dropout,
	}
	compiled.overhead = Durations{
		nanoseconds(k.Overhead.Download),
		nanoseconds(k.Overhead.Compute),
		nanoseconds(k.Overhead.Upload),
	}
	var err error
	if !k.Links.isSet() && k.DownloadMbps == nil && k.UploadMbps == nil {
		k.Links = c.Network.Links
	}
	if k.Links.isSet() {
		keys := []string{"download_mbps", "upload_mbps", "vary.download", "vary.upload"}
		for i, d := range []Distribution{k.DownloadMbps, k.UploadMbps, k.Vary.Download, k.Vary.Upload} {
			if d != nil {
				return compiled, registry.Errorf(
					keys[i],
					"%s, and links are given, too (one of the two)",
					Distributions.Text(d),
				)
			}
		}
		compiled.links = linkTraces{}
		if files != nil {
			if compiled.links, err = files.links(k.Links); err != nil {
				return compiled, registry.Below("links", err)
			}
		}
	} else {
		err = cmp.Or(
			compiled.download.prepare(
				drawDownload,
				"download_mbps",
				orConstant(k.DownloadMbps, c.Network.DownloadMbps),
				"download",
				k.Vary.Download,
			),
			compiled.upload.prepare(
				drawUpload,
				"upload_mbps",
				orConstant(k.UploadMbps, c.Network.UploadMbps),
				"upload",
				k.Vary.Upload,
			))
		if err != nil {
			return compiled, err
		}
	}
	if k.SecondsPerStep == nil {
		k.SecondsPerStep = steps
	}
	if k.SecondsPerStep == nil && k.StepCV == 0 {
		compiled.std = c.Compute.Std
	}
	if err = compiled.step.prepare(
		drawStep,
		"seconds_per_step",
		orConstant(k.SecondsPerStep, c.Compute.SecondsPerStep),
		"compute",
		k.Vary.Compute,
	); err != nil {
		return compiled, err
	}
	if compiled.step.fixed {
		if compiled.step.client.Min > maxSeconds {
			return compiled, registry.Errorf("seconds_per_step", "%g is more than three years", compiled.step.client.Min)
		}
		compiled.stepNs = nanoseconds(compiled.step.client.Min)
	}
	compiled.varies = compiled.download.vary.isSet() || compiled.upload.vary.isSet() || compiled.step.vary.isSet()
	compiled.shared = k.Vary.Together
	if compiled.shared {
		if !compiled.varies {
			return compiled, registry.Errorf("vary.together", "true, and nothing varies (give download, upload or compute)")
		}
		compiled.download.part = 0
		compiled.upload.part = 0
		compiled.step.part = 0
	}
	if err := compiled.prepare(k.Slowdown, k.Availability, files); err != nil {
		return compiled, err
	}
	if k.Dropout != nil {
		compiled.dropout = *k.Dropout
	}
	compiled.ownPresence, compiled.delay = k.Availability != nil, attack.BehaviourOf(k.Attack).Time
	if k.Battery != nil {
		compiled.battery, err = k.Battery.compile(&compiled, k.Watts, files)
	}
	return compiled, registry.Below("battery", err)
}

// orConstant is a distribution, or a value where none is given.
func orConstant(d Distribution, value float64) Distribution {
	if d == nil {
		return Constant{Value: value}
	}
	return d
}

// shares turns weights, which are not negative, into limits on 64 random bits,
// for pick; all 0 counts as all equal. key is that of the list they stand in. Beside
// others only what idle says may have no weight: it is never picked.
func shares(key string, weights []float64, idle func(i int) bool) ([]uint64, error) {
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
		if w == 0 && (idle == nil || !idle(i)) {
			return nil, registry.Errorf(
				fmt.Sprintf("%s[%d].weight", key, i),
				"is not set (more than 0 where others have a weight)",
			)
		}
		upTo += w
		limits[i] = threshold(upTo / sum)
	}
	last := len(weights) - 1
	for ; weights[last] == 0; last-- {
		limits[last] = math.MaxUint64
	}
	limits[last] = math.MaxUint64
	return limits, nil
}

// pick is the index whose share 64 random bits fall into.
func pick(limits []uint64, h uint64) int {
	i, found := slices.BinarySearch(limits, h)
	if found && h != math.MaxUint64 { // a share ends just below its bound, and one without weight where it begins
		for limits[i] == h {
			i++
		}
	}
	return i
}
