package round

import (
	"fmt"

	"fedpace/coordinator/fairshare"
)

// transfers has the transfers of tasks, candidates and sites that share bandwidth; it is nil if no
// link limits them together.
type transfers struct {
	step   *step
	leaves func(client int, t Time) (Time, bool)
	// download and upload are the shared links, nil if transfers that way are not shared.
	download, upload *fairshare.Tree
	// timer is that of the next transfer that is complete, 0 if there is none.
	timer uint64
	// timerAt is when that timer falls due, 0 if there is none.
	timerAt Time
}

// newTransfers makes the shared links of the server and of sites in configuration c. It returns nil
// if transfers do not share any bandwidth.
func newTransfers(c *Config, step *step) *transfers {
	if !c.Server.shared() {
		return nil
	}
	s := &c.Server
	return &transfers{
		step:     step,
		leaves:   c.Leaves,
		download: fairshare.NewTree(s.Download, s.SiteDownload, s.Sites),
		upload:   fairshare.NewTree(s.Upload, s.SiteUpload, s.Sites),
	}
}

// link returns the shared link that a task uses at this stage. It is nil if the task computes, if
// transfers that way are not shared, or if the receiver is nil.
func (x *transfers) link(stage Stage) *fairshare.Tree {
	switch {
	case x == nil:
	case stage == Downloading:
		return x.download
	case stage == Uploading:
		return x.upload
	}
	return nil
}

// begin begins task t, or a candidate, once it has a plan: with its download or, if its client has the
// model already or downloads are not shared, with its computing. If the client will drop out, the timer
// for that is set: when the plan has a dropout, or when the client of a task leaves.
func (x *transfers) begin(t *TaskState, candidate, hasModel bool) {
	leaves := x.step.now + t.Dropout
	drops := t.Drops
	// The plan knows only how long the task takes by itself, not when its client leaves.
	if !drops && x.leaves != nil && !candidate {
		leaves, drops = x.leaves(int(t.Client), x.step.now)
		drops = drops && leaves <= MaxTime
		leaves = max(leaves, x.step.now)
	}
	if drops {
		t.Timer = x.step.set(Timer{
			At:       leaves,
			Priority: priorityTask,
			Kind:     TaskDrops,
			Task:     t.Task,
		})
	}
	if x.download == nil || hasModel {
		x.compute(t, t.Download, candidate)
		return
	}
	t.Stage = Downloading
	t.Link = x.download.Start(int64(x.step.now), t.Task, int(t.Client), int64(t.Download))
}

// compute sets the timer for the end of a task's computing, together with the transfers before and
// after it that are not shared. before is how long the transfer before it takes, 0 if that was shared.
// A candidate has no upload.
func (x *transfers) compute(t *TaskState, before Time, candidate bool) {
	duration := before + t.Compute
	if x.upload == nil && !candidate {
		duration += t.Upload
	}
	t.Stage = Computing
	t.Link = x.step.set(Timer{
		At:       x.step.now + duration,
		Priority: priorityTask,
		Kind:     TaskComputed,
		Task:     t.Task,
	})
}

// take removes a transfer that is complete from its link and returns the number of its task. Of several
// that are complete, a download comes before an upload. The others get a timer of their own for the same
// time, so that each is an event.
func (x *transfers) take(timer Timer) (task uint64, err error) {
	if err := unset(&x.timer, timer); err != nil {
		return 0, err
	}
	for _, way := range [...]*fairshare.Tree{x.download, x.upload} {
		if way != nil {
			if task, ok := way.Take(int64(x.step.now)); ok {
				return task, nil
			}
		}
	}
	return 0, fmt.Errorf("round: timer %d fell due and no transfer is complete", timer.Seq)
}

// advance begins the next stage of a task whose shared transfer or computing is complete. It reports
// whether that was the last stage. The plan's durations become those that the transfers really took.
func (x *transfers) advance(t *TaskState, candidate bool) (done bool) {
	after := x.step.now - t.Start
	switch {
	case t.Stage == Downloading:
		t.Download = after
		x.compute(t, 0, candidate)
		return false
	case t.Stage == Computing && x.upload != nil && !candidate:
		t.Stage = Uploading
		t.Link = x.upload.Start(int64(x.step.now), t.Task, int(t.Client), int64(t.Upload))
		return false
	case t.Stage == Uploading:
		t.Upload = after - t.Download - t.Compute
	}
	t.Stage = Finished
	t.Link = 0
	return true
}

// end removes a task from the shared links, whether it is complete or stops early. The duration of a
// transfer under way is set to what it would have been at its mean pace so far: what part of it was done
// follows from that duration and the time since its start.
func (x *transfers) end(t *TaskState) {
	if t.Stage == NoStage {
		return
	}
	after := x.step.now - t.Start
	if t.Stage == Computing {
		x.step.cancel(&t.Link)
	} else if way := x.link(t.Stage); way != nil {
		phase := &t.Download
		if t.Stage == Uploading {
			phase = &t.Upload
			after = max(0, after-t.Download-t.Compute)
		}
		// From the work that remains follows how much of the phase has passed.
		remaining := way.Stop(int64(x.step.now), t.Link).Over(way.Need())
		*phase = Time(fairshare.Stretched(int64(after), int64(*phase), remaining, int64(MaxDuration)))
	}
	t.Stage = NoStage
	t.Link = 0
}

// setTimer sets the timer for the transfer that is complete first, on either link, and cancels the
// one before if it is for another time. A nil receiver shares no transfers.
func (x *transfers) setTimer() {
	if x == nil {
		return
	}
	due := Time(0)
	ok := false
	for _, way := range [...]*fairshare.Tree{x.download, x.upload} {
		if way == nil {
			continue
		}
		if end, under := way.Due(); under && (!ok || Time(end) < due) {
			due = Time(end)
			ok = true
		}
	}
	// The timer is right already, so no event is spent on it.
	if x.timer != 0 && ok && x.timerAt == due {
		return
	}
	x.step.cancel(&x.timer)
	x.timerAt = 0
	if ok {
		x.timerAt = due
		x.timer = x.step.set(Timer{At: due, Priority: priorityTransfer, Kind: TransferEnds})
	}
}

// remaining returns the work that is left of a task's shared transfer. ok is false if none is under way.
func (x *transfers) remaining(t *TaskState) (work fairshare.Work, ok bool) {
	if x.link(t.Stage) == nil {
		return work, false
	}
	return x.link(t.Stage).Remaining(int64(x.step.now), t.Link), true
}

// resume puts the transfer of task t back on its shared link after a restart. work is what remains
// of it, relative to the link.
func (x *transfers) resume(t *TaskState, work fairshare.Work) {
	phase := t.Download
	if t.Stage == Uploading {
		phase = t.Upload
	}
	t.Link = x.link(t.Stage).Resume(int64(x.step.now), t.Task, int(t.Client), int64(phase), work)
}
