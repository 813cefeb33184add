package round

import (
	"fmt"

	"fedpace/coordinator/fairshare"
)

// transfers has the transfers of tasks, candidates and sites that share bandwidth; it is nil if no
// link limits them together.
type transfers struct {
	step *step
	// leavesAt returns when a client that is given a task at t becomes unavailable, false for never (see
	// Config.Leaves). It is nil if clients never leave.
	leavesAt func(client int, t Time) (Time, bool)
	// download and upload are the shared links, nil if transfers that way are not shared.
	download, upload *fairshare.Tree
	// timer is that of the next transfer that is complete, 0 if there is none.
	timer uint64
	// timerAt is when that timer falls due, 0 if there is none.
	timerAt Time
}

// newTransfers makes the links of the server and of sites that transfers share by configuration c. It returns nil
// if transfers share no bandwidth. step is the machine's own, through which all its parts set timers.
func newTransfers(c *Config, step *step) *transfers {
	if !c.Server.shared() {
		return nil
	}
	s := &c.Server
	return &transfers{
		step:     step,
		leavesAt: c.Leaves,
		download: fairshare.NewTree(s.Download, s.SiteDownload, s.Sites),
		upload:   fairshare.NewTree(s.Upload, s.SiteUpload, s.Sites),
	}
}

// link returns the shared link that a task uses at this stage; nil if the task does not transfer, if
// transfers in that direction are not shared, or if the receiver is nil.
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

// beginTask begins a task or candidate that has a plan, where clients share the bandwidth of the server: with
// its download or, if its client has the model already or downloads are not shared, with its computing. If
// the client will drop out, it sets the timer for that.
func (x *transfers) beginTask(task *TaskState, candidate, hasModel bool) {
	if at, drops := x.dropout(task, candidate); drops {
		task.Timer = x.step.setTimer(Timer{
			At:       at,
			Priority: priorityTask,
			Kind:     TaskDrops,
			Task:     task.Task,
		})
	}
	if x.download == nil || hasModel {
		x.startComputing(task, task.Download, candidate)
		return
	}
	task.Stage = Downloading
	task.Link = x.download.Start(int64(x.step.now), task.Task, int(task.Client), int64(task.Download))
}

// dropout returns when the client of a task that begins now will drop out; drops is false if it will not. The
// task's plan says so, or the client will become unavailable: a plan leaves that out where transfers are shared,
// since it does not know how long they will take. candidate says that the task is a candidate's, which drops out
// by its plan alone.
func (x *transfers) dropout(task *TaskState, candidate bool) (at Time, drops bool) {
	now := x.step.now
	switch {
	case task.Drops:
		return now + task.Dropout, true
	case x.leavesAt == nil || candidate:
		return 0, false
	}
	at, drops = x.leavesAt(int(task.Client), now)
	// A client that leaves beyond the end of time stays.
	return max(at, now), drops && at <= MaxTime
}

// startComputing sets the timer for the end of a task's local steps, together with the transfers before and
// after them that are not shared. unsharedDownload is how long the download takes, 0 if it was shared and is done. A
// candidate has no upload.
func (x *transfers) startComputing(t *TaskState, unsharedDownload Time, candidate bool) {
	duration := unsharedDownload + t.Compute
	if x.upload == nil && !candidate {
		duration += t.Upload
	}
	t.Stage = Computing
	// While a task is computing, Link holds this timer in the place of a transfer.
	t.Link = x.step.setTimer(Timer{
		At:       x.step.now + duration,
		Priority: priorityTask,
		Kind:     TaskComputed,
		Task:     t.Task,
	})
}

// takeComplete removes a complete transfer from its link, when its timer has fallen due, and returns the
// number of its task. If several are complete, a download comes before an upload, and the others get timers
// for the same time, so that each is an event.
func (x *transfers) takeComplete(timer Timer) (task uint64, err error) {
	if err := clearTimer(&x.timer, timer); err != nil {
		return 0, err
	}
	for _, link := range [...]*fairshare.Tree{x.download, x.upload} {
		if link != nil {
			if task, ok := link.Take(int64(x.step.now)); ok {
				return task, nil
			}
		}
	}
	return 0, fmt.Errorf("round: timer %d fell due and no transfer is complete", timer.Seq)
}

// advance begins the next stage of a task whose shared transfer or local steps are complete, and reports
// whether that was the last stage. candidate says that the task only computes a client's loss for the selection,
// and so has no upload.
//
// The plan's durations of transfers are those of a transfer that has the link alone, which is the work of a shared
// one. When a shared transfer is complete, advance replaces its duration by the time that it has really taken.
func (x *transfers) advance(task *TaskState, candidate bool) (done bool) {
	sinceStart := x.step.now - task.Start
	switch {
	case task.Stage == Downloading:
		task.Download = sinceStart
		const unsharedDownload = 0
		x.startComputing(task, unsharedDownload, candidate)
		return false
	case task.Stage == Computing && x.upload != nil && !candidate:
		task.Stage = Uploading
		task.Link = x.upload.Start(int64(x.step.now), task.Task, int(task.Client), int64(task.Upload))
		return false
	case task.Stage == Uploading:
		task.Upload = sinceStart - task.Download - task.Compute
	}
	task.Stage = Finished
	task.Link = 0
	return true
}

// endTask ends what a task does where transfers are shared, whether the task is complete or stops early: it
// cancels the timer of its local steps, or takes its transfer off the shared link.
func (x *transfers) endTask(task *TaskState) {
	if task.Stage == NoStage {
		return
	}
	if task.Stage == Computing {
		// Link holds the number of the timer.
		x.step.cancelTimer(&task.Link)
	} else if link := x.link(task.Stage); link != nil {
		x.stopTransfer(task, link)
	}
	task.Stage = NoStage
	task.Link = 0
}

// stopTransfer takes a task's transfer, which has not been completed, off its link. In the task, the length
// of the transfer's phase becomes what the whole transfer would have taken at its mean pace so far: reports
// count a transfer that was broken off in proportion to the part of its phase that has passed.
func (x *transfers) stopTransfer(task *TaskState, link *fairshare.Tree) {
	elapsed := x.step.now - task.Start
	phase := &task.Download
	if task.Stage == Uploading {
		phase = &task.Upload
		elapsed = max(0, elapsed-task.Download-task.Compute)
	}
	work := link.Stop(int64(x.step.now), task.Link)
	remainingPart := work.Over(link.Need())
	*phase = Time(fairshare.Stretched(int64(elapsed), int64(*phase), remainingPart, int64(MaxDuration)))
}

// setTimer sets the timer for the next end of a transfer, on either link, and cancels the one before if it
// is for another time. It does nothing for a nil receiver.
func (x *transfers) setTimer() {
	if x == nil {
		return
	}
	due := Time(0)
	anyUnderWay := false
	for _, link := range [...]*fairshare.Tree{x.download, x.upload} {
		if link == nil {
			continue
		}
		end, isUnderWay := link.Due()
		isEarlier := !anyUnderWay || Time(end) < due
		if isUnderWay && isEarlier {
			due = Time(end)
			anyUnderWay = true
		}
	}
	// The timer is right already, so no event is spent on it.
	if x.timer != 0 && anyUnderWay && x.timerAt == due {
		return
	}
	x.step.cancelTimer(&x.timer)
	x.timerAt = 0
	if anyUnderWay {
		x.timerAt = due
		x.timer = x.step.setTimer(Timer{At: due, Priority: priorityTransfer, Kind: TransferEnds})
	}
}

// remaining returns the work that is left of a task's shared transfer. ok is false if none is under way.
func (x *transfers) remaining(t *TaskState) (work fairshare.Work, ok bool) {
	if x.link(t.Stage) == nil {
		return work, false
	}
	return x.link(t.Stage).Remaining(int64(x.step.now), t.Link), true
}

// resume puts the transfer of a task back on its shared link after a restart. work is what remains of it,
// in the unit of the link's whole transfers ([fairshare.Tree.Need]).
func (x *transfers) resume(task *TaskState, work fairshare.Work) {
	phase := task.Download
	if task.Stage == Uploading {
		phase = task.Upload
	}
	task.Link = x.link(task.Stage).Resume(int64(x.step.now), task.Task, int(task.Client), int64(phase), work)
}
