package run

import (
	"os"
	"runtime"
	"runtime/debug"
)

// mostGarbage is how much garbage waits for the collector beside much data.
const mostGarbage = 64 << 20

// boundGarbage is called when the data are in memory: by itself the collector would wait until
// there is as much garbage as data. GOGC in the environment decides instead.
func boundGarbage() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > mostGarbage && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(10, int(100*mostGarbage/m.HeapAlloc)))
	}
}
