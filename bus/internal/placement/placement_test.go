package placement

import (
	"fmt"
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

func newBench(names ...string) *bench {
	b := &bench{delay: map[string]time.Duration{}, queue: map[string][]uint64{}}
	b.Table = New(func(host string) string { return "task." + host }, func() time.Duration { return b.clock })
	for _, name := range names {
		b.delay[name] = time.Microsecond
		b.Join(name)
	}
	return b
}

// answer is one that comes at a time.
type answer struct {
	at     time.Duration
	client int
	token  uint64
}

// send places tasks of clients and returns the answers that will come.
func (b *bench) send(clients []int, counts map[string]int) (answers []answer) {
	free := map[string]time.Duration{}
	b.Begin()
	for _, client := range clients {
		owner, copied := b.Place(client)
		for _, to := range []Target{owner, copied} {
			if to.Host == "" {
				continue
			}
			counts[to.Host]++
			if b.delay[to.Host] < 0 {
				b.queue[to.Host] = append(b.queue[to.Host], to.Token)
				continue
			}
			free[to.Host] = max(free[to.Host], b.clock) + b.delay[to.Host]
			answers = append(answers, answer{free[to.Host], client, to.Token})
		}
	}
	slices.SortStableFunc(answers, func(x, y answer) int { return int(x.at - y.at) })
	return answers
}

// play plays a batch of so many clients and returns how long it took, and how many
// tasks each host got. After the patience without an answer a stall is looked for.
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
			if b.Answered(a.token) {
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
		b.Answered(a.token)
	}
	return took, counts
}

// resume has a host answer what it was sent while it did not.
func (b *bench) resume(name string, delay time.Duration) {
	for _, token := range b.queue[name] {
		b.Answered(token)
	}
	b.queue[name], b.delay[name] = nil, delay
}

// Every client has one owner among the hosts; one that comes takes its share from
// the others, one that goes leaves its own to them, and no other client moves.
func TestAHostThatComesOrGoesMovesOnlyItsShare(t *testing.T) {
	const clients = 3000
	owners := func(b *bench) (list []string) {
		for client := range clients {
			owner, _ := b.Place(client)
			list = append(list, owner.Host)
		}
		return list
	}
	b := newBench("a", "b", "c")
	three := owners(b)
	b.Join("d")
	four := owners(b)
	share := 0
	for i := range clients {
		if four[i] == "d" {
			share++
		} else if four[i] != three[i] {
			t.Fatalf("client %d moved from %s to %s, and d has come", i, three[i], four[i])
		}
	}
	if share < clients/5 || share > clients*3/10 {
		t.Errorf("the fourth host has %d of %d clients", share, clients)
	}
	b.Leave("d")
	if got := owners(b); !slices.Equal(got, three) {
		t.Error("after it has left its clients are not where they were")
	}
}

func TestNoHostIsAnyHost(t *testing.T) {
	b := newBench()
	if owner, copied := b.Place(7); owner != (Target{Token: b.first}) || copied != (Target{}) {
		t.Errorf("got %v, %v", owner, copied)
	}
	b.Join("a")
	if owner, copied := b.Place(7); owner.Host != "a" || owner.Verb != "task.a" || copied != (Target{}) {
		t.Errorf("got %v, %v", owner, copied)
	}
	b.Leave("a")
	b.Leave("a")
	b.Leave("nobody")
	if owner, _ := b.Place(7); owner.Host != "" {
		t.Errorf("got %v after it has left", owner)
	}
}

// A host that stops costs one patience; then it gets copies alone, and after it
// goes on it owns a share again.
func TestAHostThatStops(t *testing.T) {
	b := newBench("a", "b")
	for range 10 {
		if _, counts := b.play(t, 40); counts["b"] < 10 {
			t.Fatalf("hosts that are equal get %v", counts)
		}
	}
	b.delay["b"] = -1
	if took, _ := b.play(t, 40); took > 60*time.Millisecond {
		t.Errorf("the batch in which it stops takes %v", took)
	}
	total := 0
	for range 1000 {
		took, counts := b.play(t, 40)
		if took > time.Millisecond {
			t.Fatalf("a batch takes %v while it is stopped", took)
		}
		total += counts["b"]
	}
	if total == 0 || total > 30 {
		t.Errorf("%d copies in a second and more", total)
	}
	b.resume("b", time.Microsecond)
	for range 3000 {
		b.play(t, 40)
	}
	if _, counts := b.play(t, 40); counts["b"] < 10 {
		t.Errorf("after it went on hosts get %v", counts)
	}
}

// A host that takes long for one task owns nothing where the others do a batch in
// that time, and its share where they do not.
func TestASlowHostGetsWhatItDoes(t *testing.T) {
	b := newBench("a", "b")
	b.delay["a"], b.delay["b"] = 10*time.Microsecond, 5*time.Millisecond
	for range 200 {
		b.play(t, 10)
	}
	for range 500 {
		if took, _ := b.play(t, 10); took > 200*time.Microsecond {
			t.Fatalf("a batch takes %v with a slow host", took)
		}
	}
	b = newBench("a", "b")
	b.delay["a"], b.delay["b"] = 10*time.Microsecond, 30*time.Microsecond
	for range 200 {
		b.play(t, 1000)
	}
	if _, counts := b.play(t, 1000); counts["b"] < 180 || counts["b"] > 320 {
		t.Errorf("a host of a third of the other's speed gets %v", counts)
	}
}

// A host that stops and goes on all the time costs ever less.
func TestAHostThatStopsAgainAndAgain(t *testing.T) {
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
func TestWhenAllStandStillNobodyIsPassedOver(t *testing.T) {
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

// Tokens of nobody, of hosts that are gone and of copies do no harm, and those of
// another table do not count: a task of its number may have another plan here.
func TestTokens(t *testing.T) {
	b := newBench("a", "b")
	owner, _ := b.Place(1)
	for _, token := range []uint64{b.first, b.first + 1, b.first + 2, b.first + 77, b.first + 1<<31, owner.Token + MostHosts} {
		if !b.Answered(token) {
			t.Errorf("the answer with token %d does not count", token)
		}
	}
	for _, token := range []uint64{b.first - 1, b.first + 1<<32, owner.Token ^ 1<<40, owner.Token ^ 1<<63} {
		if b.Answered(token) {
			t.Errorf("the answer with token %d counts, tokens are from %d on", token, b.first)
		}
	}
	b.Forget()
	if !b.Answered(owner.Token) {
		t.Error("a late answer does not count")
	}
}

func TestManyHosts(t *testing.T) {
	b := newBench()
	for i := range MostHosts + 10 {
		b.Join(fmt.Sprint("h", i))
	}
	if len(b.trusted) != MostHosts {
		t.Errorf("%d hosts", len(b.trusted))
	}
	b.Leave("h7")
	b.Join("new")
	if len(b.trusted)+len(b.waiting) != MostHosts || b.named["h7"] != nil || b.named["new"] == nil {
		t.Error("a host that is gone keeps its place from a new one")
	}
}

// Whatever hosts do, every task is answered as long as one host answers.
func TestEveryTaskIsAnsweredAsLongAsOneHostIs(t *testing.T) {
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
				b.Leave(name)
				there[name] = false
			case 3:
				b.Join(name)
				there[name] = true
			case 4:
				b.Forget()
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
