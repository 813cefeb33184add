package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/robust"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// made is a run whose devices are played by a fleet that is known.
type made struct {
	text    string // of the run's own configuration
	classes string // of the fleet that plays its devices
	rounds  int
	steps   func(round int) int
	spoil   func(round int, e *round.TaskReport) // changes what is recorded; may be nil
}

// play writes the run's folder.
func (m made) play(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	own, err := config.Parse("own", []byte(m.text))
	if err != nil {
		t.Fatal(err)
	}
	truth, err := config.Parse("truth", []byte("task: femnist\n"+m.classes))
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := truth.NewFleet()
	if err != nil {
		t.Fatal(err)
	}
	fleet.SetDevices(own.Clients)
	if err := os.WriteFile(filepath.Join(dir, folder.ConfigFile), own.YAML(), 0o666); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	run := &metrics.Run{Name: "made", Clients: own.Clients, Cohort: own.Cohort, Close: "all", Train: true}
	w, err := eventlog.NewWriter(&log, run)
	if err != nil {
		t.Fatal(err)
	}
	var now round.Time
	for r := 1; r <= m.rounds; r++ {
		one := metrics.Round{Report: round.Report{Round: r, Start: now, LocalSteps: m.steps(r)}}
		for i := range own.Devices.Names {
			client := own.Clients + i
			d, err := fleet.Durations(client, uint64(1000*r+i), m.steps(r), bits, 0)
			if err != nil {
				t.Fatal(err)
			}
			e := round.TaskReport{Task: uint64(1000*r + i), Client: client, LocalSteps: m.steps(r), Start: now,
				Plan: round.Plan{Download: round.Time(d.Download), Compute: round.Time(d.Compute), Upload: round.Time(d.Upload)}}
			if m.spoil != nil {
				m.spoil(r, &e)
			}
			e.End = now + e.Plan.Total()
			one.End = max(one.End, e.End)
			one.Tasks = append(one.Tasks, metrics.Task{TaskReport: e, Real: true})
		}
		if own.Clients > 0 { // one simulated client, which is never the last
			one.Tasks = append(one.Tasks, metrics.Task{TaskReport: round.TaskReport{Task: uint64(r), LocalSteps: m.steps(r), Start: now, End: now + 1}, Slow: true})
		}
		if err := w.Round(&one); err != nil {
			t.Fatal(err)
		}
		now = one.End
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, eventlog.File), log.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bits are those of FEMNIST's model in Table 1.
var bits = fleet.SameBits(6_710_000)

const (
	three = "task: femnist\nclients: 5\ncohort: 5\ndevices: {names: [pi1, pi2, pi3]}\n"
	truth = `
fleet:
  - {name: a, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.04, overhead: {compute: 0.05}, vary: {download: {dist: lognormal, median: 1, sigma: 0.05}, upload: {dist: lognormal, median: 1, sigma: 0.15}, compute: {dist: lognormal, median: 1, sigma: 0.03}}}
  - {name: b, download_mbps: 10, upload_mbps: 2, seconds_per_step: 0.08, step_cv: 0.6}
  - {name: c, download_mbps: 5, upload_mbps: 1, seconds_per_step: 0.02, vary: {upload: {dist: lognormal, median: 1, sigma: 0.4}}}
devices: {names: {pi1: a, pi2: b, pi3: c}}
`
)

// decay is K_r from 40 down to 10.
func decay(r int) int { return max(10, 40-r/2) }

// holds reports whether an interval holds a value.
func holds(e robust.Estimate, v float64) bool { return e.Low <= v*(1+1e-6) && v*(1-1e-6) <= e.High }

// near reports whether a value lies within twice an interval of 90 %, which is 3.3 standard
// errors.
func near(e robust.Estimate, v float64) bool {
	return holds(robust.Estimate{Low: 2*e.Low - e.Value, High: 2*e.High - e.Value}, v)
}

// estimates are those of a device.
func estimates(d *Device) string {
	return fmt.Sprintf("%s: download %v, upload %v, a step %v, a task %v besides, step_cv %g", d.ID, d.DownloadMbps, d.UploadMbps, d.SecondsPerStep, d.ComputeOverhead, d.StepCV)
}

// The classes of a made fleet are found again: the truth lies near, scatter is
// what it was, and simulated clients of the classes take as long as the run's devices.
func TestFit_FindsFleet(t *testing.T) {
	dir := made{text: three, classes: truth, rounds: 80, steps: decay}.play(t)
	f, err := Run(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ down, up, step, overhead, cv float64 }{{20, 5, 0.04, 0.05, 0}, {10, 2, 0.08, 0, 0.6}, {5, 1, 0.02, 0, 0}} {
		d := &f.Devices[i]
		if d.Tasks != 79 || d.LeftOut != (LeftOut{First: 1}) || d.Class != d.ID {
			t.Errorf("device %s of class %s: %d tasks, left out %+v", d.ID, d.Class, d.Tasks, d.LeftOut)
		}
		if !near(d.DownloadMbps, want.down) || !near(d.UploadMbps, want.up) || !near(d.SecondsPerStep, want.step) || !near(d.ComputeOverhead, want.overhead) {
			t.Errorf("%s; want %+v", estimates(d), want)
		}
		if math.Abs(d.StepCV-want.cv) > 0.15 {
			t.Errorf("device %s: steps have a coefficient of variation of %g, want %g", d.ID, d.StepCV, want.cv)
		}
	}
	// Of 79 values the median's deviation is 1.25/sqrt(79) of theirs, where their law does not
	// change: that of pi1's uploads is 0.15, those of pi2's do not scatter.
	if a, b := f.config.Fleet[1].Uncertainty, f.config.Fleet[2].Uncertainty; a.Upload < 0.015 || a.Upload > 0.15 || b.Upload > 1e-6 {
		t.Errorf("the classes' uncertainties are %+v and %+v", a, b)
	}
	c := f.Check
	if ratio := c.FittedTaskSeconds / c.TaskSeconds; math.Abs(ratio-1) > 0.005 {
		t.Errorf("the classes' tasks take %g times as long as the devices'", ratio)
	}
	if ratio := c.FittedRoundSeconds / c.RoundSeconds; math.Abs(ratio-1) > 0.02 {
		t.Errorf("the classes' rounds take %g times as long as the run's", ratio)
	}
	// The tasks are independent, so dealing them anew changes nothing.
	if ratio := c.DealtRoundSeconds / c.RoundSeconds; math.Abs(ratio-1) > 0.02 {
		t.Errorf("dealt anew the rounds take %g times as long", ratio)
	}
	// Of 79 rounds a 90 % interval holds 71.1 +- 2.7.
	if c.Rounds != 79 || c.RoundsInside < 64 || c.RoundsInside == 79 {
		t.Errorf("%d of %d rounds lie within 90 %% of the draws", c.RoundsInside, c.Rounds)
	}
	again(t, f, three)
}

// Where a round's factors stand for the scatter of single steps, too, no device is said to have it
// besides: step_cv is the class's.
func TestFit_CorrelatedSteps(t *testing.T) {
	together := func(r int, e *round.TaskReport) {
		if r%4 == 0 {
			e.Plan.Upload *= 3
		}
	}
	alike := "fleet: [{name: a, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.05, step_cv: 0.6}]\ndevices: {names: {pi1: a, pi2: a, pi3: a}}\n"
	f, err := Run(made{text: three, classes: alike, rounds: 120, steps: decay, spoil: together}.play(t), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Devices {
		if k := classOf(&f.config, d.Class); !f.Together || d.StepCV != k.StepCV {
			t.Errorf("together %v: device %s has step_cv %g, its class %g", f.Together, d.ID, d.StepCV, k.StepCV)
		}
	}
}

// Devices that are slow in the same rounds make these longer and the others shorter than devices
// that are slow by themselves: dealing what was measured anew shows it, and the classes have it.
// One class of all devices cannot.
func TestFit_CorrelatedDevices(t *testing.T) {
	together := func(r int, e *round.TaskReport) {
		if r%4 == 0 {
			e.Plan.Compute *= 3
		}
	}
	alike := "fleet: [{name: a, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.05, vary: {compute: {dist: lognormal, median: 1, sigma: 0.02}}}]\ndevices: {names: {pi1: a, pi2: a, pi3: a}}\n"
	dir := made{text: three, classes: alike, rounds: 120, steps: func(int) int { return 30 }, spoil: together}.play(t)
	// A round takes 1.68 s and 1.5 s or 4.5 s: the latter in a quarter of them, or in 1-(3/4)^3 of
	// them if three devices are slow by themselves. Factors that stand for several differ a little.
	alone := (1.68 + 1.5 + 3*(1-27./64)) / (1.68 + 1.5 + 3./4)
	for _, o := range []struct {
		pool         bool
		want, within float64
	}{{false, 1, 0.005}, {true, alone, 0.02}} {
		f, err := Run(dir, o.pool)
		if err != nil {
			t.Fatal(err)
		}
		c := f.Check
		if got := c.FittedRoundSeconds / c.RoundSeconds; f.Together == o.pool || math.Abs(got/o.want-1) > o.within {
			t.Errorf("pool %v: together %v, fitted the rounds take %.3f times as long, want %.3f", o.pool, f.Together, got, o.want)
		}
		if got := c.DealtRoundSeconds / c.RoundSeconds; math.Abs(got/alone-1) > 0.02 {
			t.Errorf("dealt anew the rounds take %.3f times as long, want %.3f", got, alone)
		}
		if got := c.FittedTaskSeconds / c.TaskSeconds; math.Abs(got-1) > 0.01 {
			t.Errorf("pool %v: tasks take %.3f times as long", o.pool, got)
		}
		if text := string(f.YAML()); strings.Contains(text, "together: true") == o.pool {
			t.Errorf("pool %v: the classes are\n%s", o.pool, text)
		}
		if !o.pool {
			again(t, f, three)
		}
	}
}

// A device that is missing in some rounds has factors of its others in their place, and the mean
// of all of its tasks.
func TestFit_RoundsWithoutDevice(t *testing.T) {
	r := &record{firstDevice: 5}
	rounds := []roundRecord{{tasks: []task{{client: 6, steps: 2, took: [...]float64{0, 4, 0}}}}, {tasks: []task{{client: 5, steps: 1}}}, {tasks: []task{{client: 6, steps: 2, took: [...]float64{0, 8, 0}}}}}
	tasks := r.tasksByRound(rounds, 1)
	if tasks[0].took[compute] != 4 || tasks[2].took[compute] != 8 || tasks[1].took[compute] != 4 && tasks[1].took[compute] != 8 {
		t.Fatalf("the rounds' tasks are %+v", tasks)
	}
	l := timeModel{stepCV: 0.3, phases: [phases]phase{compute: {typical: robust.Estimate{Value: 2}, factors: []float64{1, 2, 3}}}}
	l.useRoundFactors(tasks, bits, false)
	if got := l.phases[compute].factors; math.Abs(got[0]+got[1]+got[2]-6) > 1e-12 || math.Abs(got[2]/got[0]-2) > 1e-12 || l.stepCV != 0 {
		t.Errorf("the factors are %v, cv %g", got, l.stepCV)
	}
}

// again checks that the file reads back behind the run's own configuration.
func again(t *testing.T, f *Fit, own string) config.Config {
	t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c, err := config.LoadFiles([]string{write("exp.yaml", own), write("fleet.yaml", string(f.YAML()))}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, f.YAML())
	}
	if !reflect.DeepEqual(c, f.config) {
		t.Errorf("it reads back as\n%s\nwant\n%s", c.Part("fleet", "devices.names"), f.YAML())
	}
	return c
}

// Intervals hold the truth, and the rounds of the next run lie where the classes say: over
// many made runs of twenty rounds, as often as they should.
func TestFit_ShortRuns(t *testing.T) {
	t.Parallel()
	const runs = 40
	speeds, steps, rounds, within := 0, 0, 0, 0
	var measured, fitted float64
	for seed := range runs {
		m := made{text: three, classes: fmt.Sprintf("seed: %d\n%s", 1+2*seed, truth), rounds: 20, steps: func(r int) int { return 44 - 2*r }}
		f, err := Run(m.play(t), false)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct{ down, up, step float64 }{{20, 5, 0.04}, {10, 2, 0.08}, {5, 1, 0.02}} {
			d := &f.Devices[i]
			for _, ok := range []bool{holds(d.DownloadMbps, want.down), holds(d.UploadMbps, want.up)} {
				if ok {
					speeds++
				}
			}
			if holds(d.SecondsPerStep, want.step) {
				steps++
			}
		}
		// Another run of the same devices.
		m.classes = fmt.Sprintf("seed: %d\n%s", 2+2*seed, truth)
		next, err := readRecord(m.play(t))
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.compareWithRun(next)
		if err != nil {
			t.Fatal(err)
		}
		rounds, within = rounds+c.Rounds, within+c.RoundsInside
		measured, fitted = measured+c.RoundSeconds, fitted+c.FittedRoundSeconds
	}
	if share := float64(speeds) / (6 * runs); share < 0.88 {
		t.Errorf("%.3f of the intervals of speeds hold the truth, want 0.9 or more", share)
	}
	if share := float64(steps) / (3 * runs); share < 0.8 {
		t.Errorf("%.3f of the intervals of steps hold the truth, want about 0.9", share)
	}
	if share := float64(within) / float64(rounds); share < 0.85 || share > 0.95 {
		t.Errorf("%.3f of the next runs' rounds lie within the 90 %% of the classes", share)
	}
	// Rounds scatter by 30 %, so the mean of 760 has a standard error of 1.1 %, and so have
	// the classes of as many.
	if ratio := fitted / measured; math.Abs(ratio-1) > 0.03 {
		t.Errorf("the next runs take %g times as long as the classes say", 1/ratio)
	}
}

// What is not a measured task does not count, and is told; a few tasks that are far off move
// nothing.
func TestFit_LeftOut(t *testing.T) {
	spoil := func(r int, e *round.TaskReport) {
		if e.Client != 5 {
			return
		}
		switch {
		case r == 1: // connecting
			e.Plan.Download *= 100
		case r == 7:
			e.Outcome, e.Plan = round.Lost, round.Plan{Drops: true, Dropout: 120e9}
		case r == 8:
			e.Outcome = round.Refused
		case r == 9:
			e.Outcome, e.Plan = round.Cancelled, round.Plan{}
		case r == 10:
			e.Outcome = round.Late
		case r%20 == 0:
			e.Plan.Upload *= 50
		}
	}
	f, err := Run(made{text: three, classes: truth, rounds: 60, steps: decay, spoil: spoil}.play(t), false)
	if err != nil {
		t.Fatal(err)
	}
	d := &f.Devices[0]
	if d.Tasks != 56 || d.LeftOut != (LeftOut{First: 1, Lost: 1, Refused: 1, Broken: 1}) {
		t.Errorf("%d tasks count, left out %+v", d.Tasks, d.LeftOut)
	}
	if !near(d.DownloadMbps, 20) || !near(d.UploadMbps, 5) || d.UploadMbps.Low < 4 {
		t.Error(estimates(d))
	}
	// The first download took a hundred times as long: 99 times 6.71 Mbit at 20 Mbit/s besides.
	k := f.config.Fleet[1]
	if besides := k.FirstTask; math.Abs(besides.Download/(99*6.71/20)-1) > 0.2 || besides.Compute > 0.3 || besides.Upload > 1 {
		t.Errorf("the first task of class %s took %+v besides", k.Name, besides)
	}
	if f.Check.Rounds != 56 {
		t.Errorf("%d rounds are compared, want those in which all tasks count", f.Check.Rounds)
	}
	text := string(f.YAML())
	for _, want := range []string{"# pi1: left out are the first, 1 lost, 1 refused, 1 broken off.\n", "# pi2: left out are the first.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}

// With --pool devices of one class become one class, each with its own speed among those that
// a client of the class draws; what the class has besides stays, and so do the simulated
// clients' classes.
func TestFit_DevicesOfOneClass(t *testing.T) {
	own := `
task: femnist
clients: 5
cohort: 5
fleet:
  - {name: phone, weight: 2}
  - {name: board, upload_mbps: 7, overhead: {upload: 0.5}, watts: 6, slowdown: {every_seconds: 60, for_seconds: 5, factor: 2}}
devices: {names: {pi1: board, pi2: null, pi3: board}}
`
	dir := made{text: own, classes: truth, rounds: 30, steps: decay}.play(t)
	f, err := Run(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	c := again(t, f, own)
	if got := fmt.Sprint(c.Devices.Names); got != "[{pi1 board} {pi2 pi2} {pi3 board}]" {
		t.Errorf("the devices are %s", got)
	}
	if len(c.Fleet) != 3 || c.Fleet[0].Name != "phone" || c.Fleet[0].Weight != 2 || c.Fleet[2].Name != "pi2" {
		t.Fatalf("the fleet is %+v", c.Fleet)
	}
	board := c.Fleet[1]
	upload, ok := board.UploadMbps.(fleet.Empirical)
	if !ok || len(upload.Values) != 2 || board.Weight != 0 || board.Watts.Compute != 6 || board.Slowdown != fleet.Slowdown(fleet.SlowPeriods{}) || board.Overhead.Upload != 0.5 {
		t.Errorf("the class is %+v", board)
	}
	// pi1's 6.71 Mbit at 5 Mbit/s take 1.342 s, half a second of which is overhead.
	if want := 6.71 / (6.71/5 - 0.5); math.Abs(upload.Values[1]/want-1) > 0.1 {
		t.Errorf("pi1 uploads with %g Mbit/s besides its overhead, want %g", upload.Values[1], want)
	}
	f, err = Run(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	c = again(t, f, own)
	if len(c.Fleet) != 4 || c.Fleet[1].Name != "pi1" || c.Fleet[1].Watts.Compute != 6 {
		t.Errorf("one by one the fleet is %+v", c.Fleet)
	}
}

// Simulated clients without a class get one that changes nothing for them, and a class that
// both have stays theirs under its own name.
func TestFit_SimulatedClientsStay(t *testing.T) {
	for own, want := range map[string]string{
		three: "simulated/1 pi1/0 pi2/0 pi3/0",
		"task: femnist\nclients: 5\ncohort: 5\nfleet: [{name: pi2}, {name: b}]\ndevices: {names: {pi1: b, pi2: b, pi3: null}}\n": "pi2/1 b/1 pi1/0 pi2-fitted/0 pi3/0",
	} {
		f, err := Run(made{text: own, classes: truth, rounds: 8, steps: decay}.play(t), false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		c := again(t, f, own)
		for _, k := range c.Fleet {
			got = append(got, fmt.Sprintf("%s/%g", k.Name, k.Weight))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("the fleet is %s, want %s", text, want)
		}
		before, err := config.Parse("own", []byte(own))
		if err != nil {
			t.Fatal(err)
		}
		one, err := before.NewFleet()
		if err != nil {
			t.Fatal(err)
		}
		two, err := c.NewFleet()
		if err != nil {
			t.Fatal(err)
		}
		for client := range 5 {
			a, err := one.Plan(one.Client(client), 3, 40, bits, 0)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := two.Plan(two.Client(client), 3, 40, bits, 0); err != nil || a != b {
				t.Errorf("client %d takes %+v, %v with the classes, %+v without", client, b, err, a)
			}
		}
	}
}

// Links that the run modelled are not fitted.
func TestFit_ModelledLinks(t *testing.T) {
	own := strings.Replace(three, "pi3]", "pi3], link: modelled", 1)
	f, err := Run(made{text: own, classes: truth, rounds: 30, steps: decay}.play(t), false)
	if err != nil {
		t.Fatal(err)
	}
	c := again(t, f, own)
	if k := c.Fleet[1]; k.DownloadMbps != nil || k.UploadMbps != nil || k.Vary.Upload != nil || k.SecondsPerStep == nil {
		t.Errorf("the class is %+v", k)
	}
	if math.Abs(f.Check.FittedTaskSeconds/f.Check.TaskSeconds-1) > 0.01 {
		t.Errorf("%+v", f.Check)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

func TestFit_Impossible(t *testing.T) {
	alone := made{text: "task: femnist\n", classes: truth, rounds: 3, steps: decay}.play(t)
	short := made{text: three, classes: truth, rounds: 1, steps: decay}.play(t)
	silent := made{text: three, classes: truth, rounds: 9, steps: decay}.play(t)
	if err := os.Remove(filepath.Join(silent, eventlog.File)); err != nil {
		t.Fatal(err)
	}
	sized := made{text: three + "network: {model_megabits: exact}\n", classes: truth, rounds: 9, steps: decay}.play(t)
	for dir, want := range map[string]string{
		t.TempDir(): "holds no run",
		alone:       "the run has no real devices",
		short:       "no device has done two tasks",
		silent:      "it holds no events.log (run it without events.sample: off)",
		sized:       "network.model_megabits is exact, and open ",
	} {
		if _, err := Run(dir, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
