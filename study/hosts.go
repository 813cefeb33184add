package study

import (
	"context"
	"fmt"
	"sync"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/internal/names"
)

// parallelWithHosts is the number of cells that are played side by side where hosts in other processes train:
// the number of the paper's schedules. While one cell waits for its slowest trainer or for messages,
// the hosts work for the others.
const parallelWithHosts = 8

// server returns how a cell reaches its server: the one of the options, or else the one of the cell's own
// configuration where that has hosts, too (ConfiguredHosts). remote says that hosts in other processes do the
// cell's work there; if it is false, the cell is played in this process. A cell that was begun on another server
// continues on this one.
func (o *Options) server(c *Cell) (server natsconn.Config, remote bool) {
	server = o.Run.NATS
	remote = server.URL != ""
	if o.ConfiguredHosts && !remote {
		server.URL = c.Config.NATS.URL
		remote = server.URL != config.Embedded && server.URL != config.None
	}
	return server, remote
}

// awaitServers waits until the servers of the cells that are still to be played can be reached, before anything is
// prepared for these cells. It returns whether hosts in other processes do any of the work.
func (o *Options) awaitServers(ctx context.Context, cells []Cell) (remote bool, err error) {
	reached := map[string]bool{}
	for i := range cells {
		server, isRemote := o.server(&cells[i])
		// Each server is tried once, and only if a cell still needs it.
		if !isRemote || cells[i].Reused || reached[server.URL] {
			continue
		}
		// The check connects under a name of its own, and waits for a server that is not up yet, as a run does.
		server.Name = "is it there"
		server.Await = true
		server.Notice = func(n bus.Notice) { o.Run.Notify(n.Text) }
		conn, err := natsconn.Connect(ctx, server)
		if err != nil {
			return false, err
		}
		conn.Close()
		reached[server.URL] = true
		address := names.Redacted(server.URL)
		o.Run.Notify(fmt.Sprintf(
			"This process drives the runs and trains nothing: hosts on %s do (fedpace host --nats %s).",
			address,
			address,
		))
	}
	return len(reached) > 0, nil
}

// nameUniquely gives each of the cells that share a name in their configurations a name of its own on the
// server, which tells runs apart by name: the shared name and the first digits of the cell's ID.
func nameUniquely(cells []Cell) {
	uses := map[string]int{}
	// Only names that are not unique are changed, because users know their runs by name.
	for i := range cells {
		uses[cells[i].Config.Name]++
	}
	for i := range cells {
		if c := &cells[i]; uses[c.Config.Name] > 1 {
			c.name = fmt.Sprintf("%.50s-%.10s", c.Config.Name, c.ID)
		}
	}
}

// hostNotices passes on once what several cells say of the server and the hosts, each of them over
// a connection of its own. A notice is news unless its subject was in the same state before. The
// cells of one task want the same of hosts, so what they say of hosts counts as one.
type hostNotices struct {
	// notice passes a line on to the user.
	notice func(string)

	mu sync.Mutex
	// last holds the last notice by its subject, for each task; those of the server have no task.
	last map[config.Task]map[string]bus.Notice
}

// maxSubjects bounds the subjects whose last notice is kept for a task: hosts come and go, each with a new
// name.
const maxSubjects = 1000

// forwarder returns the function that takes what the run of cell c notices of its server and its hosts, and passes on
// to the user what no other cell with the same server or task has said already (see hostNotices).
func (h *hostNotices) forwarder(c *Cell) func(bus.Notice) {
	return func(n bus.Notice) {
		task := c.Config.Task
		prefix := string(c.Config.Task) + ": "
		// All cells share the server, so its notices belong to no task.
		if n.State.ConcernsServer() {
			task = ""
			prefix = ""
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.noteNews(task, n) {
			h.notice(prefix + n.Text)
		}
	}
}

// noteNews remembers notice n and reports whether it says something new for the task; an empty task
// stands for the server, which all tasks share. The caller holds the lock.
func (h *hostNotices) noteNews(task config.Task, n bus.Notice) bool {
	// previous holds the last notice about each host of the task, and under the empty subject that about all of
	// them together. Forgetting these notices bounds the memory and at worst repeats some.
	previous := h.last[task]
	if previous == nil || len(previous) >= maxSubjects {
		previous = map[string]bus.Notice{}
		h.last[task] = previous
	}
	// A notice that no host is there is news only while none of the task's cells has one.
	if n.State == bus.NoHost {
		for _, notice := range previous {
			if notice.State == bus.HostPresent {
				// The host of another cell is getting ready for this one.
				return false
			}
		}
	}
	// The same state of the same host is no news, unless a present host says something else.
	if previousNotice, exists := previous[n.Subject]; exists && previousNotice.State == n.State {
		saysMore := n.State == bus.HostPresent && previousNotice.Text != n.Text
		if !saysMore {
			return false
		}
	}
	// If all hosts leave after a notice about one of them, that is news again.
	if n.Subject != "" {
		delete(previous, "")
	}
	previous[n.Subject] = n
	return true
}
