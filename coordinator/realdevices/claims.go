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

// noteCorrection notes that a number that a device reported of itself counts as another number. claim is
// the quantity: seconds, samples or loss. reason says to the user why. A task is counted once per claim,
// however often its round is tried; with task 0 every call counts. The user is informed the first time for
// each device and claim; the run's summary has the number of times.
func (d *Devices) noteCorrection(client int, claim string, task uint64, reported, counted float64, reason string) {
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
	d.corrections = append(d.corrections, Correction{
		Client:  client,
		Claim:   claim,
		Times:   1,
		Told:    reported,
		Counted: counted,
	})
	// Only the first correction of a claim gets here.
	d.notice(
		"Device %s reports %.6g %s, and %.6g is used: %s. Shown once; the summary counts how often.",
		d.Names[d.deviceOf(client)],
		reported,
		claim,
		counted,
		reason,
	)
}

// timeAway returns how much wall time has passed at now since the task was first sent.
func (o *openTask) timeAway(now time.Time) round.Time {
	return round.Time(max(0, now.Sub(o.firstSent)))
}

// inverseClockDrift is 1 over the part by which the clocks of a device and of the coordinator may differ:
// each is slewed by at most 500 parts in a million (RFC 5905, section 11.3), so both by one in 1000.
const inverseClockDrift = 1000

// capDurations shortens the durations of a device's task, all in one proportion, so that they total at most
// what the coordinator has observed: the time for which the task was away by its clock, plus the drift of
// two clocks. If they total less they stay as they are, since the device's message may have waited.
func capDurations(plan round.Plan, observed round.Time) round.Plan {
	limit := uint64(observed + observed/inverseClockDrift)
	total := uint64(plan.Total())
	if total <= limit {
		return plan
	}
	for _, part := range []*round.Time{&plan.Download, &plan.Compute, &plan.Upload} {
		high, low := bits.Mul64(uint64(*part), limit)
		// part·limit/total in 128 bits. The quotient is at most limit, because a part is at most the total.
		shortened, _ := bits.Div64(high, low, total)
		*part = round.Time(shortened)
	}
	return plan
}

// countedPlan returns the durations with which the update in an event counts for its task; client is the
// device's client number. A device reports how long its phases took. They count up to the time that the
// coordinator itself has waited for the task, so that no device gains by claiming a longer time, and a
// lower number is noted as a correction. On a modelled link the transfers take what the model says. The
// plan is zero if the task is not open.
func (d *Devices) countedPlan(event *gateway.Event, client int) round.Plan {
	update := event.Update
	reported := round.Plan{
		Download: round.Time(update.DownloadNs),
		Compute:  round.Time(update.ComputeNs),
		Upload:   round.Time(update.UploadNs),
	}
	task := d.open[update.Task]
	// The update of a task that is not open does not count, so nobody reads its plan.
	if task == nil {
		return round.Plan{}
	}
	plan := capDurations(reported, task.timeAway(event.Arrived))
	// The device may have got the task before the run was resumed (maybeEarlier), from the process that
	// coordinated it then. It may then have worked for longer than this coordinator has waited.
	if plan != reported && !task.maybeEarlier {
		d.noteCorrection(
			client,
			seconds,
			update.Task,
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

// countedSamples returns the number of samples with which a device counts that reports this number, and
// remembers what it reported. The limit is devices.max_samples. If that is not set, and a run of devices
// alone selects clients by their samples, the limit is maxRatio times the median of what the other devices
// have reported. A number above the limit is lowered to it and noted as a correction. 0 means that the
// device does not report its samples.
func (d *Devices) countedSamples(device, reported int) int {
	d.reportedSamples[device] = reported
	if reported == 0 {
		return 0
	}
	limit := d.MaxSamples
	reason := "it has no more (devices.max_samples)"
	if limit == 0 && d.run.SelectsBySamples && d.areAlone() {
		isUnknown := func(n int) bool { return n == 0 }
		known := slices.DeleteFunc(slices.Sorted(slices.Values(d.reportedSamples)), isUnknown)
		limit = maxRatio * medianOfOthers(known, reported)
		reason = ratioReason
	}
	// A limit of 0 means that there is none.
	if limit == 0 || reported <= limit {
		return reported
	}
	d.noteCorrection(d.clientOf(device), samples, 0, float64(reported), float64(limit), reason)
	return limit
}

var ratioReason = fmt.Sprintf(
	"that is %d times as many as the middle one of the others has (devices.max_samples allows more)",
	maxRatio,
)

// medianOfOthers returns the lower median of a sorted list without one of its values, excluded. It is 0 if
// the list has no other value.
func medianOfOthers(sorted []int, excluded int) int {
	if len(sorted) < 2 {
		return 0
	}
	place, _ := slices.BinarySearch(sorted, excluded)
	// The others are len(sorted)-1 values, whose lower median has this place among them.
	middle := (len(sorted) - 2) / 2
	if middle >= place {
		middle++
	}
	return sorted[middle]
}

// CapSamples lowers in place the numbers of samples, counts, by which the updates of a round are weighed:
// that of a device counts up to maxRatio times the median of the other updates'. counts[i] belongs to
// tasks[i]; 0 means that it is not known. Nothing is done where devices.max_samples is set, which has been
// applied already.
func (d *Devices) CapSamples(tasks []round.Task, counts []int) {
	// The cap of the configuration, where there is one, has been applied already.
	if d == nil || d.MaxSamples > 0 {
		return
	}
	// A count of 0 means that the number is not known.
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(counts)), func(n int) bool { return n == 0 })
	for i := d.Split(tasks); i < len(tasks); i++ {
		if limit := maxRatio * medianOfOthers(sorted, counts[i]); limit > 0 && counts[i] > limit {
			d.noteCorrection(tasks[i].Client, samples, tasks[i].Task, float64(counts[i]), float64(limit), ratioReason)
			counts[i] = limit
		}
	}
}

// BoundLosses lowers in place the losses that devices report for a round, since losses decide schedules,
// and no device may raise them without a bound. losses[i] belongs to tasks[i]; NaN means that it is not
// known. measured is the coordinator's own loss, on held-out samples, of the model from which the tasks
// start. A device's loss counts up to maxRatio times that, or times the median of the round's known losses
// if that is larger and at least three are known.
func (d *Devices) BoundLosses(tasks []round.Task, losses []float64, measured float64) {
	known := slices.DeleteFunc(slices.Sorted(slices.Values(losses)), math.IsNaN)
	// With three or more losses no single device decides the lower median.
	if n := len(known); n >= 3 {
		measured = max(measured, known[(n-1)/2])
	}
	limit := maxRatio * measured
	// Devices' tasks come behind those of simulated clients, whose losses need no bound.
	for i := d.Split(tasks); i < len(tasks); i++ {
		if losses[i] > limit {
			d.noteCorrection(
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

// compareWithClass compares the durations of a device's first tasks with those that its class predicts, and
// informs the user once if their medians contradict the class. task is one that has ended, and plan has its
// durations. The very first task is left out, because the device loads its data then.
func (d *Devices) compareWithClass(task *openTask, plan *round.Plan) {
	first := &d.firstTasks[task.device]
	steps := float64(task.task.LocalSteps)
	first.tasks++
	isCompared := first.tasks > 1 && first.tasks <= 1+comparedTasks
	if d.Tasks == nil || d.Replay || !isCompared {
		return
	}
	// Tasks may have different numbers of local steps, so computing is compared by the seconds of one step.
	const computing = 1
	phases := [3]float64{plan.Download.Seconds(), plan.Compute.Seconds() / steps, plan.Upload.Seconds()}
	var medians [3]float64
	for phase, seconds := range phases {
		first.seconds[phase] = append(first.seconds[phase], seconds)
		medians[phase] = robust.Median(first.seconds[phase])
	}
	// The user is informed after the last of the compared tasks, if at all. The class predicts computing for all
	// steps of a task, here of this one.
	medians[computing] *= steps
	isLast := first.tasks == 1+comparedTasks
	if isLast {
		d.noticeContradiction(
			task.device,
			"first tasks contradict",
			d.Tasks(d.clientOf(task.device), int(steps), medians),
		)
	}
}

// noticeContradiction informs the user that a measurement of a device contradicts the class that
// devices.names gives it. contradiction says how, in words; nothing is done if it is empty. measurement is
// the subject and the verb of the sentence, such as "calibration contradicts".
func (d *Devices) noticeContradiction(device int, measurement, contradiction string) {
	if contradiction != "" {
		d.notice("Device %s: its %s devices.names: %s.", d.Names[device], measurement, contradiction)
	}
}
