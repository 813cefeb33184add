package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/internal/human"
	"fedpace/internal/robust"
)

// Fit holds the classes that were fitted to a run's real devices.
type Fit struct {
	// Run is the run's folder.
	Run string `json:"run"`
	// Rounds is the number of rounds in the run's event log.
	Rounds int `json:"rounds"`
	// ModelMegabits and UpdateMegabits are the sizes of a download and an upload.
	ModelMegabits  float64 `json:"model_megabits"`
	UpdateMegabits float64 `json:"update_megabits"`
	// LinksMeasured is false if devices.link is modelled, so that the run says nothing of its devices'
	// links.
	LinksMeasured bool     `json:"links_measured"`
	Devices       []Device `json:"devices"`
	// Together says that the run's devices are slow together, and so are those of the classes.
	Together bool `json:"together"`
	// Check compares the classes with the run.
	Check *Check `json:"check"`
	// SimulatedClass is the name of the class that was added for simulated clients, because the run had
	// no classes. It is empty if none was added.
	SimulatedClass string `json:"simulated_class"`

	// pool says that devices of one class in the run share a class.
	pool bool
	// config is the run's configuration, with the fitted classes.
	config config.Config
}

// Device is what was found of one device. Of a device without tasks that say how fast it is, only what was
// left out is known; it keeps the class that it has.
type Device struct {
	ID string `json:"id"`
	// Class is the class of the device in the result. It is empty if it has none.
	Class string `json:"class"`
	// Tasks is the number of tasks from which its times are.
	Tasks int `json:"tasks"`
	// Measured is the number of tasks that were measured. Of many, Tasks are spread evenly among them.
	Measured int     `json:"of"`
	LeftOut  LeftOut `json:"left_out"`

	// DownloadMbps and UploadMbps are the speeds of the device's links. They are 0 if they were not
	// measured.
	DownloadMbps robust.Estimate `json:"download_mbps"`
	UploadMbps   robust.Estimate `json:"upload_mbps"`
	// SecondsPerStep is the time of a local step, ComputeOverhead that of a task's computing beside its
	// steps, in seconds, and StepCV the coefficient of variation of the time of a step.
	SecondsPerStep  robust.Estimate `json:"seconds_per_step"`
	ComputeOverhead robust.Estimate `json:"compute_overhead_seconds"`
	StepCV          float64         `json:"step_cv"`

	model timeModel
}

// Run fits classes to the real devices of the run in folder dir. With pool it fits one class to
// all devices that have one class in the run, otherwise one to every device. It is an error if no
// device has done two tasks with known times.
func Run(dir string, pool bool) (*Fit, error) {
	r, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	f := &Fit{
		Run:            dir,
		Rounds:         r.rounds,
		ModelMegabits:  megabits(r.bits, download),
		UpdateMegabits: megabits(r.bits, upload),
		LinksMeasured:  r.config.Devices.Link != config.ModelledLink,
		pool:           pool,
		config:         r.config,
	}
	for i := range r.devices {
		f.Devices = append(f.Devices, f.fitDevice(r, &r.devices[i]))
	}
	if !slices.ContainsFunc(f.Devices, func(d Device) bool { return d.Tasks > 0 }) {
		return nil, fmt.Errorf(
			"%s: no device has done two tasks whose times are known, so there is nothing to fit",
			dir,
		)
	}
	// A class that several devices share has the tasks of all of them, so it cannot have one for each round.
	if !pool {
		f.correlate(r, r.comparableRounds())
	}
	f.setClasses(r)
	if err := f.config.Validate(); err != nil {
		return nil, fmt.Errorf("%s: the classes: %w%s", dir, err, f.hint())
	}
	f.Check, err = f.compareWithRun(r)
	if err != nil {
		return nil, err
	}
	if n := len(f.YAML()); n > config.MaxFile {
		return nil, fmt.Errorf(
			"%s: the classes are %d bytes, and a configuration has at most %d%s",
			dir,
			n,
			config.MaxFile,
			f.hint(),
		)
	}
	return f, nil
}

// hint is what may help where there are too many classes.
func (f *Fit) hint() string {
	if f.pool {
		return ""
	}
	return " (--pool makes one class of the devices of each class in devices.names)"
}

// fitDevice fits the time model of one device to the tasks of its history. r is the record of the run. A device
// without tasks that say how fast it is keeps its class and has no model.
func (f *Fit) fitDevice(r *record, history *deviceHistory) Device {
	tasks := history.tasks.Kept
	d := Device{
		ID:       history.ID,
		Class:    history.Class,
		Tasks:    len(tasks),
		Measured: history.usable,
		LeftOut:  history.leftOut,
	}
	if d.Tasks == 0 {
		return d
	}
	var classOverhead fleet.Overhead
	if class := classOf(&r.config, history.Class); class != nil {
		classOverhead = class.Overhead
	}
	d.model = fitTimeModel(tasks, classOverhead, r.bits, f.LinksMeasured)
	d.model.setFirstTask(&history.firstTask, r.bits, f.LinksMeasured)
	fitted := &d.model.phases
	d.DownloadMbps = fitted[download].typical
	d.UploadMbps = fitted[upload].typical
	d.SecondsPerStep = fitted[compute].typical
	d.ComputeOverhead = d.model.stepOverhead
	d.StepCV = d.model.stepCV
	return d
}

// classOf returns the class of a configuration's fleet with this name, or nil if there is none.
func classOf(c *config.Config, name string) *fleet.Class {
	if i := slices.IndexFunc(c.Fleet, func(k fleet.Class) bool { return k.Name == name }); i >= 0 {
		return &c.Fleet[i]
	}
	return nil
}

// setClasses puts the fitted classes into the configuration f.config, behind those of simulated clients, and
// names in it the class of each device. A device gets a class of its own, called as the device, or with f.pool
// shares one with the others of its former class. r is the record of the run.
func (f *Fit) setClasses(r *record) {
	before := &r.config
	classes := f.simulatedClasses(r)
	for i := range f.Devices {
		d := &f.Devices[i]
		former := before.Devices.Names[i].Class
		// The devices to which the class of d is fitted. Without pool, and without a former class, it is d alone.
		members := []*Device{d}
		if f.pool && former != "" {
			members = f.membersOf(former)
		} else if d.Tasks > 0 {
			isTaken := func(name string) bool {
				return classes.indexOf(name) >= 0 || f.pool && classOf(before, name) != nil
			}
			d.Class = d.ID
			for isTaken(d.Class) {
				d.Class += "-fitted"
			}
		}
		// A class of several devices is fitted once, for the first of them.
		if d.Tasks > 0 && members[0] == d {
			fitted := f.fittedClass(before, former, members)
			fitted.Name = d.Class
			classes.set(fitted)
		}
	}
	names := slices.Clone(before.Devices.Names)
	for i, d := range f.Devices {
		// A class to which nothing was fitted stays as the run had it.
		if classes.indexOf(d.Class) < 0 && d.Class != "" {
			classes = append(classes, *classOf(before, d.Class))
		}
		names[i].Class = d.Class
	}
	f.config.Fleet = classes
	f.config.Devices.Names = names
}

// simulatedClasses returns the classes of the run that simulated clients have, with their weights. Where the run
// had simulated clients and no classes, one without settings of its own stands for them.
func (f *Fit) simulatedClasses(r *record) (classes classList) {
	before := &r.config
	hasSimulated := r.firstDevice > 0
	hasWeights := slices.ContainsFunc(before.Fleet, func(k fleet.Class) bool { return k.Weight > 0 })
	for _, class := range before.Fleet {
		// Without any weight, simulated clients are spread evenly over the classes.
		if class.Weight > 0 || hasSimulated && !hasWeights {
			class.Weight = cmp.Or(class.Weight, 1)
			classes = append(classes, class)
		}
	}
	if hasSimulated && len(before.Fleet) == 0 {
		f.SimulatedClass = "simulated"
		// Fitted classes are called as their devices, so the name must be that of no device.
		for slices.Contains(before.Devices.IDs(), f.SimulatedClass) {
			f.SimulatedClass += "-clients"
		}
		classes = classList{{Name: f.SimulatedClass, Weight: 1}}
	}
	return classes
}

// classList is a list of classes with different names.
type classList []fleet.Class

// indexOf returns the index of the class with this name, or -1 if there is none.
func (l classList) indexOf(name string) int {
	return slices.IndexFunc(l, func(k fleet.Class) bool { return k.Name == name })
}

// set puts a class in the place of the one with its name, or behind all others if there is none. The class in
// that place is also one of simulated clients, so its weight stays.
func (l *classList) set(class fleet.Class) {
	i := l.indexOf(class.Name)
	if i < 0 {
		*l = append(*l, class)
		return
	}
	class.Weight = (*l)[i].Weight
	(*l)[i] = class
}

// membersOf returns the devices of the run that have this class and recorded tasks.
func (f *Fit) membersOf(class string) (list []*Device) {
	for i := range f.Devices {
		if d := &f.Devices[i]; d.Tasks > 0 && d.Class == class {
			list = append(list, d)
		}
	}
	return list
}

// fittedClass makes the class for some devices, members. former is the class that they had in the
// configuration before; its settings that are not times stay. The speeds of several devices become
// the values of one empirical distribution, of which each client of the class draws one. Overheads
// and scatter are medians over the devices.
func (f *Fit) fittedClass(before *config.Config, former string, members []*Device) (k fleet.Class) {
	if old := classOf(before, former); old != nil {
		k = *old
	}
	// What the former class says of times is not kept.
	k.Weight = 0
	k.Vary = fleet.Vary{}
	k.Overhead = fleet.Overhead{}
	k.FirstTask = fleet.Overhead{}
	k.Uncertainty = fleet.Uncertainty{}
	k.StepCV = 0
	// The measured steps were of the run's batch, so the class has no batch of its own.
	k.Batch = 0
	// Slowdown periods are part of the measured factors, so the class must not have them twice. Its own, which have
	// no period, take the place of the configuration's; nil would not.
	if k.Slowdown != nil || before.Slowdown != nil {
		k.Slowdown = fleet.SlowPeriods{}
	}
	// Measured speeds take the place of traces of links.
	if f.LinksMeasured {
		k.Links = fleet.Links{}
	}
	k.StepCV = medianOf(members, func(l *timeModel) float64 { return l.stepCV })
	k.Vary.Together = f.Together
	// The settings of each phase, in the order of the phases: its typical speed and the scatter of single tasks.
	typical := [...]*fleet.Distribution{&k.DownloadMbps, &k.SecondsPerStep, &k.UploadMbps}
	scatter := [...]*fleet.Distribution{&k.Vary.Download, &k.Vary.Compute, &k.Vary.Upload}
	for _, p := range measuredPhases(f.LinksMeasured) {
		// A class has speeds of its links, but the time of a step.
		isSpeed := p != compute
		var values, factors []float64
		for _, d := range members {
			values = append(values, fiveDigits(d.model.phases[p].typical.Value))
			factors = append(factors, d.model.phases[p].factors...)
		}
		slices.Sort(values)
		*typical[p] = (fleet.Constant{Value: values[0]})
		if len(values) > 1 {
			*typical[p] = fleet.Empirical{Values: values}
		}
		if f.Together {
			*scatter[p] = empiricalOf(factors, isSpeed)
		} else {
			*scatter[p] = variation(factors, isSpeed)
		}
		*k.Overhead.Phases()[p] = medianOf(members, func(l *timeModel) float64 { return l.phases[p].overhead })
		*k.FirstTask.Phases()[p] = medianOf(members, func(l *timeModel) float64 { return l.phases[p].firstExtra })
		*k.Uncertainty.Phases()[p] = medianOf(members, func(l *timeModel) float64 { return l.phases[p].uncertainty })
	}
	return k
}

// medianOf returns the median over devices of a value of their time models, rounded to five digits.
func medianOf(devices []*Device, value func(*timeModel) float64) float64 {
	var values []float64
	for _, d := range devices {
		values = append(values, value(&d.model))
	}
	return fiveDigits(robust.Median(values))
}

// fiveDigits rounds a number to five significant digits, so that a configuration file has it exactly.
func fiveDigits(x float64) float64 {
	// Parsing never fails on what FormatFloat wrote.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	return rounded
}

// counted writes a number with its noun, in the plural unless the number is 1.
func counted(n int, noun string) string { return fmt.Sprintf("%d %s", n, human.Plural(n, noun)) }
