package predict

import (
	"math"

	"fedpace/actors/clientmodel"
	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// pace is what is one device's own in a draw, besides its class.
type pace struct {
	factors  [len(phases)]float64 // on what its phases take, less their overhead
	overhead [len(phases)]round.Time
	first    [len(phases)]round.Time // besides, of its next task; then nothing
}

// paceOf draws how far a client is from its class: for each phase a lognormal factor with median
// 1, whose relative standard deviation u is what the class gives as its uncertainty. Its
// logarithm has the variance ln(1 + u²).
func paceOf(k *clientmodel.Class, seed uint64, client int) (d pace) {
	for p, u := range [...]float64{k.Uncertainty.Download, k.Uncertainty.Compute, k.Uncertainty.Upload} {
		z := portable.Normal(keyed.Hash(seed, keyed.Pace, uint64(client), uint64(p)))
		d.factors[p] = portable.Exp(math.Sqrt(portable.Log(1+float64(u*u))) * z)
	}
	d.overhead, d.first = times(k.Overhead), times(k.FirstTask)
	return d
}

// paces are those of the devices.
func (t *twin) paces(seed uint64) []pace {
	list := make([]pace, t.devices)
	for i := range list {
		list[i] = paceOf(&t.problem.Config.Fleet[t.problem.Fleet.DeviceClass(t.first+i)], seed, i)
	}
	return list
}

// times are the seconds of an overhead.
func times(o clientmodel.Overhead) (list [len(phases)]round.Time) {
	for p, seconds := range [...]float64{o.Download, o.Compute, o.Upload} {
		list[p] = round.Time(math.RoundToEven(seconds * 1e9))
	}
	return list
}

// apply makes a plan of the class one of the device. A task that ends early does so at the
// same part of its time.
func (d *pace) apply(plan *round.Plan) {
	before := plan.Total()
	for p, took := range [...]*round.Time{&plan.Download, &plan.Compute, &plan.Upload} {
		over := min(d.overhead[p], *took)
		*took = over + d.first[p] + round.Time(math.RoundToEven(d.factors[p]*float64(*took-over)))
	}
	if plan.Drops && before > 0 {
		plan.Dropout = round.Time(float64(plan.Dropout) / float64(before) * float64(plan.Total()))
	}
	d.first = [len(phases)]round.Time{}
}
