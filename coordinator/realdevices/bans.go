package realdevices

import (
	"fmt"
	"time"

	"fedpace/coordinator/round"
)

// Ban is a device that has no place in the run any more.
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

// Findings returns the bans and corrections so far, each in the order in which they happened, and the
// number of returns. It is zero in a run without devices.
func (d *Devices) Findings() (s Findings) {
	if d != nil {
		s = Findings{d.bans, d.corrections, int(d.returns.Load())}
	}
	return s
}

// Ban ends a device's part in the run for good, also when the run is resumed or replayed. Its open
// task ends as refused, after the time for which the coordinator has waited for it.
func (d *Devices) Ban(client int, reason string) error {
	return d.ban(Ban{Client: client, Reason: reason})
}

// ModelLost counts a round whose model has diverged, after which the run goes back to its best model,
// and informs the user the first time and then each time the count has doubled. loss and best are the
// held-out losses of the two models.
func (d *Devices) ModelLost(round int, loss, best float64) {
	// A power of two has one bit, so it shares none with the number below it.
	if n := d.returns.Add(1); n&(n-1) == 0 {
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

// LeftOut tells the user that the guard gave the update of a device, which is this client, no part
// in a round. lossWith and lossWithout are the losses on held-out samples of the models with and
// without that update. The user is informed the first time for a device and then each time its count
// has doubled.
func (d *Devices) LeftOut(client, round int, lossWith, lossWithout float64) {
	i := client - d.run.First
	d.leftOut[i]++
	// A power of two has one bit, so it shares none with the number below it.
	if d.leftOut[i]&(d.leftOut[i]-1) == 0 {
		d.notice("The update of device %s is left out of round %d: it is far longer than the others, and the loss "+
			"on held-out samples is %.3g with it and %.3g without (time %d; times 1, 2, 4, 8 ... "+
			"are told).", d.Names[i], round, lossWith, lossWithout, d.leftOut[i])
	}
}

// suspend bans a device that is over a quota, for as many seconds as the quota says, doubled for each
// earlier ban of the device until longestBan is reached, or for good. expel closes the run's own server
// to it, too, where its traffic is the harm.
func (d *Devices) suspend(device int, reason string, expel bool) error {
	ban := Ban{Client: d.run.First + device, Reason: reason, Expel: expel}
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

// suspendFlaky bans a device that is over a quota of which a bad link may be the cause. If the quota's
// bans are for good, this one lasts flakyBan, doubled for each ban of the device that ended in the last
// longestFlakyBan seconds, up to that number.
func (d *Devices) suspendFlaky(device int, reason string) error {
	const expel = false
	if d.accounts.quota.BanSeconds > 0 {
		return d.suspend(device, reason, expel)
	}
	ban := Ban{Client: d.run.First + device, Reason: reason}
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

// countHeldTime counts the time for which the run waits for task o against the quota of its device, and
// bans the device if it is over the quota. done says that the task has ended. For a task that is still
// open the time is not recorded, but compared with the quota, so that the device is banned as soon as it
// is over.
func (d *Devices) countHeldTime(o *openTask, done bool) error {
	now := time.Now()
	usual := time.Duration(0)
	if d.Usual != nil {
		usual = time.Duration(d.Usual(d.run.First+o.device, int(o.task.LocalSteps)))
	}
	reason := d.accounts.checkHeld(o.device, now.Sub(o.sent), usual, done, now)
	if reason == "" || d.banned[o.device] {
		return nil
	}
	return d.suspendFlaky(o.device, reason)
}

// ban ends a device's part in the run for the time that the ban gives, or for good. It informs the
// user, refuses the device's open task, and records the ban, so that a replay imposes it at the
// same place. It does nothing for a device that is banned already, unless the present ban has an end
// and the new one has none.
func (d *Devices) ban(ban Ban) error {
	device := ban.Client - d.run.First
	if d.banned[device] && (ban.For > 0 || d.banEnds[device] == 0) {
		return nil
	}
	d.urgent = true
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

// impose marks a device as banned until the ban ends and shuts it out: the gateway takes no message
// of it, and a ban that expels also ends its connection. It neither records nor announces the ban.
func (d *Devices) impose(ban Ban) {
	device := ban.Client - d.run.First
	d.bans = append(d.bans, ban)
	d.banned[device] = true
	d.banEnds[device] = ban.Ends
	d.bannedCount.Store(int64(count(d.banned)))
	if ban.Expel && d.Front != nil {
		d.Front.Expel(d.Names[device])
	}
	if d.gateway != nil {
		d.gateway.Ban(device)
	}
}

// readmit ends the bans whose time is over at now, by the wall clock. The account of such a device is
// that of one just enrolled, but for the time by which it has held the run, which only hours forget. The
// gateway calls the device, so that it can join again. A ban without an end stays.
func (d *Devices) readmit(now time.Time) error {
	for device, end := range d.banEnds {
		if end == 0 || now.UnixNano() < end {
			continue
		}
		d.banned[device] = false
		d.banEnds[device] = 0
		d.bannedCount.Store(int64(count(d.banned)))
		// What the device fetched before stays counted from here, not from zero.
		before := &d.accounts.list[device]
		account := account{held: before.held, heldAt: before.heldAt}
		if d.Front != nil {
			d.Front.Readmit(d.Names[device])
			account.sent = d.Front.Sent(d.Names[device])
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

// count returns how many entries of a list are true. Each entry belongs to one device, such as
// whether it is present or banned.
func count(list []bool) (n int) {
	for _, set := range list {
		if set {
			n++
		}
	}
	return n
}

// refuse answers the open task of a device that is banned: the task ends as invalid after the time
// since it was sent, at most the limit of a task.
func (d *Devices) refuse(o *openTask) {
	d.answer(round.Invalid, o, round.Plan{Compute: min(o.observed(time.Now()), round.Time(d.TaskLimit))})
}

// Urgent reports whether something has happened, such as a ban, that a run must save at once. It
// reports it once: a second call returns false until something else happens. A nil receiver has no
// devices.
func (d *Devices) Urgent() (now bool) {
	if d != nil {
		now = d.urgent
		d.urgent = false
	}
	return now
}

// takeBans imposes the bans of the checkpoint that a run is resumed from, or of the run that is
// replayed. Bans of clients that are no devices of this run are ignored.
func (d *Devices) takeBans(bans []Ban) {
	for _, b := range bans {
		if i := b.Client - d.run.First; i >= 0 && i < len(d.banned) {
			// A ban whose time is over ends at the next look at the clock.
			d.impose(b)
		}
	}
}
