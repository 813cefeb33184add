//go:build unix

package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
	"fedpace/experiment/folder"
)

// killPoint is where a coordinator's process is killed: in a stage of secure aggregation of a round, just before
// a device sends its message of the stage, or just after the device has the answer. uploads is true just before
// the device sends its masked update, which comes before the message of the stage of masks.
type killPoint struct {
	round    int
	stage    bus.SecureStage
	answered bool
	uploads  bool
}

// secureMembers are the devices of a run whose coordinator is killed.
var secureMembers = []string{"d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8"}

// Eight devices aggregate securely, and the coordinator's process is killed in each stage, before and after a
// message of the stage, and before an upload. It goes on each time, and ends with the model of a run that was never
// killed.
func TestSecureAggregation_CoordinatorIsKilled(t *testing.T) {
	t.Parallel()
	expectKilled(t, []bus.SecureStage{
		bus.StageKeys, bus.StageShares, bus.StageMasked, bus.StageSurvivors, bus.StageRecovery,
	})
}

// The same holds for buffered rounds, in which the devices take their steps before.
func TestSecureAggregation_BufferedCoordinatorKilled(t *testing.T) {
	t.Parallel()
	expectKilled(t, []bus.SecureStage{
		bus.StageTrained, bus.StageKeys, bus.StageShares, bus.StageMasked, bus.StageSurvivors, bus.StageRecovery,
	}, "--set", "close={rule: buffered, n: 8}")
}

// expectKilled compares the model of a run with these flags whose coordinator is killed in each of these stages with
// that of a run that was never killed.
func expectKilled(t *testing.T, stages []bus.SecureStage, flags ...string) {
	t.Helper()
	points := []killPoint{{round: 2, stage: bus.StageMasked, uploads: true}}
	for _, stage := range stages {
		for _, answered := range []bool{false, true} {
			points = append(points, killPoint{round: 2 + 2*len(points), stage: stage, answered: answered})
		}
	}
	rounds := points[len(points)-1].round + 2
	undisturbed := playKilled(t, rounds, nil, flags...)
	if killed := playKilled(t, rounds, points, flags...); killed != undisturbed {
		t.Errorf("the model is %s, of a run that was never killed %s", killed, undisturbed)
	}
}

// playKilled plays a run of eight devices with so many rounds, the coordinator of which is killed at each of the
// points, in their order, and resumed. It returns the digest of the last model.
func playKilled(t *testing.T, rounds int, points []killPoint, flags ...string) string {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	var devices sync.WaitGroup
	defer devices.Wait()
	defer stop()
	// process is the coordinator, nil while there is none. mu guards it and the points that are left.
	var mu sync.Mutex
	var process *os.Process
	left := slices.Clone(points)
	observe := func(s real.SecureStep) {
		mu.Lock()
		defer mu.Unlock()
		step := killPoint{s.Round, s.Stage, s.Answered, s.Words != nil}
		if process == nil || len(left) == 0 || step != left[0] {
			return
		}
		left = left[1:]
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		process = nil
	}
	for _, id := range secureMembers {
		devices.Go(func() {
			d := real.Config{ID: id, Data: real.SyntheticData}
			if id == "d4" {
				d.Observe = observe
			}
			takePart(ctx, t, server.URL(), d)
		})
	}
	const name = "killed"
	dir := filepath.Join(t.TempDir(), "run")
	arguments := []string{
		"run", "--quiet", "--nats", server.URL(), "--out", dir, "--set", "name=" + name,
		"--set", "task=logistic", "--set", "clients=0", "--set", "cohort=fit", "--set", "schedule.k0=3",
		"--set", "devices.names=[" + strings.Join(secureMembers, ", ") + "]", "--set", fmt.Sprint("stop.rounds=", rounds),
		"--set", "secure_aggregation.on=true", "--set", "evaluate.every=100",
	}
	coordinator := fedpace(t, append(arguments, flags...)...)
	for kills := 0; ; kills++ {
		start(t, coordinator, func(p *os.Process) {
			mu.Lock()
			defer mu.Unlock()
			process = p
		})
		err := coordinator.Wait()
		if kills == len(points) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if err == nil {
			t.Fatalf("the run ended before it was killed at %+v", left[0])
		}
		endLease(t, server.URL(), name)
		coordinator = fedpace(t, "resume", dir, "--quiet", "--nats", server.URL())
	}
	s, err := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(len(secureMembers) * rounds); s.Outcomes[0] != want {
		t.Errorf("outcomes %v, want %d accepted", s.Outcomes, want)
	}
	return *s.ModelSHA256
}

// start starts a coordinator and passes its process to started.
func start(t *testing.T, c *exec.Cmd, started func(*os.Process)) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	started(c.Process)
}

// endLease ends the lease of a run whose coordinator is known to be dead, which its successor would otherwise wait
// for, five seconds after each kill.
func endLease(t *testing.T, url, run string) {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	// A coordinator that was killed early has none.
	err = js.DeleteKeyValue(t.Context(), "fedpace_"+run+"_lease")
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatal(err)
	}
}

// takePart has a real device take part until ctx ends.
func takePart(ctx context.Context, t *testing.T, url string, d real.Config) {
	conn, err := natsconn.Connect(ctx, natsconn.Config{
		URL:   url,
		Name:  d.ID,
		Await: true,
		Slow:  true,
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	device, err := real.Open(d)
	if err != nil {
		t.Error(err)
		return
	}
	defer device.Close()
	if err := device.Work(ctx, conn); err != nil && ctx.Err() == nil {
		t.Errorf("%s: %v", d.ID, err)
	}
}
