package run

import (
	"strings"
	"testing"

	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// Local steps by an optimizer, and minibatches of a class's own size, lead to a model of
// their own, the same on any hosts. They take no other time: a run that is only timed has
// the history of the run that trains, which is that of plain steps.
func TestLocal_History(t *testing.T) {
	slow.Test(t, "it plays every run twice")
	slow.NotUnderRace(t)
	t.Parallel()
	const classes = "fleet=[{name: slow, weight: 1, seconds_per_step: 0.4}, {name: fast, weight: 2, step_cv: 0.2}]"
	own := strings.Replace(classes, "0.4}", "0.4, batch: 2}", 1)
	plain := mustRun(t, runtest.Stragglers(t, classes), Options{})
	epochs := []string{"schedule.unit=epochs", "schedule.k0=2"}
	whole := mustRun(t, runtest.Stragglers(t, append(epochs, classes)...), Options{})
	models := map[string]string{*plain.ModelSHA256: "plain steps", *whole.ModelSHA256: "plain epochs"}
	for _, x := range []struct {
		sets []string
		same string // history
	}{
		{[]string{classes, "local.momentum=0.9"}, plain.Fingerprint},
		{[]string{classes, "local={momentum: 0.9, nesterov: true}"}, plain.Fingerprint},
		{[]string{classes, "local.weight_decay=0.1"}, plain.Fingerprint},
		{[]string{classes, "local.clip=0.1"}, plain.Fingerprint},
		{[]string{classes, "local=adam", "schedule.eta0=0.01"}, plain.Fingerprint},
		{[]string{classes, "local=adamw", "schedule.eta0=0.01"}, plain.Fingerprint},
		{[]string{classes, "local.momentum=0.9", "aggregate={algorithm: fedprox, mu: 1}"}, plain.Fingerprint},
		{[]string{own}, plain.Fingerprint},
		{append(epochs, own), ""},
		{append(epochs, classes, "local.momentum=0.5", "compress={method: top_k, share: 0.1}"), ""},
	} {
		name := strings.Join(x.sets, " ")
		s := mustRun(t, runtest.Stragglers(t, x.sets...), Options{})
		if other, same := models[*s.ModelSHA256]; same {
			t.Errorf("%s ends with the model of %s", name, other)
		}
		models[*s.ModelSHA256] = name
		if again := mustRun(t, runtest.Stragglers(t, x.sets...), Options{Place: Place{Hosts: 2, Workers: 3}}); *again.ModelSHA256 != *s.ModelSHA256 {
			t.Errorf("%s: another run with other hosts has another model", name)
		}
		if timed := mustRun(t, runtest.Stragglers(t, append(x.sets, "train=false")...), Options{}); timed.Fingerprint != s.Fingerprint {
			t.Errorf("%s: fingerprints %s trained, %s timed", name, s.Fingerprint, timed.Fingerprint)
		}
		if x.same != "" && s.Fingerprint != x.same {
			t.Errorf("%s: fingerprint %s, plain steps have %s", name, s.Fingerprint, x.same)
		}
		if x.same == "" && s.Fingerprint == whole.Fingerprint {
			t.Errorf("%s has the history of plain epochs", name)
		}
	}
}
