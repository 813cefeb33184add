package realdevices

import (
	"fedpace/bus/gateway"
	"fedpace/coordinator/round"
	"fedpace/internal/robust"
)

// earlyTasks is how many of a device's tasks tell whether its class is right, after the first, which
// prepares.
const earlyTasks = 5

// early is what a device's first tasks took: seconds by phase, of computing for one step.
type early struct {
	tasks   int
	seconds [3][]float64
}

// compareCalibration tells of a device that joins if its calibration contradicts its class.
func (d *Devices) compareCalibration(n *gateway.Event) {
	if len(n.Join.Measured) > 0 && d.Calibration != nil {
		d.contradicted(n.Device, "calibration contradicts", d.Calibration(d.run.First+n.Device, n.Join.Measured))
	}
}

// compareTask tells, once, if the medians of a device's first tasks contradict its class.
func (d *Devices) compareTask(o *openTask, plan *round.Plan) {
	e, steps := &d.early[o.device], float64(o.task.LocalSteps)
	if e.tasks++; d.Tasks == nil || d.Replay || e.tasks == 1 || e.tasks > 1+earlyTasks {
		return
	}
	var took [3]float64
	for i, seconds := range [...]float64{plan.Download.Seconds(), plan.Compute.Seconds() / steps, plan.Upload.Seconds()} {
		e.seconds[i] = append(e.seconds[i], seconds)
		took[i] = robust.Median(e.seconds[i])
	}
	if took[1] *= steps; e.tasks == 1+earlyTasks {
		d.contradicted(o.device, "first tasks contradict", d.Tasks(d.run.First+o.device, int(steps), took))
	}
}

func (d *Devices) contradicted(device int, what, how string) {
	if how != "" {
		d.notice("Device %s: its %s devices.names: %s.", d.Names[device], what, how)
	}
}
