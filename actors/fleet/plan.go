package fleet

import (
	"cmp"
	"fmt"

	"fedpace/internal/keyed"
)

// Client is a simulated client as its device model sees it. Draws for its tasks depend on its
// number.
type Client struct {
	Number int
	// Device is the number of the client whose device it has: class, speeds, traces and battery. It is
	// the client's own number unless a correlation assigns another.
	Device int
	// Presence is the number of the client whose availability it has, likewise.
	Presence int
	// Joules is the charge of its battery. 0 means that it has none.
	Joules float64
	// BatchPart is the part of its minibatch that a local step takes, below 1; 0 means all of it.
	BatchPart float64
}

// Client returns the client with a number, without its battery's charge.
func (f *Fleet) Client(number int) Client {
	return Client{Number: number, Device: assignedNumber(f.devices, number), Presence: f.presenceNumber(number)}
}

// assignedNumber returns the number by which a client's device, or its availability, is drawn. Where devices or
// availability are correlated with the data, list has this number for each client, and it is that of another
// client. A client without an entry in list has its own number.
func assignedNumber(list []uint32, client int) int {
	if client < len(list) {
		return int(list[client])
	}
	return client
}

// Phase is one of the parts of a task: three, and four more with secure aggregation.
type Phase uint8

// The phases in their order.
const (
	NoPhase Phase = iota
	InDownload
	InCompute
	InUpload
	// InKeys and the three phases after it occur with secure aggregation alone.
	InKeys
	InShares
	InSurvivors
	InRecovery
)

// Plan is the durations of a task's phases and where in them the client drops out.
type Plan struct {
	// Durations are those of the complete task, even if the client drops out.
	Durations
	// Stages are those of secure aggregation: keys and shares, before the download, and survivors and
	// recovery, after the upload. They are 0 without.
	Stages [SecureStages]int64
	// Dropout is the phase in which the client drops out. NoPhase means that it finishes.
	Dropout Phase
	// After is when it drops out, in nanoseconds of work since the task's start: less than Total and
	// the stages together.
	After int64
}

// Plan returns how long a task takes a client that starts it at virtual time start (see
// [Fleet.Durations]), and whether the client drops out: by chance, because its availability ends,
// or because its battery is empty, whichever comes first. task is the number by which the task draws,
// and bits are the sizes of the transfers.
func (f *Fleet) Plan(c Client, task uint64, steps int, bits Bits, start int64) (Plan, error) {
	k, deviceKey := f.classOf(c.Device)
	d, err := f.durations(k, deviceKey, c.Number, task, steps, cmp.Or(c.BatchPart, wholeBatch), bits, start)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Durations: d}
	total := d.Total()
	// Secure aggregation has four stages more, and masks the update.
	if f.secure {
		ok := false
		p.Stages, ok = f.stageDurations(k, deviceKey, c.Number, task, start)
		if !ok {
			return Plan{}, fmt.Errorf("fleet: task %d of client %d: a stage of secure aggregation takes over %g s",
				task, c.Number, float64(maxSeconds))
		}
		p.Compute += f.stages.masks(bits.Up)
		total = p.total()
	}
	// A client that waits while it is away continues its transfer when it is back.
	if k.dropout.Away == AwayWaits && k.presence != nil {
		if !p.extendTransfers(k.presence, f.seed, c.Presence, start) {
			// The client leaves in a transfer and never comes back. extendTransfers has set when it drops out.
			return p, nil
		}
		total = p.total()
	}
	// leaves is the time after its start at which the client drops out, in nanoseconds, of the earliest
	// cause; total means that it stays.
	leaves := total
	if probability := k.dropout.Probability; probability > 0 && total > 0 {
		key := keyed.Hash(f.seed, keyed.Dropout, uint64(c.Number), task)
		if keyed.Nth(key, 0) < threshold(probability) {
			leaves = int64(keyed.Below(keyed.Nth(key, 1), uint64(total)))
		}
	}
	if k.dropout.WhenUnavailable && k.presence != nil {
		leaves = min(leaves, k.firstAbsence(f.seed, c.Presence, start, start+leaves)-start)
	}
	// A configuration with batteries has neither secure aggregation nor clients that wait, so the task has just the
	// phases of d.
	if k.battery != nil && c.Joules > 0 {
		leaves = min(leaves, k.battery.watts.supports(d, c.Joules))
	}
	if leaves < total {
		p.After = leaves
		p.Dropout = p.phase(leaves)
	}
	return p, nil
}

// extendTransfers makes the transfers of a plan longer by the time in which the client is away. start is
// when the task starts. It reports false for a client that does not come back: the plan then has it drop
// out in the transfer that it leaves.
func (p *Plan) extendTransfers(presence Presence, seed uint64, client int, start int64) (returns bool) {
	end, ok := transferEnd(presence, seed, client, start, p.Download)
	if !ok {
		p.Dropout = InDownload
		p.After = end - start
		// The client drops out before the end of the download.
		p.Download = max(p.Download, p.After+1)
		return false
	}
	p.Download = end - start
	// A client computes while it is away, so only transfers are interrupted.
	uploads := end + p.Compute
	end, ok = transferEnd(presence, seed, client, uploads, p.Upload)
	if !ok {
		p.Dropout = InUpload
		p.After = end - start
		p.Upload = max(p.Upload, end-uploads+1)
		return false
	}
	p.Upload = end - uploads
	return true
}

// maxPauses is after how many absences in one transfer a client counts as one that does not come back.
const maxPauses = 4096

// transferEnd returns when a client is done with a transfer that begins at time from and needs duration
// nanoseconds in which the client is available. ok is false if it is never done, or not within maxPauses
// pauses: end is then when the client was available last.
func transferEnd(presence Presence, seed uint64, client int, from, duration int64) (end int64, ok bool) {
	now := from
	remaining := duration
	lastPresent := from
	// A pause has two changes of the presence.
	for range 2 * maxPauses {
		if remaining == 0 {
			return now, true
		}
		change := presence.Change(seed, client, now)
		// The transfer advances only while the client is present.
		if presence.Present(seed, client, now) {
			if change == Never || change-now >= remaining {
				return now + remaining, true
			}
			remaining -= change - now
			lastPresent = change
		}
		if change == Never {
			return lastPresent, false
		}
		now = change
	}
	return lastPresent, false
}

// firstAbsence returns the first time from start on at which the client is not available, or until if that is
// earlier. client is the number by which its availability is drawn. Times are virtual, in nanoseconds.
func (k *class) firstAbsence(seed uint64, client int, start, until int64) int64 {
	now := start
	// The presence may be the same after a change that was far away, so it is looked up again.
	for now < until && k.presence.Present(seed, client, now) {
		now = k.presence.Change(seed, client, now)
	}
	return min(now, until)
}

// Leaves returns when a client that begins a task at time start drops out because its availability
// ends, however long the task takes. It returns false for a client that does not drop out so, or
// not within the next 64 changes.
func (f *Fleet) Leaves(client int, start int64) (int64, bool) {
	k, _ := f.class(client)
	if !k.dropout.WhenUnavailable || k.presence == nil {
		return 0, false
	}
	number := f.presenceNumber(client)
	// A stay mostly ends with its first change, so few looks are enough.
	const looks = 64
	for range looks {
		if !k.presence.Present(f.seed, number, start) {
			return start, true
		}
		start = k.presence.Change(f.seed, number, start)
		if start == Never {
			break
		}
	}
	return 0, false
}

// Total returns the length of the task in nanoseconds.
func (d Durations) Total() int64 { return d.Download + d.Compute + d.Upload }

// Phase returns the phase that the task is in at a time after its start, NoPhase from its end on.
func (d Durations) Phase(after int64) Phase {
	switch {
	case after < d.Download:
		return InDownload
	case after < d.Download+d.Compute:
		return InCompute
	case after < d.Total():
		return InUpload
	}
	return NoPhase
}
