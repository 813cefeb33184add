//go:build unix

package cmd

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"fedpace/actors/real"
	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
)

// Eight devices aggregate securely, and the coordinator's process is killed again and again in the
// middle of rounds. It goes on each time, and ends with the model of a run that was never killed.
func TestSecureAggregation_CoordinatorIsKilled(t *testing.T) {
	slow.Test(t, "a coordinator is killed and started again five times")
	play := func(kills []int) string {
		server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		ctx, stop := context.WithCancel(t.Context())
		var devices sync.WaitGroup
		defer devices.Wait()
		defer stop()
		for _, id := range []string{"d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8"} {
			devices.Go(func() { takePart(ctx, t, server.URL(), id) })
		}
		dir := filepath.Join(t.TempDir(), "run")
		cmd := fedpace(t, "run", "--quiet", "--nats", server.URL(), "--out", dir, "--set", "task=logistic", "--set", "clients=0",
			"--set", "cohort=fit", "--set", "devices.names=[d1, d2, d3, d4, d5, d6, d7, d8]", "--set", "schedule.k0=3",
			"--set", "stop.rounds=60", "--set", "secure_aggregation.on=true", "--set", "evaluate.every=100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, rows := range kills {
			waitForRows(t, dir, rows)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			cmd = fedpace(t, "resume", dir, "--quiet", "--nats", server.URL())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		s, err := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		if s.Outcomes[0] != 8*60 {
			t.Errorf("outcomes %v, want 480 accepted", s.Outcomes)
		}
		return *s.ModelSHA256
	}
	undisturbed := play(nil)
	if killed := play([]int{5, 14, 23, 37, 51}); killed != undisturbed {
		t.Errorf("the model is %s, of a run that was never killed %s", killed, undisturbed)
	}
}

// takePart has a real device take part until ctx ends.
func takePart(ctx context.Context, t *testing.T, url, id string) {
	conn, err := natsconn.Connect(ctx, natsconn.Config{
		URL:   url,
		Name:  id,
		Await: true,
		Slow:  true,
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	device, err := real.Open(real.Config{ID: id, Data: real.SyntheticData})
	if err != nil {
		t.Error(err)
		return
	}
	defer device.Close()
	if err := device.Work(ctx, conn); err != nil && ctx.Err() == nil {
		t.Errorf("%s: %v", id, err)
	}
}
