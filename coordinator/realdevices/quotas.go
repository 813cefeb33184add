package realdevices

import (
	"fmt"
	"slices"
	"time"

	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

// Front is what devices come through to the run's own server.
type Front interface {
	// Sent returns how many bytes were sent to a device.
	Sent(device string) int64
	// Expel closes a device's connections and takes no more of them.
	Expel(device string)
	// Readmit takes a device's connections again.
	Readmit(device string)
}

// accounts are what devices have taken of the run, for their quotas.
type accounts struct {
	quota quota.Device
	list  []account

	// median is the median time of the last tasks of all devices, 0 until one has answered.
	median time.Duration
	// answers counts the answers since median was calculated.
	answers int
}

// account is one device's.
type account struct {
	// issued is the number of tasks that the device has got.
	issued int
	// refused and lost count the tasks in a row whose updates were refused, or that were lost.
	refused, lost int
	// took is the wall time for which the last task with an update was away, 0 if there was none.
	took time.Duration
	// held is how long the device had held the run up as of the time heldAt.
	held   time.Duration
	heldAt time.Time
	// bytesAtBanEnd is how many bytes had been sent to the device when its last ban ended, 0 before the first.
	bytesAtBanEnd int64
}

// A task may take patience times as long as the median task of the other devices, and leastPatience in any
// case, before the wait counts against its device.
const (
	patience      = 10
	leastPatience = time.Second
)

// fetchSlack is what a device may be sent beside models.
const fetchSlack = 16 << 20

// taskEnded counts that the task of a device has ended. kind is how: with a counted update (Planned), a refused one
// (Invalid), or without an answer (Silent). took is how long the task was away in wall time. If the device is now
// over a quota of refused or lost tasks in a row, the result says which, in words for the user; otherwise it is empty.
func (a *accounts) taskEnded(device int, kind round.EventKind, took time.Duration) (reason string) {
	account := &a.list[device]
	// A counted update ends both rows of failures. A refused one shows that the device still
	// answers.
	switch kind {
	case round.Planned:
		account.refused = 0
		account.lost = 0
		account.took = took
		// The answers are counted until the median of their times is calculated again.
		a.answers++
	case round.Invalid:
		account.lost = 0
		account.refused++
	case round.Silent:
		account.lost++
	}
	switch {
	case account.refused >= a.quota.Refused:
		return fmt.Sprintf(
			"its updates of %d tasks in a row were refused (devices.quota.refused_tasks)",
			account.refused,
		)
	case account.lost >= a.quota.Lost:
		return fmt.Sprintf("%d of its tasks in a row were lost (devices.quota.lost_tasks)", account.lost)
	}
	return ""
}

// heldReason returns, in words for the user, why a device is over the quota of time for which it may hold
// the run up; empty if it is not. took is how long its task has been away, and ended whether the task has
// ended, in which case the time is recorded. usual is how long such a task takes by the device's class, 0
// if that is not known. Only time beyond a multiple of the usual time counts. What was counted decays by
// one quota an hour, so that in n hours a device can hold the run for at most n + 1 quotas.
func (a *accounts) heldReason(device int, took, usual time.Duration, ended bool, now time.Time) (reason string) {
	account := &a.list[device]
	if len(a.list) > 1 {
		// What all devices take protects a slow fleet from a class that promises too much.
		usual = max(usual, a.medianTaskTime())
	}
	if usual == 0 {
		return ""
	}
	decayPerNanosecond := a.quota.HeldSeconds / time.Hour.Seconds()
	forgotten := time.Duration(decayPerNanosecond * float64(now.Sub(account.heldAt)))
	heldBefore := max(0, account.held-forgotten)
	heldNow := max(0, took-max(leastPatience, patience*usual))
	held := heldBefore + heldNow
	if ended {
		account.held = held
		account.heldAt = now
	}
	if held.Seconds() <= a.quota.HeldSeconds {
		return ""
	}
	return fmt.Sprintf(
		"its tasks have held the run for %v in an hour, beyond %d times what its class or the other devices take "+
			"(devices.quota.held_seconds)",
		held.Round(time.Second),
		patience,
	)
}

// medianTaskTime returns the lower median of the wall times of the devices' last tasks, 0 while none has
// ended. It is calculated afresh only once more answers than an eighth of the number of devices have come
// since the last time.
func (a *accounts) medianTaskTime() time.Duration {
	if a.answers*8 > len(a.list) {
		var times []time.Duration
		for i := range a.list {
			if a.list[i].took > 0 {
				times = append(times, a.list[i].took)
			}
		}
		a.answers = 0
		// The list is empty where the clock has not moved.
		if len(times) > 0 {
			slices.Sort(times)
			a.median = times[(len(times)-1)/2]
		}
	}
	return a.median
}

// fetchedReason returns, in words for the user, why a device is over its quota of downloaded bytes; empty
// if it is not. sent is the total number of bytes that were sent to the device, params the number of values
// that it downloads for each task, and frozen the number of those that it downloads once.
func (a *accounts) fetchedReason(device int, sent int64, params, frozen int) (reason string) {
	// A device downloads the model for each task. One download more is allowed, all times the quota.
	downloads := float64(1 + a.list[device].issued)
	values := a.quota.Fetches * (float64(downloads*float64(params)) + float64(frozen))
	const bytesPerValue = 4
	limit := fetchSlack + float64(bytesPerValue*values)
	// What was sent before the device's last ban ended does not count.
	sent -= a.list[device].bytesAtBanEnd
	if float64(sent) > limit {
		return fmt.Sprintf(
			"it has fetched %.0f MB, more than %g models for each of its tasks (devices.quota.fetches)",
			float64(sent)/1e6,
			a.quota.Fetches,
		)
	}
	return ""
}

// checkFetched suspends each device that has downloaded more bytes than its tasks explain. Without a front,
// which counts bytes, it does nothing.
func (d *Devices) checkFetched() error {
	if d.Front == nil {
		return nil
	}
	const expel = true
	valuesPerTask := d.run.Params + d.run.StateValues
	for device, name := range d.Names {
		reason := d.accounts.fetchedReason(device, d.Front.Sent(name), valuesPerTask, d.run.Frozen)
		if reason == "" || d.banned[device] {
			continue
		}
		if err := d.suspend(device, reason, expel); err != nil {
			return err
		}
	}
	return nil
}
