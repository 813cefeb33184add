package run

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGarbageIsBoundBesideMuchData(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, c := range []struct {
		gogc          string
		data          int
		least, atMost int
	}{{"", 0, 100, 100}, {"", 256 << 20, 10, 25}, {"100", 256 << 20, 100, 100}} {
		debug.SetGCPercent(100)
		t.Setenv("GOGC", c.gogc)
		data := make([]byte, c.data)
		boundGarbage()
		runtime.KeepAlive(data)
		if got := debug.SetGCPercent(100); got < c.least || got > c.atMost {
			t.Errorf("GOGC=%q, %d bytes of data: the collector waits for %d %%, want %d to %d", c.gogc, c.data, got, c.least, c.atMost)
		}
	}
}
