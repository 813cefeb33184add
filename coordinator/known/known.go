package known

import "fedpace/simclock"

// Time is virtual time: nanoseconds.
type Time = simclock.Time

// Device is what a device has told and taken. Its fields are all that is remembered.
type Device struct {
	Samples int  // as it told last; 0: it has not
	Link    Time // what its transfers take
	Step    Time // what each of its local steps takes
	Tasks   int  // from which Link and Step follow
}

// Told notes its number of samples; 0: it does not say.
func (d *Device) Told(samples int) {
	if samples > 0 {
		d.Samples = samples
	}
}

// Took notes what a task of so many local steps took. The newest counts for a quarter, so
// that a device that has slowed down is soon known as slow.
func (d *Device) Took(link, compute Time, steps int) {
	step := compute / Time(steps)
	if d.Tasks++; d.Tasks > 1 {
		link, step = d.Link+(link-d.Link)/4, d.Step+(step-d.Step)/4
	}
	d.Link, d.Step = link, step
}

// TakesAtLeast notes that a task of so many local steps was given up after a time: it counts
// if it is longer than was expected. limit is that of [Device.Expect].
func (d *Device) TakesAtLeast(link, compute Time, steps int, limit Time) {
	if d.Tasks == 0 || link+compute > d.Expect(steps, limit) {
		d.Tasks, d.Link, d.Step = d.Tasks+1, link, compute/Time(steps)
	}
}

// Expect is the time that a task of so many local steps is expected to take, at most a limit.
func (d *Device) Expect(steps int, limit Time) Time {
	if d.Step > 0 && Time(steps) > limit/d.Step {
		return limit
	}
	return d.Link + Time(steps)*d.Step
}

// Possible reports whether a device can have told and taken this where no phase of a task
// takes longer than a limit.
func (d *Device) Possible(limit Time) bool {
	return d.Samples >= 0 && d.Tasks >= 0 && min(d.Link, d.Step) >= 0 && max(d.Link, d.Step) <= 2*limit
}
