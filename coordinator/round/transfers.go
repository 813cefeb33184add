package round

import (
	"fmt"
	"slices"

	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/selection"
)

// Bandwidth is that at the server that the transfers of all simulated
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
type Bandwidth struct {
	Download, Upload fairshare.Work
}

// shared tells whether transfers touch each other at all.
func (b *Bandwidth) shared() bool { return !b.Download.IsZero() || !b.Upload.IsZero() }

// Stage is how far a task is where transfers are shared.
type Stage uint8

// The stages. A task's transfers that are not shared belong to its work.
const (
	NoStage     Stage = iota // not under way, or transfers are not shared
	Downloading              // shares the server's download
	Computing                // until its TaskComputed timer
	Uploading                // shares the server's upload
	Finished                 // waits for the client to drop out, or for other candidates
)

// link is where the transfers of tasks and candidates are shared.
type link struct {
	*fairshare.Link
	candidates int // candidates that have not answered
}

func newLink(c *Config, now Time) *link {
	if !c.Server.shared() {
		return nil
	}
	return &link{Link: fairshare.NewLink(c.Server.Download, c.Server.Upload, int64(now))}
}

// way is the server that a task shares at a stage; nil: none.
func (l *link) way(stage Stage) *fairshare.FairLink {
	switch stage {
	case Downloading:
		return l.Down
	case Uploading:
		return l.Up
	}
	return nil
}

// beginTransfers begins a task or candidate with a plan: with its download, or
// with its computing where it has the model or its download is not shared.
func (m *Machine) beginTransfers(t *TaskState) {
	candidate := len(m.s.Candidates) > 0
	if candidate {
		m.link.candidates++
	}
	leaves, drops := m.s.Now+t.Dropout, t.Drops
	if !drops && m.config.Leaves != nil && !candidate { // the plan knows only how long the task takes by itself
		leaves, drops = m.config.Leaves(int(t.Client), m.s.Now)
		leaves, drops = max(leaves, m.s.Now), drops && leaves <= MaxTime
	}
	if drops {
		t.Timer = m.set(Timer{At: leaves, Priority: priorityTask, Kind: TaskDrops, Task: t.Task})
	}
	holds := selection.QueryOf(m.config.Select) > 0 && !candidate
	if m.link.Down == nil || holds {
		m.compute(t, t.Download)
		return
	}
	t.Stage, t.Link = Downloading, uint64(m.link.Down.Start(int64(m.s.Now), t.Task, int64(t.Download)))
}

// compute sets the timer for the end of a task's computing, with the transfers
// before and after that are not shared.
func (m *Machine) compute(t *TaskState, before Time) {
	takes := before + t.Compute
	if m.link.Up == nil && len(m.s.Candidates) == 0 {
		takes += t.Upload
	}
	t.Stage = Computing
	t.Link = m.set(Timer{At: m.s.Now + takes, Priority: priorityTask, Kind: TaskComputed, Task: t.Task})
}

// atStage finds a task or candidate that is at one of some stages.
func (m *Machine) atStage(task uint64, stages ...Stage) (*TaskState, error) {
	list := m.s.Simulated.List
	if len(m.s.Candidates) > 0 {
		list = m.s.Candidates
	}
	if t := find(list, task); t != nil && t.underWay() && slices.Contains(stages, t.Stage) {
		return t, nil
	}
	return nil, fmt.Errorf("round: task %d has come to an end at the server and is not under way there", task)
}

// transferEnds handles the end of one shared transfer. Others that end at the
// same time have a timer of their own, so that each is an event.
func (m *Machine) transferEnds(timer Timer) error {
	if err := unset(&m.s.Transfer, timer); err != nil {
		return err
	}
	task, way := m.link.Take(int64(m.s.Now))
	if way == nil {
		return fmt.Errorf("round: timer %d fell due and no transfer is complete", timer.Seq)
	}
	t, err := m.atStage(task, Downloading, Uploading)
	if err != nil {
		return err
	}
	if way == m.link.Down {
		t.Download = m.s.Now - t.Start
		m.compute(t, 0)
		return nil
	}
	t.Upload = m.s.Now - t.Start - t.Download - t.Compute
	return m.arrived(t, timer.Seq)
}

// taskComputed handles the end of a task's computing.
func (m *Machine) taskComputed(timer Timer) error {
	t, err := m.atStage(timer.Task, Computing)
	if err != nil {
		return err
	}
	if err := unset(&t.Link, timer); err != nil {
		return err
	}
	if m.link.Up == nil || len(m.s.Candidates) > 0 {
		return m.arrived(t, timer.Seq)
	}
	t.Stage, t.Link = Uploading, uint64(m.link.Up.Start(int64(m.s.Now), t.Task, int64(t.Upload)))
	return nil
}

// arrived handles a task or candidate that is done. last is its last timer.
func (m *Machine) arrived(t *TaskState, last uint64) error {
	t.Stage, t.Link = Finished, 0
	switch {
	case t.Drops: // a plan that has its client leave later than it is done
		return nil
	case len(m.s.Candidates) > 0:
		return m.candidateDone()
	}
	m.cancel(&t.Timer) // the client may leave now
	t.Timer = last
	return m.complete(t, false)
}

// endTransfers takes a task off the link that is done, broken off or given up. A
// transfer under way becomes as long as it would be at its pace so far, so that
// the part that is done follows from it.
func (m *Machine) endTransfers(t *TaskState) {
	if t.Stage == NoStage {
		return
	}
	after := m.s.Now - t.Start
	if t.Stage == Computing {
		m.cancel(&t.Link)
	} else if way := m.link.way(t.Stage); way != nil {
		own := &t.Download
		if t.Stage == Uploading {
			own, after = &t.Upload, max(0, after-t.Download-t.Compute)
		}
		left := way.Stop(int64(m.s.Now), int32(t.Link)).Of(way.Need())
		*own = Time(fairshare.Stretched(int64(after), int64(*own), left, int64(MaxDuration)))
	}
	t.Stage, t.Link = NoStage, 0
}

// setTransferTimer sets the timer for the next transfer that is complete.
func (m *Machine) setTransferTimer() {
	if m.link == nil {
		return
	}
	at, ok := m.link.Due()
	due := Time(at)
	if m.s.Transfer != 0 && ok && m.s.TransferAt == due {
		return
	}
	m.cancel(&m.s.Transfer)
	m.s.TransferAt = 0
	if ok {
		m.s.TransferAt = due
		m.s.Transfer = m.set(Timer{At: due, Priority: priorityTransfer, Kind: TransferEnds})
	}
}
