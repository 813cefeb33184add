package round

import (
	"fmt"

	"fedpace/coordinator/fairshare"
)

// transfers are those that share the server's bandwidth, of tasks and candidates; nil:
// none do.
type transfers struct {
	step             *step
	leaves           func(client int, t Time) (Time, bool)
	download, upload *fairshare.Tree // nil: transfers that way are not shared
	timer            uint64          // timer of the next that is complete; 0: none
	timerAt          Time            // when that is; 0: none
}

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

// link returns the link that a task shares at a stage, nil if it shares none.
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

// begin begins a task or candidate with a plan: with its download, or with its computing
// where it has the model or its download is not shared.
func (x *transfers) begin(t *TaskState, candidate, hasModel bool) {
	leaves := x.step.now + t.Dropout
	drops := t.Drops
	if !drops && x.leaves != nil && !candidate { // the plan knows only how long the task takes by itself
		leaves, drops = x.leaves(int(t.Client), x.step.now)
		leaves, drops = max(leaves, x.step.now), drops && leaves <= MaxTime
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
	t.Stage, t.Link = Downloading, x.download.Start(int64(x.step.now), t.Task, int(t.Client), int64(t.Download))
}

// compute sets the timer for the end of a task's computing, together with the transfers before and
// after it that are not shared.
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

// take takes the transfer that is complete off the server, of several one down before one
// up. Others that end at the same time have a timer of their own, so that each is an event.
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

// advance takes a task on whose shared transfer or computing is over. It reports whether
// that was all of it.
func (x *transfers) advance(t *TaskState, candidate bool) (done bool) {
	after := x.step.now - t.Start
	switch {
	case t.Stage == Downloading:
		t.Download = after
		x.compute(t, 0, candidate)
		return false
	case t.Stage == Computing && x.upload != nil && !candidate:
		t.Stage, t.Link = Uploading, x.upload.Start(int64(x.step.now), t.Task, int(t.Client), int64(t.Upload))
		return false
	case t.Stage == Uploading:
		t.Upload = after - t.Download - t.Compute
	}
	t.Stage = Finished
	t.Link = 0
	return true
}

// end takes a task off the server that is done, broken off or given up. The duration of a transfer
// under way is set to what it would have been at its pace so far, so that the part that is done
// follows from it and the time since its start.
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
		remaining := way.Stop(int64(x.step.now), t.Link).Over(way.Need())
		*phase = Time(fairshare.Stretched(int64(after), int64(*phase), remaining, int64(MaxDuration)))
	}
	t.Stage = NoStage
	t.Link = 0
}

// setTimer sets the timer for the next transfer that is complete.
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

// remaining returns what is left of a task's transfer. False means that none is under way.
func (x *transfers) remaining(t *TaskState) (work fairshare.Work, ok bool) {
	if x.link(t.Stage) == nil {
		return work, false
	}
	return x.link(t.Stage).Remaining(int64(x.step.now), t.Link), true
}

// resume puts a task's transfer back on its link, of which work is left.
func (x *transfers) resume(t *TaskState, work fairshare.Work) {
	phase := t.Download
	if t.Stage == Uploading {
		phase = t.Upload
	}
	t.Link = x.link(t.Stage).Resume(int64(x.step.now), t.Task, int(t.Client), int64(phase), work)
}
