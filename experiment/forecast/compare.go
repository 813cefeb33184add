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
// result is nil if no device has a class. It has no times, and says why, if some have none.
func Predict(ctx context.Context, p *problem.Problem, rounds int) (*Comparison, error) {
	c := newComparison(&p.Timing)
	if c == nil || c.Unknown != nil {
		return c, nil
	}
	if n := schedule.NeedsOf(p.Config.Schedule.K, p.Config.Schedule.Setup()); n.Losses || n.Validation {
		c.addUnknown("K_r follows what is learned: it is taken to stay at K_0.")
	}
	one := roundTimes{all: p.Config.Cohort + len(p.Config.Devices.Names)}
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
	// fits returns how many of the first rounds can be simulated with this number of draws, at least one.
	fits := func(draws int) (rounds int) {
		tasks := 0
		for rounds < len(list) {
			fewTasks := draws*(tasks+list[rounds].all) <= maxTasks
			fewValues := draws*columns*(rounds+1) <= maxValues
			if rounds > 0 && !(fewTasks && fewValues) {
				break
			}
			tasks += list[rounds].all
			rounds++
		}
		return rounds
	}
	if n := fits(manyDraws); n == len(list) {
		return manyDraws, n
	}
	return fewDraws, fits(fewDraws)
}

// predictedOf returns a value of the run beside the interval of the same value over the draws in list. value
// reads it from the means of the run, m, or of a draw.
func predictedOf(m *means, list []*means, value func(*means) float64) folder.Predicted {
	values := make([]float64, len(list))
	for i, d := range list {
		values[i] = value(d)
	}
	v := intervalOf(values)
	return folder.NewPredicted(value(m), v.P05, v.P50, v.P95)
}

// compare plays the simulated counterpart of the run recorded in r, draws times, and fills in c: rounds,
// phases and devices, each with what was measured and the interval of the draws.
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
	list, err := t.play(ctx, draws)
	if err != nil {
		return err
	}
	m := meansOf(r.rounds, t.devices)
	c.Draws = draws
	c.Rounds = len(r.rounds)
	for i := range m.rounds {
		// A run that is still to come has no measured times: its rounds are 0 here, and its phases, of no
		// tasks, are NaN already.
		if r.isFuture {
			m.rounds[i][0] = math.NaN()
		}
		for n := range columns {
			p := predictedOf(m, list, func(d *means) float64 { return d.rounds[i][n] })
			row := Row{
				Round:    i + 1,
				Phase:    wholeRound,
				Measured: toNanosecond(metrics.Value(p.Measured)),
				P05:      toNanosecond(p.P05),
				P50:      toNanosecond(p.P50),
				P95:      toNanosecond(p.P95),
			}
			if n > 0 {
				row.Phase = phases[n-1].String()
			} else if p.Inside() {
				c.Inside++
			}
			if !math.IsNaN(row.Measured) || !math.IsNaN(row.P50) {
				c.Rows = append(c.Rows, row)
			}
		}
	}
	c.Seconds = predictedOf(m, list, (*means).total)
	for p, phase := range phases {
		if v := predictedOf(m, list, func(d *means) float64 { return d.phase(p) }); !math.IsNaN(v.P50) {
			c.Phases = append(
				c.Phases,
				folder.Phase{Phase: phase.String(), Overhead: t.overhead(list[0], p), Predicted: v},
			)
		}
	}
	c.compareDevices(t, m, list)
	return nil
}

// class is the fleet's class of a device, numbered from 0.
func (t *counterpart) class(device int) *fleet.Class {
	return &t.problem.Config.Fleet[t.problem.Fleet.DeviceClass(t.first+device)]
}

// overhead returns the mean seconds of phase p of a task that are overhead by the devices' classes. Each
// class counts as often as its devices have tasks in m. It is 0 if no task was answered.
func (t *counterpart) overhead(m *means, p int) float64 {
	var all rate
	for i := range m.devices {
		n := m.devices[i][p].amount
		all.add(n**t.class(i).Overhead.Phases()[p], n)
	}
	return all.meanOrZero()
}

// maxDevices bounds the devices that a comparison lists.
const maxDevices = 100

// compareDevices adds an entry for each device that answered tasks in at least one draw. m are the means of
// the run, and list those of the draws. Of more than [maxDevices] devices only those stay whose time is
// furthest from the prediction. Sentences name the devices that had tasks in the run alone, and classes
// without scatter.
func (c *Comparison) compareDevices(t *counterpart, m *means, list []*means) {
	var constant, undrawn []string
	for i, name := range t.problem.Config.Devices.IDs() {
		phase := func(p int) folder.Predicted {
			return predictedOf(m, list, func(d *means) float64 { return d.devices[i][p].mean() })
		}
		seconds := predictedOf(m, list, func(d *means) float64 { return d.device(i) })
		if math.IsNaN(seconds.P50) {
			// A device without a task in the run was never present in it.
			if m.devices[i][0].amount > 0 {
				undrawn = append(undrawn, name)
			}
			continue
		}
		class := t.class(i).Name
		if seconds.P05 == seconds.P95 && !slices.Contains(constant, class) {
			constant = append(constant, class)
		}
		c.Devices = append(c.Devices, folder.Device{
			Device:   name,
			Class:    class,
			Tasks:    int(m.devices[i][0].amount),
			Seconds:  seconds,
			Download: phase(0),
			Compute:  phase(1),
			Upload:   phase(2),
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
		off := func(d folder.Device) float64 {
			if d.Seconds.Ratio == nil {
				return 0
			}
			return math.Abs(math.Log(*d.Seconds.Ratio))
		}
		slices.SortStableFunc(c.Devices, func(a, b folder.Device) int { return cmp.Compare(off(b), off(a)) })
		c.addUnknown("Of %d devices the %d that are furthest off are listed.", len(c.Devices), maxDevices)
		c.Devices = c.Devices[:maxDevices]
	}
}
