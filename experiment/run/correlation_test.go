package run

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// tied are clients whose speed and availability follow their data.
var tied = []string{
	"train=false", "clients=400", "cohort=40", "stop.rounds=12", "correlation.speed={spearman: -0.8, with: samples}", "correlation.availability={spearman: 0.5, with: entropy}",
	"availability={model: share, share: {dist: uniform, min: 0.3, max: 0.9}, cycle_seconds: 20}", "dropout={when_unavailable: true}",
	"fleet=[{name: any, seconds_per_step: {dist: lognormal, mean: 0.1, sigma: 1}, watts: 2, battery: {joules: 6, charge_watts: 0.3}}]",
}

// Hosts plan with the device, the availability and the charge that the coordinator
// names, and what a task takes of a battery is what is missing from it later.
func TestCorrelation_HostsGetDevices(t *testing.T) {
	slow.NotUnderRace(t)
	p, err := prepare(runtest.Small(t, tied...), false)
	if err != nil {
		t.Fatal(err)
	}
	e, err := startLocal(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	own, empty, others := *p.Fleet, 0, 0
	held, since := map[int]float64{}, map[int]int64{}
	result, err := e.play(t.Context(), 0, coordinator.Observer{Task: func(r *round.TaskReport) {
		if _, seen := held[r.Client]; !seen {
			held[r.Client] = own.Start(r.Client)
		}
		who := own.Client(r.Client)
		who.Joules = own.Charged(r.Client, held[r.Client], since[r.Client], int64(r.Start))
		want, err := own.Plan(who, r.Task, r.LocalSteps, p.Bits, int64(r.Start))
		if err != nil {
			t.Error(err)
		}
		if got := r.Plan; int64(got.Total()) != want.Total() || got.Drops != (want.Dropout != fleet.NoPhase) || got.Drops && int64(got.Dropout) != want.After {
			t.Errorf("task %d of client %d, %+v: planned %+v, want %+v", r.Task, r.Client, who, got, want)
		}
		if who.Device != r.Client || who.Presence != r.Client {
			others++
		}
		if r.Outcome == round.Dropped && own.Available(r.Client, int64(r.End)) {
			empty++
		}
		held[r.Client] = max(0, who.Joules-own.Spent(r.Client, want.Durations, int64(r.End-r.Start)))
		since[r.Client] = int64(r.End)
	}})
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	if empty == 0 || others == 0 || result.Stop.Outcomes[round.Accepted] == 0 {
		t.Errorf("%d tasks ended with an empty battery, %d were of clients with another's device, outcomes %v: the test says little", empty, others, result.Stop.Outcomes)
	}
}

// A dry run and the run itself say what correlations have come to.
func TestCorrelation_Reported(t *testing.T) {
	slow.NotUnderRace(t)
	c := runtest.Small(t, tied...)
	e, err := DryRun(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := e.Write(&text); err != nil {
		t.Fatal(err)
	}
	var said []string
	mustRun(t, c, Options{Callbacks: Callbacks{Notice: func(line string) { said = append(said, line) }}})
	p, err := prepare(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n := len(p.Fleet.Correlations); n != 2 {
		t.Fatalf("%d correlations", n)
	}
	for i, want := range []string{"Clients' speed and number of samples: Spearman's correlation is -0.", "Clients' availability and entropy of labels: Spearman's correlation is 0."} {
		if tie := p.Fleet.Correlations[i]; math.Abs(tie.Achieved-tie.Wanted) > 0.15 { // of 400 clients, some of them with equal data
			t.Errorf("%+v", tie)
		}
		if !strings.Contains(text.String(), "# "+want) || !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q is said neither in\n%s nor in %q", want, text.String(), said)
		}
	}
}
