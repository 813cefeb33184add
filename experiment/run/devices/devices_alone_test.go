package devices_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"fedpace/experiment/run"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/eventlog"
)

// devicesAlone is a run of devices alone on a server of its own, with further sets.
func devicesAlone(t *testing.T, names string, sets ...string) (o run.Options, load func() []string) {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	o.NATS.URL = server.URL()
	return o, func() []string {
		return append([]string{
			"task=logistic", "clients=0", "cohort=fit", "devices.names=" + names, "logistic.features=4", "logistic.classes=2", "schedule.k0=3",
		}, sets...)
	}
}

// made answers every task at once, or after work if there is any, as the device of an id
// until ctx ends: with the task's model, a little changed, and times that follow from the
// task.
func made(ctx context.Context, url, id string, work func()) error {
	answer := func(task *bus.Task, values []float32, u *bus.Update) {
		if work != nil {
			work()
		}
		honest(task, values, u)
		u.DownloadNs, u.ComputeNs, u.UploadNs = 1e6, int64(task.LocalSteps)*1e6, 1e6
	}
	return runtest.Device{ID: id, URL: url, Samples: 20, Forgives: true, Answer: answer}.TakePart(ctx)
}

// heap is what the process holds, without garbage.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A run of weeks takes no more memory after most of its rounds than after some of them,
// and its files take what was said before it.
func TestDevicesAlone_Weeks(t *testing.T) {
	slow.NotUnderRace(t)
	rounds := 400
	if slow.On() {
		rounds = 100_000
	}
	o, sets := devicesAlone(t, "[d1, d2]", fmt.Sprint("stop.rounds=", rounds), "evaluate.every=200", "http=127.0.0.1:0", "checkpoint.seconds=1")
	c := runtest.Small(t, sets()...)
	estimate, err := run.DryRun(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, id := range []string{"d1", "d2"} {
		all.Go(func() {
			if err := made(ctx, o.NATS.URL, id, nil); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	o.Notice = func(line string) { t.Log(line) }
	quiet := func() float64 {
		if slow.On() { // NATS' client keeps a pull that is over for two heartbeats: more of them, the faster rounds are
			time.Sleep(30 * time.Second)
		}
		return heap()
	}
	var early, late float64
	o.Model = func(round int, _ []float32) {
		switch round {
		case rounds / 4:
			early = quiet()
		case rounds:
			late = quiet()
		}
	}
	s := mustRun(t, c, o)
	if s.Outcomes[0] != int64(2*rounds) {
		t.Errorf("outcomes %v, want %d accepted", s.Outcomes, 2*rounds)
	}
	if grown := late - early; grown > 1<<20 {
		t.Errorf("the run holds %.0f kB after %d rounds, and %.0f kB after %d", late/1e3, rounds, early/1e3, rounds/4)
	}
	size := func(name string) float64 {
		info, err := os.Stat(filepath.Join(c.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		return float64(info.Size())
	}
	t.Logf("heap: %.0f kB, then %.0f kB", early/1e3, late/1e3)
	near := map[string]float64{devicelog.File: 0.02, eventlog.File: 0.1, folder.RoundsFile: 0.5} // losses of 0.5 have few digits
	for _, g := range estimate.Growth {
		got := size(g.Name)
		t.Logf("%s: %.0f bytes, said were %.0f", g.Name, got, g.Bytes)
		if math.Abs(got-g.Bytes) > near[g.Name]*g.Bytes+200 {
			t.Errorf("%s has %.0f bytes, and %.0f were said", g.Name, got, g.Bytes)
		}
	}
	if len(estimate.Growth) != len(near) {
		t.Errorf("%d files are said to grow", len(estimate.Growth))
	}
	for _, name := range []string{devicelog.File, folder.RoundsFile, eventlog.File, "clients.parquet", "rounds.parquet", "page.html"} {
		t.Logf("%s: %.0f bytes, %.1f a round", name, size(name), size(name)/float64(rounds))
	}
}

// join has a device of an id answer tasks, as [made], until it is stopped.
func join(t *testing.T, url, id string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var device sync.WaitGroup
	device.Go(func() {
		if err := made(ctx, url, id, nil); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", id, err)
		}
	})
	return func() {
		cancel()
		device.Wait()
	}
}

// sameAgain holds a replay of a run to its bits.
func sameAgain(t *testing.T, dir string, want folder.Summary) {
	t.Helper()
	c, err := run.LoadReplay(dir, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	again := mustRun(t, c, run.Options{Continuation: run.Continuation{Replay: dir}})
	if again.Fingerprint != want.Fingerprint || *again.ModelSHA256 != *want.ModelSHA256 {
		t.Errorf("a replay comes to %s, %s; the run came to %s, %s", again.Fingerprint, *again.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
	}
}

// A run of devices alone waits for the first of them, and again when the last is lost,
// while its clock stands. A device that comes back takes part again.
func TestDevicesAlone_Awaited(t *testing.T) {
	t.Parallel()
	o, sets := devicesAlone(t, "[d1, d2]", "stop.rounds=60", "devices.liveness_seconds=0.5", "devices.keep_updates=true")
	c := runtest.Small(t, sets()...)
	awaits, far, left := make(chan struct{}, 100), make(chan struct{}), make(chan struct{})
	o.Notice = func(line string) {
		if line == "No device is there that can be asked: the run waits for one to join." {
			awaits <- struct{}{}
		}
	}
	o.Model = func(round int, _ []float32) {
		if round == 20 { // the run stands until the device has gone
			close(far)
			<-left
		}
	}
	var devices sync.WaitGroup
	defer devices.Wait()
	devices.Go(func() {
		<-awaits
		stop := join(t, o.NATS.URL, "d1")
		<-far
		stop()
		close(left)
		<-awaits
		for _, id := range []string{"d2", "d1"} {
			devices.Go(func() {
				if err := made(t.Context(), o.NATS.URL, id, nil); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
	})
	s := mustRun(t, c, o)
	if s.Rounds != 60 || s.Outcomes[round.Lost] != 1 {
		t.Errorf("%d rounds, outcomes %v", s.Rounds, s.Outcomes)
	}
	sameAgain(t, c.Out, s)
}

// A round that closes with the first update waits for no other, and a replay of it gives
// the same bits.
func TestDevicesAlone_UnneededDevice(t *testing.T) {
	t.Parallel()
	o, sets := devicesAlone(t, "[quick, slow]", "stop.rounds=3", "close={rule: first, n: 1}", "devices.keep_updates=true")
	c := runtest.Small(t, sets()...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	conn, err := natsconn.Connect(ctx, natsconn.Config{URL: o.NATS.URL, Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	slow, err := gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{ID: "slow", Join: &bus.Join{Name: "slow", Kernel: "go", Protocol: bus.DeviceProtocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	var devices sync.WaitGroup
	defer devices.Wait()
	devices.Go(func() {
		for {
			if _, err := slow.Next(ctx); err != nil { // it never answers
				return
			}
		}
	})
	defer join(t, o.NATS.URL, "quick")()
	s := mustRun(t, c, o)
	if s.Rounds != 3 || s.Outcomes[round.Accepted] != 3 || s.Outcomes[round.Cancelled] != 3 {
		t.Errorf("%d rounds, outcomes %v", s.Rounds, s.Outcomes)
	}
	sameAgain(t, c.Out, s)
}

// Of a table of one's own, the coordinator needs the rows that are held out alone.
func TestDevicesAlone_HeldOutOnly(t *testing.T) {
	t.Parallel()
	text := "x,y,kind,part\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,%d,%s,test\n", i, i%7, []string{"a", "b"}[i%2])
	}
	path := filepath.Join(t.TempDir(), "held.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := devicesAlone(t, "[d1]")
	c := runtest.Small(t, "task=custom", "schedule.eta0=0.3", "clients=0", "cohort=fit", "devices.names=[d1]", "model=linear", "stop.rounds=2",
		"data={path: "+path+", features: [x, y], label: kind, split: part, scale: standard}")
	defer join(t, o.NATS.URL, "d1")()
	s := mustRun(t, c, o)
	if s.Rounds != 2 || s.ValidationAccuracy == nil {
		t.Errorf("%d rounds, an accuracy of %v", s.Rounds, s.ValidationAccuracy)
	}
}

// What devices draw is known of those whose class says it.
func TestDevicesAlone_Energy(t *testing.T) {
	t.Parallel()
	o, sets := devicesAlone(t, "{d1: pi, d2: null}", "stop.rounds=3", "fleet=[{name: pi, watts: {download: 1, compute: 4, upload: 2}}]")
	c := runtest.Small(t, sets()...)
	defer join(t, o.NATS.URL, "d1")()
	defer join(t, o.NATS.URL, "d2")()
	s := mustRun(t, c, o)
	f, err := os.Open(filepath.Join(c.Out, eventlog.File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := eventlog.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for r, err := log.Round(); err == nil; r, err = log.Round() {
		for i := range r.Tasks {
			if x := &r.Tasks[i]; x.Client == 0 { // d1
				want += x.Plan.Download.Seconds()*1 + x.Plan.Compute.Seconds()*4 + x.Plan.Upload.Seconds()*2
			}
		}
	}
	if s.EnergyJoules == nil || want == 0 || math.Abs(s.EnergyJoules.Useful-want) > 1e-9 {
		t.Errorf("%+v J, want %g", s.EnergyJoules, want)
	}
}

// A device that is too long at a task is lost, and takes part again when it is done.
func TestDevicesAlone_SlowComesBack(t *testing.T) {
	t.Parallel()
	o, sets := devicesAlone(t, "[d1]", "stop.rounds=3", "devices.task_seconds=2")
	c := runtest.Small(t, sets()...)
	lost := make(chan struct{}, 100)
	o.Notice = func(line string) {
		if line == "Device d1 is lost: it has worked on one task for more than 2s (devices.task_seconds). It may join again." {
			lost <- struct{}{}
		}
	}
	var device sync.WaitGroup
	defer device.Wait()
	device.Go(func() {
		if err := made(t.Context(), o.NATS.URL, "d1", sync.OnceFunc(func() { <-lost })); err != nil {
			t.Error(err)
		}
	})
	s := mustRun(t, c, o)
	if s.Rounds != 3 || s.Outcomes[round.Lost] < 1 || s.Outcomes[round.Accepted]+s.Outcomes[round.Lost] != 3 {
		t.Errorf("%d rounds, outcomes %v", s.Rounds, s.Outcomes)
	}
}
