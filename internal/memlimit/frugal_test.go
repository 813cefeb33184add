package memlimit

import (
	"runtime/debug"
	"testing"
)

// percent is the collector's present setting.
func percent() int {
	present := debug.SetGCPercent(100)
	debug.SetGCPercent(present)
	return present
}

// The setting from before is back once the last is not frugal any more, also if it was lower or off.
func TestFrugal_RestoresSetting(t *testing.T) {
	original := percent()
	defer debug.SetGCPercent(original)
	for _, c := range []struct{ before, during int }{
		{before: 100, during: frugalPercent},
		{before: frugalPercent - 1, during: frugalPercent - 1},
		{before: -1, during: -1},
	} {
		debug.SetGCPercent(c.before)
		first := Frugal()
		second := Frugal()
		first()
		// A second call of the same function changes nothing.
		first()
		if got := percent(); got != c.during {
			t.Errorf("before %d: %d during, want %d", c.before, got, c.during)
		}
		second()
		if got := percent(); got != c.before {
			t.Errorf("before %d: %d afterwards", c.before, got)
		}
	}
}
