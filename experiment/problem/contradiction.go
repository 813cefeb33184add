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

// The three phases of a task, as the indices of an array with one value for each of them.
const (
	downloadPhase = iota
	computePhase
	uploadPhase
)

// CalibrationContradiction is called when a real device joins with measurements of its own speed, and
// checks them against the class of the fleet that the configuration gives the device. It returns a
// sentence for the user if a task of K_0 local steps would take the device much more or less time than
// clients of that class, and "" if they agree. client is the device's number in the run. Computing that
// was measured with another model or minibatch size than the run's is ignored.
func (p *Problem) CalibrationContradiction(client int, measured []*bus.Measured) string {
	c := &p.Config
	bits := p.DeviceBits()
	// seconds holds the duration of each phase of the task. A phase that was not measured stays NaN and
	// is left out of the comparison.
	seconds := [3]float64{math.NaN(), math.NaN(), math.NaN()}
	for _, m := range measured {
		// A time per step tells nothing about another model or another size of minibatch.
		isOfThisModel := p.Model != nil && m.Model == p.Model.String() && int(m.Batch) == c.Batch
		if isOfThisModel {
			seconds[computePhase] = m.ComputeSeconds + float64(c.Schedule.K0)*m.SecondsPerStep
		}
		// A rate of 0 was not measured. Transfers that are modelled take the time that the simulation gives
		// them, whatever the device measures, so they cannot contradict the class.
		measuredLink := m.DownloadMbps > 0 && m.UploadMbps > 0
		if measuredLink && c.Devices.Link != config.ModelledLink {
			seconds[downloadPhase] = m.DownloadSeconds + float64(bits.Down)/1e6/m.DownloadMbps
			seconds[uploadPhase] = m.UploadSeconds + float64(bits.Up)/1e6/m.UploadMbps
		}
	}
	return p.TaskContradiction(client, c.Schedule.K0, seconds)
}

// TaskContradiction returns a sentence for the user if a real device's task takes much more or less time
// than tasks of the class that the configuration gives the device; the sentence also names the class of
// the fleet that fits. It is empty if device and class agree, or if the device has no class. steps is the
// task's number of local steps, and took are the seconds of download, computing and upload, in this order,
// NaN where one is not known.
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
	for other, name := range p.Fleet.Classes() {
		// Of the classes that fit, the one whose usual time is closest to the measured one is named.
		deviation, distance, _ := p.classMismatch(other, steps, took)
		if deviation <= maxDeviation && distance < closest {
			fits = "class " + name + " fits"
			closest = distance
		}
	}
	return description + "; " + fits
}

// classMismatch compares the time that a task took with what tasks of a class of the fleet take. index is
// the class's place in the fleet. took are the seconds of the task's download, computing and upload, in this
// order, NaN for a phase that was not measured.
//
// deviation is how far the measured phases are outside of what 90 % of the class's tasks take, as a share of
// the time measured or of the time usual in the class, whichever is less. It is 0 inside, and NaN if nothing
// was measured. distance is |ln(measured time / usual time)|, by which the class closest to a task is found.
// description says in words which phase is furthest outside; it is empty if none is.
func (p *Problem) classMismatch(index, steps int, took [3]float64) (
	deviation, distance float64, description string,
) {
	class := &p.Config.Fleet[index]
	// The ends of the interval are in seconds, one for each phase, in the order of took.
	low, high, err := p.Fleet.Interval90(index, steps, p.DeviceBits())
	if err != nil {
		return math.Inf(1), 0, "no task of class " + class.Name + " is possible"
	}
	phases := [...]string{
		downloadPhase: "a download",
		computePhase:  fmt.Sprintf("a task of %d steps", steps),
		uploadPhase:   "an upload",
	}
	uncertainties := class.Uncertainty.Phases()
	totalGap := 0.0
	totalMeasured := 0.0
	totalUsual := 0.0
	largestGap := 0.0
	for phase, seconds := range took {
		// A phase that was not measured counts neither for nor against the class.
		if math.IsNaN(seconds) {
			continue
		}
		// The interval is widened by twice the uncertainty that the class states for this phase.
		widening := 1 + 2*(*uncertainties[phase])
		shortest := low[phase] / widening
		longest := high[phase] * widening
		// The gap is 0 inside the interval, and otherwise the distance in seconds to its nearer
		// end.
		gap := max(0, shortest-seconds, seconds-longest)
		totalGap += gap
		totalMeasured += seconds
		totalUsual += (shortest + longest) / 2
		// The phase that is furthest outside stands for the task in the message.
		if gap > largestGap {
			largestGap = gap
			description = fmt.Sprintf(
				"%s takes %.3g s, and %.3g to %.3g s with class %s",
				phases[phase],
				seconds,
				shortest,
				longest,
				class.Name,
			)
		}
	}
	// The smaller time is the base, so that a device far too fast stands out like one far too slow.
	deviation = totalGap / min(totalMeasured, totalUsual)
	distance = math.Abs(math.Log(totalMeasured / totalUsual))
	return deviation, distance, description
}
