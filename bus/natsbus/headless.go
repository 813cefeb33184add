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

// headless watches whether a cluster as a whole has no leader for too long, from the requests to that leader which
// the servers that are up leave unanswered.
type headless struct {
	mu sync.Mutex
	// runOpened says that the run has been opened, so that the servers were not just started with it.
	runOpened bool
	// size is how many servers the cluster has, as far as is known.
	size int
	// upWithoutLeader has, for each server that was up while no leader answered, when that was seen last. Its name is
	// the key.
	upWithoutLeader map[string]time.Time
	// lastSilent is when a request was last left without an answer.
	lastSilent time.Time
	// silentSince is when the first request was left without an answer since the cluster's leader answered last; zero
	// if it has answered since.
	silentSince time.Time
	// majoritySince is since when a majority of the servers is in upWithoutLeader; zero if it is not.
	majoritySince time.Time
}

// clusterSize returns how many servers a connection knows: those of its URL, or those that the cluster has named, if
// they are more. One server may be in both lists with two names.
func clusterSize(n *nats.Conn) int {
	named := len(n.DiscoveredServers())
	given := len(n.Servers()) - named
	return max(given, named)
}

// noteSize notes that the cluster has at least this many servers. The largest number counts, since servers that are
// down are not seen.
func (h *headless) noteSize(size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size = max(h.size, size)
}

// noteOpened notes that the run has been opened.
func (h *headless) noteOpened() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runOpened = true
}

// noteAnswer notes that the leader of the cluster has answered.
func (h *headless) noteAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
}

// forget forgets that requests were left without an answer. The caller holds the lock.
func (h *headless) forget() {
	h.upWithoutLeader = map[string]time.Time{}
	h.silentSince = time.Time{}
	h.majoritySince = time.Time{}
}

// noteSilence is called when this server of the cluster is up at the time now and the leader of the cluster leaves a
// request through it without an answer. It returns an error, which is not transient, if the cluster has been without
// a leader for too long: with a majority of its servers up for headlessPatience, or for startingPatience as long as
// the run has not been opened; with fewer servers up for minorityPatience. Otherwise it returns nil, and the caller
// goes on waiting.
func (h *headless) noteSilence(server string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.lastSilent) > headlessGap {
		h.forget()
	}
	if h.silentSince.IsZero() {
		h.silentSince = now
	}
	h.lastSilent = now
	h.upWithoutLeader[server] = now
	maps.DeleteFunc(h.upWithoutLeader, func(_ string, last time.Time) bool { return now.Sub(last) > headlessMemory })
	// A single server says nothing about the others.
	majority := max(h.size/2+1, 2)
	if len(h.upWithoutLeader) < majority {
		h.majoritySince = time.Time{}
		without := now.Sub(h.silentSince)
		if without >= minorityPatience {
			return h.noLeaderError(without, "; up is")
		}
		return nil
	}
	if h.majoritySince.IsZero() {
		h.majoritySince = now
	}
	patience := headlessPatience
	if !h.runOpened {
		patience = startingPatience
	}
	without := now.Sub(h.majoritySince)
	if without < patience {
		return nil
	}
	return h.noLeaderError(without, " although a majority of its servers is up:")
}

// noLeaderError returns the error that ends the run: the cluster has had no leader for this duration. The error names
// the servers that are up, behind upWords, the text that introduces them. The caller holds the lock.
func (h *headless) noLeaderError(duration time.Duration, upWords string) error {
	up := slices.Sorted(maps.Keys(h.upWithoutLeader))
	next := "resume the run"
	if !h.runOpened {
		next = "start or resume the run"
	}
	return fmt.Errorf("the cluster has elected no leader for %v%s %s (start the others, and look whether the disk "+
		"of one is full or was emptied; then %s)", duration.Round(time.Second), upWords, strings.Join(up, ", "), next)
}
