package run

import (
	"runtime"
	"runtime/debug"
	"testing"

	"fedpace/data/federated"
)

// held is a set of so many bytes.
type held struct {
	federated.Set
	bytes []byte
}

func (h held) Memory() int { return len(h.bytes) }

func TestGarbage_MuchData(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, c := range []struct {
		gogc          string
		data          int
		least, atMost int
	}{{"", maxGarbage / 2, 100, 100}, {"", 4 * maxGarbage, 10, 25}, {"100", 4 * maxGarbage, 100, 100}} {
		debug.SetGCPercent(100)
		t.Setenv("GOGC", c.gogc)
		data := held{bytes: make([]byte, c.data)}
		boundGarbage(data)
		runtime.KeepAlive(data)
		if got := debug.SetGCPercent(100); got < c.least || got > c.atMost {
			t.Errorf("GOGC=%q, %d bytes of data: the collector waits for %d %%, want %d to %d", c.gogc, c.data, got, c.least, c.atMost)
		}
	}
}
