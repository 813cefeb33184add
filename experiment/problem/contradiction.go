package problem

import (
	"fmt"
	"math"

	"fedpace/actors/fleet"
	"fedpace/bus"
	"fedpace/config"
)

// maxDeviation is the share of its time by which a task may be outside of what tasks of its class take
// before the class is taken for a wrong one.
const maxDeviation = 0.25

// CalibrationContradiction returns a sentence about how a device's calibration contradicts its
// class, for a task of K_0 steps. It is empty if they agree. client is the device's number in the
// run, and measured is what it has measured; measurements of another model or minibatch are
// ignored.
func (p *Problem) CalibrationContradiction(client int, measured []*bus.Measured) string {
	c := &p.Config
	bits := p.DeviceBits()
	// A phase that was not measured stays NaN and is left out of the comparison.
	took := [3]float64{math.NaN(), math.NaN(), math.NaN()}
	for _, m := range measured {
		// A time per step tells nothing about another model or another size of minibatch.
		if p.Model != nil && m.Model == p.Model.String() && int(m.Batch) == c.Batch {
			// The three entries of took are download, computing and upload.
			took[1] = m.ComputeSeconds + float64(c.Schedule.K0)*m.SecondsPerStep
		}
		// Transfers that are modelled take no measured time, so they cannot contradict the class.
		if min(m.DownloadMbps, m.UploadMbps) > 0 && c.Devices.Link != config.ModelledLink {
			took[0] = m.DownloadSeconds + float64(bits.Down)/1e6/m.DownloadMbps
			took[2] = m.UploadSeconds + float64(bits.Up)/1e6/m.UploadMbps
		}
	}
	return p.TaskContradiction(client, c.Schedule.K0, took)
}

// TaskContradiction returns how the time of a real device's task contradicts its class, and which
// class fits. It is empty if they agree, or if the device has no class. steps is the task's number
// of local steps, and took are the seconds of download, computing and upload, NaN where one is not
// known.
func (p *Problem) TaskContradiction(client, steps int, took [3]float64) string {
	class := p.Fleet.DeviceClass(client)
	if class == fleet.NoClass {
		return ""
	}
	deviation, _, description := p.classMismatch(class, steps, took)
	// The deviation is NaN when nothing was measured, which is no contradiction.
	if math.IsNaN(deviation) || deviation <= maxDeviation {
		return ""
	}
	fits := "no class of the fleet fits"
	closest := math.Inf(1)
	for number, name := range p.Fleet.Classes() {
		// Of the classes that fit, the one whose usual time is closest to the measured one is named.
		deviation, distance, _ := p.classMismatch(number, steps, took)
		if deviation <= maxDeviation && distance < closest {
			fits = "class " + name + " fits"
			closest = distance
		}
	}
	return description + "; " + fits
}

// classMismatch compares a task with those of a class, which is given by its index in the fleet, number.
// took are the seconds of the task's download, computing and upload; NaN: not measured. deviation is how far
// the measured phases are outside of what 90 % of the class's tasks take, as a share of the time measured or
// of the time usual in the class, whichever is less. It is 0 inside, and NaN if nothing was measured. distance
// is |ln(measured time / usual time)|. description says in words which phase is furthest outside; it is empty
// if none is.
func (p *Problem) classMismatch(number, steps int, took [3]float64) (
	deviation, distance float64, description string,
) {
	low, high, err := p.Fleet.Interval90(number, steps, p.DeviceBits())
	if err != nil {
		return math.Inf(1), 0, "no task of class " + p.Config.Fleet[number].Name + " is possible"
	}
	class := &p.Config.Fleet[number]
	gaps := 0.0
	measured := 0.0
	usual := 0.0
	furthest := 0.0
	for i, seconds := range took {
		// A phase that was not measured counts neither for nor against the class.
		if math.IsNaN(seconds) {
			continue
		}
		// The interval is widened by twice the uncertainty that the class states for this phase.
		uncertainty := *class.Uncertainty.Phases()[i]
		widening := 1 + 2*uncertainty
		shortest := low[i] / widening
		longest := high[i] * widening
		// The gap is 0 inside the interval, and otherwise the distance in seconds to its nearer
		// end.
		gap := max(0, shortest-seconds, seconds-longest)
		gaps = gaps + gap
		measured = measured + seconds
		usual = usual + (shortest+longest)/2
		// The phase that is furthest outside stands for the task in the message.
		if gap > furthest {
			furthest = gap
			description = fmt.Sprintf(
				"%s takes %.3g s, and %.3g to %.3g s with class %s",
				[...]string{"a download", fmt.Sprintf("a task of %d steps", steps), "an upload"}[i],
				seconds,
				shortest,
				longest,
				class.Name,
			)
		}
	}
	// The smaller time is the base, so that a device far too fast stands out like one far too slow.
	return gaps / min(measured, usual), math.Abs(math.Log(measured / usual)), description
}
