package realdevices

import (
	"fmt"
	"time"

	"fedpace/coordinator/round"
)

// Ban says that a device may not take part in the run, for some time or for good.
type Ban struct {
	Client int
	Reason string

	// For is how long the ban lasts, in nanoseconds of wall time; 0 means for good.
	For int64
	// Ends is when the ban ends, in Unix nanoseconds; 0 means never, or that this is a replay.
	Ends int64
	// Expel says that the run's own server takes no connection of the device, either.
	Expel bool
}

// Findings is what a run says of its devices in the end.
type Findings struct {
	Bans        []Ban
	Corrections []Correction
	// Returns counts the rounds after which the run went back to an earlier model.
	Returns int
}

// Findings returns the bans and corrections so far, each in the order in which they happened, and how often
// the run went back to an earlier model. It is zero in a run without devices, which has a nil receiver.
func (d *Devices) Findings() (s Findings) {
	if d != nil {
		s = Findings{Bans: d.bans, Corrections: d.corrections, Returns: int(d.rollbacks.Load())}
	}
	return s
}

// Ban bans a device from the run for good, also when the run is resumed or replayed. If the device has an
// open task, the task ends as refused. reason is for the user.
func (d *Devices) Ban(client int, reason string) error {
	return d.ban(Ban{Client: client, Reason: reason})
}

// NoteDivergence counts a round whose model has diverged, so that the run goes back to its best model. It
// informs the user the first time and then whenever the count has doubled. loss and best are the losses on
// held-out samples of the diverged model and of the best one.
func (d *Devices) NoteDivergence(round int, loss, best float64) {
	n := d.rollbacks.Add(1)
	if isPowerOfTwo(n) {
		d.notice(
			"The model of round %d is lost, with a loss of %.3g on held-out samples. "+
				"The run goes back to its best one, with %.3g (time %d; times 1, 2, 4, 8 ... are told). "+
				"Nobody is banned: no device did it alone from a sound model.",
			round,
			loss,
			best,
			n,
		)
	}
}

// NoteExclusion counts a round in which the guard gave the update of this device no part. It informs the
// user the first time for a device and then whenever the device's count has doubled. client is the device's
// client number; lossWith and lossWithout are the losses on held-out samples of the models with and without
// its update.
func (d *Devices) NoteExclusion(client, round int, lossWith, lossWithout float64) {
	device := d.deviceOf(client)
	d.exclusions[device]++
	n := d.exclusions[device]
	if isPowerOfTwo(int64(n)) {
		d.notice("The update of device %s is left out of round %d: it is far longer than the others, and the loss "+
			"on held-out samples is %.3g with it and %.3g without (time %d; times 1, 2, 4, 8 ... "+
			"are told).", d.Names[device], round, lossWith, lossWithout, n)
	}
}

// isPowerOfTwo reports whether n, which is above 0, is a power of two: it then has a single bit set, which
// n-1 has not.
func isPowerOfTwo(n int64) bool { return n&(n-1) == 0 }

// suspend bans a device that is over a quota. The ban lasts as many seconds as the quota says, doubled for
// each earlier ban of the device until longestBan is reached, or for good if the quota says 0. With expel
// the run's own server also closes the device's connections, which stops traffic that does harm.
func (d *Devices) suspend(device int, reason string, expel bool) error {
	ban := Ban{Client: d.clientOf(device), Reason: reason, Expel: expel}
	if seconds := d.accounts.quota.BanSeconds; seconds > 0 {
		for i := range d.bans {
			if d.bans[i].Client == ban.Client && seconds < longestBan {
				seconds *= 2
			}
		}
		ban.For = int64(seconds * 1e9)
		ban.Ends = time.Now().UnixNano() + ban.For
	}
	return d.ban(ban)
}

const (
	// longestBan is the number of seconds from which a ban is not doubled any more.
	longestBan = 1e9
	// flakyBan and longestFlakyBan are the numbers of seconds of the shortest and of the longest ban of
	// a device that holds the run up or loses tasks, if the quota's bans are for good: a bad link may be
	// the cause, and it may get better.
	flakyBan        = 120
	longestFlakyBan = 3600
)

// suspendFlaky bans a device that is over a quota because it held the run up or lost tasks, for which a bad
// link may be the cause. If the quota sets a length of bans, it is that of [Devices.suspend]. If the
// quota's bans are for good, this one lasts flakyBan seconds, doubled for each ban of the device that ended
// in the last longestFlakyBan seconds, up to longestFlakyBan.
func (d *Devices) suspendFlaky(device int, reason string) error {
	const expel = false
	if d.accounts.quota.BanSeconds > 0 {
		return d.suspend(device, reason, expel)
	}
	ban := Ban{Client: d.clientOf(device), Reason: reason}
	now := time.Now()
	seconds := float64(flakyBan)
	for _, earlier := range d.bans {
		ended := time.Unix(0, earlier.Ends)
		if earlier.Client == ban.Client && now.Sub(ended) < longestFlakyBan*time.Second {
			seconds = min(2*seconds, longestFlakyBan)
		}
	}
	ban.For = int64(seconds * 1e9)
	ban.Ends = now.UnixNano() + ban.For
	return d.ban(ban)
}

// countHeldTime counts how long the run has waited for task o against the quota of its device, and bans the
// device if it is over that. For a task that has ended (ended) the time is recorded. For one that is still
// open it is only compared with the quota, so that the device is banned as soon as it is over.
func (d *Devices) countHeldTime(o *openTask, ended bool) error {
	now := time.Now()
	// The device's class may say how long such a task takes; 0 means that it is not known. A real device takes
	// as much wall time as the class says in virtual time.
	usual := time.Duration(0)
	if d.Usual != nil {
		usual = time.Duration(d.Usual(d.clientOf(o.device), int(o.task.LocalSteps)))
	}
	reason := d.accounts.heldReason(o.device, now.Sub(o.firstSent), usual, ended, now)
	if reason == "" || d.banned[o.device] {
		return nil
	}
	return d.suspendFlaky(o.device, reason)
}

// ban bans a device for the time that the ban says, or for good. It informs the user, ends the device's
// open task as refused, and adds the ban to the record, so that a replay imposes it at the same place. It
// does nothing if the device is banned already, unless that ban has an end and the new one has none.
func (d *Devices) ban(ban Ban) error {
	device := d.deviceOf(ban.Client)
	if d.banned[device] && (ban.For > 0 || d.banEnds[device] == 0) {
		return nil
	}
	d.mustSave = true
	duration := "any more"
	if ban.For > 0 {
		duration = fmt.Sprintf("for %v", time.Duration(ban.For))
	}
	d.notice("Device %s has no place in the run %s: %s.", d.Names[device], duration, ban.Reason)
	d.impose(ban)
	// A replay has no gateway. It gets its bans from the record.
	if d.gateway == nil {
		return nil
	}
	if o := d.taskOf(device); o != nil {
		d.refuse(o)
	}
	return d.Record.AddBan(ban)
}

// impose marks a device as banned until the ban ends, and has the gateway take no message from it; a ban
// that expels also ends the device's connections to the run's own server. It neither records nor announces
// the ban.
func (d *Devices) impose(ban Ban) {
	device := d.deviceOf(ban.Client)
	d.bans = append(d.bans, ban)
	d.banned[device] = true
	d.banEnds[device] = ban.Ends
	d.bannedCount.Store(int64(countTrue(d.banned)))
	if ban.Expel && d.Front != nil {
		d.Front.Expel(d.Names[device])
	}
	if d.gateway != nil {
		d.gateway.Ban(device)
	}
}

// readmit ends the bans whose time is over at now, by the wall clock; a ban for good stays. The device's
// account for its quotas starts afresh, except for the time by which it has held the run up, which decays
// only in hours. The gateway calls the device, so that it can join again.
func (d *Devices) readmit(now time.Time) error {
	for device, end := range d.banEnds {
		// Without an end the device is not banned, or is banned for good.
		if end == 0 || now.UnixNano() < end {
			continue
		}
		d.banned[device] = false
		d.banEnds[device] = 0
		d.bannedCount.Store(int64(countTrue(d.banned)))
		// The front counts the bytes that it has ever sent to the device, so the account notes how many these are
		// now: its quota is of those that come after.
		before := &d.accounts.list[device]
		account := account{held: before.held, heldAt: before.heldAt}
		if d.Front != nil {
			d.Front.Readmit(d.Names[device])
			account.bytesAtBanEnd = d.Front.Sent(d.Names[device])
		}
		d.accounts.list[device] = account
		d.notice("The ban of device %s is over: it may join again.", d.Names[device])
		if d.gateway == nil {
			continue
		}
		if err := d.gateway.Readmit(device); err != nil {
			return err
		}
	}
	return nil
}

// countTrue returns how many entries of a list, which has one for each device, are true.
func countTrue(list []bool) (n int) {
	for _, set := range list {
		if set {
			n++
		}
	}
	return n
}

// refuse ends the open task o of a banned device as invalid, after the time since the task was sent, at
// most the limit of a task.
func (d *Devices) refuse(o *openTask) {
	d.answerFor(round.Invalid, o, round.Plan{Compute: min(o.timeAway(time.Now()), round.Time(d.TaskLimit))})
}

// Urgent reports whether a checkpoint must be saved at once because something has happened that must not be
// lost, such as a ban. It reports that once: the next call returns false until something else happens. A
// nil receiver has no devices.
func (d *Devices) Urgent() (urgent bool) {
	if d != nil {
		urgent = d.mustSave
		d.mustSave = false
	}
	return urgent
}

// takeBans imposes bans of the checkpoint from which a run is resumed, or of the run that is replayed. Bans
// of clients that are not devices of this run are ignored.
func (d *Devices) takeBans(bans []Ban) {
	for _, ban := range bans {
		device := d.deviceOf(ban.Client)
		isDevice := device >= 0 && device < len(d.banned)
		if isDevice {
			// A ban whose time is over ends when presence is checked next.
			d.impose(ban)
		}
	}
}
