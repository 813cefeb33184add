package predict

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/actors/clientmodel"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/registry"
)

// Comparison is a run's prediction beside what its devices measured.
type Comparison struct {
	folder.Prediction
	Rows []Row `json:"-"` // by round
}

// Row is a round: its time, and the mean of each phase over the tasks that devices
// answered in it.
type Row struct {
	Round   int
	Seconds folder.Predicted
	Phases  [len(phases)]folder.Predicted // without a value where no device answered
}

// maxDevices is how many devices a comparison lists.
const maxDevices = 100

// Compare predicts the run in a folder, of which p is the problem, and compares. It is
// nil for a run of whose devices none has a class, and lists no times if some have none.
func Compare(ctx context.Context, p *problem.Problem, dir string) (*Comparison, error) {
	c := lacking(p)
	if c == nil || c.Unknown != nil {
		return c, nil
	}
	r, err := read(dir, p.Config.Clients)
	if err != nil || len(r.rounds) == 0 {
		return nil, err
	}
	if !r.known {
		c.say("The run kept no event log (events.sample: off): nothing is known of single tasks, and devices are taken to be there in every round.")
	}
	if r.left > 0 {
		c.say("The event log had reached its size (events.megabytes): the last %d rounds are left out.", r.left)
	}
	return c, c.predict(ctx, p, r)
}

// Ahead predicts a run that is to come, of so many rounds, in which all devices are there.
// It is nil, or lists no times, as Compare.
func Ahead(ctx context.Context, p *problem.Problem, rounds int) (*Comparison, error) {
	c := lacking(p)
	if c == nil || c.Unknown != nil {
		return c, nil
	}
	if n := registry.NeedsOf(p.Config.Schedule.K); n.Losses || n.Validation {
		c.say("K_r follows what is learned: it is taken to stay at K_0.")
	}
	all := p.Config.Cohort + len(p.Config.Devices.Names)
	return c, c.predict(ctx, p, record{ahead: true, rounds: slices.Repeat([]measured{{all: all}}, rounds)})
}

// lacking is a comparison without times: nil if no device has a class, and with what is
// missing if some have none.
func lacking(p *problem.Problem) *Comparison {
	switch missing := withoutClass(p); len(missing) {
	case 0:
		return &Comparison{}
	case len(p.Config.Devices.Names):
		return nil
	default:
		c := &Comparison{}
		c.say("%s", Lacking(missing))
		return c
	}
}

// predict draws the rounds of a record and compares.
func (c *Comparison) predict(ctx context.Context, p *problem.Problem, r record) error {
	var tasks []int
	for _, m := range r.rounds {
		tasks = append(tasks, m.all)
	}
	draws, rounds := effort(tasks)
	if rounds < len(r.rounds) {
		c.say("Of %d rounds the first %d are predicted.", len(r.rounds), rounds)
		r.rounds = r.rounds[:rounds]
	}
	t, err := newTwin(p, &r)
	if err != nil {
		return err
	}
	list, err := t.play(ctx, draws)
	if err != nil {
		return err
	}
	c.Draws, c.Rounds = draws, rounds
	c.compare(t, measuredOf(&r, t.devices), list)
	return nil
}

func (c *Comparison) say(format string, a ...any) {
	c.Unknown = append(c.Unknown, fmt.Sprintf(format, a...))
}

// withoutClass names the devices of which no class is known.
func withoutClass(p *problem.Problem) (list []string) {
	for i, d := range p.Config.Devices.Names {
		if p.Fleet.DeviceClass(p.Config.Clients+i) == clientmodel.NoClass {
			list = append(list, d.ID)
		}
	}
	return list
}

// Lacking says what devices without a class lack.
func Lacking(devices []string) string {
	const most = 8
	names := strings.Join(devices[:min(most, len(devices))], ", ")
	if len(devices) > most {
		names += ", ..."
	}
	return fmt.Sprintf("No class is known of %s: measure one (fedpace-device calibrate) or make one of this run (fedpace fit), and name it in devices.names.", names)
}

// compare fills in what the draws came to, beside what was measured.
func (c *Comparison) compare(t *twin, m *drawn, list []*drawn) {
	values := make([]float64, len(list))
	against := func(measured float64, of func(*drawn) float64) folder.Predicted {
		for i, d := range list {
			values[i] = of(d)
		}
		p05, p50, p95 := Quantiles(values)
		return folder.NewPredicted(measured, p05, p50, p95)
	}
	for i := range m.rounds {
		row := Row{Round: i + 1}
		for column := range columns {
			p := against(m.rounds[i][column], func(d *drawn) float64 { return d.rounds[i][column] })
			if column == 0 {
				row.Seconds = p
			} else {
				row.Phases[column-1] = p
			}
		}
		if row.Seconds.Inside() {
			c.Inside++
		}
		c.Rows = append(c.Rows, row)
	}
	c.Seconds = against(m.total(), (*drawn).total)
	overheads := t.overheads(list[0])
	for p, phase := range phases {
		of := func(d *drawn) float64 { return d.phase(p) }
		if v := against(of(m), of); !math.IsNaN(v.P50) {
			c.Phases = append(c.Phases, folder.Phase{Phase: phase.String(), Overhead: overheads[p], Predicted: v})
		}
	}
	c.compareDevices(t, m, against)
}

// overheads are the mean seconds of a task that the classes give as overhead, by phase.
func (t *twin) overheads(d *drawn) (list [len(phases)]float64) {
	var sums [len(phases)]sum
	for i := range d.devices {
		o := t.problem.Config.Fleet[t.problem.Fleet.DeviceClass(t.first+i)].Overhead
		for p, seconds := range [...]float64{o.Download, o.Compute, o.Upload} {
			n := d.devices[i][p].n
			sums[p].seconds += seconds * float64(n)
			sums[p].n += n
		}
	}
	for p := range sums {
		if list[p] = sums[p].mean(); math.IsNaN(list[p]) {
			list[p] = 0
		}
	}
	return list
}

// compareDevices lists the devices, those that are furthest off if they are many.
func (c *Comparison) compareDevices(t *twin, m *drawn, against func(float64, func(*drawn) float64) folder.Predicted) {
	var constant []string
	for i, name := range t.problem.Config.Devices.IDs() {
		phase := func(p int) folder.Predicted {
			of := func(d *drawn) float64 { return d.devices[i][p].mean() }
			return against(of(m), of)
		}
		of := func(d *drawn) float64 { return d.device(i) }
		seconds := against(of(m), of)
		if math.IsNaN(seconds.P50) { // it was never there
			continue
		}
		class := t.problem.Config.Fleet[t.problem.Fleet.DeviceClass(t.first+i)].Name
		if seconds.P05 == seconds.P95 && !slices.Contains(constant, class) {
			constant = append(constant, class)
		}
		c.Devices = append(c.Devices, folder.Device{
			Device: name, Class: class, Tasks: m.devices[i][0].n,
			Seconds: seconds, Download: phase(0), Compute: phase(1), Upload: phase(2),
		})
	}
	if len(constant) > 0 {
		c.say("Without scatter (vary, step_cv) every task takes the same, and nothing measured is in such an interval: %s.", strings.Join(constant, ", "))
	}
	if len(c.Devices) > maxDevices {
		off := func(d folder.Device) float64 {
			if d.Seconds.Ratio == nil {
				return 0
			}
			return math.Abs(math.Log(*d.Seconds.Ratio))
		}
		slices.SortStableFunc(c.Devices, func(a, b folder.Device) int { return cmp.Compare(off(b), off(a)) })
		c.say("Of %d devices the %d that are furthest off are listed.", len(c.Devices), maxDevices)
		c.Devices = c.Devices[:maxDevices]
	}
}

// wholeRound stands in the place of a phase.
const wholeRound = "round"

// header is the first line of prediction.csv.
const header = "round,phase,measured_seconds,predicted_p05,predicted_p50,predicted_p95\n"

// WriteCSV writes prediction.csv: for each round its time, and the mean of each phase
// over the tasks that devices answered in it.
func (c *Comparison) WriteCSV(w io.Writer) error {
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	for _, row := range c.Rows {
		line := func(phase string, p *folder.Predicted) error {
			if p.Measured == nil && math.IsNaN(p.P50) {
				return nil
			}
			record := []string{strconv.Itoa(row.Round), phase, ""}
			if p.Measured != nil {
				record[2] = number(*p.Measured)
			}
			return out.Write(append(record, number(p.P05), number(p.P50), number(p.P95)))
		}
		if err := line(wholeRound, &row.Seconds); err != nil {
			return err
		}
		for i := range row.Phases {
			if err := line(phases[i].String(), &row.Phases[i]); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// ReadCSV reads the rounds of a prediction.csv, without their phases.
func ReadCSV(r io.Reader) (rows []Row, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	for line := 1; ; line++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) && line > 1 {
			return rows, nil
		}
		if err == nil && line == 1 && strings.Join(record, ",")+"\n" != header {
			err = fmt.Errorf("the header is %q, want %q", strings.Join(record, ","), strings.TrimSpace(header))
		}
		if err == nil && line > 1 && record[1] == wholeRound {
			var row Row
			if row, err = parse(record); err == nil {
				rows = append(rows, row)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// parse reads the record of a whole round.
func parse(record []string) (row Row, err error) {
	if row.Round, err = strconv.Atoi(record[0]); err != nil {
		return row, err
	}
	var values [4]float64 // the one that was measured may be missing
	for i, text := range record[2:] {
		if values[i] = math.NaN(); text != "" || i > 0 {
			if values[i], err = strconv.ParseFloat(text, 64); err != nil {
				return row, err
			}
		}
	}
	row.Seconds = folder.NewPredicted(values[0], values[1], values[2], values[3])
	return row, nil
}

// number is a cell: seconds to the nanosecond; empty: none.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64)
}
