package round

// KnownDevice is what a device has told of itself, and taken for its tasks. Its fields are
// all that is remembered.
type KnownDevice struct {
	Samples int  // what it told last; 0: it has told nothing
	Link    Time // what its transfers take
	Step    Time // what each of its local steps takes
	Tasks   int  // tasks from which Link and Step follow
}

// told notes its number of samples; 0: it does not say.
func (d *KnownDevice) told(samples int) {
	if samples > 0 {
		d.Samples = samples
	}
}

// learn notes what an answer to a task tells. One that is overtaken takes at least as long
// as was waited for it.
func (d *KnownDevice) learn(t *TaskState, e *Event) {
	link, compute, steps := e.Plan.Download+e.Plan.Upload, e.Plan.Compute, int(t.LocalSteps)
	switch {
	case e.Kind == Planned:
		d.told(e.Samples)
		d.took(link, compute, steps)
	case e.Kind == Overtaken && (d.Tasks == 0 || link+compute > d.expect(steps)):
		d.Tasks, d.Link, d.Step = d.Tasks+1, link, compute/Time(steps)
	}
}

// took notes what a task of so many local steps took. The newest counts for a quarter, so
// that a device that has slowed down is soon known as slow.
func (d *KnownDevice) took(link, compute Time, steps int) {
	step := compute / Time(steps)
	if d.Tasks++; d.Tasks > 1 {
		link, step = d.Link+(link-d.Link)/4, d.Step+(step-d.Step)/4
	}
	d.Link, d.Step = link, step
}

// expect is the time that a task of so many local steps is expected to take.
func (d *KnownDevice) expect(steps int) Time {
	if d.Step > 0 && Time(steps) > MaxDuration/d.Step {
		return MaxDuration
	}
	return d.Link + Time(steps)*d.Step
}
