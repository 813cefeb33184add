package paper

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

// besideElsewhere is how many cells go side by side where hosts in other
// processes train: the paper's schedules of a task. A round ends with its slowest
// trainer, and a short one is mostly messages; what the others do in the meantime
// is a cell's that waits for neither.
const besideElsewhere = 8

// server is how a cell reaches its server, and whether that is one to which hosts
// in other processes come. A cell that was begun on another goes on here.
func (o *Options) server(c *Cell) (to run.Connection, elsewhere bool) {
	to = o.NATS
	if to.URL == "" {
		to.URL = c.Config.NATS.URL
	}
	return to, to.URL != config.Embedded
}

// reach finds out whether the servers of cells are there, before anything is
// prepared for them, and says whether hosts in other processes do any of the work.
func (o *Options) reach(ctx context.Context, cells []*Cell) (elsewhere bool, err error) {
	there := map[string]bool{}
	for _, c := range cells {
		to, external := o.server(c)
		if !external || there[to.URL] {
			continue
		}
		if err := to.Reach(ctx); err != nil {
			return false, fmt.Errorf("paper: %w", err)
		}
		there[to.URL] = true
		at := names.Redacted(to.URL)
		o.Notice(fmt.Sprintf("This process drives the runs and trains nothing: hosts on %s do (fedpace host --nats %s).", at, at))
	}
	return len(there) > 0, nil
}

// chorus tells once what several cells say of the server and the hosts, each of
// them over a connection of its own. A line's first two words are what it is
// about ("Host box", "No host", "The connection"); it is news when it is not what
// was last said of that, reasons in brackets apart. The cells of one task want the
// same of hosts, so what they say of them counts as one.
type chorus struct {
	tell func(string)

	mu   sync.Mutex
	last map[config.Task]map[string]string // the last line by what it is about; no task: of the server
}

// Of what a line is about, and how it says that a host is there.
const (
	aHost       = "Host "
	nobody      = "No host"
	nobodyThere = nobody + " is there"
	isThere     = " is there "
	maxAbout    = 1000 // hosts come and go, each with a new name
)

var reason = regexp.MustCompile(`\([^)]*\)`)

// of is what a cell's run tells its lines to.
func (h *chorus) of(c *Cell) func(string) {
	return func(line string) {
		task, prefix := config.Task(""), ""
		if strings.HasPrefix(line, aHost) || strings.HasPrefix(line, nobody) {
			task, prefix = c.Task, string(c.Task)+": "
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.news(task, line) {
			h.tell(prefix + line)
		}
	}
}

func (h *chorus) news(task config.Task, line string) bool {
	last := h.last[task]
	if last == nil || len(last) >= maxAbout {
		last = map[string]string{}
		h.last[task] = last
	}
	if strings.HasPrefix(line, nobodyThere) && anyThere(last) {
		return false
	}
	about, said := line, reason.ReplaceAllString(line, "")
	if words := strings.SplitN(line, " ", 3); len(words) == 3 {
		about = words[0] + " " + words[1]
	}
	if last[about] == said {
		return false
	}
	if about != nobody {
		delete(last, nobody) // who is alone after that is alone again
	}
	last[about] = said
	return true
}

// anyThere says whether a host is there for others: then one that a cell still
// waits for is getting ready.
func anyThere(last map[string]string) bool {
	for about, line := range last {
		if strings.HasPrefix(about, aHost) && strings.Contains(line, isThere) {
			return true
		}
	}
	return false
}
