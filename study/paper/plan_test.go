package paper

import (
	"strings"
	"testing"

	"fedpace/config"
)

// Runs of all plans may meet on one server, where a name belongs to one.
func TestCell_UniqueNameOnServer(t *testing.T) {
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
			p.Schedules = []string{"rounds"} // with either size of a model
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
func TestPlay_ServerIsNotInFolder(t *testing.T) {
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

func TestPlan_ListeningServerRefused(t *testing.T) {
	p := Full()
	p.Sets = []string{"nats.listen=127.0.0.1:4222"}
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "give --nats") {
		t.Errorf("%v is said of runs that would all listen on one address", err)
	}
}
