package fit

import (
	"slices"
	"testing"

	"fedpace/actors/clientmodel"
)

// A task that was faster than the overhead, which was taken from others, has a speed all the
// same: the class that comes of it can be used.
func TestATransferThatIsFasterThanTheOverhead(t *testing.T) {
	var some []task
	for i := range 40 {
		some = append(some, task{number: uint64(i), steps: 10, download: 0.06 + 0.0001*float64(i), compute: 0.1, upload: 0.06})
	}
	bits := clientmodel.Bits{Down: 1e6, Up: 1e6}
	l := lawOf(some, clientmodel.Overhead{Download: 0.058, Upload: 0.01}, bits, true)
	all := append(slices.Clone(some), task{number: 40, steps: 10, download: 0.01, compute: 1e-6, upload: 0.06})
	l.ofRounds(all, bits, true)
	k := clientmodel.Class{Name: "pi", SecondsPerStep: clientmodel.Constant{Value: 0.01}, DownloadMbps: clientmodel.Constant{Value: 1}, UploadMbps: clientmodel.Constant{Value: 1}}
	laws(&k, &l, true)
	if least := slices.Min(l.download.factors); !(least > 0) {
		t.Errorf("a download has the factor %g", least)
	}
	if _, err := clientmodel.NewFleet(clientmodel.Config{Network: clientmodel.Network{DownloadMbps: 1, UploadMbps: 1}, Fleet: []clientmodel.Class{k}}, 1); err != nil {
		t.Error(err)
	}
}
