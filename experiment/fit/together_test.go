package fit

import (
	"slices"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/config"
)

// A task that was faster than the overhead, which was taken from others, has a speed all the
// same: the class that comes of it can be used.
func TestTransfer_FasterThanOverhead(t *testing.T) {
	var some []task
	for i := range 40 {
		some = append(some, task{number: uint64(i), steps: 10, took: [...]float64{0.06 + 0.0001*float64(i), 0.1, 0.06}})
	}
	bits := fleet.Bits{Down: 1e6, Up: 1e6}
	l := fitTimeModel(some, fleet.Overhead{Download: 0.058, Upload: 0.01}, bits, true)
	all := append(slices.Clone(some), task{number: 40, steps: 10, took: [...]float64{0.01, 1e-6, 0.06}})
	l.useRoundFactors(all, bits, true)
	k := (&Fit{LinksMeasured: true, Together: true}).fittedClass(&config.Config{}, "", []*Device{{model: l}})
	k.Name = "pi"
	if least := slices.Min(l.phases[download].factors); !(least > 0) {
		t.Errorf("a download has the factor %g", least)
	}
	if _, err := fleet.NewFleet(fleet.Config{Network: fleet.Network{DownloadMbps: 1, UploadMbps: 1}, Fleet: []fleet.Class{k}}, 1); err != nil {
		t.Error(err)
	}
}
