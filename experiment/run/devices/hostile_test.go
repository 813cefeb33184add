package devices_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/experiment/run"

	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// lies change what a device sends: its values, and what it tells of them.
type lies func(task *bus.Task, values []float32, u *bus.Update)

// honest moves one parameter by a millionth.
func honest(_ *bus.Task, values []float32, u *bus.Update) {
	values[0] += 1e-6
	u.ComputeNs, u.FirstStepLoss, u.Samples = 1, 0.5, 20
}

// crowd has devices take part until the test is over.
func crowd(t *testing.T, url string, devices map[string]lies) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for id, change := range devices {
		all.Go(func() {
			if err := (runtest.Device{ID: id, URL: url, Forgives: true, Waits: true, Answer: change}).TakePart(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	t.Cleanup(func() { stop(); all.Wait() })
}

// together is a run of devices alone, each of which does what it does.
func together(t *testing.T, devices map[string]lies, names string, sets ...string) (folder.Summary, string) {
	t.Helper()
	o, all := devicesAlone(t, names, append([]string{"devices.keep_updates=true", "devices.clip=null"}, sets...)...)
	c := runtest.Small(t, all()...)
	crowd(t, o.NATS.URL, devices)
	return mustRun(t, c, o), c.Out
}

// corrected is what a summary says of a device's claims of one kind.
func corrected(s folder.Summary, device, claim string) (c folder.Correction) {
	for _, x := range s.Corrected {
		if x.Device == device && x.Claim == claim {
			c = x
		}
	}
	return c
}

// However long a device says that it took, its task has not taken longer than it was away. The
// updates count, so the model is that of devices that tell the truth.
func TestDevice_LongAbsence(t *testing.T) {
	t.Parallel()
	long := func(task *bus.Task, values []float32, u *bus.Update) {
		honest(task, values, u)
		u.DownloadNs, u.ComputeNs, u.UploadNs = 1e11, 2e11, 1e11
	}
	s, dir := together(t, map[string]lies{"d1": honest, "evil": long}, "[d1, evil]")
	if s.VirtualSeconds > 1.001*s.WallSeconds || s.Outcomes[round.Accepted] != 12 {
		t.Errorf("%g virtual seconds in %g of the clock on the wall, outcomes %v", s.VirtualSeconds, s.WallSeconds, s.Outcomes)
	}
	if c := corrected(s, "evil", "seconds"); c.Times != 6 || c.Reported != 400 || !(c.Counted > 0 && c.Counted < s.WallSeconds) || len(s.Corrected) != 1 {
		t.Errorf("corrected are %+v", s.Corrected)
	}
	truth, _ := together(t, map[string]lies{"d1": honest, "evil": honest}, "[d1, evil]")
	if *truth.ModelSHA256 != *s.ModelSHA256 {
		t.Error("the model is not that of honest devices")
	}
	sameAgain(t, dir, s)
}

// One of four devices that claims all samples of the world has at most four sevenths of the
// weight, and none more than it is allowed.
func TestDevice_ModelTakeover(t *testing.T) {
	t.Parallel()
	greedy := func(task *bus.Task, values []float32, u *bus.Update) {
		honest(task, values, u)
		values[1]++
		u.Samples = 1 << 24
	}
	for set, share := range map[string]float64{"devices.max_samples=0": 4. / 7, "devices.max_samples=10": 1. / 4} {
		o, all := devicesAlone(t, "[d1, d2, d3, evil]", "aggregate.weights=samples", "devices.clip=null", "stop.rounds=1", set)
		c := runtest.Small(t, all()...)
		crowd(t, o.NATS.URL, map[string]lies{"d1": honest, "d2": honest, "d3": honest, "evil": greedy})
		var first []float32
		o.Model = func(_ int, params []float32) { first = params }
		s := mustRun(t, c, o)
		if got := float64(first[1]); math.Abs(got-share) > 1e-6 {
			t.Errorf("%s: it moves a parameter by %g of what it wants, want %g", set, got, share)
		}
		if x := corrected(s, "evil", "samples"); x.Reported != 1<<24 || x.Counted != 80 && x.Counted != 10 {
			t.Errorf("%s: corrected are %+v", set, s.Corrected)
		}
	}
}

// What one of two devices tells of its loss moves K_r little: the coordinator measures the
// model itself, and takes four times its own loss at most.
func TestDevice_LossMovesKLittle(t *testing.T) {
	t.Parallel()
	for what, lie := range map[string]func(round uint32) float64{
		"too high at first": func(round uint32) float64 {
			if round == 1 {
				return 1e6
			}
			return 0.5
		},
		"too high always": func(uint32) float64 { return 1e6 },
		"too low":         func(uint32) float64 { return 0 },
	} {
		liar := func(task *bus.Task, values []float32, u *bus.Update) {
			honest(task, values, u)
			u.FirstStepLoss = lie(task.Round)
		}
		s, dir := together(t, map[string]lies{"d1": honest, "evil": liar}, "[d1, evil]", "schedule={k: error, k0: 27, window: 1, f0: first}")
		rounds, err := runtest.ReadRounds(filepath.Join(dir, folder.RoundsFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rounds {
			if r.LocalSteps < 9 || r.LocalSteps > 81 {
				t.Errorf("%s: K is %d in round %d, want about 27", what, r.LocalSteps, r.Round)
			}
		}
		sameAgain(t, dir, s)
	}
}

// A device whose update makes the model diverge is banned, and the round is done without it:
// the model is that of the others, also if the run is stopped and goes on. One whose update is
// larger and does no harm stays: the same on top of the logits of all classes changes nothing. What
// devices did is logged, and the run can be replayed, also without an events.log.
func TestDevice_Diverging(t *testing.T) {
	t.Parallel()
	const classes = 62
	shifts := func(first, count int) lies {
		return func(task *bus.Task, values []float32, u *bus.Update) {
			honest(task, values, u)
			for i := range count {
				if task.Round == 1 {
					values[len(values)-classes+first+i] += 1e5
				}
			}
		}
	}
	devices := map[string]lies{"d1": honest, "d2": shifts(0, classes), "d3": honest, "d4": honest, "evil": shifts(7, 1)}
	prepare := func(names string) (config.Config, run.Options) {
		o, _ := devicesAlone(t, names)
		crowd(t, o.NATS.URL, devices)
		return runtest.Small(t, "clients=0", "cohort=fit", "devices.names="+names, "devices.keep_updates=true", "devices.clip=null", "devices.robust=false", "stop.rounds=5", "evaluate.samples=100", "events.sample=off"), o
	}
	c, o := prepare("[d1, d2, d3, d4, evil]")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	interrupted := o
	interrupted.Model = func(round int, _ []float32) {
		if round == 3 {
			stop()
		}
	}
	if _, err := run.Run(ctx, c, interrupted); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r, err := run.Resume(t.Context(), c.Out, o)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary
	if !s.Completed || len(s.Banned) != 1 || s.Banned[0].Device != "evil" || !strings.Contains(s.Banned[0].Reason, "its update of round 1 made the model diverge") {
		t.Errorf("banned are %+v", s.Banned)
	}
	if l, err := devicelog.Open(c.Out); err != nil || len(l.Bans()) != 1 || l.Bans()[0].Client != 4 {
		t.Errorf("devices.log has other bans: %v", err)
	}
	alone, o := prepare("[d1, d2, d3, d4]")
	if others := mustRun(t, alone, o); *others.ModelSHA256 != *s.ModelSHA256 {
		t.Error("the model is not that of the others")
	}
	sameAgain(t, c.Out, s)
}

// A device that shows that it lives and keeps its task holds the run no longer than it may: the round
// closes without it, and it has no place in the run for two minutes.
func TestDevice_PoliteLosesPlace(t *testing.T) {
	t.Parallel()
	polite := func(*bus.Task, []float32, *bus.Update) { <-t.Context().Done() }
	s, dir := together(t, map[string]lies{"d1": honest, "evil": polite}, "[d1, evil]", "devices.quota.held_seconds=0.5")
	if len(s.Banned) != 1 || s.Banned[0].Device != "evil" || s.Banned[0].Seconds != 120 || !strings.Contains(s.Banned[0].Reason, "held_seconds") || s.Outcomes[round.Accepted] != 6 {
		t.Errorf("banned are %+v, outcomes %v", s.Banned, s.Outcomes)
	}
	sameAgain(t, dir, s)
}

// A device whose ban ends takes part again: the run calls it, and its updates count.
func TestBan_Ends(t *testing.T) {
	t.Parallel()
	tasks, back := 0, make(chan struct{})
	evil := func(task *bus.Task, values []float32, u *bus.Update) {
		honest(task, values, u)
		if tasks++; tasks <= 2 {
			values[0] = float32(math.NaN())
		}
		if tasks == 3 {
			close(back)
		}
	}
	patient := func(task *bus.Task, values []float32, u *bus.Update) {
		honest(task, values, u)
		if task.Round > 2 { // until the other is back the run takes five seconds
			select {
			case <-back:
			case <-time.After(25 * time.Millisecond):
			}
		}
	}
	s, dir := together(t, map[string]lies{"d1": patient, "evil": evil}, "[d1, evil]",
		"stop.rounds=200", "evaluate.every=100", "devices.quota.refused_tasks=2", "devices.quota.ban_seconds=0.05")
	if len(s.Banned) != 1 || s.Banned[0].Device != "evil" || s.Banned[0].Seconds != 0.05 || s.Outcomes[round.Refused] < 2 {
		t.Errorf("banned are %+v, outcomes %v", s.Banned, s.Outcomes)
	}
	if s.Outcomes[round.Accepted] <= 200 {
		t.Errorf("outcomes %v: the device is not back", s.Outcomes)
	}
	sameAgain(t, dir, s)
}

// A run of devices alone of which every one is banned for good ends, and says why: nobody can join
// it any more.
func TestBan_AllDevices(t *testing.T) {
	t.Parallel()
	broken := func(task *bus.Task, values []float32, u *bus.Update) {
		honest(task, values, u)
		values[1] = float32(math.NaN())
	}
	o, all := devicesAlone(t, "[d1, d2]", "devices.quota.refused_tasks=3", "stop.rounds=1000000")
	crowd(t, o.NATS.URL, map[string]lies{"d1": broken, "d2": broken})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err := run.Run(ctx, runtest.Small(t, all()...), o)
	if want := "no device is left that may take part: the last to be banned was "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the run ends with %v, want %q", err, want)
	}
}
