package forecast_test

import (
	"math"
	"strings"
	"testing"

	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
)

// Rounds of 10 of 10 clients: the slow one of each round is a watch, and what a tenth more speed of
// some is worth follows from Eq. 3.
func TestGains_OfSpeed(t *testing.T) {
	t.Parallel()
	foreseen := func(sets ...string) forecast.Forecast {
		t.Helper()
		c := runtest.Small(t, append([]string{
			"train=false", "clients=10", "cohort=10", "stop.rounds=50", "schedule={k: fixed, k0: 10}", "compute.std=0",
			"fleet=[{name: phone, count: 9, seconds_per_step: 0.1}, {name: watch, count: 1, seconds_per_step: 0.5}]",
		}, sets...)...)
		f, err := run.DryRun(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := foreseen()
	const down, up, steps = 6.71 / 20, 6.71 / 5, 10 * 0.5
	const whole, tenth = down + up + steps, 1 - 1/1.1
	for i, want := range []forecast.Gain{
		{Change: "class watch", Waited: 1, Clients: 0.1, ShorterWithout: 1 - (down+up+10*0.1)/whole, Shorter: tenth}, {Change: "class phone", Clients: 0.9},
		{Change: "downloads", Shorter: tenth * down / whole}, {Change: "computing", Shorter: tenth * steps / whole}, {Change: "uploads", Shorter: tenth * up / whole},
	} {
		got := f.Gains[i]
		if got.Change != want.Change || math.Abs(got.Waited-want.Waited) > 1e-9 || math.Abs(got.Clients-want.Clients) > 1e-9 || math.Abs(got.ShorterWithout-want.ShorterWithout) > 1e-6 || math.Abs(got.Shorter-want.Shorter) > 1e-6 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	f = foreseen("fleet=[{name: phone, count: 9, seconds_per_step: 0.1}, {name: watch, count: 1, seconds_per_step: 0.5, slowdown: {every_seconds: 20, for_seconds: 5, factor: 4}}]")
	if watch, phone := f.Gains[0], f.Gains[1]; math.Abs(watch.Shorter-tenth) > 1e-6 || math.Abs(phone.Shorter) > 1e-6 {
		t.Errorf("spells of slowness hit other tasks: a quicker watch gives %g, a quicker phone %g", watch.Shorter, phone.Shorter)
	}
	if got := foreseen("fleet=[{name: none, weight: 0.000001}, {name: all, weight: 1}]").Gains; len(got) < 2 || got[0].Clients != 1 || got[0].ShorterWithout != 0 {
		t.Errorf("a class of all clients is left out: %+v", got)
	}
	for _, there := range []string{"always", "{model: share, share: {dist: uniform, min: 0.3, max: 0.9}, cycle_seconds: 8}"} {
		if got := foreseen("select={rule: flanp, begin: 2, rounds: 20}", "availability="+there).Gains; got[0].Change != "class phone" || got[0].ShorterWithout != 0 {
			t.Errorf("%s: the first stage has only phones, and without them rounds are shorter: %+v", there, got)
		}
	}
	if len(foreseen("fleet=[{name: any, step_cv: 0.1}]").Gains) > 0 {
		t.Error("a fleet of one class has gains")
	}
}

// Boards take 1 s for their local steps and are late at a deadline of 0.2 s, so rounds wait for them.
func TestGains_LateClass(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "clients=60", "cohort=10", "stop.rounds=100",
		"schedule={k: fixed, k0: 10}", "compute.std=0", "close={rule: deadline, seconds: 0.2}",
		"fleet=[{name: laptop, count: 38, seconds_per_step: 0.01, download_mbps: 500, upload_mbps: 500}, "+
			"{name: board, count: 22, seconds_per_step: 0.1, download_mbps: 500, upload_mbps: 500}]")
	f, err := run.DryRun(t.Context(), c, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	board := f.Gains[0]
	if board.Change != "class board" || board.Waited < 0.9 || board.Shorter != 0 || board.ShorterWithout < 0.3 {
		t.Errorf("rounds wait until the deadline for late boards: %+v", board)
	}
	if laptop := f.Gains[1]; laptop.Waited > 0.1 || laptop.Shorter > 0.01 {
		t.Errorf("few rounds wait for laptops: %+v", laptop)
	}
	if len(f.Uncounted) != 1 || f.Uncounted[0].Class != "board" {
		t.Fatalf("no update of a board would count: %+v", f.Uncounted)
	}
	var text strings.Builder
	if err := f.Write(&text); err != nil {
		t.Fatal(err)
	}
	if want := "# No update of class board counts: "; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}
