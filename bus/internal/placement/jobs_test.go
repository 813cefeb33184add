package placement

import (
	"slices"
	"testing"
	"time"

	"fedpace/bus"
)

// jobsBench are jobs whose time stands still unless told.
type jobsBench struct {
	*Jobs
	t     *testing.T
	clock time.Time
}

// newJobsBench returns jobs with a clock that stands at 0.
func newJobsBench(t *testing.T) *jobsBench {
	b := &jobsBench{t: t, clock: time.Unix(0, 0)}
	b.Jobs = NewJobs(func() time.Time { return b.clock })
	return b
}

// queue opens jobs with these numbers, of equal work.
func (b *jobsBench) queue(jobs ...uint64) {
	for _, n := range jobs {
		b.NoteQueued(&bus.Job{Job: n, Kind: bus.Train, Clients: []*bus.ClientWork{{LocalSteps: 100}}})
	}
}

// wants fails the test unless these jobs are due: lost ones, slow ones, and messages of finished ones.
func (b *jobsBench) wants(lost, slow, done []uint64) {
	b.t.Helper()
	if l, s, d := b.Due(); !slices.Equal(l, lost) || !slices.Equal(s, slow) || !slices.Equal(d, done) {
		b.t.Errorf("due are lost %v, slow %v and done %v, want %v, %v and %v", l, s, d, lost, slow, done)
	}
}

// twoHosts returns the jobs of two hosts of one worker, after three of four jobs were done, each in a second. Host b
// still has job 4, and host a is idle.
func twoHosts(t *testing.T) *jobsBench {
	b := newJobsBench(t)
	b.queue(1, 2, 3, 4)
	b.UpdateHost("a", 1, []uint64{1})
	b.UpdateHost("b", 1, []uint64{2})
	b.clock = b.clock.Add(time.Second)
	b.NoteAccepted(1, "a", nil)
	b.UpdateHost("a", 1, []uint64{3})
	b.NoteAccepted(2, "b", nil)
	b.UpdateHost("b", 1, []uint64{4})
	b.wants(nil, nil, nil)
	b.clock = b.clock.Add(time.Second)
	b.NoteAccepted(3, "a", nil)
	b.wants(nil, nil, nil)
	return b
}

// A step of a client's own minibatches is as much work as they are larger.
func TestJobs_UnitsByMinibatch(t *testing.T) {
	j := &bus.Job{Spec: &bus.Spec{Batch: 8}, Clients: []*bus.ClientWork{{LocalSteps: 10}, {LocalSteps: 10, Batch: 16}, {LocalSteps: 10, Batch: 4}}}
	if got := unitsOf(j); got != 35 {
		t.Errorf("%g units, want 10 + 20 + 5", got)
	}
}

func TestJobs_Slow(t *testing.T) {
	b := twoHosts(t)
	b.clock = b.clock.Add(900 * time.Millisecond)
	b.wants(nil, nil, nil) // others took a second
	b.clock = b.clock.Add(150 * time.Millisecond)
	b.wants(nil, []uint64{4}, nil)
	b.queue(4)
	b.wants(nil, nil, nil) // once
	b.UpdateHost("a", 1, []uint64{4})
	b.clock = b.clock.Add(time.Second)
	b.NoteAccepted(4, "a", []uint64{4, 5})
	b.wants(nil, nil, []uint64{4, 5})
	// The slow one still has what nobody waits for: its worker is not idle.
	b.queue(5, 6)
	b.UpdateHost("b", 1, []uint64{4})
	b.UpdateHost("a", 1, []uint64{5})
	b.clock = b.clock.Add(900 * time.Millisecond)
	b.wants(nil, nil, nil)
	// Its next job is done twice as soon as the other is idle, until it is the first.
	b.UpdateHost("b", 1, []uint64{6})
	b.wants(nil, nil, nil)
	b.NoteAccepted(5, "a", nil)
	b.wants(nil, []uint64{6}, nil)
	b.queue(6)
	b.UpdateHost("a", 1, []uint64{6})
	b.NoteAccepted(6, "b", nil)
	b.queue(7, 8)
	b.UpdateHost("b", 1, []uint64{7})
	b.UpdateHost("a", 1, []uint64{8})
	b.NoteAccepted(8, "a", nil)
	b.wants(nil, nil, nil)
}

func TestJobs_HostGone(t *testing.T) {
	b := twoHosts(t)
	b.RemoveHost("b")
	b.wants([]uint64{4}, nil, nil)
	b.queue(4)
	b.wants(nil, nil, nil)
	b.RemoveHost("b")
	b.RemoveHost("nobody")
	b.wants(nil, nil, nil)
}

// A job that another host does, too, waits for that one.
func TestJobs_OneOfTwoHostsGone(t *testing.T) {
	b := twoHosts(t)
	b.UpdateHost("a", 1, []uint64{4})
	b.RemoveHost("b")
	b.wants(nil, nil, nil)
	b.RemoveHost("a")
	b.wants([]uint64{4}, nil, nil)
}

// A host that has stopped takes a job that it had asked for, and cannot say so.
func TestJobs_Untaken(t *testing.T) {
	b := twoHosts(t)
	b.queue(5)
	b.wants(nil, nil, nil)
	b.clock = b.clock.Add(300 * time.Millisecond)
	b.wants(nil, []uint64{5}, nil)
	b.queue(5)
	b.clock = b.clock.Add(300 * time.Millisecond)
	b.wants(nil, []uint64{5}, nil)
	b.queue(5)
	b.clock = b.clock.Add(time.Hour)
	b.NoteAccepted(4, "b", nil)
	b.wants(nil, nil, nil) // three copies are enough
}

// While all workers are busy a job may wait, and one may take long.
func TestJobs_BusyWorkers(t *testing.T) {
	b := twoHosts(t)
	b.queue(5, 6, 7)
	b.UpdateHost("a", 1, []uint64{5})
	b.clock = b.clock.Add(time.Hour)
	b.wants(nil, nil, nil)
}

// A host's message from before its sum was accepted does not bring the job back.
func TestJobs_LateReport(t *testing.T) {
	b := twoHosts(t)
	b.UpdateHost("a", 1, []uint64{3})
	b.clock = b.clock.Add(3 * time.Second)
	b.wants(nil, []uint64{4}, nil)
}
