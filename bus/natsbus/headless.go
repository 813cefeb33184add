package natsbus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A cluster as a whole has a leader, too, without which no stream can be made. A majority of the servers elects it
// within seconds, unless disks are full or were emptied: a server does not get JetStream back before its disk has room,
// and the vote of an empty log counts only if all servers vote. A run that waits for that would stand still for as long
// as nobody looks. So it ends once a majority was found up for headlessPatience, or fewer servers for
// minorityPatience, and says which servers are.

// headlessPatience is how long a majority of a cluster's servers may be up without a leader. They elect one within 4
// to 9 seconds if they can. Tests shorten the time.
var headlessPatience = 20 * time.Second

// startingPatience takes the place of headlessPatience until the run has been opened: the servers of the cluster may
// have been started with it.
const startingPatience = 25 * time.Second

// minorityPatience is how long a cluster may have no leader while fewer servers are up. The first request fails 12 s
// after the last server of a majority has died, so the run ends within a minute, and servers that are back within 30 s
// have time to elect a leader.
const minorityPatience = 40 * time.Second

// headlessMemory is how long a server counts as up after it was last found without a leader of its cluster. The
// connection goes from server to server with pauses of 10 seconds.
const headlessMemory = time.Minute

// headlessGap is how far apart two requests without an answer may be that count as one time without a leader.
const headlessGap = 15 * time.Second

// headless watches whether a cluster has no leader although a majority of its servers is up.
type headless struct {
	mu sync.Mutex
	// begun says that the run has been opened.
	begun bool
	// size is how many servers the cluster has, as far as is known.
	size int
	// found is when each server, by its name, was last up without a leader of its cluster.
	found map[string]time.Time
	// last is when the latest of them was.
	last time.Time
	// first is when the first request was not answered since the cluster's leader answered last; zero if there is none.
	first time.Time
	// since is when found has come to a majority of the servers; zero if it has not.
	since time.Time
}

// clusterSize returns how many servers a connection knows: those of its URL, or those that the cluster has named, if
// they are more. One server may be in both lists with two names.
func clusterSize(n *nats.Conn) int {
	named := len(n.DiscoveredServers())
	given := len(n.Servers()) - named
	return max(given, named)
}

// known notes how many servers there are, which is not known any more when some of them are down.
func (h *headless) known(size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size = max(h.size, size)
}

// begin notes that the run has been opened.
func (h *headless) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
}

// answered notes that the leader of the cluster has answered.
func (h *headless) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
}

// forget begins anew. The caller holds the lock.
func (h *headless) forget() {
	h.found = map[string]time.Time{}
	h.first = time.Time{}
	h.since = time.Time{}
}

// silent notes that the leader of the cluster did not answer this server at the time now. It returns an error, which is
// not transient, if a majority of the cluster has been up without a leader for headlessPatience. Before the run has
// been opened, the time is startingPatience. Without a majority it is minorityPatience.
func (h *headless) silent(server string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.last) > headlessGap {
		h.forget()
	}
	if h.first.IsZero() {
		h.first = now
	}
	h.last = now
	h.found[server] = now
	maps.DeleteFunc(h.found, func(_ string, last time.Time) bool { return now.Sub(last) > headlessMemory })
	// A single server says nothing about the others.
	majority := max(h.size/2+1, 2)
	if len(h.found) < majority {
		h.since = time.Time{}
		without := now.Sub(h.first)
		if without >= minorityPatience {
			return h.leaderless(without, "; up is")
		}
		return nil
	}
	if h.since.IsZero() {
		h.since = now
	}
	patience := headlessPatience
	if !h.begun {
		patience = startingPatience
	}
	without := now.Sub(h.since)
	if without < patience {
		return nil
	}
	return h.leaderless(without, " although a majority of its servers is up:")
}

// leaderless returns the error that the cluster has had no leader for a time, with the servers that are up behind the
// words intro. The caller holds the lock.
func (h *headless) leaderless(without time.Duration, intro string) error {
	up := slices.Sorted(maps.Keys(h.found))
	next := "resume the run"
	if !h.begun {
		next = "start or resume the run"
	}
	return fmt.Errorf("the cluster has elected no leader for %v%s %s (start the others, and look whether the disk of one "+
		"is full or was emptied; then %s)", without.Round(time.Second), intro, strings.Join(up, ", "), next)
}
