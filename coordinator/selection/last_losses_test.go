package selection

import (
	"slices"
	"strings"
	"testing"
)

// Of the candidates of a round those come first that have told no loss, in the order in which they
// were drawn, then the others from the highest loss on; behind the candidates come the others.
func TestLastLosses(t *testing.T) {
	const clients, candidates = 12, 8
	o := orderOf[*byLastLosses](t, LastLosses{Candidates: candidates}, 3, make([]Time, clients)...)
	from := orderOf[Order](t, Uniform{}, 3, make([]Time, clients)...)
	drawn := cohortOf(from, 4, clients)
	if got := cohortOf(o, 4, clients); !slices.Equal(got, drawn) {
		t.Errorf("where nobody has told a loss the order is %v, drawn are %v", got, drawn)
	}
	loss := map[int]float64{drawn[0]: 0.5, drawn[1]: 2, drawn[2]: -1, drawn[4]: 2, drawn[6]: 3, drawn[9]: 9}
	for client, l := range loss {
		o.Trained(client, l)
	}
	want := []int{drawn[3], drawn[5], drawn[7], drawn[6], drawn[1], drawn[4], drawn[0], drawn[2], drawn[8], drawn[9], drawn[10], drawn[11]}
	if got := cohortOf(o, 4, clients); !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v of %v", got, want, drawn)
	}
	busy := drawn[3]
	o.s.Free = func(client int) bool { return client != busy }
	if got := cohortOf(o, 4, candidates); slices.Contains(got, busy) || !slices.Contains(got, drawn[8]) {
		t.Errorf("client %d has a task, and the candidates are %v of %v", busy, got, drawn)
	}
	o.s.Free = func(int) bool { return true }

	again := orderOf[*byLastLosses](t, LastLosses{Candidates: candidates}, 3, make([]Time, clients)...)
	if err := again.Restore(o.Memory()); err != nil {
		t.Fatal(err)
	}
	if got := cohortOf(again, 4, clients); !slices.Equal(got, want) {
		t.Errorf("resumed the order is %v, want %v", got, want)
	}
}

func TestLastLossesThatAreRefused(t *testing.T) {
	for want, l := range map[string]LastLosses{
		"less than the cohort":      {Candidates: 4},
		"more than there are":       {Candidates: 11},
		"by uniform or size, not":   {Candidates: 8, From: RoundRobin{}},
		"by uniform or size, not b": {Candidates: 8, From: PowerOfChoice{Candidates: 8}},
	} {
		if err := l.Validate(5, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	if err := (LastLosses{Candidates: 8, From: BySize{}}).Validate(5, 10); err != nil {
		t.Error(err)
	}
}
