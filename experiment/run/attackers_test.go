package run

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "fedpace/actors/attack/attacktest"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// besieged is a fleet in which every attack has a class.
const besieged = "fleet=[{name: honest, weight: 12}, {name: flip, weight: 1, attack: sign_flip}, {name: noise, weight: 1, attack: noise}, " +
	"{name: labels, weight: 1, attack: label_flip}, {name: scale, weight: 1, attack: {kind: scale, factor: 3}}, {name: liar, weight: 1, attack: false_loss}, " +
	"{name: slow, weight: 1, attack: {kind: late, factor: 20, deadline: 0.9}}, {name: gang, weight: 4, attack: {kind: min_max, knows: 2}}]"

// A run with attackers comes to the same bits on any hosts, without a server, and where it
// was stopped; without training it has the same history. Late updates and those of buffered
// rounds collude with others from their own model.
func TestAttackers_SameAnywhere(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for name, sets := range map[string][]string{
		"deadline": {besieged, "close={rule: deadline, seconds: 3}", "late={rule: use, limit: 2}"},
		"buffered": {strings.Replace(besieged, ", deadline: 0.9", "", 1), "close={rule: buffered, n: 6}"},
		"scaffold": {besieged, "close={rule: deadline, seconds: 3}", "aggregate.algorithm=scaffold"},
		"residual": {besieged, "close={rule: deadline, seconds: 3}", "compress={method: top_k, share: 0.1}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := mustRun(t, runtest.Stragglers(t, sets...), Options{Place: Place{Workers: 1}})
			for what, o := range map[string]Options{"hosts": {Place: Place{Hosts: 2, Workers: 3}}, "memory": {Place: Place{Workers: 2}}} {
				c := runtest.Stragglers(t, sets...)
				if what == "memory" {
					c.NATS.URL = "none"
				}
				if s := mustRun(t, c, o); *s.ModelSHA256 != *whole.ModelSHA256 || s.Fingerprint != whole.Fingerprint {
					t.Errorf("%s: model %s and fingerprint %s, want %s and %s", what, *s.ModelSHA256, s.Fingerprint, *whole.ModelSHA256, whole.Fingerprint)
				}
			}
			if timed := mustRun(t, runtest.Stragglers(t, append(sets, "train=false")...), Options{}); timed.Fingerprint != whole.Fingerprint {
				t.Error("another history without training")
			}
			c := runtest.Stragglers(t, sets...)
			c.Out = filepath.Join(t.TempDir(), "stopped")
			if s := resumed(t, c, 4, Options{Place: Place{Workers: 2}}); *s.ModelSHA256 != *whole.ModelSHA256 {
				t.Errorf("resumed %s, whole %s", *s.ModelSHA256, *whole.ModelSHA256)
			}
		})
	}
}

// Who attacks is counted in the summary, and a dry run says it.
func TestAttackers_Reported(t *testing.T) {
	t.Parallel()
	sets := []string{"clients=40", "cohort=10", "stop.rounds=2", "fleet=[{name: honest}, {name: liar, count: 6, attack: {kind: sign_flip, factor: 2}}, {name: slow, count: 2, attack: late}]"}
	sets[3] = strings.Replace(sets[3], "{name: honest}", "{name: honest, count: 32}", 1)
	want := []folder.Attackers{{Class: "liar", Attack: "sign_flip(factor 2)", Clients: 6}, {Class: "slow", Attack: "late(factor 3)", Clients: 2}}
	if diff := cmp.Diff(want, mustRun(t, runtest.Small(t, sets...), Options{}).Attackers); diff != "" {
		t.Error(diff)
	}
	e, err := DryRun(t.Context(), runtest.Small(t, sets...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := e.Write(&text); err != nil {
		t.Fatal(err)
	}
	const line = "\n# 8 of 40 clients attack (6 of class liar: sign_flip(factor 2); 2 of class slow: late(factor 3)).\n"
	if !strings.Contains(text.String(), line) {
		t.Errorf("a dry run says %s", text.String())
	}
	if s := mustRun(t, runtest.Small(t, "stop.rounds=1"), Options{}); s.Attackers != nil {
		t.Errorf("attackers of an honest fleet: %v", s.Attackers)
	}
}

// K_r-error believes the losses that it is told: an offset that never falls holds K up, and
// an exponent brings it down. A factor cancels out, as F_0 has it, too.
func TestAttackers_LossMovesK(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	steps := func(attack string) int64 {
		return mustRun(t, runtest.Convex(t, config.TaskLogistic, "cohort=12", "schedule={k: error, k0: 50, window: 1, f0: first}", "stop.rounds=30",
			"fleet=[{name: honest, count: 10}, {name: liar, count: 2"+attack+"}]"), Options{}).SGDSteps
	}
	honest, up, down := steps(""), steps(", attack: {kind: false_loss, offset: 1000}"), steps(", attack: {kind: false_loss, factor: 1e6, exponent: 20}")
	if !(up > honest && 2*down < honest) {
		t.Errorf("%d local steps, of liars with an offset %d, and with an exponent %d", honest, up, down)
	}
}

// Attackers who dawdle make rounds longer where rounds wait for them. Heeding the deadline
// they fill it, and still count.
func TestAttackers_SlowHoldRounds(t *testing.T) {
	t.Parallel()
	run := func(attack string, sets ...string) folder.Summary {
		return mustRun(t, runtest.Small(t, append(sets, "train=false", "compute.std=0", "fleet=[{name: honest, count: 150}, {name: slow, count: 50"+attack+"}]")...), Options{})
	}
	honest, slow := run(""), run(", attack: {kind: late, factor: 5}")
	if ratio := slow.VirtualSeconds / honest.VirtualSeconds; !(ratio > 3 && ratio <= 5.0001) {
		t.Errorf("rounds are %g times as long", ratio)
	}
	const deadline = "close={rule: deadline, seconds: 10}"
	rude, sly := run(", attack: {kind: late, factor: 1000}", deadline), run(", attack: {kind: late, factor: 1000, deadline: 0.99}", deadline)
	if rude.Outcomes[1] == 0 || sly.Outcomes[1] != 0 || !(sly.VirtualSeconds > 0.9*rude.VirtualSeconds) {
		t.Errorf("late tasks: %v in %g s, with a deadline that is heeded %v in %g s", rude.Outcomes, rude.VirtualSeconds, sly.Outcomes, sly.VirtualSeconds)
	}
}

// What cannot attack is refused before a run, with the key.
func TestAttackers_ImpossibleOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sets []string
		want string
	}{
		{[]string{"fleet=[{name: a, attack: {kind: label_flip, map: one, to: 62}}]"}, "fleet[0].attack: label_flip makes label 62 of 0, which is none of the 62 classes (0 to 61)"},
		{[]string{"task=quadratic", "fleet=[{name: a}, {name: b, attack: label_flip}]"}, "fleet[1].attack: label_flip learns from other labels, and samples of"},
		{[]string{"devices.names={pi: b}", "fleet=[{name: a}, {name: b, attack: sign_flip}]", "nats.listen=localhost:0"}, "fleet[1].attack: class b is that of device pi, and only simulated clients attack"},
	} {
		c := runtest.Small(t, append(test.sets, "clients=10", "cohort=5")...)
		if _, err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.sets, err, test.want)
		}
	}
	_, err := config.Load("", []string{"fleet=[{name: a}, {name: b, attack: {kind: late, deadline: 0.9}}]"})
	if err == nil || !strings.Contains(err.Error(), `fleet[1].attack: "late" needs a deadline (use `) {
		t.Errorf("without a deadline: %v", err)
	}
}
