package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/metrics"
	"fedpace/registry"
)

// Comparison is a run's prediction beside what its devices measured.
type Comparison struct {
	folder.Prediction
	// Rows has, in the order of the rounds, a row for each whole round and one for each of its phases
	// that has a time.
	Rows []Row `json:"-"`
}

// Compare predicts the run in the folder dir as if it were still to come, and compares the prediction with
// what was measured in it. p is the problem of that run. The result is nil if no device of the run has a
// class, from which its times would follow, or if the run has no round. If only some devices have a class,
// the result has a sentence that names the others, and no times.
func Compare(ctx context.Context, p *problem.Problem, dir string) (*Comparison, error) {
	c := newComparison(&p.Timing)
	if c == nil || c.Unknown != nil {
		return c, nil
	}
	r, err := readRecord(dir, p.Config.Clients)
	if err != nil || len(r.rounds) == 0 {
		return nil, err
	}
	if p.Config.DrawsDevices() && registry.NeedsOf(p.Config.Select).Samples {
		r.samples, err = reportedSamples(dir)
		if err != nil {
			return nil, err
		}
	}
	if !r.hasEvents {
		c.addUnknown("The run kept no event log (events.sample: off): nothing is known of single tasks, and " +
			"devices are taken to be there in every round.")
	}
	if r.skipped > 0 {
		c.addUnknown("The event log lacks rounds (events.megabytes limits its size): the last %d are left "+
			"out.", r.skipped)
	}
	return c, c.predict(ctx, p, r)
}

// Predict predicts a run that is to come, of this number of rounds, in which all devices are present. The
// result is nil if no device has a class. If only some devices have one, it has no times, and Unknown names the
// others.
func Predict(ctx context.Context, p *problem.Problem, rounds int) (*Comparison, error) {
	c := newComparison(&p.Timing)
	lacksClasses := c != nil && c.Unknown != nil
	if c == nil || lacksClasses {
		return c, nil
	}
	if n := schedule.NeedsOf(p.Config.Schedule.K, p.Config.Schedule.Setup()); n.Losses || n.Validation {
		c.addUnknown("K_r follows what is learned: it is taken to stay at K_0.")
	}
	one := roundTimes{allTasks: p.Config.Cohort + len(p.Config.Devices.Names)}
	return c, c.predict(ctx, p, record{isFuture: true, rounds: slices.Repeat([]roundTimes{one}, rounds)})
}

// newComparison returns a comparison to which times are still to be added. If only some devices lack a class,
// it has a sentence that names them. It is nil if there are devices and none has a class.
func newComparison(p *problem.Timing) *Comparison {
	var missing []string
	for i, d := range p.Config.Devices.Names {
		if p.Fleet.DeviceClass(p.Config.Clients+i) == fleet.NoClass {
			missing = append(missing, d.ID)
		}
	}
	c := &Comparison{}
	switch len(missing) {
	case 0:
	case len(p.Config.Devices.Names):
		return nil
	default:
		c.addUnknown("%s", Lacking(missing))
	}
	return c
}

// Lacking says what devices without a class lack.
func Lacking(devices []string) string {
	return fmt.Sprintf("No class is known of %s: measure one (fedpace-device calibrate) or make one of this run "+
		"(fedpace fit), and name it in devices.names.", human.Some(devices))
}

// addUnknown adds a sentence about what the comparison cannot know.
func (c *Comparison) addUnknown(format string, a ...any) {
	c.Unknown = append(c.Unknown, fmt.Sprintf(format, a...))
}

// predict plays the simulated counterpart of the run for as many rounds as can be afforded,
// and compares the draws with what was recorded.
func (c *Comparison) predict(ctx context.Context, p *problem.Problem, r record) error {
	draws, rounds := affordable(r.rounds)
	if rounds < len(r.rounds) {
		c.addUnknown("Of %d rounds the first %d are predicted.", len(r.rounds), rounds)
		r.rounds = r.rounds[:rounds]
	}
	return c.compare(ctx, p, &r, draws)
}

// Limits of a prediction, over all its draws together.
const (
	// maxTasks bounds the tasks that are played, which takes some ten seconds.
	maxTasks = 20_000_000
	// maxValues bounds the float64 values that are kept, which take 64 MB.
	maxValues = 8_000_000
)

// affordable decides how much of a run is simulated: with how many draws, and how many of its first rounds.
// list holds the rounds of the run. A short run gets [manyDraws] of all its rounds, a longer one [fewDraws],
// and a very long one only as many rounds, at least one, as the bounds on tasks and values allow.
func affordable(list []roundTimes) (draws, rounds int) {
	if affordableRounds(list, manyDraws) == len(list) {
		return manyDraws, len(list)
	}
	return fewDraws, affordableRounds(list, fewDraws)
}

// affordableRounds returns how many of the first rounds in list can be simulated with this number of draws
// without more tasks or values than the bounds allow. The first round is always among them.
func affordableRounds(list []roundTimes, draws int) (rounds int) {
	tasks := 0
	for rounds < len(list) {
		fewTasks := draws*(tasks+list[rounds].allTasks) <= maxTasks
		fewValues := draws*columns*(rounds+1) <= maxValues
		if rounds > 0 && !(fewTasks && fewValues) {
			break
		}
		tasks += list[rounds].allTasks
		rounds++
	}
	return rounds
}

// predictedOf puts a value that was measured in a run beside the interval that its simulated draws have for the
// same value. value reads the value from the mean times of the run, measured, and from those of each draw.
func predictedOf(measured *means, draws []*means, value func(*means) float64) folder.Predicted {
	values := make([]float64, len(draws))
	for i, draw := range draws {
		values[i] = value(draw)
	}
	v := intervalOf(values)
	return folder.NewPredicted(value(measured), v.P05, v.P50, v.P95)
}

// compare plays the simulated counterpart of the run recorded in r, draws times, and fills in c: rounds,
// phases and devices, each with what was measured and the interval of the draws. Where the draws must select
// other devices than the run did, a sentence says so.
func (c *Comparison) compare(ctx context.Context, p *problem.Problem, r *record, draws int) error {
	t, err := newCounterpart(p, r)
	if err != nil {
		return err
	}
	needs := registry.NeedsOf(p.Config.Select)
	lacksReports := needs.Losses || needs.Samples && r.samples == nil
	if t.rounds.Devices.Sampled && lacksReports {
		c.addUnknown(
			"Who is drawn follows what clients tell (select: %s), which the prediction does not know: it draws others.",
			selection.Rules.NameOf(p.Config.Select),
		)
	}
	simulated, err := t.play(ctx, draws)
	if err != nil {
		return err
	}
	measured := meansOf(r.rounds, t.devices)
	c.Draws = draws
	c.Rounds = len(r.rounds)
	for i := range measured.rounds {
		// A run that is still to come has no measured times: its rounds are 0 here, and its phases, of no
		// tasks, are NaN already.
		if r.isFuture {
			measured.rounds[i][roundSeconds] = math.NaN()
		}
		c.addRows(i, measured, simulated)
	}
	c.Seconds = predictedOf(measured, simulated, (*means).total)
	// The overheads of classes are constants, and the draws differ little in who has tasks, so one draw gives them.
	for p, phase := range phases {
		v := predictedOf(measured, simulated, func(d *means) float64 { return d.phase(p) })
		if !math.IsNaN(v.P50) {
			c.Phases = append(
				c.Phases,
				folder.Phase{Phase: phase.String(), Overhead: t.overhead(simulated[0], p), Predicted: v},
			)
		}
	}
	c.compareDevices(t, measured, simulated)
	return nil
}

// addRows adds the rows of one round, the i-th from 0: one for the whole round, and one for each phase that has a
// measured or a predicted time. draws has the same rounds in each simulation of the run. c.Inside counts the
// rounds whose measured time is inside the interval of the draws.
func (c *Comparison) addRows(i int, measured *means, draws []*means) {
	// A round of means has its length in one column, roundSeconds, and the mean time of each phase in another.
	for column := range columns {
		p := predictedOf(measured, draws, func(d *means) float64 { return d.rounds[i][column] })
		row := Row{
			Round:    i + 1,
			Phase:    wholeRound,
			Measured: toNanosecond(metrics.Value(p.Measured)),
			P05:      toNanosecond(p.P05),
			P50:      toNanosecond(p.P50),
			P95:      toNanosecond(p.P95),
		}
		if column == roundSeconds {
			if p.Inside() {
				c.Inside++
			}
		} else {
			row.Phase = phases[column-firstPhase].String()
		}
		if !math.IsNaN(row.Measured) || !math.IsNaN(row.P50) {
			c.Rows = append(c.Rows, row)
		}
	}
}

// class is the fleet's class of a device, numbered from 0.
func (t *counterpart) class(device int) *fleet.Class {
	return &t.problem.Config.Fleet[t.problem.Fleet.DeviceClass(t.firstDevice+device)]
}

// overhead returns how many seconds of phase p of a task, an index of phases, are overhead: the mean, over the tasks
// that devices answered in draw, a simulated repetition of the run, of what a device's class says. It is 0 if no task
// was answered.
func (t *counterpart) overhead(draw *means, p int) float64 {
	var all rate
	for device := range draw.devices {
		// The amount of a phase is the number of tasks that the device answered.
		tasks := draw.devices[device][p].amount
		seconds := *t.class(device).Overhead.Phases()[p]
		all.add(tasks*seconds, tasks)
	}
	return all.meanOrZero()
}

// maxDevices bounds the devices that a comparison lists.
const maxDevices = 100

// compareDevices adds an entry for each device that answered tasks in at least one draw, a simulated repetition of the
// run. measured are the means of the run itself. Of more than [maxDevices] devices only those stay whose time is
// furthest from the prediction. Sentences name the devices that had tasks in the run and in no draw, and classes
// without scatter.
func (c *Comparison) compareDevices(t *counterpart, measured *means, draws []*means) {
	var constant, undrawn []string
	for i, name := range t.problem.Config.Devices.IDs() {
		seconds := predictedOf(measured, draws, func(d *means) float64 { return d.device(i) })
		// Each phase counts the tasks that the device answered in the run.
		tasks := int(measured.devices[i][0].amount)
		isDrawn := !math.IsNaN(seconds.P50)
		if !isDrawn {
			// Nothing is said of a device that had no task anywhere: it was never present.
			if tasks > 0 {
				undrawn = append(undrawn, name)
			}
			continue
		}
		class := t.class(i).Name
		if seconds.P05 == seconds.P95 && !slices.Contains(constant, class) {
			constant = append(constant, class)
		}
		// The times of the device's download, computation and upload, in the order of phases.
		var byPhase [len(phases)]folder.Predicted
		for p := range phases {
			byPhase[p] = predictedOf(measured, draws, func(d *means) float64 { return d.devices[i][p].mean() })
		}
		c.Devices = append(c.Devices, folder.Device{
			Device:   name,
			Class:    class,
			Tasks:    tasks,
			Seconds:  seconds,
			Download: byPhase[0],
			Compute:  byPhase[1],
			Upload:   byPhase[2],
		})
	}
	if len(undrawn) > 0 {
		c.addUnknown("Drawn in the run alone, and not listed: %s.", human.Some(undrawn))
	}
	if len(constant) > 0 {
		c.addUnknown("Without scatter (vary, step_cv) every task takes the same, and nothing measured is in such an "+
			"interval: %s.", strings.Join(constant, ", "))
	}
	if len(c.Devices) > maxDevices {
		slices.SortStableFunc(c.Devices, func(a, b folder.Device) int {
			return cmp.Compare(howFarOff(b), howFarOff(a))
		})
		c.addUnknown("Of %d devices the %d that are furthest off are listed.", len(c.Devices), maxDevices)
		c.Devices = c.Devices[:maxDevices]
	}
}

// howFarOff tells by what factor a device's measured time differs from the prediction: the logarithm of the
// factor, the same for twice as long and for half. It is 0 for a device without a measured time.
func howFarOff(d folder.Device) float64 {
	if d.Seconds.Ratio == nil {
		return 0
	}
	return math.Abs(math.Log(*d.Seconds.Ratio))
}
