package round

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// derived is what is found again when a state is restored.
var derived = cmpopts.IgnoreUnexported(Tasks{}, TaskState{}, schedule.Window{}, schedule.Plateau{})

// A machine that is cut at any step, written down and restored goes on to the
// same history, to the last bit of every report.
func TestState_RestoredMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := anyWorld(t)
		whole := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		cut := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		asJSON := rapid.Bool().Draw(t, "json")
		from, every := rapid.IntRange(0, 20).Draw(t, "cut from"), rapid.IntRange(1, 20).Draw(t, "cut every")
		for i := 0; whole.machine.Phase() != Stopped; i++ {
			whole.turn(t)
			cut.turn(t)
			if i >= from && (i-from)%every == 0 {
				cut.cut(t, asJSON)
			}
		}
		cut.cut(t, asJSON)
		whole.over(t)
		cut.over(t)
		if diff := cmp.Diff(whole.popped, cut.popped); diff != "" {
			t.Fatalf("the history changes: %s", diff)
		}
		if diff := cmp.Diff(whole.trained, cut.trained); diff != "" {
			t.Fatalf("what is trained changes: %s", diff)
		}
		if diff := cmp.Diff(whole.machine.State(), cut.machine.State(), cmpopts.EquateEmpty(), derived); diff != "" {
			t.Fatalf("the end changes: %s", diff)
		}
		for i := range whole.reports {
			if a, b := whole.reports[i], cut.reports[i]; !sameReport(a, b) {
				t.Fatalf("the report changes: %+v, %+v", a, b)
			}
		}
	})
}

// sameReport reports whether two reports are equal, where NaN equals NaN.
func sameReport(a, b Report) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(x, y float64) bool { return x == y || x != x && y != y }))
}

// cut replaces the machine by one that is restored from its encoded state, in JSON or gob.
func (p *player) cut(t failer, asJSON bool) {
	state := p.machine.State()
	var read State
	var b bytes.Buffer
	var err error
	if asJSON {
		err = errors.Join(json.NewEncoder(&b).Encode(state), json.NewDecoder(&b).Decode(&read))
	} else {
		err = errors.Join(gob.NewEncoder(&b).Encode(state), gob.NewDecoder(&b).Decode(&read))
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	m, err := Restore(p.config, read)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(state, m.State(), cmpopts.EquateEmpty(), derived); diff != "" {
		t.Fatalf("a restored machine remembers something else: %s", diff)
	}
	if diff := cmp.Diff(p.machine.models(), m.models()); diff != "" {
		t.Fatalf("a restored machine keeps other models: %s", diff)
	}
	if m.Phase() != Idle { // else Started is still to come
		p.pending(t, m.Pending())
	}
	p.machine = m
}

// models returns the versions of the model that the machine has not released, ascending.
func (m *Machine) models() []uint64 { return slices.Sorted(maps.Keys(m.tasks.tasksByVersion)) }

// pending fails the test unless the effects of a restored machine are those that the player has not carried out yet.
func (p *player) pending(t failer, out *Effects) {
	var want []Event
	for _, e := range p.queue {
		if e.Kind != Due {
			want = append(want, e)
		}
	}
	var got []Event
	for _, x := range out.Tasks {
		if x.Start != p.now {
			t.Fatalf("task %d is pending since %d, it is %d", x.Task, x.Start, p.now)
		}
		got = append(got, p.answer(x))
	}
	if len(out.Query) > 0 {
		e := Event{Kind: Queried}
		for _, x := range out.Query {
			e.Losses = append(e.Losses, lossOf(x))
		}
		got = append(got, e)
	}
	if len(out.Train) > 0 {
		last := p.trained[len(p.trained)-len(out.Train):]
		if diff := cmp.Diff(last, out.Train); diff != "" {
			t.Fatalf("other training is pending: %s", diff)
		}
		got = append(got, trainedEvent(p.machine, out))
	}
	if n := len(p.measured); out.EvaluateClientsRound > 0 && (n == 0 || p.measured[n-1] != out.EvaluateClientsRound) {
		t.Fatalf("an evaluation by client of round %d is pending, those of %v were asked for", out.EvaluateClientsRound, p.measured)
	}
	if out.Evaluate || out.EvaluateClientsRound > 0 {
		got = append(got, Event{Kind: Evaluated, Loss: 1, Metrics: []float64{1 - 1/float64(p.machine.Round())}})
	}
	byTask := func(list []Event) map[uint64]Event {
		m := map[uint64]Event{}
		for _, e := range list {
			m[e.Task] = e
		}
		return m
	}
	if a, b := byTask(want), byTask(got); len(want) != len(got) || !reflect.DeepEqual(a, b) {
		t.Fatalf("pending is %+v, open is %+v", got, want)
	}
	if out.Stopped != nil && (out.Stopped.Outcomes != p.stop.Outcomes || out.Stopped.Reason != p.stop.Reason) {
		t.Fatalf("stopped as %+v, restored as %+v", p.stop, *out.Stopped)
	}
}

// halfway returns the state of a run with tasks that are accepted, under way and without a plan.
func halfway(t testing.TB) (Config, State) {
	c := config()
	c.Closing = closing.Buffered{N: 2}
	p := newPlayer(failing{t}, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan { return Plan{Compute: Time(10 * x.Task)} })
	for p.machine.Phase() != Running {
		p.turn(failing{t})
	}
	p.turn(failing{t})
	return c, p.machine.State()
}

type failing struct{ testing.TB }

// A state is of as many clients and devices as its run.
func TestState_OtherRuns(t *testing.T) {
	for want, change := range map[string]func(*State){
		"steps done of 9 clients, the run has 10":   func(s *State) { s.StepsDone = s.StepsDone[1:] },
		"the presence of 1 devices, the run has 0":  func(s *State) { s.Present = []bool{true} },
		"what is known of 1 devices, the run has 0": func(s *State) { s.Known = make([]KnownDevice, 1) },
		"10 batteries, the run has 0":               func(s *State) { s.Charges = make([]Charge, 10) },
	} {
		c, s := halfway(t)
		change(&s)
		if _, err := Restore(c, s); err == nil || err.Error() != "round: state: "+want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
