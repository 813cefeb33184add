package study

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// besideHosts is how many cells go side by side where hosts in other processes train: the paper's
// schedules of a task. A round ends with its slowest trainer, and a short one is mostly messages;
// while one cell waits for either, the hosts work for the others.
const besideHosts = 8

// server is how a cell reaches its server, and whether hosts in other processes do
// its work there. A cell that was begun on another server goes on here.
func (o *Options) server(c *Cell) (to run.Connection, remote bool) {
	to = o.Run.NATS
	remote = to.URL != ""
	if o.ConfiguredHosts && !remote {
		to.URL = c.Config.NATS.URL
		remote = to.URL != config.Embedded && to.URL != config.None
	}
	return to, remote
}

// reach finds out whether the servers of the cells that are left can be reached, before anything is
// prepared for them, and says whether hosts in other processes do any of the work.
func (o *Options) reach(ctx context.Context, cells []Cell) (remote bool, err error) {
	reached := map[string]bool{}
	for i := range cells {
		to, there := o.server(&cells[i])
		if !there || cells[i].Reused || reached[to.URL] {
			continue
		}
		if err := to.Reach(ctx); err != nil {
			return false, err
		}
		reached[to.URL] = true
		at := names.Redacted(to.URL)
		o.Run.Notice(fmt.Sprintf("This process drives the runs and trains nothing: hosts on %s do (fedpace host --nats %s).", at, at))
	}
	return len(reached) > 0, nil
}

// hostNotices passes on once what several cells say of the server and the hosts, each of them over
// a connection of its own. A line's first two words are its subject ("Host box", "No host", "The
// connection"). A line is news unless it equals the last one of its subject, reasons in brackets
// apart. The cells of one task want the same of hosts, so what they say of hosts counts as one.
type hostNotices struct {
	notice func(string)

	mu   sync.Mutex
	last map[config.Task]map[string]string // the last line by its subject; no task: of the server
}

// The subjects of lines of hosts, and how many are kept.
const (
	aHost        = "Host "
	noHost       = "No host"
	mostSubjects = 1000 // hosts come and go, each with a new name
)

var reason = regexp.MustCompile(`\([^)]*\)`)

// of takes the lines of a cell's run.
func (h *hostNotices) of(c *Cell) func(string) {
	return func(line string) {
		task, prefix := config.Task(""), ""
		if strings.HasPrefix(line, aHost) || strings.HasPrefix(line, noHost) {
			task, prefix = c.Config.Task, string(c.Config.Task)+": "
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.news(task, line) {
			h.notice(prefix + line)
		}
	}
}

func (h *hostNotices) news(task config.Task, line string) bool {
	last := h.last[task]
	if last == nil || len(last) >= mostSubjects {
		last = map[string]string{}
		h.last[task] = last
	}
	if strings.HasPrefix(line, noHost+" is there") {
		for _, other := range last {
			if strings.HasPrefix(other, aHost) && strings.Contains(other, " is there ") {
				return false // the host of another cell is getting ready for this one
			}
		}
	}
	subject, said := line, reason.ReplaceAllString(line, "")
	if words := strings.SplitN(line, " ", 3); len(words) == 3 {
		subject = words[0] + " " + words[1]
	}
	if last[subject] == said {
		return false
	}
	if subject != noHost {
		delete(last, noHost) // no host after that is news again
	}
	last[subject] = said
	return true
}
