package tables

import (
	"fmt"
	"io"

	"fedpace/coordinator/round"
	"fedpace/metrics/timeline"
)

// account is what a client's tasks came to.
type account struct {
	outcomes   [round.Outcomes]uint32
	candidates uint32
	steps      [2]int64
	time       [2]timeline.Parts
}

// The two halves of steps and time.
const (
	useful = iota
	wasted
)

// chunk is how many accounts are made at a time: they never move.
const chunk = 1 << 10

// Clients are the accounts of a run's clients. They belong to the run's
// goroutine.
type Clients struct {
	place []int32 // of a client's account, plus 1; 0: none yet
	list  [][]account
	used  int
	open  []round.Ended // tasks of the open round
}

// NewClients makes accounts for a population.
func NewClients(clients int) *Clients { return &Clients{place: make([]int32, clients)} }

// Settled takes a task that has its outcome. It counts once Report is called.
func (c *Clients) Settled(e *round.Ended) { c.open = append(c.open, *e) }

// Report closes the round: what ended in it counts.
func (c *Clients) Report() {
	for i := range c.open {
		c.count(&c.open[i])
	}
	c.open = c.open[:0]
}

// End closes the run: what ended in the round that is open was for nothing, and
// its tasks are cancelled.
func (c *Clients) End() {
	for i := range c.open {
		if e := &c.open[i]; !e.Probe || e.Outcome == round.Accepted {
			e.Outcome = round.Cancelled
		}
	}
	c.Report()
}

func (c *Clients) count(e *round.Ended) {
	a := c.account(e.Client)
	if e.Probe {
		a.candidates++
	} else {
		a.outcomes[e.Outcome]++
	}
	half := wasted
	if e.Outcome == round.Accepted {
		half = useful
	}
	parts := timeline.Split(e)
	a.steps[half] += timeline.Steps(e, &parts)
	for p, t := range parts {
		a.time[half][p] += t
	}
}

func (c *Clients) account(client int) *account {
	if client >= len(c.place) { // a device that joined
		c.place = append(c.place, make([]int32, client+1-len(c.place))...)
	}
	i := int(c.place[client]) - 1
	if i < 0 {
		if i = c.used; i%chunk == 0 {
			c.list = append(c.list, make([]account, chunk))
		}
		c.used++
		c.place[client] = int32(c.used)
	}
	return &c.list[i/chunk][i%chunk]
}

// State is the accounts as a checkpoint keeps them.
type State struct {
	Clients []uint32 // that have an account, ascending, each as its distance from the one before
	Values  []int64  // of all accounts, values of each together
	Open    []round.Ended
}

// values is how many numbers an account is.
const values = round.Outcomes + 1 + 2 + 2*timeline.Phases

func (a *account) each(f func(get int64, set func(int64))) {
	for i := range a.outcomes {
		f(int64(a.outcomes[i]), func(v int64) { a.outcomes[i] = uint32(v) })
	}
	f(int64(a.candidates), func(v int64) { a.candidates = uint32(v) })
	for i := range a.steps {
		f(a.steps[i], func(v int64) { a.steps[i] = v })
	}
	for i := range a.time {
		for p := range a.time[i] {
			f(int64(a.time[i][p]), func(v int64) { a.time[i][p] = round.Time(v) })
		}
	}
}

// State is valid until the next call of any method.
func (c *Clients) State() State {
	s := State{Open: c.open, Clients: make([]uint32, 0, c.used), Values: make([]int64, 0, c.used*values)}
	last := 0
	for client, i := range c.place {
		if i > 0 {
			s.Clients = append(s.Clients, uint32(client-last))
			last = client
			c.account(client).each(func(v int64, _ func(int64)) { s.Values = append(s.Values, v) })
		}
	}
	return s
}

// Restore puts new accounts where others were saved.
func (c *Clients) Restore(s State) error {
	if len(s.Values) != values*len(s.Clients) {
		return fmt.Errorf("tables: %d values for %d clients, want %d each", len(s.Values), len(s.Clients), values)
	}
	client := 0
	for i, distance := range s.Clients {
		client += int(distance)
		if client >= round.MaxClients {
			return fmt.Errorf("tables: an account of client %d, want less than %d", client, round.MaxClients)
		}
		next := s.Values[i*values:]
		c.account(client).each(func(_ int64, set func(int64)) {
			set(next[0])
			next = next[1:]
		})
	}
	c.open = append(c.open[:0], s.Open...)
	return nil
}

// Write writes clients.parquet, by client. class names a client's class of
// devices, and real says whether it is a real one; nil: all are alike, none is.
func (c *Clients) Write(w io.Writer, meta Meta, class func(client int) string, real func(client int) bool) error {
	return write(w, meta, func(yield func(Client, error) bool) {
		for client, i := range c.place {
			if i == 0 {
				continue
			}
			row := c.account(client).row()
			row.Client = int32(client)
			if class != nil {
				row.Class = class(client)
			}
			if real != nil {
				row.Real = real(client)
			}
			if !yield(row, nil) {
				return
			}
		}
	})
}

func (a *account) row() Client {
	o := func(o round.Outcome) int32 { return int32(a.outcomes[o]) }
	seconds := func(half int, p timeline.Phase) float64 { return a.time[half][p].Seconds() }
	row := Client{
		Accepted: o(round.Accepted), Late: o(round.Late), Dropped: o(round.Dropped), Lost: o(round.Lost), Cancelled: o(round.Cancelled), Refused: o(round.Refused),
		Candidates: int32(a.candidates), StepsUseful: a.steps[useful], StepsWasted: a.steps[wasted],
		DownloadUseful: seconds(useful, timeline.Download), DownloadWasted: seconds(wasted, timeline.Download),
		ComputeUseful: seconds(useful, timeline.Compute), ComputeWasted: seconds(wasted, timeline.Compute),
		UploadUseful: seconds(useful, timeline.Upload), UploadWasted: seconds(wasted, timeline.Upload),
		WaitingUseful: seconds(useful, timeline.Waiting), WaitingWasted: seconds(wasted, timeline.Waiting),
	}
	for _, n := range a.outcomes {
		row.Tasks += int32(n)
	}
	return row
}
