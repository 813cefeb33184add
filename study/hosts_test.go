package study

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// Where each cell goes: to the plan's server, to its configuration's, or to none.
func TestPlay_WhereCellIsDone(t *testing.T) {
	for _, c := range []struct {
		flag, configured, want string
		remote                 bool
	}{
		{"", config.Embedded, config.Embedded, false},
		{"nats://a:4222", config.Embedded, "nats://a:4222", true},
		{"", "nats://b:4222", "nats://b:4222", true},
		{"nats://me:secret@a:4222", "nats://a:4222", "nats://me:secret@a:4222", true},
	} {
		o := Options{Run: run.Options{Place: run.Place{NATS: natsconn.Config{URL: c.flag, Creds: "my.creds"}}}, ConfiguredHosts: true}
		cell := Cell{}
		cell.Config.NATS.URL = c.configured
		if to, remote := o.server(&cell); to.URL != c.want || remote != c.remote || to.Creds != "my.creds" {
			t.Errorf("--nats %q over %q: %+v, remote %v", c.flag, c.configured, to, remote)
		}
	}
}

// What several runs say of the same host is told once, and again when it is news
// again; of a run that is still alone while others have a host nothing is told.
func TestHostNotices_AreSaidOnce(t *testing.T) {
	var told []string
	h := hostNotices{notice: func(line string) { told = append(told, line) }, last: map[config.Task]map[string]bus.Notice{}}
	of := func(task config.Task) *Cell { return &Cell{Config: config.Config{Task: task}} }
	a, b, c := h.forwarder(of("femnist")), h.forwarder(of("femnist")), h.forwarder(of("sent140"))
	var (
		alone  = bus.Notice{State: bus.NoHost, Text: "No host is there; the run waits for one (fedpace host)."}
		other  = bus.Notice{State: bus.NoTrainer, Text: "No host that is there trains with kernel class avx2; the run waits for one."}
		here   = bus.HostJoined("x", 2, true)
		plans  = bus.HostJoined("x", 0, true)
		silent = bus.Notice{Subject: "x", State: bus.HostSilent, Text: "Host x is silent; others do its work."}
		left   = bus.Notice{Subject: "x", State: bus.HostLeft, Text: "Host x has left."}
		lost   = bus.Notice{State: bus.ServerLost, Text: "The connection to NATS is lost (EOF); trying again."}
		reset  = bus.Notice{State: bus.ServerLost, Text: "The connection to NATS is lost (read tcp 127.0.0.1:1: connection reset by peer); trying again."}
		back   = bus.Notice{State: bus.ServerBack, Text: "The connection to NATS is back (nats://a:4222)."}
	)
	for _, say := range []struct {
		who    func(bus.Notice)
		notice bus.Notice
	}{
		{a, alone}, {b, alone}, // first
		{a, here}, {b, here}, {a, alone}, // the last one's host is getting ready
		{c, plans}, {c, other}, // its data is not there
		{a, lost}, {b, reset}, {c, lost}, {b, back}, {c, back}, {a, back},
		{a, silent}, {a, alone}, {b, silent}, {b, alone}, // it died
		{b, here}, {a, here}, {b, left}, {b, alone}, {a, left}, {a, alone}, // and comes again
	} {
		say.who(say.notice)
	}
	want := []string{
		"femnist: " + alone.Text, "femnist: " + here.Text, "sent140: " + plans.Text, "sent140: " + other.Text, lost.Text, back.Text,
		"femnist: " + silent.Text, "femnist: " + alone.Text, "femnist: " + here.Text, "femnist: " + left.Text, "femnist: " + alone.Text,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// Runs that go over one server have names of their own.
func TestPlay_NamesOnOneServer(t *testing.T) {
	p := Plan{Load: setting("task=logistic", "name=same"), Schedules: []string{"fixed", "rounds"}, Seeds: 2}
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	nameUniquely(cells)
	found := map[string]bool{}
	for _, c := range cells {
		if err := names.CheckName(c.name); err != nil {
			t.Error(err)
		}
		found[c.name] = true
	}
	if len(found) != 4 {
		t.Errorf("four runs have the names %v", found)
	}
}
