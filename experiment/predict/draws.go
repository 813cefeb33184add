package predict

import (
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// Draws are how often a run is played for an interval, and fewDraws how often a long one
// is: with either the ends of the interval are draws themselves.
const (
	Draws    = 99
	fewDraws = 19
)

// Limits of a prediction: of all tasks that are played, and of the values that are kept.
// They take some ten seconds and 64 MB.
const (
	maxTasks  = 20_000_000
	maxValues = 8_000_000
)

// effort is how many draws are made of how many rounds with so many tasks each.
func effort(tasks []int) (draws, rounds int) {
	fits := func(draws int) (rounds int) {
		all := 0
		for rounds < len(tasks) && (rounds == 0 || draws*(all+tasks[rounds]) <= maxTasks && draws*columns*(rounds+1) <= maxValues) {
			all += tasks[rounds]
			rounds++
		}
		return rounds
	}
	if n := fits(Draws); n == len(tasks) {
		return Draws, n
	}
	return fewDraws, fits(fewDraws)
}

// columns are the values of a round: its seconds, and the mean seconds of each phase of
// the tasks that devices answered in it.
const columns = 1 + len(phases)

// Quantiles are the 5th, 50th and 95th percentile of so many draws: the values at (n+1)
// times the share, which are draws if n is one of the numbers above. NaNs are left out;
// without a value all are NaN. It sorts the values.
func Quantiles(values []float64) (p05, p50, p95 float64) {
	values = slices.DeleteFunc(values, math.IsNaN)
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	at := func(share float64) float64 {
		place := min(max(share*float64(n+1), 1), float64(n))
		below := int(place)
		return values[below-1] + (place-float64(below))*(values[min(below, n-1)]-values[below-1])
	}
	return at(0.05), at(0.5), at(0.95)
}

// drawn is what one draw came to, or what was measured.
type drawn struct {
	rounds  [][columns]float64 // NaN: no task of a device was answered
	devices [][len(phases)]sum // by device
}

// sum is a mean in the making.
type sum struct {
	seconds float64
	n       int
}

func (s *sum) add(t round.Time) {
	s.seconds += t.Seconds()
	s.n++
}

// mean is NaN of nothing.
func (s *sum) mean() float64 { return s.seconds / float64(s.n) }

// count counts a task in its round and for its device.
func (d *drawn) count(in *[len(phases)]sum, t *deviceTask) {
	if t.lost {
		return
	}
	for p, took := range t.parts {
		in[p].add(took)
		d.devices[t.device][p].add(took)
	}
}

// close appends a round.
func (d *drawn) close(took round.Time, in *[len(phases)]sum) {
	row := [columns]float64{took.Seconds()}
	for p := range in {
		row[1+p] = in[p].mean()
	}
	d.rounds = append(d.rounds, row)
	*in = [len(phases)]sum{}
}

// total is the time of all rounds.
func (d *drawn) total() (seconds float64) {
	for _, r := range d.rounds {
		seconds += r[0]
	}
	return seconds
}

// phase is the mean of a phase over all tasks.
func (d *drawn) phase(p int) float64 {
	var all sum
	for i := range d.devices {
		all.seconds += d.devices[i][p].seconds
		all.n += d.devices[i][p].n
	}
	return all.mean()
}

// device is the mean of all phases of a device's tasks.
func (d *drawn) device(i int) (seconds float64) {
	for p := range d.devices[i] {
		seconds += d.devices[i][p].mean()
	}
	return seconds
}

// measuredOf is what was measured in a record's rounds; NaN of a run that is to come.
func measuredOf(r *record, devices int) *drawn {
	d := &drawn{devices: make([][len(phases)]sum, devices)}
	for i := range r.rounds {
		if r.ahead {
			d.rounds = append(d.rounds, [columns]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()})
			continue
		}
		var in [len(phases)]sum
		for _, t := range r.rounds[i].tasks {
			if t.device < devices {
				d.count(&in, &t)
			}
		}
		d.close(r.rounds[i].took, &in)
	}
	return d
}

// play makes so many draws of the twin, side by side.
func (t *twin) play(ctx context.Context, draws int) ([]*drawn, error) {
	list := make([]*drawn, draws)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range list {
		group.Go(func() error {
			d := &drawn{devices: make([][len(phases)]sum, t.devices)}
			var in [len(phases)]sum
			list[n] = d
			return t.draw(inner, n, func(e *round.TaskReport) {
				x := taskOf(e, t.first)
				d.count(&in, &x)
			}, func(r *round.Report) { d.close(r.End-r.Start, &in) })
		})
	}
	return list, group.Wait()
}

// phases are the parts of a task that a device measures, in the order of its columns.
var phases = [...]metrics.Phase{metrics.Download, metrics.Compute, metrics.Upload}
