package device

import (
	"fmt"
	"math"
	"slices"

	"fedpace/internal/keyed"
)

// Class is a kind of device. What it does not give it has from the [Config].
type Class struct {
	Name   string
	Weight float64 // share of the clients, relative to the other classes'; all 0: equal shares

	// Each client's own speeds, drawn once and kept in all rounds.
	DownloadMbps   Dist
	UploadMbps     Dist
	SecondsPerStep Dist
	StepCV         float64 // standard deviation of one minibatch's time over its mean

	// Vary multiplies them by a factor drawn anew for each task.
	Vary Vary

	// Links, when given, take the place of both link speeds.
	Links *Links

	Slowdown     *Slowdown
	Availability *Availability
	Dropout      *Dropout
}

// Vary is what multiplies a client's own speeds in one task: megabits a second
// of the links, seconds of a step. A factor that is not given is 1.
type Vary struct{ Download, Upload, Compute Dist }

// Limits of classes.
const (
	maxClasses = 1000
	maxStepCV  = 100
)

// The quantities that a client draws for itself, as numbers of its key (purpose
// Device), and those that vary by task (purpose Vary, the same numbers).
const (
	ofClass uint64 = iota
	ofDownload
	ofUpload
	ofStep
	ofTrace
	ofOffset
)

// class is a Class ready for use.
type class struct {
	name             string
	weight           float64 // share of the clients, the sum of all being 1
	download, upload quantity
	step             quantity
	stepNs           int64   // exact time of a step where it is fixed
	varies           bool    // whether any quantity has a factor by task
	std, cv          float64 // of a minibatch: seconds, and relative to the step time
	links            *Links
	slow             *slowdown // nil: never
	presence         presence  // nil: always
	dropout          dropout
	about            string
}

// quantity is a speed or step time of a client in a task.
type quantity struct {
	id        uint64
	own, vary sampler
	fixed     bool // the same for every client and task
	product   bool // both lognormal and without bounds
}

// keys are the random bits of a client and of its task.
type keys struct{ client, task uint64 }

// draw is the quantity for a client's task.
func (q *quantity) draw(k keys) float64 {
	switch {
	case q.fixed:
		return q.own.a
	case q.product: // of lognormals: one exponential
		return exp((q.own.a + float64(q.own.b*normal(keyed.Nth(k.client, q.id)))) +
			(q.vary.a + float64(q.vary.b*normal(keyed.Nth(k.task, q.id)))))
	case q.vary.kind == absent:
		return q.own.at(keyed.Nth(k.client, q.id))
	}
	return q.own.at(keyed.Nth(k.client, q.id)) * q.vary.at(keyed.Nth(k.task, q.id))
}

// factor is the task's alone.
func (q *quantity) factor(k keys) float64 {
	if q.vary.kind == absent {
		return 1
	}
	return q.vary.at(keyed.Nth(k.task, q.id))
}

// newQuantity checks a quantity. A speed must stay above zero.
func newQuantity(id uint64, name string, own, vary Dist, speed bool) (quantity, error) {
	q := quantity{id: id}
	var err error
	if q.own, err = own.sampler(); err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	low := q.own.floor()
	if speed && !(low > 0) {
		return q, fmt.Errorf("%s: %s can come down to %g, and a transfer would never end: set at_least above 0", name, own, low)
	}
	if vary.given() {
		if q.vary, err = vary.sampler(); err != nil {
			return q, fmt.Errorf("vary: factor on %s: %w", name, err)
		}
		if low := q.vary.floor(); speed && !(low > 0) {
			return q, fmt.Errorf("vary: factor on %s: %s can come down to %g, and a transfer would never end: set at_least above 0", name, vary, low)
		}
	}
	q.fixed = q.own.kind == constant && q.own.a >= q.own.least && q.own.a <= q.own.most && q.vary.kind == absent
	q.product = q.own.kind == logGaussian && q.own.unbounded() && q.vary.kind == logGaussian && q.vary.unbounded()
	return q, nil
}

// compile checks a class and fills in what it has from the config.
func (k Class) compile(c *Config) (class, error) {
	out := class{name: k.Name, links: k.Links, cv: k.StepCV}
	if !k.SecondsPerStep.given() {
		k.SecondsPerStep = fixedAt(c.SecondsPerStep)
		if k.StepCV == 0 {
			out.std = c.StepStd
		}
	}
	if k.Links != nil {
		for _, d := range []struct {
			name string
			dist *Dist
		}{
			{"download_mbps", &k.DownloadMbps}, {"upload_mbps", &k.UploadMbps},
			{"vary.download", &k.Vary.Download}, {"vary.upload", &k.Vary.Upload},
		} {
			if d.dist.given() {
				return out, fmt.Errorf("%s is %s, and links are given too: want one of the two", d.name, d.dist)
			}
		}
	}
	if !k.DownloadMbps.given() {
		k.DownloadMbps = fixedAt(c.DownloadMbps)
	}
	if !k.UploadMbps.given() {
		k.UploadMbps = fixedAt(c.UploadMbps)
	}
	var err error
	if k.Links == nil {
		if out.download, err = newQuantity(ofDownload, "download_mbps", k.DownloadMbps, k.Vary.Download, true); err != nil {
			return out, err
		}
		if out.upload, err = newQuantity(ofUpload, "upload_mbps", k.UploadMbps, k.Vary.Upload, true); err != nil {
			return out, err
		}
	}
	if out.step, err = newQuantity(ofStep, "seconds_per_step", k.SecondsPerStep, k.Vary.Compute, false); err != nil {
		return out, err
	}
	out.varies = out.download.vary.kind != absent || out.upload.vary.kind != absent || out.step.vary.kind != absent
	if out.step.fixed {
		if err := within("seconds_per_step", out.step.own.a, 0, maxSeconds); err != nil {
			return out, err
		}
		out.stepNs = nanoseconds(out.step.own.a)
	}
	if err := within("step_cv", k.StepCV, 0, maxStepCV); err != nil {
		return out, err
	}
	slow, available, drop := c.Slowdown, c.Availability, c.Dropout
	if k.Slowdown != nil {
		slow = *k.Slowdown
	}
	if k.Availability != nil {
		available = *k.Availability
	}
	if k.Dropout != nil {
		drop = *k.Dropout
	}
	if out.slow, err = slow.compile(); err != nil {
		return out, fmt.Errorf("slowdown: %w", err)
	}
	if out.presence, err = available.compile(); err != nil {
		return out, fmt.Errorf("availability: %w", err)
	}
	if out.dropout, err = drop.compile(); err != nil {
		return out, fmt.Errorf("dropout: %w", err)
	}
	out.about = k.describe(out.std, slow, available, drop)
	return out, nil
}

func fixedAt(v float64) Dist { return Dist{Dist: "constant", Value: v} }

// shares turns weights into bounds on 64 random bits, for pick; all 0 counts as
// all equal.
func shares(what string, weights []float64) ([]uint64, error) {
	sum := 0.0
	for i, w := range weights {
		if err := within(fmt.Sprintf("%s[%d].weight", what, i), w, 0, maxParameter); err != nil {
			return nil, err
		}
		sum += w
	}
	if sum == 0 {
		weights = slices.Repeat([]float64{1}, len(weights))
		sum = float64(len(weights))
	}
	bounds := make([]uint64, len(weights))
	upTo := 0.0
	for i, w := range weights {
		if w == 0 {
			return nil, fmt.Errorf("%s[%d].weight is 0, want more than 0 where others have a weight", what, i)
		}
		upTo += w
		bounds[i] = threshold(upTo / sum)
	}
	bounds[len(bounds)-1] = math.MaxUint64
	return bounds, nil
}

// pick is the index whose share 64 random bits fall into.
func pick(bounds []uint64, h uint64) int {
	const few = 16
	if len(bounds) > few {
		i, found := slices.BinarySearch(bounds, h)
		if found { // a share ends just below its bound
			i++
		}
		return min(i, len(bounds)-1)
	}
	for i, b := range bounds {
		if h < b {
			return i
		}
	}
	return len(bounds) - 1
}
