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

// mapped is a set of samples in a mapped file: the heap holds none of them.
type mapped struct{ federated.Set }

func (mapped) Memory() int { return 4 * maxGarbage }

// Beside a mapped file as much garbage may wait as beside data in memory, however small the heap is.
func TestGarbage_MappedData(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	want := max(10, min(400, int(100*maxGarbage/m.HeapAlloc)))
	boundGarbage(mapped{})
	// Other tests may leave or free some memory between the two looks at the heap.
	if got := debug.SetGCPercent(100); got < want/2 || got > 2*want {
		t.Errorf("the collector waits for %d %%, want about %d", got, want)
	}
}
