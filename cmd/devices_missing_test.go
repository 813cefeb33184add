package cmd

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/folder"
)

// A run that ends without a device that was to take part says so, and names what tells why.
func TestRun_DeviceNeverJoins(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, 2, 3, "devices: {names: [absent], liveness_seconds: 1}\n")
	summary := s.end()
	if !slices.Equal(summary.DevicesMissing, []string{"absent"}) {
		t.Errorf("devices_missing is %q", summary.DevicesMissing)
	}
	if text := s.lines.String(); !strings.Contains(text, "1 of 1 devices never joined, so the run ended without them: absent") {
		t.Errorf("the run is silent about its device:\n%s", text)
	}
}

// Two devices with 10 and 30 tasks that take 0.5 and 0.2 s, predicted 1 and 1 s: 40 tasks take (5 + 6)/40
// s each, and 0.275 of the prediction.
func TestSummary_RatioOfDevices(t *testing.T) {
	device := func(tasks int, measured, predicted float64) folder.Device {
		return folder.Device{Tasks: tasks, Seconds: folder.NewPredicted(measured, predicted, predicted, predicted)}
	}
	got := devicesRatio([]folder.Device{device(10, 0.5, 1), device(30, 0.2, 1), device(5, math.NaN(), 1)})
	if want := "the devices' 40 tasks took 0.275 s each, predicted were 1 s: 0.275 of it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text := devicesRatio(nil); text != "" {
		t.Errorf("without devices: %q", text)
	}
}
