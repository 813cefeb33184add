package paper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// Runs of all plans may meet on one server, where a name belongs to one.
func TestARunHasANameOfItsOwnOnAServer(t *testing.T) {
	names := map[string]string{}
	for plan, change := range map[string]func(*Plan){
		"defaults":  func(*Plan) {},
		"data":      func(p *Plan) { p.Data = map[config.Task]string{config.TaskCIFAR100: "other.parquet"} },
		"sets":      func(p *Plan) { p.Sets = []string{"cohort=10"} },
		"rounds":    func(p *Plan) { p.Rounds = 100 },
		"timing":    func(p *Plan) { p.Timing = true },
		"long seed": func(p *Plan) { p.Seed = 1<<64 - 2 },
	} {
		p := Full()
		p.Tasks, p.Seeds = []config.Task{config.TaskCIFAR100}, 2
		change(&p)
		if p.Timing {
			p.Schedules = []string{"k-rounds"} // with either size of a model
		}
		cells, err := p.Cells()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			if other := names[c.Config.Name]; other != "" {
				t.Errorf("%s is the name of a run of %s and of one of %s", c.Config.Name, other, plan)
			}
			names[c.Config.Name] = plan
		}
	}
}

// Where a cell is computed changes nothing of it: it is done once.
func TestTheServerIsNotInTheFolder(t *testing.T) {
	folder := func(sets ...string) string {
		p := Full()
		p.Tasks, p.Schedules, p.Sets = []config.Task{config.TaskSent140}, []string{"fixed"}, sets
		cells, err := p.Cells()
		if err != nil {
			t.Fatal(err)
		}
		return cells[0].Config.Out
	}
	if folder() != folder("nats.url=nats://a:4222", "nats.replicas=3", "nats.ack_seconds=5") {
		t.Error("the server changes the folder")
	}
}

// Where each cell goes: to the plan's server, to its configuration's, or to none.
func TestWhereACellIsDone(t *testing.T) {
	for _, c := range []struct {
		flag, configured, want string
		elsewhere              bool
	}{
		{"", config.Embedded, config.Embedded, false},
		{"nats://a:4222", config.Embedded, "nats://a:4222", true},
		{"", "nats://b:4222", "nats://b:4222", true},
		{"nats://me:secret@a:4222", "nats://a:4222", "nats://me:secret@a:4222", true},
	} {
		o := Options{NATS: run.Connection{URL: c.flag, Creds: "my.creds"}}
		cell := Cell{}
		cell.Config.NATS.URL = c.configured
		if to, elsewhere := o.server(&cell); to.URL != c.want || elsewhere != c.elsewhere || to.Creds != "my.creds" {
			t.Errorf("--nats %q over %q: %+v, elsewhere %v", c.flag, c.configured, to, elsewhere)
		}
	}
}

// What several runs say of the same host is told once, and again when it is news
// again; of a run that is still alone while others have a host nothing is told.
func TestWhatCellsSayIsToldOnce(t *testing.T) {
	var told []string
	h := chorus{tell: func(line string) { told = append(told, line) }, last: map[config.Task]map[string]string{}}
	a, b, c := h.of(&Cell{Task: "femnist", Seed: 1}), h.of(&Cell{Task: "femnist", Seed: 2}), h.of(&Cell{Task: "sent140"})
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

func TestAServerThatListensIsRefused(t *testing.T) {
	p := Full()
	p.Sets = []string{"nats.listen=127.0.0.1:4222"}
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "give --nats") {
		t.Errorf("%v is said of runs that would all listen on one address", err)
	}
}
