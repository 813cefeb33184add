package realdevices

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"fedpace/bus/gateway"
	"fedpace/coordinator/round"
	"fedpace/internal/robust"
)

// What a device reports of itself counts as far as the coordinator can check it: a task took no longer than
// the time until its answer, and samples and losses are within a multiple of the others'.

// The claims: numbers that devices say of themselves.
const (
	seconds = "seconds"
	samples = "samples"
	loss    = "loss"
)

// claimKey is a claim of a client.
type claimKey struct {
	client int
	claim  string
}

// Correction is a number that a device reported and that did not count as it was reported.
type Correction struct {
	Client int
	// Claim is what the number means: seconds, samples or loss.
	Claim string
	Times int
	// Told is the number that the device reported the first time.
	Told float64
	// Counted is the number that counted in place of Told.
	Counted float64
}

// correct notes that a claim of a device counts with another number than the one that it reported.
// claim names the quantity with its unit, and reason says why. A task is counted once per claim,
// however often its round is tried; with task 0 every call counts. The user gets notice the first
// time for each device and claim; the summary has the number of times.
func (d *Devices) correct(client int, claim string, task uint64, reported, counted float64, reason string) {
	key := claimKey{client, claim}
	// A round may be tried again with the same tasks, which must not count the claim twice.
	if task > 0 && d.corrected[key] == task {
		return
	}
	d.corrected[key] = task
	for i := range d.corrections {
		if c := &d.corrections[i]; c.Client == client && c.Claim == claim {
			c.Times++
			return
		}
	}
	d.corrections = append(d.corrections, Correction{client, claim, 1, reported, counted})
	// Only the first correction of a claim gets here.
	d.notice(
		"Device %s tells %.6g %s and counts with %.6g: %s. This is said once; the summary counts it.",
		d.Names[client-d.run.First],
		reported,
		claim,
		counted,
		reason,
	)
}

// observed returns how much wall time has passed at now since the task was first sent.
func (o *openTask) observed(now time.Time) round.Time { return round.Time(max(0, now.Sub(o.sent))) }

// drift is the inverse of the part by which the clocks of a device and of the coordinator may differ:
// each is slewed by at most 500 parts in a million (RFC 5905, section 11.3), so both by one in 1000.
const drift = 1000

// shortenTo shortens the durations of a task, all in one proportion, so that they total at most
// observed, the time that the task was away by the coordinator's clock, and the drift of two clocks.
// Durations that total less are not changed, since the device's message may have waited.
func shortenTo(p round.Plan, observed round.Time) round.Plan {
	limit := uint64(observed + observed/drift)
	total := uint64(p.Total())
	if total <= limit {
		return p
	}
	for _, part := range []*round.Time{&p.Download, &p.Compute, &p.Upload} {
		high, low := bits.Mul64(uint64(*part), limit)
		// The result is at most limit, because a part is at most the total.
		shortened, _ := bits.Div64(high, low, total)
		*part = round.Time(shortened)
	}
	return p
}

// countedPlan returns the durations with which the task of update n counts. A device reports how
// long its phases took. They count up to the time that the coordinator itself has waited for the
// task, so that no device gains by claiming a longer time. On a modelled link the transfers last as
// the link says.
func (d *Devices) countedPlan(n *gateway.Event, client int) round.Plan {
	u := n.Update
	reported := round.Plan{
		Download: round.Time(u.DownloadNs),
		Compute:  round.Time(u.ComputeNs),
		Upload:   round.Time(u.UploadNs),
	}
	o := d.open[u.Task]
	// A task that is not open has no answer that could be handed out.
	if o == nil {
		return round.Plan{}
	}
	plan := shortenTo(reported, o.observed(n.Arrived))
	// A task that was resumed may have been sent by the coordinator before this one: what its
	// device reports may then exceed what was observed here and yet be no lie.
	if plan != reported && !o.resumed {
		d.correct(
			client,
			seconds,
			u.Task,
			reported.Total().Seconds(),
			plan.Total().Seconds(),
			"its task was away no longer by the coordinator's clock",
		)
	}
	if d.Link != nil {
		plan.Download, plan.Upload = d.Link(client)
	}
	return plan
}

// maxRatio is the largest ratio of a device's samples to the median of the others', and of its loss to
// the coordinator's own. Among n updates of one size one Byzantine device then has at most the share
// 4/(n+3).
const maxRatio = 4

// countedSamples returns with how many samples a device counts that reports this many: at most
// devices.max_samples. Where that is not set, and a run of devices alone selects clients by their
// samples, the limit is maxRatio times the median of what the other devices have reported so far. A
// number that is lowered is noted as a correction. 0 means that the device does not report it.
func (d *Devices) countedSamples(device, reported int) int {
	d.reportedSamples[device] = reported
	if reported == 0 {
		return 0
	}
	limit := d.MaxSamples
	reason := "it has no more (devices.max_samples)"
	if limit == 0 && d.run.Selects && d.run.First == 0 {
		known := slices.DeleteFunc(slices.Sorted(slices.Values(d.reportedSamples)), func(n int) bool { return n == 0 })
		limit = maxRatio * medianOfOthers(known, reported)
		reason = ratioReason
	}
	if limit == 0 || reported <= limit {
		return reported
	}
	d.correct(d.run.First+device, samples, 0, float64(reported), float64(limit), reason)
	return limit
}

var ratioReason = fmt.Sprintf(
	"that is %d times as many as the middle one of the others has (devices.max_samples allows more)",
	maxRatio,
)

// medianOfOthers returns the lower median of a sorted list without excluded, one of its values. It is
// 0 if the list has no other value.
func medianOfOthers(sorted []int, excluded int) int {
	if len(sorted) < 2 {
		return 0
	}
	place, _ := slices.BinarySearch(sorted, excluded)
	middle := (len(sorted) - 2) / 2
	if middle >= place {
		middle++
	}
	return sorted[middle]
}

// CapSamples lowers counts, the number of samples by which each update of a round is weighed, in place:
// that of a device is at most maxRatio times the median of the other updates. It does nothing where
// devices.max_samples is set.
func (d *Devices) CapSamples(tasks []round.Task, counts []int) {
	// The cap of the configuration, where there is one, has been applied already.
	if d == nil || d.MaxSamples > 0 {
		return
	}
	// A count of 0 means that the number is not known.
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(counts)), func(n int) bool { return n == 0 })
	for i := d.Split(tasks); i < len(tasks); i++ {
		if limit := maxRatio * medianOfOthers(sorted, counts[i]); limit > 0 && counts[i] > limit {
			d.correct(tasks[i].Client, samples, tasks[i].Task, float64(counts[i]), float64(limit), ratioReason)
			counts[i] = limit
		}
	}
}

// BoundLosses lowers the losses that devices report for a round, in place. measured is the
// coordinator's own loss, on samples of its own, of the model from which the tasks start. A
// device's loss counts up to maxRatio times that, or times the median of the round's losses if that
// is larger and at least three are known. Losses decide schedules, so no device may push them up
// without a bound. losses holds one value for each task.
func (d *Devices) BoundLosses(tasks []round.Task, losses []float64, measured float64) {
	reported := slices.DeleteFunc(slices.Sorted(slices.Values(losses)), math.IsNaN)
	// With three or more losses no single device decides the lower median.
	if n := len(reported); n >= 3 {
		measured = max(measured, reported[(n-1)/2])
	}
	limit := maxRatio * measured
	// Devices' tasks come behind those of simulated clients, whose losses need no bound.
	for i := d.Split(tasks); i < len(tasks); i++ {
		if losses[i] > limit {
			d.correct(
				tasks[i].Client,
				loss,
				tasks[i].Task,
				losses[i],
				limit,
				fmt.Sprintf("that is %d times the coordinator's own for the same model", maxRatio),
			)
			losses[i] = limit
		}
	}
}

// comparedTasks is the number of a device's tasks, after the first, that are compared with what its
// class predicts.
const comparedTasks = 5

// firstTasks holds how long a device's first tasks took: for each phase the seconds of each task, those
// of computing divided by its local steps.
type firstTasks struct {
	tasks   int
	seconds [3][]float64
}

// compareWithClass compares the durations of a device's first tasks with those that its class
// predicts, and tells the user once if their medians contradict it. o is a task that has ended and
// plan holds its durations. The first task is left out, because a device loads its data then.
func (d *Devices) compareWithClass(o *openTask, plan *round.Plan) {
	e := &d.firstTasks[o.device]
	steps := float64(o.task.LocalSteps)
	e.tasks++
	if d.Tasks == nil ||
		d.Replay ||
		e.tasks == 1 ||
		e.tasks > 1+comparedTasks {
		return
	}
	var took [3]float64
	for i, seconds := range [...]float64{plan.Download.Seconds(), plan.Compute.Seconds() / steps, plan.Upload.Seconds()} {
		e.seconds[i] = append(e.seconds[i], seconds)
		took[i] = robust.Median(e.seconds[i])
	}
	// The class predicts computing for the steps of this task, so seconds a step are multiplied by them.
	took[1] *= steps
	if e.tasks == 1+comparedTasks {
		d.noticeContradiction(o.device, "first tasks contradict", d.Tasks(d.run.First+o.device, int(steps), took))
	}
}

// noticeContradiction gives notice that a measurement of a device contradicts its class in
// devices.names. An empty contradiction means that it does not, and nothing is done.
func (d *Devices) noticeContradiction(device int, measurement, contradiction string) {
	if contradiction != "" {
		d.notice("Device %s: its %s devices.names: %s.", d.Names[device], measurement, contradiction)
	}
}
