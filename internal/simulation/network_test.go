package simulation

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"fedpace/internal/keyed"
)

// The purposes of draws.
const (
	ofScenario keyed.Purpose = 900 + iota // ()
	ofMessage                             // (link, number)
	ofEvent                               // (attempt, event): whether a checkpoint is due
	ofJob                                 // (part, number): whether the coordinator crashes after it
	ofDisk                                // (attempt, number): how long the disk takes
	ofPower                               // (attempt): what a crash leaves on the disk
)

// weather is how messages travel.
type weather struct {
	loss, twice, late float64       // shares of the messages
	delay             time.Duration // of most messages, at most
	lateness          time.Duration // of late ones, at most
}

// network carries messages between parts. It implements simbus.Network.
type network struct {
	seed    uint64
	weather weather
	calm    time.Time // from then on every message arrives

	mu       sync.Mutex
	links    map[string]uint64 // messages so far
	gone     map[string]bool   // parts that have crashed
	cut      map[string]window // parts that nothing reaches
	held     map[string]window // parts that stand still: messages wait
	slow     map[string]window // parts whose messages take long
	messages int
	trace    uint64 // of all messages: equal traces, equal simulations
	log      func(format string, args ...any)
	sent     func(from, kind string, n uint64) // is told of each message on its link; must not wait
}

// window is a time in which something is so.
type window struct{ from, to time.Time }

func (w window) holds(at time.Time) bool { return !at.Before(w.from) && at.Before(w.to) }

func newNetwork(seed uint64, w weather, calm time.Time) *network {
	return &network{
		seed: seed, weather: w, calm: calm, links: map[string]uint64{}, gone: map[string]bool{},
		cut: map[string]window{}, held: map[string]window{}, slow: map[string]window{}, log: func(string, ...any) {},
	}
}

func (n *network) Carry(from, to, kind string, deliver func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone[from] {
		return // what a part still does that is about to end
	}
	now := time.Now()
	link := from + " to " + to + ": " + kind
	n.links[link]++
	n.messages++
	n.sent(from, kind, n.links[link])
	id := fnv.New64a()
	id.Write([]byte(link))
	h := keyed.Hash(n.seed, ofMessage, id.Sum64(), n.links[link])
	n.trace += keyed.Hash(h, ofMessage, uint64(now.UnixNano()))
	w, u := &n.weather, func(i uint64) float64 { return keyed.Float64(keyed.Nth(h, i)) }
	copies := 1
	if now.Before(n.calm) {
		switch {
		case u(0) < w.loss:
			copies = 0
		case u(1) < w.twice:
			copies = 2
		}
	}
	for i := range copies {
		after := time.Millisecond + time.Duration(u(uint64(2+i))*float64(w.delay))
		if now.Before(n.calm) && u(uint64(4+i)) < w.late {
			after += time.Duration(u(uint64(6+i)) * float64(w.lateness))
		}
		for _, part := range []string{from, to} {
			if n.slow[part].holds(now) {
				after += time.Second + time.Duration(u(uint64(8+i))*float64(20*time.Second))
			}
			if x := n.held[part]; x.holds(now) || x.holds(now.Add(after)) {
				after += x.to.Sub(now)
			}
		}
		n.log("%v %s %d: %v", now.Sub(epoch), link, n.links[link], after)
		time.AfterFunc(after, func() {
			if n.reaches(from, to, now) {
				deliver()
			}
		})
	}
	if copies == 0 {
		n.log("%v %s %d: lost", now.Sub(epoch), link, n.links[link])
	}
}

// reaches reports whether a message that was sent then arrives now.
func (n *network) reaches(from, to string, sent time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, part := range []string{from, to} {
		if n.gone[part] || n.cut[part].holds(sent) || n.cut[part].holds(time.Now()) {
			return false
		}
	}
	return true
}

// crash ends what a part says and hears for good.
func (n *network) crash(part string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone[part] = true
}

// mark puts a part into one of the states for a while.
func (n *network) mark(state map[string]window, part string, length time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	state[part] = window{time.Now(), time.Now().Add(length)}
}

// epoch is when the time of a bubble starts.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (w weather) String() string {
	return fmt.Sprintf("%.0f %% lost, %.0f %% twice, %.0f %% up to %v late, delays to %v", 100*w.loss, 100*w.twice, 100*w.late, w.lateness, w.delay)
}
