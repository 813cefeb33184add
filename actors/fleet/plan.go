package fleet

import "fedpace/internal/keyed"

// Client is a simulated client as the laws of its device know it. What is drawn for
// its tasks follows from its own number.
type Client struct {
	Number int
	// number of the device whose class, speeds, traces and battery it has: its own number unless a
	// correlation gives it another's
	Device   int
	Presence int     // number of the client whose availability it has, likewise
	Joules   float64 // what its battery holds; 0: it has none
}

// Client is the client of a number, without what its battery holds.
func (f *Fleet) Client(number int) Client {
	return Client{Number: number, Device: assignedNumber(f.devices, number), Presence: f.presenceNumber(number)}
}

// assignedNumber is a client's entry of a list; its own number where the list does not reach.
func assignedNumber(list []uint32, client int) int {
	if client < len(list) {
		return int(list[client])
	}
	return client
}

// Phase is a part of a client's work on a task.
type Phase uint8

// The phases in their order.
const (
	NoPhase Phase = iota
	InDownload
	InCompute
	InUpload
)

// Plan is a task's phases and where in them the client leaves.
type Plan struct {
	Durations       // of the whole work, also when the client leaves
	Dropout   Phase // NoPhase: it finishes
	After     int64 // when it leaves, in nanoseconds since the task's start; below Total
}

// Plan is the time that a client takes for a task, see [Fleet.Durations], and whether it
// drops out, as one does whose battery runs empty.
func (f *Fleet) Plan(c Client, task uint64, steps int, bits Bits, start int64) (Plan, error) {
	k, h := f.classOf(c.Device)
	d, err := f.durations(k, h, c.Number, task, steps, bits, start)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Durations: d}
	total := d.Total()
	leaves := total
	if p := k.dropout.Probability; p > 0 && total > 0 {
		if h := keyed.Hash(f.seed, keyed.Dropout, uint64(c.Number), task); keyed.Nth(h, 0) < threshold(p) {
			leaves = int64(keyed.Below(keyed.Nth(h, 1), uint64(total)))
		}
	}
	if k.dropout.WhenUnavailable && k.presence != nil {
		leaves = min(leaves, k.absent(f.seed, c.Presence, start, start+leaves)-start)
	}
	if k.battery != nil && c.Joules > 0 {
		leaves = min(leaves, k.battery.watts.duration(d, c.Joules))
	}
	if leaves < total {
		p.After = leaves
		p.Dropout = d.Phase(leaves)
	}
	return p, nil
}

// absent is the first time from at on at which the client is not there; until
// when there is none before.
func (k *class) absent(seed uint64, client int, start, until int64) int64 {
	for start < until && k.presence.Present(seed, client, start) {
		start = k.presence.Change(seed, client, start)
	}
	return min(start, until)
}

// Leaves is when a client that begins a task at time at drops out because it is
// not available any longer, however long the task takes; false for one that
// does not, or not for as long as one looks ahead.
func (f *Fleet) Leaves(client int, start int64) (int64, bool) {
	k, _ := f.class(client)
	if !k.dropout.WhenUnavailable || k.presence == nil {
		return 0, false
	}
	number := f.presenceNumber(client)
	const looks = 64 // a stay mostly ends with its first change
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

// Total is the time of all phases.
func (d Durations) Total() int64 { return d.Download + d.Compute + d.Upload }

// Phase is the phase in which the task is so many nanoseconds after its start;
// NoPhase at its end.
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
