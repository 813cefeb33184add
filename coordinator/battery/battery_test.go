package battery

import "testing"

// law charges a joule a nanosecond up to 10, and allows a task from 5 on. Odd clients have
// no battery.
type law struct{}

func (law) Start(client int) float64 { return 4 - 6*float64(client%2) }

func (law) Charged(_ int, joules float64, since, now Time) float64 {
	return min(10, joules+float64(now-since))
}

func (law) Ready(_ int, joules float64, since Time) Time { return since + Time(max(0, 5-joules)) }

func TestABookOfBatteries(t *testing.T) {
	charges := Start(law{}, 3)
	if charges[1].Joules != -1 || Check(charges, 3, 0) != nil || Check(charges, 2, 0) == nil || Check([]Charge{{Joules: 1, At: 2}}, 1, 1) == nil {
		t.Fatalf("they start with %v", charges)
	}
	b := New(law{}, charges)
	free := func(int) bool { return false }
	if !b.Has(0) || b.Has(1) || b.Has(7) || b.Allows(0, 0) || !b.Allows(0, 1) || !b.Allows(1, 0) || b.Joules(0) != 4 || b.Joules(1) != 0 {
		t.Errorf("at the start: %+v", b)
	}
	if charged, next := b.Next(0, func(client int) bool { return client == 1 }); charged || next != 1 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	b.Unplug(0, 3) // with 7
	b.Take(0, 6.5, 8)
	if b.Joules(0) != 0.5 || charges[0] != (Charge{0.5, 8}) || b.Allows(0, 11) || !b.Allows(0, 12) {
		t.Errorf("after a task: %+v", b)
	}
	if charged, next := b.Next(8, free); !charged || next != 12 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	again := New(law{}, []Charge{{0.5, 8}, {Joules: -1}, {4, 0}})
	if again.Allows(0, 11) || !again.Allows(0, 12) {
		t.Error("a book from the same charges is another")
	}
	var none *Book
	none.Unplug(0, 1)
	none.Take(0, 1, 1)
	if none.Has(0) || !none.Allows(0, 0) || none.Joules(0) != 0 {
		t.Error("clients without batteries have some")
	}
}
