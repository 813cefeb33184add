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

// account is the sum of what one client's tasks used. What an accepted task changes fits into one
// cache line of the processor, and the whole account into two: so the last field pads it.
type account struct {
	// tasks counts the client's tasks by outcome.
	tasks [round.Outcomes]int32
	// useful is what went into accepted updates.
	useful used
	// candidates counts how often the client was only asked for its loss.
	candidates int64
	// wasted is what all other tasks used.
	wasted used
	_      [2]int64
}

// used are the local steps that tasks did, followed by the nanoseconds of their work in each phase.
type used [firstPhase + metrics.Phases]int64

// The indices of used: that of the local steps, and that of the first phase, so that phase p is at firstPhase + p.
const (
	localSteps = 0
	firstPhase = 1
)

// Tables is the output of one run: it adds up what each client's tasks used.
type Tables struct {
	// run describes the run, with the classes and the real devices among its clients.
	run *metrics.Run
	// place holds, by client, the index of its account plus 1; 0: the client has had no task.
	place []int32
	// accounts holds the accounts in chunks of equal length, in the order of their clients' first
	// tasks.
	accounts [][]account
	// used is how many accounts are in use.
	used int
	// open are the tasks of the open round, which do not count yet.
	open []round.TaskReport
}

// chunk is how many accounts are allocated at a time. One allocation for each of a
// million accounts burdens the garbage collector; one slice for all of them is copied
// as it grows.
const chunk = 1 << 10

// New makes the tables of a run that has not begun.
func New(run *metrics.Run) *Tables {
	return &Tables{run: run, place: make([]int32, run.Clients+len(run.Devices))}
}

// Task implements [metrics.TaskObserver]. A task counts once its round has closed. A report that
// revises an earlier one replaces it.
func (c *Tables) Task(e *round.TaskReport) {
	if e.Revises {
		c.open = slices.DeleteFunc(c.open, func(o round.TaskReport) bool { return o.Task == e.Task })
	}
	c.open = append(c.open, *e)
}

// Round implements [metrics.Output]: the tasks of the open round count now.
func (c *Tables) Round(*metrics.Round) error {
	c.countOpen()
	return nil
}

// together is how many accounts are used at a time. Accounts are far apart in memory: to read all of
// them before the first one is used lets the processor fetch them together.
const together = 64

// countOpen adds the tasks of the open round to their clients' accounts.
func (c *Tables) countOpen() {
	var places [together]int32
	var accounts [together]*account
	for some := range slices.Chunk(c.open, together) {
		// Each pass reads what the next one uses: the places, then the accounts.
		for i := range some {
			places[i] = c.placeOf(some[i].Client)
		}
		for i := range some {
			task := &some[i]
			// The client may have got its account by an earlier one of these tasks.
			if places[i] == 0 {
				places[i] = c.openAccount(task.Client)
			}
			accounts[i] = c.at(places[i])
			if task.Probe {
				accounts[i].candidates++
			} else {
				accounts[i].tasks[task.Outcome]++
			}
		}
		for i := range some {
			accounts[i].addUse(&some[i])
		}
	}
	c.open = c.open[:0]
}

// Finish implements [metrics.Finisher]: it writes both tables. The tasks of the open round were in
// vain and count as cancelled. A run that was stopped continues with them when it is resumed, so
// they do not count yet.
func (c *Tables) Finish(end *metrics.End) error {
	if !end.Completed {
		c.open = nil
	}
	for i := range c.open {
		// A candidate that was not chosen has ended as it should; all else was in vain.
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

// addUse adds the local steps and the virtual time of task e, phase by phase, to the useful part if e was
// accepted, as an update or as a candidate that was chosen, and to the wasted part otherwise.
func (a *account) addUse(e *round.TaskReport) {
	u := &a.wasted
	if e.Outcome == round.Accepted {
		u = &a.useful
	}
	parts := metrics.PartsOf(e)
	u[localSteps] += parts.Steps(e)
	for phase, t := range parts {
		u[firstPhase+phase] += int64(t)
	}
}

// replaceNumbers calls f with each number of the account, in the order in which a checkpoint has them, and
// replaces it by what f returns. It serves both to write an account, where f returns its argument, and to
// read one, where f ignores it.
func (a *account) replaceNumbers(f func(int64) int64) {
	// The order of the numbers is part of the checkpoints' format.
	for o, n := range a.tasks {
		a.tasks[o] = int32(f(int64(n)))
	}
	a.candidates = f(a.candidates)
	for _, u := range [...]*used{&a.useful, &a.wasted} {
		for i, v := range u {
			u[i] = f(v)
		}
	}
}

// placeOf returns the place of the client's account, 0 if it has none. c.place has by client the number of
// its account, from 1 on, and c.accounts holds account number n + 1 at c.accounts[n/chunk][n%chunk].
func (c *Tables) placeOf(client int) int32 {
	// The run does not describe the client, as when a checkpoint names one beyond its clients.
	if client >= len(c.place) {
		return 0
	}
	return c.place[client]
}

// at returns the account with this place. The pointer stays valid, because accounts are never moved.
func (c *Tables) at(place int32) *account {
	// Places are counted from 1, since 0 means no account.
	i := place - 1
	return &c.accounts[i/chunk][i%chunk]
}

// openAccount returns the place of the client's account, and makes the account if there is none.
func (c *Tables) openAccount(client int) int32 {
	if client >= len(c.place) {
		c.place = append(c.place, make([]int32, client+1-len(c.place))...)
	}
	if c.place[client] == 0 {
		// All chunks are full.
		if c.used%chunk == 0 {
			c.accounts = append(c.accounts, make([]account, chunk))
		}
		c.used++
		c.place[client] = int32(c.used)
	}
	return c.place[client]
}

// each yields the number of each client that has had a task, in ascending order, and a copy of its account.
// It is an iterator for a range loop.
func (c *Tables) each(yield func(client int, a *account) bool) {
	var clients [together]int
	var accounts [together]account
	n := 0
	for client, place := range c.place {
		if place > 0 {
			clients[n] = client
			accounts[n] = *c.at(place)
			n++
		}
		isLast := client == len(c.place)-1
		if n < together && !isLast {
			continue
		}
		for i := range n {
			if !yield(clients[i], &accounts[i]) {
				return
			}
		}
		n = 0
	}
}

// ClassOutcomes counts the tasks of closed rounds by the class of their client's device, in the order of
// the run's classes. It is nil if the run has fewer than two classes. Clients of no known class are left out.
func (c *Tables) ClassOutcomes() []metrics.ClassOutcomes {
	if len(c.run.Classes) < 2 {
		return nil
	}
	list := make([]metrics.ClassOutcomes, len(c.run.Classes))
	places := map[string]int{}
	for i, class := range c.run.Classes {
		list[i].Class = class
		places[class] = i
	}
	for client, a := range c.each {
		place, ok := places[c.run.ClassName(client)]
		if !ok {
			continue
		}
		for outcome, n := range a.tasks {
			list[place].Tasks[outcome] += int64(n)
		}
	}
	return list
}

// state is what a checkpoint keeps of the accounts.
type state struct {
	// Accounts holds varints: for each client its distance from the one before, then its values.
	Accounts []byte
	// Open holds the tasks of the open round.
	Open []round.TaskReport
}

// Save implements [metrics.Stateful]: it returns the accounts and the tasks of the open round for a
// checkpoint. Accounts are varints, which are short where a number is small.
func (c *Tables) Save() ([]byte, error) {
	last := 0
	saved := make([]byte, 0, 32*c.used)
	// Clients ascend, so the distance from the one before is small.
	for client, a := range c.each {
		saved = binary.AppendVarint(saved, int64(client-last))
		last = client
		// The function returns each number as it is, so the account does not change.
		a.replaceNumbers(func(v int64) int64 {
			saved = binary.AppendVarint(saved, v)
			return v
		})
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&state{Accounts: saved, Open: c.open})
	return b.Bytes(), err
}

// Restore implements [metrics.Stateful]: it reads what Save has returned into empty tables. It
// refuses a state that does not decode or names an impossible client.
func (c *Tables) Restore(saved []byte) error {
	var s state
	if err := gob.NewDecoder(bytes.NewReader(saved)).Decode(&s); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	client := int64(0)
	for in := bytes.NewReader(s.Accounts); in.Len() > 0; {
		distance, err := binary.ReadVarint(in)
		if err != nil {
			return fmt.Errorf("tables: an account's client: %w", err)
		}
		client += distance
		if client < 0 || client >= round.MaxClients {
			return fmt.Errorf("tables: an account of client %d, want 0 to %d", client, round.MaxClients-1)
		}
		// The numbers of the account follow its client. After an error the remaining ones are read as 0, and the
		// error is returned below.
		c.at(c.openAccount(int(client))).replaceNumbers(func(int64) (v int64) {
			if err == nil {
				v, err = binary.ReadVarint(in)
			}
			return v
		})
		if err != nil {
			return fmt.Errorf("tables: the account of client %d: %w", client, err)
		}
	}
	c.open = append(c.open[:0], s.Open...)
	return nil
}

// WriteClients writes clients.parquet to w: a row for each client that has had a task, in ascending
// order of their numbers. A run with values of its own for each client (ClientValues) gets more
// columns.
func (c *Tables) WriteClients(w io.Writer) error {
	if c.run.ClientValues != nil {
		return c.writeExtended(w, c.run.ClientValues())
	}
	return write(w, c.run, reflect.TypeFor[Client](), func(yield func(Client, error) bool) {
		for client, a := range c.each {
			if !yield(c.clientRow(client, a), nil) {
				return
			}
		}
	})
}

// clientRow returns the row of clients.parquet for the client with this number: what its account a
// says, its class, and whether it is a real device.
func (c *Tables) clientRow(client int, a *account) Client {
	row := a.row()
	row.Client = int32(client)
	row.Class = c.run.ClassName(client)
	row.Real = c.run.Real(client)
	return row
}

// writeExtended writes clients.parquet with more columns than [Client] has, one for each element of
// more. The rows are values of a struct type that is made here by reflection, since parquet-go
// takes the schema from a type.
func (c *Tables) writeExtended(w io.Writer, more []metrics.ClientColumn) error {
	fields := reflect.VisibleFields(reflect.TypeFor[Client]())
	standard := len(fields)
	// The columns are optional: a NaN becomes a null.
	for i, column := range more {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprint("Column", i),
			Type: reflect.TypeFor[*float64](),
			Tag:  reflect.StructTag(fmt.Sprintf("parquet:%q about:%q", column.Name+",optional", column.Help)),
		})
	}
	for i := range fields {
		// The place of a field in the new type follows from its place in the list.
		fields[i].Index = nil
		fields[i].Offset = 0
	}
	rowType := reflect.StructOf(fields)
	return write(w, c.run, rowType, func(yield func(any, error) bool) {
		for client, a := range c.each {
			row := reflect.New(rowType).Elem()
			// The fields of Client come first, in the same order.
			from := reflect.ValueOf(c.clientRow(client, a))
			for i := range standard {
				row.Field(i).Set(from.Field(i))
			}
			for i, column := range more {
				row.Field(standard + i).Set(reflect.ValueOf(metrics.Measured(column.Value(client))))
			}
			if !yield(row.Interface(), nil) {
				return
			}
		}
	})
}

// steps is the number of local steps.
func (u *used) steps() int64 { return u[localSteps] }

// seconds is the virtual time in a phase.
func (u *used) seconds(p metrics.Phase) float64 { return round.Time(u[firstPhase+p]).Seconds() }

// row is the account as a row of clients.parquet, without the fields that describe the client.
func (a *account) row() Client {
	o := &a.tasks
	used := a.useful.seconds
	wasted := a.wasted.seconds
	row := Client{
		Accepted:       o[round.Accepted],
		Late:           o[round.Late],
		Dropped:        o[round.Dropped],
		Lost:           o[round.Lost],
		Cancelled:      o[round.Cancelled],
		Refused:        o[round.Refused],
		Candidates:     int32(a.candidates),
		StepsUseful:    a.useful.steps(),
		StepsWasted:    a.wasted.steps(),
		DownloadUseful: used(metrics.Download),
		DownloadWasted: wasted(metrics.Download),
		ComputeUseful:  used(metrics.Compute),
		ComputeWasted:  wasted(metrics.Compute),
		UploadUseful:   used(metrics.Upload),
		UploadWasted:   wasted(metrics.Upload),
		WaitingUseful:  used(metrics.Waiting),
		WaitingWasted:  wasted(metrics.Waiting),
	}
	// Each task has exactly one outcome, so the outcomes add up to all tasks.
	for _, n := range a.tasks {
		row.Tasks += n
	}
	return row
}
