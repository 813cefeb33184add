package realdevices

import "testing"

// A run that begins waits for the devices that are still to come, not for one that joined and has left, nor for
// one that is banned: it would stand still for as long as a device may be silent.
func TestGathered_LeftAndBannedDevices(t *testing.T) {
	d := &Devices{
		banned:  []bool{true, false, false, false},
		gone:    []bool{false, true, false, false},
		arrived: []arrival{{device: 2}, {device: 2}},
	}
	if got := d.settledCount(); got != 3 {
		t.Errorf("%d of 4 devices are gathered, want 3: one banned, one gone, one joined", got)
	}
}
