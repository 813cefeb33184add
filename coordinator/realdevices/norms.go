package realdevices

import (
	"fmt"
	"math"

	"fedpace/coordinator/round"
)

// Norms are the Euclidean norms of the updates of devices, over all parameters. base gives
// the models that they started from.
func (d *Devices) Norms(tasks []round.Task, base func(version uint64) []float32) ([]float64, error) {
	norms := make([]float64, len(tasks))
	for i, t := range tasks {
		a := d.updates[t.Task]
		if a == nil {
			return nil, fmt.Errorf("realdevices: the update of task %d is accepted and not kept", t.Task)
		}
		norms[i] = distance(a.Values, d.from(base(t.Model)))
	}
	return norms, nil
}

// distance is that of a device's parameters, or of the first of them, from the model's.
func distance(values, base []float32) float64 {
	square := 0.0
	for i, x := range values {
		d := float64(x) - float64(base[i])
		square += float64(d * d)
	}
	return math.Sqrt(square)
}

// Clipped tells of the updates that are clipped to a bound, of each device once.
func (d *Devices) Clipped(tasks []round.Task, norms []float64, bound float64) {
	for i, t := range tasks {
		if device := t.Client - d.run.First; norms[i] > bound && !d.clipped[device] {
			d.clipped[device] = true
			d.notice("An update of device %s is clipped: its norm is %.3g, the bound is %.3g (devices.clip).", d.Names[device], norms[i], bound)
		}
	}
}
