package run

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/tables"
)

// lying is a run in all of whose rounds the same one of twelve clients attacks. A slow one misses
// the deadline, so that the round is that of the others.
func lying(t *testing.T, attack string, sets ...string) config.Config {
	return runtest.Convex(t, config.TaskLogistic, append([]string{"cohort=12", "stop.rounds=8", "close={rule: deadline, seconds: 100}",
		"fleet=[{name: honest, count: 11}, {name: liar, count: 1, attack: " + attack + "}]"}, sets...)...)
}

// last is how a run ends, and its model.
func last(t *testing.T, c config.Config) (s folder.Summary, model []float32) {
	t.Helper()
	s = mustRun(t, c, Options{Callbacks: Callbacks{Model: func(_ int, params []float32) { model = params }}})
	return s, model
}

// One client whose updates no sum takes ends no run. Where updates are clipped, the model is the
// one that a hundredth of the update leads to, which a sum takes; where a robust rule combines
// them, the one without the client, to the bit, and its tasks are refused.
func TestUpdates_TooLong(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const tooLong, fits, late = "{kind: scale, factor: 1e6}", "{kind: scale, factor: 1e4}", "{kind: late, factor: 1e6}"
	seeds := 2
	if slow.On() {
		seeds = 6
	}
	for n := range seeds {
		seed := fmt.Sprintf("seed=%d", n+1)
		for _, x := range []struct {
			clip   string
			within float64 // of the model's length; noise is another for another sum, and residuals are not clipped
		}{{"aggregate.clip=1", 1e-6}, {"privacy.clip=1 privacy.noise_multiplier=0.01", 0.05}, {"aggregate.clip=1 compress.method=top_k compress.share=0.5", 0.05}} {
			sets := append(strings.Fields(x.clip), seed)
			got, a := last(t, lying(t, tooLong, sets...))
			want, b := last(t, lying(t, fits, sets...))
			apart, length := 0.0, 0.0
			for i := range a {
				apart, length = math.Hypot(apart, float64(a[i])-float64(b[i])), math.Hypot(length, float64(b[i]))
			}
			if !(apart < x.within*length) {
				t.Errorf("%v: a model that is %g from the wanted one, which is %g long", sets, apart, length)
			}
			if got.Outcomes != want.Outcomes || got.Outcomes[round.Accepted] != 96 {
				t.Errorf("%v: tasks %v, want %v", sets, got.Outcomes, want.Outcomes)
			}
		}
		got, _ := last(t, lying(t, tooLong, seed, "aggregate.combine=median"))
		want, _ := last(t, lying(t, late, seed, "aggregate.combine=median"))
		if *got.ModelSHA256 != *want.ModelSHA256 || got.Outcomes[round.Refused] != 8 || got.Outcomes[round.Accepted] != 88 {
			t.Errorf("%s: model %s, tasks %v, want %s and 8 refused", seed, *got.ModelSHA256, got.Outcomes, *want.ModelSHA256)
		}
	}
}

// A refused update is one in every file, and its work is wasted; also with a residual, on any hosts
// and in a run that was stopped. If all are refused, the run has diverged.
func TestUpdates_RefusedAreCounted(t *testing.T) {
	t.Parallel()
	sets := []string{"aggregate.combine=krum", "outputs=[tasks]", "compress={method: top_k, share: 0.5}", "fleet=[{name: honest, count: 11, watts: 2}, {name: liar, count: 1, watts: 2, attack: {kind: scale, factor: 1e6}}]"}
	c := lying(t, "late", sets...)
	whole := mustRun(t, c, Options{})
	refused := 0
	for _, row := range readTable[tables.Task](t, c.Out, tables.TasksFile) {
		if row.Outcome == round.Refused.String() {
			refused++
			if row.Class != "liar" || row.Loss != nil {
				t.Errorf("%+v", row)
			}
		}
	}
	rows := readTable[tables.Client](t, c.Out, tables.ClientsFile)
	var liars []tables.Client
	for _, row := range rows {
		if row.Refused > 0 {
			liars = append(liars, row)
		}
	}
	if refused != 8 || len(liars) != 1 || liars[0].Refused != 8 || liars[0].Accepted != 0 || liars[0].StepsUseful != 0 || liars[0].StepsWasted == 0 {
		t.Errorf("%d refused tasks, clients %+v", refused, liars)
	}
	// All clients take the same time in each round, so a twelfth of all is wasted.
	for what, share := range map[string]float64{"time": whole.ClientSeconds.WastedShare(), "steps": whole.ClientSteps.WastedShare(), "joules": whole.EnergyJoules.WastedShare()} {
		if math.Abs(share-1.0/12) > 1e-9 {
			t.Errorf("%s: %g are wasted, want a twelfth", what, share)
		}
	}
	c = lying(t, "late", sets...)
	if s := mustRun(t, c, Options{Place: Place{Hosts: 2, Workers: 2}}); *s.ModelSHA256 != *whole.ModelSHA256 || s.Outcomes != whole.Outcomes {
		t.Errorf("on two hosts: %v, want %v", s.Outcomes, whole.Outcomes)
	}
	c = lying(t, "late", sets...)
	if s := resumed(t, c, 4, Options{}); *s.ModelSHA256 != *whole.ModelSHA256 || s.Outcomes != whole.Outcomes || s.ClientSeconds != whole.ClientSeconds || s.ClientSteps != whole.ClientSteps {
		t.Errorf("resumed: %v, want %v", s.Outcomes, whole.Outcomes)
	}
	c = lying(t, "late", append(sets[:2], "fleet=[{name: liar, attack: {kind: scale, factor: 1e6}}]")...)
	if _, err := Run(t.Context(), c, Options{}); !errors.Is(err, coordinator.ErrDiverged) {
		t.Errorf("a run of liars alone: %v", err)
	}
	if o := folder.Inspect(c.Out); o.State != folder.RunDiverged || !strings.Contains(o.Summary.Diverged, "diverged") {
		t.Errorf("it is %s: %+v", o.State, o.Summary)
	}
}
