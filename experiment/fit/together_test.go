package fit

import (
	"slices"
	"testing"

	"fedpace/actors/device"
)

// A task that was faster than the overhead, which was taken from others, has a speed all the
// same: the class that comes of it can be used.
func TestATransferThatIsFasterThanTheOverhead(t *testing.T) {
	var some []task
	for i := range 40 {
		some = append(some, task{number: uint64(i), steps: 10, download: 0.06 + 0.0001*float64(i), compute: 0.1, upload: 0.06})
	}
	bits := device.Bits{Down: 1e6, Up: 1e6}
	l := lawOf(some, device.Overhead{Download: 0.058, Upload: 0.01}, bits, true)
	all := append(slices.Clone(some), task{number: 40, steps: 10, download: 0.01, compute: 1e-6, upload: 0.06})
	l.ofRounds(all, bits, true)
	k := device.Class{Name: "pi", SecondsPerStep: device.Constant{Value: 0.01}, DownloadMbps: device.Constant{Value: 1}, UploadMbps: device.Constant{Value: 1}}
	laws(&k, &l, true)
	if least := slices.Min(l.download.factors); !(least > 0) {
		t.Errorf("a download has the factor %g", least)
	}
	if _, err := device.NewFleet(device.Config{Network: device.Network{DownloadMbps: 1, UploadMbps: 1}, Fleet: []device.Class{k}}, 1); err != nil {
		t.Error(err)
	}
}
