package round

import "testing"

// rising charges a joule a nanosecond up to 10, and allows a task from 5 on. Odd clients
// have no battery. A task takes a joule for each nanosecond of its computing.
type rising struct{}

func (rising) Start(client int) float64 { return 4 - 6*float64(client%2) }

func (rising) Charged(_ int, joules float64, since, now Time) float64 {
	return min(10, joules+float64(now-since))
}

func (rising) Ready(_ int, joules float64, since Time) Time { return since + Time(max(0, 5-joules)) }

func (rising) Spent(_ int, p Plan, _ Time) float64 { return float64(p.Compute) }

func TestBatteriesAreFollowed(t *testing.T) {
	c := &Config{Clients: 3, Batteries: rising{}}
	b := newBatteries(c.Batteries, c.Clients, nil)
	check := func(charges []Charge, now Time) error { return (&State{Charges: charges, Now: now}).checkCharges(c) }
	if b.charges[1].Joules != -1 || check(b.charges, 0) != nil || check(b.charges[:2], 0) == nil || check([]Charge{{Joules: 1, At: 2}, {}, {}}, 1) == nil {
		t.Fatalf("they start with %v", b.charges)
	}
	free := func(int) bool { return false }
	if b.of(0) == nil || b.of(1) != nil || b.of(7) != nil || b.allows(0, 0) || !b.allows(0, 1) || !b.allows(1, 0) || b.joules(0) != 4 || b.joules(1) != 0 {
		t.Errorf("at the start: %+v", b)
	}
	if charged, next := b.next(0, func(client int) bool { return client == 1 }); charged || next != 1 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	b.unplug(0, 3) // with 7
	b.discharge(&TaskState{Client: 0, Start: 3, Compute: 6}, 9)
	if b.joules(0) != 1 || b.charges[0] != (Charge{1, 9}) || b.allows(0, 12) || !b.allows(0, 13) {
		t.Errorf("after a task: %+v", b)
	}
	if charged, next := b.next(9, free); !charged || next != 13 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	again := newBatteries(c.Batteries, c.Clients, []Charge{{1, 9}, {Joules: -1}, {4, 0}})
	if again.allows(0, 12) || !again.allows(0, 13) {
		t.Error("batteries from the same charges are others")
	}
	var none *batteries
	none.unplug(0, 1)
	none.discharge(&TaskState{}, 1)
	if none.of(0) != nil || !none.allows(0, 0) || none.joules(0) != 0 {
		t.Error("clients without batteries have some")
	}
}
