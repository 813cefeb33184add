package placement

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// bench is a table with hosts that answer as it says, on a clock of its own.
type bench struct {
	*Table
	clock time.Duration
	delay map[string]time.Duration // of one answer; less than 0: none comes
	queue map[string][]uint64      // tokens that wait for a host that does not answer
}

// newBench returns a table with these hosts, each of which answers within a microsecond.
func newBench(names ...string) *bench {
	b := &bench{delay: map[string]time.Duration{}, queue: map[string][]uint64{}}
	b.Table = New(func(host string) string { return "task." + host }, func() time.Duration { return b.clock })
	for _, name := range names {
		b.delay[name] = time.Microsecond
		b.AddHost(name)
	}
	return b
}

// answer is one that comes at a time.
type answer struct {
	at     time.Duration
	client int
	token  uint64
}

// send places tasks of clients, counts them by host, and returns the answers in their order. A host whose delay is
// below 0 does not answer.
func (b *bench) send(clients []int, counts map[string]int) (answers []answer) {
	free := map[string]time.Duration{}
	b.BeginBatch()
	for _, client := range clients {
		to := b.Place()
		counts[to.Host]++
		if b.delay[to.Host] < 0 {
			b.queue[to.Host] = append(b.queue[to.Host], to.Token)
			continue
		}
		free[to.Host] = max(free[to.Host], b.clock) + b.delay[to.Host]
		answers = append(answers, answer{free[to.Host], client, to.Token})
	}
	slices.SortStableFunc(answers, func(x, y answer) int { return int(x.at - y.at) })
	return answers
}

// play plays a batch of n clients. It returns how long that took, and how many tasks each host got. It looks for a
// stall after each patience without an answer.
func (b *bench) play(t testing.TB, n int) (took time.Duration, counts map[string]int) {
	t.Helper()
	const patience = 50 * time.Millisecond
	started, counts := b.clock, map[string]int{}
	waits := map[int]bool{}
	var open []int
	for client := range n {
		waits[client], open = true, append(open, client)
	}
	answers := b.send(open, counts)
	for silent := 0; len(waits) > 0; {
		if len(answers) > 0 && answers[0].at <= b.clock+patience {
			a := answers[0]
			answers = answers[1:]
			b.clock = max(b.clock, a.at)
			if b.CountAnswer(a.token) {
				delete(waits, a.client)
			}
			silent = 0
			continue
		}
		if b.clock += patience; b.Stalled() {
			open = open[:0]
			for client := range n {
				if waits[client] {
					open = append(open, client)
				}
			}
			answers = append(answers, b.send(open, counts)...)
			slices.SortStableFunc(answers, func(x, y answer) int { return int(x.at - y.at) })
		}
		if silent++; silent > 100 {
			t.Fatalf("%d tasks are never answered: %v", len(waits), counts)
		}
	}
	took = b.clock - started
	b.clock += time.Millisecond // what else a round is
	for _, a := range answers {
		b.clock = max(b.clock, a.at)
		b.CountAnswer(a.token)
	}
	return took, counts
}

// resume has a host that stood still answer the tasks it got meanwhile, and answer later ones after delay.
func (b *bench) resume(name string, delay time.Duration) {
	for _, token := range b.queue[name] {
		b.CountAnswer(token)
	}
	b.queue[name], b.delay[name] = nil, delay
}

// Hosts that keep up share tasks equally, from when they come until they go.
func TestHosts_ShareTasks(t *testing.T) {
	b := newBench("a", "b", "c")
	for _, want := range []map[string]int{{"a": 40, "b": 40, "c": 40}, {"a": 30, "b": 30, "c": 30, "d": 30}, {"b": 40, "c": 40, "d": 40}} {
		if _, got := b.play(t, 120); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if b.delay["d"] == 0 {
			b.delay["d"] = time.Microsecond
			b.AddHost("d")
			b.AddHost("d")
		} else {
			b.RemoveHost("a")
		}
	}
}

func TestHosts_NoneIsAnyHost(t *testing.T) {
	b := newBench()
	if to := b.Place(); to != (Target{Token: b.anyHostToken}) {
		t.Errorf("got %v", to)
	}
	b.AddHost("a")
	if to := b.Place(); to.Host != "a" || to.Verb != "task.a" {
		t.Errorf("got %v", to)
	}
	b.RemoveHost("a")
	b.RemoveHost("a")
	b.RemoveHost("nobody")
	if to := b.Place(); to.Host != "" {
		t.Errorf("got %v after it has left", to)
	}
}

// A host that stops costs a patience now and then, ever less often, and after it goes on
// it has its share again.
func TestTable_HostStops(t *testing.T) {
	b := newBench("a", "b")
	b.play(t, 40)
	b.delay["b"] = -1
	lost := 0
	for b.clock < time.Minute {
		took, _ := b.play(t, 40)
		if took > 60*time.Millisecond {
			t.Fatalf("a batch takes %v while it is stopped", took)
		}
		if took > time.Millisecond {
			lost++
		}
	}
	if lost == 0 || lost > 9 {
		t.Errorf("in a minute it is waited for %d times", lost)
	}
	b.resume("b", time.Microsecond)
	for end := b.clock + firstRest<<maxDoublings; b.clock < end; b.clock += time.Second {
		b.play(t, 40)
	}
	if _, counts := b.play(t, 40); counts["b"] != 20 {
		t.Errorf("after it went on hosts get %v", counts)
	}
}

// A host that takes far longer than another is asked ever less often, and one of a third
// of its speed all the time.
func TestTable_SlowHost(t *testing.T) {
	b := newBench("a", "b")
	b.delay["a"], b.delay["b"] = 10*time.Microsecond, 5*time.Millisecond
	slow := 0
	for b.clock < time.Minute {
		if _, counts := b.play(t, 10); counts["b"] > 0 {
			slow++
		}
	}
	if slow == 0 || slow > 9 {
		t.Errorf("in a minute %d batches wait for it", slow)
	}
	b = newBench("a", "b")
	b.delay["a"], b.delay["b"] = 10*time.Microsecond, 30*time.Microsecond
	for range 200 {
		if _, counts := b.play(t, 1000); counts["b"] != 500 {
			t.Fatalf("hosts get %v", counts)
		}
	}
}

// A host that stops and goes on all the time costs ever less.
func TestTable_HostStopsRepeatedly(t *testing.T) {
	b := newBench("a", "b")
	var lost time.Duration
	end := time.Minute
	for cycle := time.Duration(0); b.clock < end; cycle += 2 * time.Second {
		b.resume("b", time.Microsecond)
		for b.clock < cycle+1900*time.Millisecond {
			took, _ := b.play(t, 6)
			lost += took
		}
		b.delay["b"] = -1
		for b.clock < cycle+2*time.Second {
			took, _ := b.play(t, 6)
			lost += took
		}
	}
	if lost > time.Second {
		t.Errorf("of %v %v were lost", end, lost)
	}
}

// All hosts stand still, with the server perhaps: nobody is to blame.
func TestTable_AllStandStill(t *testing.T) {
	b := newBench("a", "b")
	counts := map[string]int{}
	b.delay["a"], b.delay["b"] = -1, -1
	b.send([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, counts)
	for range 10 {
		if b.clock += time.Second; b.Stalled() {
			t.Fatal("a host is passed over")
		}
	}
	b.resume("a", 0)
	b.resume("b", 0)
	if _, after := b.play(t, 40); after["a"] < 10 || after["b"] < 10 {
		t.Errorf("then hosts get %v", after)
	}
}

// Tokens of nobody and of hosts that are gone do no harm, and those of
// another table do not count: a task of its number may have another plan here.
func TestTokens(t *testing.T) {
	b := newBench("a", "b")
	owner := b.Place()
	for _, token := range []uint64{b.anyHostToken, b.anyHostToken + 1, b.anyHostToken + 2, b.anyHostToken + 77, b.anyHostToken + 1<<31, owner.Token + 5} {
		if !b.CountAnswer(token) {
			t.Errorf("the answer with token %d does not count", token)
		}
	}
	for _, token := range []uint64{b.anyHostToken - 1, b.anyHostToken + 1<<32, owner.Token ^ 1<<40, owner.Token ^ 1<<63} {
		if b.CountAnswer(token) {
			t.Errorf("the answer with token %d counts, tokens are from %d on", token, b.anyHostToken)
		}
	}
	b.Reset()
	if !b.CountAnswer(owner.Token) {
		t.Error("a late answer does not count")
	}
}

// Whatever hosts do, every task is answered as long as one host answers.
func TestTable_OneHostAnswers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := []string{"a", "b", "c"}
		b := newBench(names...)
		there := map[string]bool{"a": true, "b": true, "c": true}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			name := names[rapid.IntRange(1, 2).Draw(r, "host")] // a is always well
			switch rapid.IntRange(0, 4).Draw(r, "what") {
			case 0:
				b.delay[name] = -1
			case 1:
				b.resume(name, time.Duration(rapid.IntRange(1, 1e7).Draw(r, "delay")))
			case 2:
				b.RemoveHost(name)
				there[name] = false
			case 3:
				b.AddHost(name)
				there[name] = true
			case 4:
				b.Reset()
			}
			_, counts := b.play(t, rapid.IntRange(1, 30).Draw(r, "cohort"))
			for host := range counts {
				if !there[host] {
					r.Fatalf("host %s gets a task and is not there", host)
				}
			}
		}
	})
}
