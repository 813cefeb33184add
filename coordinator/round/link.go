package round

import (
	"fmt"
	"math"

	"fedpace/coordinator/fairshare"
)

// Server is the bandwidth at the server that the transfers of all simulated
// clients share: what one transfer of the model needs of it each way. Zero
// means that transfers that way do not touch each other (the paper's
// assumption, and the default).
//
// A plan's download and upload are then what they take where the server slows
// nobody down: a transfer goes at most as fast as its client's plan has it, and
// with others it shares the server max-min fairly (package fairshare). Where it
// goes with capacity that changes by the second, its mean is what counts. A
// client that drops out does so at the time in its plan, however far it has
// come by then.
type Server struct {
	Download, Upload fairshare.Work
}

// shared tells whether transfers touch each other at all.
func (s *Server) shared() bool { return !s.Download.IsZero() || !s.Upload.IsZero() }

// Stage is where a task is whose transfers are shared.
type Stage uint8

// The stages. A task's transfers that are not shared belong to its work.
const (
	NoStage     Stage = iota // not under way, or transfers are not shared
	Downloading              // shares the server's download
	Working                  // until its TaskComputed timer
	Uploading                // shares the server's upload
	Finished                 // waits for the client to drop out, or for other candidates
)

// link plays the tasks under way through the server.
type link struct {
	down, up *fairshare.Server // nil: not shared
	seats    []seat
	free     []int32
	timer    uint64 // TransferEnds; 0: none is set
	at       Time   // when that falls due
	probes   int    // candidates that have not answered
}

// seat is a task's place on the link.
type seat struct {
	stage    Stage
	transfer int32  // while it downloads or uploads
	worked   uint64 // timer, while it works
}

func newLink(c *Config, now Time) *link {
	if !c.Server.shared() {
		return nil
	}
	l := &link{seats: make([]seat, 1)} // 0: no seat
	if need := c.Server.Download; !need.IsZero() {
		l.down = fairshare.New(need, int64(now))
	}
	if need := c.Server.Upload; !need.IsZero() {
		l.up = fairshare.New(need, int64(now))
	}
	return l
}

func (l *link) seat() int32 {
	if n := len(l.free); n > 0 {
		i := l.free[n-1]
		l.free = l.free[:n-1]
		l.seats[i] = seat{}
		return i
	}
	l.seats = append(l.seats, seat{})
	return int32(len(l.seats) - 1)
}

// holds says that tasks go to clients that hold the model.
func (m *Machine) holds() bool { return query(m.config.Select) > 0 && !m.probing }

// begin puts a task or probe with a plan on the link.
func (m *Machine) begin(f *flight) {
	l := m.link
	f.seat = l.seat()
	if f.drops {
		f.timer = m.schedule(Timer{At: m.now + f.takes, Priority: priorityTask, Kind: TaskDrops, Task: f.task})
	} else if at, ok := m.departure(f); ok {
		f.timer = m.schedule(Timer{At: at, Priority: priorityTask, Kind: TaskDrops, Task: f.task})
	}
	if l.down == nil || m.holds() {
		m.work(f, f.parts.download)
		return
	}
	s := &l.seats[f.seat]
	s.stage, s.transfer = Downloading, l.down.Start(int64(m.now), f.task, int64(f.parts.download))
}

// departure is when a client drops out because it ceases to be available. Its
// plan tells only of the time that the task would take by itself.
func (m *Machine) departure(f *flight) (Time, bool) {
	if m.config.Leaves == nil || m.probing {
		return 0, false
	}
	at, ok := m.config.Leaves(int(f.client), m.now)
	return max(at, m.now), ok && at <= MaxTime
}

// work sets the timer for the end of a task's computing, with the transfers
// before and after that are not shared.
func (m *Machine) work(f *flight, before Time) {
	takes := before + f.parts.compute
	if m.link.up == nil && !m.probing {
		takes += f.parts.upload
	}
	s := &m.link.seats[f.seat]
	s.stage = Working
	s.worked = m.schedule(Timer{At: m.now + takes, Priority: priorityTask, Kind: TaskComputed, Task: f.task})
}

// seated finds a task on the link.
func (m *Machine) seated(task uint64, stages ...Stage) (*flight, *seat, error) {
	list := &m.tasks
	if m.probing {
		list = &m.probes
	}
	f := list.find(task)
	if f != nil && !f.ended && f.seat != 0 {
		s := &m.link.seats[f.seat]
		for _, stage := range stages {
			if s.stage == stage {
				return f, s, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("round: task %d has come to an end at the server and is not under way there", task)
}

// transferred handles the end of one shared transfer. Others that end at the
// same time have a timer of their own, so that each is an event.
func (m *Machine) transferred(t Timer) error {
	l := m.link
	if l == nil {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	if err := fell(&l.timer, t); err != nil {
		return err
	}
	for _, way := range [...]*fairshare.Server{l.down, l.up} {
		if way == nil {
			continue
		}
		task, ok := way.Take(int64(m.now))
		if !ok {
			continue
		}
		f, s, err := m.seated(task, Downloading, Uploading)
		if err != nil {
			return err
		}
		if way == l.down {
			f.parts.download = m.now - f.start
			m.work(f, 0)
			return nil
		}
		f.parts.upload = m.now - f.start - f.parts.download - f.parts.compute
		return m.finished(f, s, t.Seq)
	}
	return fmt.Errorf("round: timer %d fell due and no transfer is complete", t.Seq)
}

// worked handles the end of a task's computing.
func (m *Machine) worked(t Timer) error {
	if m.link == nil {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	f, s, err := m.seated(t.Task, Working)
	if err != nil {
		return err
	}
	if err := fell(&s.worked, t); err != nil {
		return err
	}
	if m.link.up == nil || m.probing {
		return m.finished(f, s, t.Seq)
	}
	s.stage, s.transfer = Uploading, m.link.up.Start(int64(m.now), f.task, int64(f.parts.upload))
	return nil
}

// finished handles a task whose work is all done with the timer last.
func (m *Machine) finished(f *flight, s *seat, last uint64) error {
	s.stage = Finished
	switch {
	case f.drops: // a plan that has its client leave later than it is done
		return nil
	case m.probing:
		f.takes = m.now - f.start
		return m.probed()
	}
	if f.timer != 0 { // the client may leave now
		m.out.Cancel = append(m.out.Cancel, f.timer)
	}
	f.timer = last
	return m.ended(f, TaskArrives)
}

// probed counts one candidate that has answered or dropped out; after the last
// their losses are asked for.
func (m *Machine) probed() error {
	m.link.probes--
	if m.link.probes > 0 {
		return nil
	}
	return m.ask()
}

// beginProbes puts the candidates on the link.
func (m *Machine) beginProbes() {
	m.link.probes = len(m.probes.list)
	for i := range m.probes.list {
		m.begin(&m.probes.list[i])
	}
	m.phase = Clocked
}

// dropsProbe handles a candidate that drops out.
func (m *Machine) dropsProbe(t Timer) error {
	f := m.probes.find(t.Task)
	if f == nil || f.timer != t.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", t.Seq, t.Task)
	}
	f.timer = 0
	m.leaveLink(f)
	return m.probed()
}

// leaveLink takes a task off the link that is done, broken off or given up. A
// transfer under way becomes as long as it would be at its pace so far, so that
// the part of it that is done can be told.
func (m *Machine) leaveLink(f *flight) {
	if f.seat == 0 {
		return
	}
	l, s := m.link, &m.link.seats[f.seat]
	if !f.drops && s.stage != Finished {
		f.takes = m.now - f.start
	}
	switch s.stage {
	case Downloading:
		left := l.down.Stop(int64(m.now), s.transfer)
		f.parts.download = stretched(m.now-f.start, f.parts.download, left.Of(l.down.Need()))
	case Working:
		m.out.Cancel = append(m.out.Cancel, s.worked)
	case Uploading:
		left := l.up.Stop(int64(m.now), s.transfer)
		f.parts.upload = stretched(max(0, m.now-f.start-f.parts.download-f.parts.compute), f.parts.upload, left.Of(l.up.Need()))
	}
	l.free = append(l.free, f.seat)
	f.seat = 0
	if f.timer != 0 && m.probing { // a task's is its caller's business
		m.out.Cancel = append(m.out.Cancel, f.timer)
		f.timer = 0
	}
}

// stretched is how long a transfer takes at the pace that left a part of it
// undone after so long; own is its time by itself.
func stretched(after, own Time, left float64) Time {
	switch {
	case left <= 0:
		return after
	case left >= 1 || after == 0:
		return max(own, after+1)
	}
	whole := math.Round(float64(after) / (1 - left))
	return Time(min(max(whole, float64(after+1)), float64(MaxDuration)))
}

// settle sets the timer for the next transfer that is complete.
func (m *Machine) settle() {
	l := m.link
	due, any := Time(0), false
	for _, way := range [...]*fairshare.Server{l.down, l.up} {
		if way == nil {
			continue
		}
		if at, ok := way.Due(); ok && (!any || Time(at) < due) {
			due, any = Time(at), true
		}
	}
	if l.timer != 0 && any && l.at == due {
		return
	}
	if l.timer != 0 {
		m.out.Cancel = append(m.out.Cancel, l.timer)
		l.timer = 0
	}
	if any {
		l.at = due
		l.timer = m.schedule(Timer{At: due, Priority: priorityTransfer, Kind: TransferEnds})
	}
}
