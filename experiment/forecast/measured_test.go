package forecast

import (
	"bytes"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/data/datatest"
	"fedpace/experiment/folder"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// TestRead_MissingRounds reads runs of four rounds. From the first round on that the log lacks, rounds are left out,
// whether the log has later ones or not.
func TestRead_MissingRounds(t *testing.T) {
	for name, x := range map[string]struct {
		logged []int
		want   int
	}{
		"none":   {[]int{1, 2, 3, 4}, 4},
		"middle": {[]int{1, 2, 4}, 2},
		"last":   {[]int{1, 2, 3}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			datatest.Put(t, dir, folder.RoundsFile, []byte("round,virtual_seconds\n1,1\n2,2\n3,3\n4,4\n"))
			var log bytes.Buffer
			w, err := eventlog.NewWriter(&log, &metrics.Run{Name: "made", Clients: 1, Cohort: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, number := range x.logged {
				if err := w.Round(&metrics.Round{Report: round.Report{Round: number}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			datatest.Put(t, dir, eventlog.File, log.Bytes())
			r, err := readRecord(dir, 1)
			if err != nil || len(r.rounds) != x.want || r.skipped != 4-x.want {
				t.Errorf("%d rounds, %d left out, %v, want %d and %d", len(r.rounds), r.skipped, err, x.want, 4-x.want)
			}
		})
	}
}
