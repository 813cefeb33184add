package dataset

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/data/federated"
	"fedpace/data/fetch"
	"fedpace/learn"
)

func TestFetch_Line(t *testing.T) {
	for want, p := range map[string]fetch.Progress{
		"x  0 bytes of 2.0 MB  0 %":                      {Archive: "x", Total: 2e6},
		"x  1.5 MB of 2.0 MB  75 %  500.0 kB/s  1s left": {Archive: "x", Done: 15e5, Total: 2e6, Start: 5e5, Elapsed: 2 * time.Second},
		"x  2.0 GB of 2.0 GB  100 %  1.0 GB/s":           {Archive: "x", Done: 2e9, Total: 2e9, Elapsed: 2 * time.Second},
		"x  999 bytes":                                   {Archive: "x", Done: 999, Total: -1},
	} {
		of := statusOfFetch(p)
		if got := of.Line(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFetch_NextSteps(t *testing.T) {
	for _, a := range fetch.Archives {
		if next := nextStep(a.Name, filepath.Join("data", a.File)); !strings.Contains(next, "fedpace run --set task=") || !strings.Contains(next, a.File) {
			t.Errorf("%s: %s", a.Name, next)
		}
	}
	if got, want := runCommand(taskOf(federated.Info{Name: "custom data (parquet)"}), "x", learn.Samples{}), "fedpace run --set task=custom --set data=x --set model=linear --set schedule.k0=10 --set schedule.eta0=0.1 --set compute.seconds_per_step=0.01 --set network.download_mbps=20 --set network.upload_mbps=5 --set schedule.window=10 --set evaluate.every=5 --set stop.rounds=100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
