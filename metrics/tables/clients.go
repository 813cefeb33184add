package tables

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// account is what a client's tasks came to: tasks by outcome, and the values below.
type account [values]int64

// The values of an account behind its outcomes. Those of wasted work stand behind
// those of useful work.
const (
	candidates = round.Outcomes + iota
	steps
	seconds // by phase, in nanoseconds
	wasted  = 1 + metrics.Phases
	values  = steps + 2*wasted
)

// Tables is the output of one run: what each client's tasks came to.
type Tables struct {
	run      *metrics.Run
	accounts []*account         // by client; nil: no task yet
	open     []round.TaskReport // tasks of the open round
}

// New makes the tables of a run that has not begun.
func New(run *metrics.Run) *Tables {
	return &Tables{run: run, accounts: make([]*account, run.Clients+len(run.Devices))}
}

// Task implements [metrics.TaskObserver]. A task counts once its round does.
func (c *Tables) Task(e *round.TaskReport) { c.open = append(c.open, *e) }

func (c *Tables) Round(*metrics.Round) error {
	c.countOpen()
	return nil
}

func (c *Tables) countOpen() {
	for i := range c.open {
		c.count(&c.open[i])
	}
	c.open = c.open[:0]
}

// Finish implements [metrics.Finisher]: it writes both tables. Tasks of the round
// that is open were for nothing and are cancelled.
func (c *Tables) Finish(end *metrics.End) error {
	for i := range c.open {
		if e := &c.open[i]; !e.Probe || e.Outcome == round.Accepted {
			e.Outcome = round.Cancelled
		}
	}
	c.countOpen()
	return errors.Join(
		end.Start.Replace(RoundsFile, func(w io.Writer) error { return WriteRounds(w, c.run, end.Start.Rounds) }),
		end.Start.Replace(ClientsFile, c.WriteClients),
	)
}

func (c *Tables) count(e *round.TaskReport) {
	a := c.account(e.Client)
	if e.Probe {
		a[candidates]++
	} else {
		a[e.Outcome]++
	}
	half := a[steps+wasted:]
	if e.Outcome == round.Accepted {
		half = a[steps:]
	}
	parts := metrics.PartsOf(e)
	half[0] += parts.Steps(e)
	for p, t := range parts {
		half[1+p] += int64(t)
	}
}

func (c *Tables) account(client int) *account {
	if client >= len(c.accounts) { // a device that joined
		c.accounts = append(c.accounts, make([]*account, client+1-len(c.accounts))...)
	}
	if c.accounts[client] == nil {
		c.accounts[client] = new(account)
	}
	return c.accounts[client]
}

// state is the accounts as a checkpoint keeps them.
type state struct {
	Clients []uint32 // that have an account, ascending, each as its distance from the one before
	Values  []int64  // of all accounts, values of each together
	Open    []round.TaskReport
}

func (c *Tables) Save() ([]byte, error) {
	s := state{Open: c.open}
	last := 0
	for client, a := range c.accounts {
		if a != nil {
			s.Clients = append(s.Clients, uint32(client-last))
			last = client
			s.Values = append(s.Values, a[:]...)
		}
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&s)
	return b.Bytes(), err
}

func (c *Tables) Restore(saved []byte) error {
	var s state
	if err := gob.NewDecoder(bytes.NewReader(saved)).Decode(&s); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	if len(s.Values) != values*len(s.Clients) {
		return fmt.Errorf("tables: %d values for %d clients, want %d each", len(s.Values), len(s.Clients), values)
	}
	client := 0
	for i, distance := range s.Clients {
		client += int(distance)
		if client >= round.MaxClients {
			return fmt.Errorf("tables: an account of client %d, want less than %d", client, round.MaxClients)
		}
		copy(c.account(client)[:], s.Values[i*values:])
	}
	c.open = append(c.open[:0], s.Open...)
	return nil
}

// WriteClients writes clients.parquet, by client.
func (c *Tables) WriteClients(w io.Writer) error {
	return write(w, c.run, func(yield func(Client, error) bool) {
		for client, a := range c.accounts {
			if a == nil {
				continue
			}
			row := a.row()
			row.Client, row.Class, row.Real = int32(client), c.run.ClassName(client), c.run.Real(client)
			if !yield(row, nil) {
				return
			}
		}
	})
}

func (a *account) row() Client {
	o := func(o round.Outcome) int32 { return int32(a[o]) }
	used := func(p metrics.Phase) float64 { return round.Time(a[seconds+int(p)]).Seconds() }
	lost := func(p metrics.Phase) float64 { return round.Time(a[seconds+wasted+int(p)]).Seconds() }
	row := Client{
		Accepted: o(round.Accepted), Late: o(round.Late), Dropped: o(round.Dropped), Lost: o(round.Lost), Cancelled: o(round.Cancelled), Refused: o(round.Refused),
		Candidates: int32(a[candidates]), StepsUseful: a[steps], StepsWasted: a[steps+wasted],
		DownloadUseful: used(metrics.Download), DownloadWasted: lost(metrics.Download),
		ComputeUseful: used(metrics.Compute), ComputeWasted: lost(metrics.Compute),
		UploadUseful: used(metrics.Upload), UploadWasted: lost(metrics.Upload),
		WaitingUseful: used(metrics.Waiting), WaitingWasted: lost(metrics.Waiting),
	}
	for _, n := range a[:round.Outcomes] {
		row.Tasks += int32(n)
	}
	return row
}
