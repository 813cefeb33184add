package aggregate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// Colluders know the first of their class who start from the same model, however the tasks
// are cut into jobs; a job without colluders has none.
func TestAttackers_CollusionIgnoresJobs(t *testing.T) {
	// Clients 0 and 1 are honest, 2 to 5 and 6 to 9 are two classes of colluders; of the
	// second, two know each other. Task 100+c is client c's.
	a := &Attackers{
		Class:     func(client int) (int, bool) { return client / 4, client > 1 },
		Colluders: func(class int) int { return map[int]int{0: 0, 1: 16, 2: 2}[class] },
	}
	var tasks []round.Task
	for _, c := range []struct {
		client int
		model  uint64
	}{{4, 1}, {0, 1}, {8, 1}, {5, 1}, {9, 2}, {6, 2}, {1, 2}, {10, 2}, {11, 2}, {2, 2}, {7, 2}} {
		tasks = append(tasks, round.Task{Task: uint64(100 + c.client), Client: c.client, Model: c.model})
	}
	known := func(cut []span) map[uint64][]uint64 {
		jobs := make([]job, len(cut))
		for i, part := range cut {
			jobs[i] = job{span: part, base: tasks[part.start].Model, message: &bus.Job{}}
			for _, task := range tasks[part.start:part.end] {
				jobs[i].message.Clients = append(jobs[i].message.Clients, &bus.ClientWork{Task: task.Task, Attacker: a.attackerNumber(task.Client)})
			}
		}
		a.collude(jobs)
		by := map[uint64][]uint64{}
		for i := range jobs {
			for _, w := range jobs[i].message.Clients {
				for _, c := range jobs[i].message.Colluders {
					if c.Attacker == w.Attacker {
						by[w.Task] = append(by[w.Task], c.Task)
					}
				}
			}
		}
		return by
	}
	want := map[uint64][]uint64{
		104: {104, 105}, 105: {104, 105}, 108: {108}, // from model 1
		109: {109, 110}, 110: {109, 110}, 111: {109, 110}, 106: {106, 107}, 107: {106, 107}, // from model 2
	}
	for name, cut := range map[string][]span{
		"whole":  {{0, 4}, {4, 11}},
		"parts":  {{0, 2}, {2, 4}, {4, 5}, {5, 9}, {9, 11}},
		"single": {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}, {9, 10}, {10, 11}},
	} {
		if diff := cmp.Diff(want, known(cut)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if (*Attackers)(nil).attackerNumber(3) != 0 || a.attackerNumber(1) != 0 || a.attackerNumber(8) != 3 {
		t.Error("attackers have other numbers")
	}
}
