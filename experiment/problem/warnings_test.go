package problem_test

import (
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/data/datatest"
	"fedpace/experiment/problem"
)

// TestPrepare_Warnings has held-out samples of classes that training samples lack: the
// user is told before the run begins.
func TestPrepare_Warnings(t *testing.T) {
	for name, told := range map[string]bool{"r": true, "q": false} {
		rows := "who,x,y,split\na,1,p,train\nb,2,q,train\na,3," + name + ",test\n"
		path := datatest.Put(t, t.TempDir(), "own.csv", []byte(rows))
		c, err := config.LoadFiles(nil, []string{
			"task=custom",
			"model=linear",
			"data={path: " + path + ", client: who, features: [x], label: y, split: split}",
			"schedule={k0: 2, eta0: 0.1}",
			"compute.seconds_per_step=0.01",
			"network={download_mbps: 20, upload_mbps: 5}",
			"cohort=2",
			"stop.rounds=1",
		})
		if err != nil {
			t.Fatal(err)
		}
		var notices []string
		p, err := problem.Prepare(t.Context(), c, false, func(line string) { notices = append(notices, line) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		isTold := slices.ContainsFunc(notices, func(line string) bool {
			return strings.HasPrefix(line, "Data: no held-out sample has a class that a training sample has")
		})
		if isTold != told {
			t.Errorf("a held-out %s: %q", name, notices)
		}
	}
}
