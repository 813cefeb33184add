package study

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// Where each cell goes: to the plan's server, to its configuration's, or to none.
func TestWhereACellIsDone(t *testing.T) {
	for _, c := range []struct {
		flag, configured, want string
		remote                 bool
	}{
		{"", config.Embedded, config.Embedded, false},
		{"nats://a:4222", config.Embedded, "nats://a:4222", true},
		{"", "nats://b:4222", "nats://b:4222", true},
		{"nats://me:secret@a:4222", "nats://a:4222", "nats://me:secret@a:4222", true},
	} {
		o := Options{Run: run.Options{NATS: run.Connection{URL: c.flag, Creds: "my.creds"}}, ConfiguredHosts: true}
		cell := Cell{}
		cell.Config.NATS.URL = c.configured
		if to, remote := o.server(&cell); to.URL != c.want || remote != c.remote || to.Creds != "my.creds" {
			t.Errorf("--nats %q over %q: %+v, remote %v", c.flag, c.configured, to, remote)
		}
	}
}

// What several runs say of the same host is told once, and again when it is news
// again; of a run that is still alone while others have a host nothing is told.
func TestWhatCellsSayIsToldOnce(t *testing.T) {
	var told []string
	h := hostNotices{notice: func(line string) { told = append(told, line) }, last: map[config.Task]map[string]string{}}
	of := func(task config.Task) *Cell { return &Cell{Config: config.Config{Task: task}} }
	a, b, c := h.of(of("femnist")), h.of(of("femnist")), h.of(of("sent140"))
	const (
		alone  = "No host is there; the run waits for one (fedpace host)."
		other  = "No host that is there trains with kernel class avx2; the run waits for one."
		here   = "Host x is there with 2 trainers."
		plans  = "Host x is there for plans; it does not train."
		silent = "Host x is silent; others do its work."
		left   = "Host x has left."
		lost   = "The connection to NATS is lost (EOF); trying again."
		reset  = "The connection to NATS is lost (read tcp 127.0.0.1:1: connection reset by peer); trying again."
		back   = "The connection to NATS is back (nats://a:4222)."
	)
	for _, say := range []struct {
		who  func(string)
		line string
	}{
		{a, alone}, {b, alone}, // first
		{a, here}, {b, here}, {a, alone}, // the last one's host is getting ready
		{c, plans}, {c, other}, // its data is not there
		{a, lost}, {b, reset}, {c, lost}, {b, back}, {c, back}, {a, back},
		{a, silent}, {a, alone}, {b, silent}, {b, alone}, // it died
		{b, here}, {a, here}, {b, left}, {b, alone}, {a, left}, {a, alone}, // and comes again
	} {
		say.who(say.line)
	}
	want := []string{
		"femnist: " + alone, "femnist: " + here, "sent140: " + plans, "sent140: " + other, lost, back,
		"femnist: " + silent, "femnist: " + alone, "femnist: " + here, "femnist: " + left, "femnist: " + alone,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
