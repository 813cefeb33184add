package tables

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"

	"fedpace/coordinator/round"
	"fedpace/metrics"
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

// Tables is the output of one run: what each client's tasks came to.
type Tables struct {
	run    *metrics.Run
	folder metrics.Folder
	rounds iter.Seq2[round.Report, error] // all of the run's

	place []int32 // of a client's account, plus 1; 0: none yet
	list  [][]account
	used  int
	open  []round.Ended // tasks of the open round
}

// New makes the tables of a run that has not begun.
func New(run *metrics.Run) *Tables {
	return &Tables{run: run, place: make([]int32, run.Clients+len(run.Devices))}
}

// Start implements [metrics.Starter].
func (c *Tables) Start(s *metrics.Start) error {
	c.folder, c.rounds = s.Folder, s.Rounds
	return nil
}

// Task implements [metrics.TaskObserver]. A task counts once its round does.
func (c *Tables) Task(e *round.Ended) { c.open = append(c.open, *e) }

// Round implements [metrics.Output].
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
func (c *Tables) Finish(*metrics.End) error {
	for i := range c.open {
		if e := &c.open[i]; !e.Probe || e.Outcome == round.Accepted {
			e.Outcome = round.Cancelled
		}
	}
	c.countOpen()
	return errors.Join(
		c.folder.Replace(RoundsFile, func(w io.Writer) error { return WriteRounds(w, c.run, c.rounds) }),
		c.folder.Replace(ClientsFile, c.WriteClients),
	)
}

func (c *Tables) count(e *round.Ended) {
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

func (c *Tables) account(client int) *account {
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

// state is the accounts as a checkpoint keeps them.
type state struct {
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

// Save implements [metrics.Stateful].
func (c *Tables) Save() ([]byte, error) {
	s := state{Open: c.open, Clients: make([]uint32, 0, c.used), Values: make([]int64, 0, c.used*values)}
	last := 0
	for client, i := range c.place {
		if i > 0 {
			s.Clients = append(s.Clients, uint32(client-last))
			last = client
			c.account(client).each(func(v int64, _ func(int64)) { s.Values = append(s.Values, v) })
		}
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&s)
	return b.Bytes(), err
}

// Restore implements [metrics.Stateful].
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
		next := s.Values[i*values:]
		c.account(client).each(func(_ int64, set func(int64)) {
			set(next[0])
			next = next[1:]
		})
	}
	c.open = append(c.open[:0], s.Open...)
	return nil
}

// WriteClients writes clients.parquet, by client.
func (c *Tables) WriteClients(w io.Writer) error {
	return write(w, c.run, func(yield func(Client, error) bool) {
		for client, i := range c.place {
			if i == 0 {
				continue
			}
			row := c.account(client).row()
			row.Client, row.Class, row.Real = int32(client), c.run.ClassName(client), c.run.Real(client)
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
