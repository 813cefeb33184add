package run

import (
	"os"
	"runtime"
	"runtime/debug"

	"fedpace/actors/data/federated"
)

// mostGarbage is how much garbage waits for the collector beside much data, in bytes.
const mostGarbage = 64 << 20

// boundGarbage is called when the data are in memory: by itself the collector would wait until
// there is as much garbage as data. GOGC in the environment decides instead.
func boundGarbage(data federated.Set) {
	held, ok := data.(interface{ Memory() int })
	if !ok || held.Memory() < mostGarbage || os.Getenv("GOGC") != "" {
		return
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m) // a mapped file is data, and not of the heap
	debug.SetGCPercent(max(10, min(100, int(100*mostGarbage/m.HeapAlloc))))
}
