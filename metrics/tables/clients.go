package tables

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

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
	place    []int32 // of a client's account, plus 1; 0: no task yet
	accounts [][]account
	used     int
	open     []round.TaskReport // tasks of the open round
}

// chunk is how many accounts are allocated at a time. One allocation for each of a
// million accounts burdens the garbage collector; one slice for all of them is copied
// as it grows.
const chunk = 1 << 10

// New makes the tables of a run that has not begun.
func New(run *metrics.Run) *Tables {
	return &Tables{run: run, place: make([]int32, run.Clients+len(run.Devices))}
}

// Task implements [metrics.TaskObserver]. A task counts once its round does.
func (c *Tables) Task(e *round.TaskReport) {
	if e.Revises {
		c.open = slices.DeleteFunc(c.open, func(o round.TaskReport) bool { return o.Task == e.Task && !o.Probe })
	}
	c.open = append(c.open, *e)
}

func (c *Tables) Round(*metrics.Round) error {
	c.countOpen()
	return nil
}

// countOpen counts the tasks of the open round, some at a time: accounts are far apart in memory,
// and a first look at each lets the processor fetch them together.
func (c *Tables) countOpen() {
	var accounts [64]*account
	for some := range slices.Chunk(c.open, len(accounts)) {
		for i := range some {
			e, a := &some[i], c.account(some[i].Client)
			if accounts[i] = a; e.Probe {
				a[candidates]++
			} else {
				a[e.Outcome]++
			}
		}
		for i := range some {
			accounts[i].use(&some[i])
		}
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

// use adds what a task used.
func (a *account) use(e *round.TaskReport) {
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
	if client >= len(c.place) { // a device that joined
		c.place = append(c.place, make([]int32, client+1-len(c.place))...)
	}
	if c.place[client] == 0 {
		if c.used%chunk == 0 {
			c.accounts = append(c.accounts, make([]account, chunk))
		}
		c.used++
		c.place[client] = int32(c.used)
	}
	i := c.place[client] - 1
	return &c.accounts[i/chunk][i%chunk]
}

// each yields the clients that have had a task, ascending.
func (c *Tables) each(yield func(client int, a *account) bool) {
	for client, i := range c.place {
		if i > 0 && !yield(client, c.account(client)) {
			return
		}
	}
}

// state is the accounts as a checkpoint keeps them.
type state struct {
	Accounts []byte // as varints: for each client its distance from the one before, then its values
	Open     []round.TaskReport
}

func (c *Tables) Save() ([]byte, error) {
	last, saved := 0, make([]byte, 0, 2*values*c.used)
	for client, a := range c.each {
		saved = binary.AppendVarint(saved, int64(client-last))
		last = client
		for _, v := range a {
			saved = binary.AppendVarint(saved, v)
		}
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&state{Accounts: saved, Open: c.open})
	return b.Bytes(), err
}

func (c *Tables) Restore(saved []byte) error {
	var s state
	if err := gob.NewDecoder(bytes.NewReader(saved)).Decode(&s); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	for client, in := int64(0), bytes.NewReader(s.Accounts); in.Len() > 0; {
		distance, err := binary.ReadVarint(in)
		if err != nil {
			return fmt.Errorf("tables: an account's client: %w", err)
		}
		if client += distance; client < 0 || client >= round.MaxClients {
			return fmt.Errorf("tables: an account of client %d, want 0 to %d", client, round.MaxClients-1)
		}
		a := c.account(int(client))
		for i := range a {
			if a[i], err = binary.ReadVarint(in); err != nil {
				return fmt.Errorf("tables: the account of client %d: %w", client, err)
			}
		}
	}
	c.open = append(c.open[:0], s.Open...)
	return nil
}

// WriteClients writes clients.parquet, by client.
func (c *Tables) WriteClients(w io.Writer) error {
	return write(w, c.run, reflect.TypeFor[Client](), func(yield func(Client, error) bool) {
		for client, a := range c.each {
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
