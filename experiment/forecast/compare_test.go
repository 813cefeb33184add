package forecast

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/problem"
	"fedpace/internal/testkit/slow"
)

// scattered is a fleet whose devices' classes vary from task to task. Its simulated clients
// are so fast that they decide no round: times without atoms are within an interval as
// often as it promises.
const scattered = "fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi4, download_mbps: 20, upload_mbps: 5, overhead: {download: 0.1, compute: 0.02, upload: 0.2}, step_cv: 0.3, vary: {download: {dist: lognormal, mean: 1, sigma: 0.3}, upload: {dist: lognormal, mean: 1, sigma: 0.2}, compute: {dist: lognormal, mean: 1, sigma: 0.2}}}," +
	"{name: pi3, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.06, vary: {compute: {dist: uniform, min: 0.7, max: 1.5}}}]"

// prepare prepares a run with three devices.
func prepare(t *testing.T, sets ...string) *problem.Problem {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=sent140", "clients=8", "cohort=4", "network.download_mbps=10000", "network.upload_mbps=10000", "schedule.k0=8", "stop.rounds=60", "schedule.window=3", "nats.listen=127.0.0.1:0",
		"devices.names={a: pi4, b: pi4, c: pi3}", scattered,
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Prepare(context.Background(), c, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// made is the record of a run that is a draw of its own counterpart: the truth is known. lost
// says over which tasks devices fall silent.
func made(t *testing.T, p *problem.Problem, rounds, seed int, lost ...[2]int) record {
	t.Helper()
	r := record{hasEvents: true, rounds: make([]roundTimes, rounds)}
	for i := range r.rounds {
		r.rounds[i].steps = 1 + (rounds-i)/8
		for d := range 3 {
			r.rounds[i].tasks = append(r.rounds[i].tasks, deviceTask{device: d})
		}
	}
	for _, l := range lost {
		r.rounds[l[0]-1].tasks[l[1]].lost = true
	}
	simulated, err := newCounterpart(p, &r)
	if err != nil {
		t.Fatal(err)
	}
	var drawn []roundTimes
	if err := simulated.simulate(context.Background(), seed, func(m *roundTimes) {
		drawn = append(drawn, *m)
		drawn[len(drawn)-1].tasks = slices.Clone(m.tasks)
	}); err != nil {
		t.Fatal(err)
	}
	for i, m := range drawn {
		if m.steps != r.rounds[i].steps {
			t.Errorf("round %d has K_r = %d, want the record's %d", i+1, m.steps, r.rounds[i].steps)
		}
	}
	r.rounds = drawn
	return r
}

func compared(t *testing.T, p *problem.Problem, r record, draws int) *Comparison {
	t.Helper()
	c := &Comparison{}
	if err := c.compare(context.Background(), p, &r, draws); err != nil {
		t.Fatal(err)
	}
	return c
}

// Where the truth is a draw of the same fleet, 90 % of its rounds are within the interval,
// up to the binomial error of so many rounds of several runs: their tasks are independent.
func TestCompare_NineOfTenRounds(t *testing.T) {
	for _, sets := range [][]string{nil, {"devices.include=sampled"}, {"devices.include=sampled", "clients=4", "close={rule: first, n: 3}"}} {
		inside, rounds := 0, 0
		for run := range 12 {
			p := prepare(t, sets...)
			c := compared(t, p, made(t, p, 60, 1000+run), manyDraws)
			for _, row := range RoundRows(c.Rows) {
				if row.P05 < row.P95 { // else a simulated client decides
					rounds++
					if row.P05 <= row.Measured && row.Measured <= row.P95 {
						inside++
					}
				}
			}
		}
		share, deviation := float64(inside)/float64(rounds), math.Sqrt(0.9*0.1/float64(rounds))
		t.Logf("%v: %d of %d rounds, %.3f ± %.3f", sets, inside, rounds, share, deviation)
		if rounds < 30 || math.Abs(share-0.9) > 3*deviation {
			t.Errorf("%v: %d of %d rounds are inside, want 90 %% ± %.1f %%", sets, inside, rounds, 300*deviation)
		}
	}
}

// Devices whose paces are somewhere within their classes' uncertainty, in all rounds of a run
// alike, are where the prediction says: over many runs of a few rounds nine rounds of ten are
// inside, and no more. A prediction that takes the classes for certain has most of them outside.
func TestCompare_UncertainClasses(t *testing.T) {
	const rounds = 5
	runs := 40
	if slow.On() {
		runs = 80
	}
	sure := "fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi4, download_mbps: 2, upload_mbps: 1, overhead: {upload: 0.2}, seconds_per_step: 0.05, vary: {compute: {dist: lognormal, mean: 1, sigma: 0.02}} %s}," +
		"{name: pi3, download_mbps: 2, upload_mbps: 1, seconds_per_step: 0.06, vary: {upload: {dist: lognormal, mean: 1, sigma: 0.01}} %s}]"
	unsure := ", uncertainty: {download: 0.05, compute: 0.1, upload: 0.05}"
	known := prepare(t, strings.ReplaceAll(sure, "%s", unsure))
	blind := prepare(t, strings.ReplaceAll(sure, "%s", ""))
	share := func(p *problem.Problem) (inside, width float64) {
		for run := range runs {
			for _, row := range RoundRows(compared(t, p, made(t, known, rounds, 1000+run), manyDraws).Rows) {
				if row.P05 <= row.Measured && row.Measured <= row.P95 {
					inside += 1 / float64(runs) / rounds
				}
				width += (row.P95 - row.P05) / row.P50 / float64(runs) / rounds
			}
		}
		return inside, width
	}
	inside, width := share(known)
	without, narrow := share(blind)
	t.Logf("%.3f inside intervals of %.1f %%; %.3f inside %.1f %% without uncertainty", inside, 100*width, without, 100*narrow)
	// The rounds of a run are all inside or none, so there are as many independent ones as runs.
	if deviation := math.Sqrt(0.9 * 0.1 / float64(runs)); math.Abs(inside-0.9) > 3*deviation || without > 0.6 {
		t.Errorf("%.3f are inside, want 0.9 ± %.3f, and %.3f without uncertainty", inside, 3*deviation, without)
	}
}

// What the first task of a device takes besides is in its first round, and in no other.
func TestCompare_FirstTasks(t *testing.T) {
	p := prepare(t, "fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi4, download_mbps: 8, upload_mbps: 2, seconds_per_step: 0.5, first_task: {download: 1, compute: 2, upload: 4}}, {name: pi3, download_mbps: 80, upload_mbps: 80, seconds_per_step: 0.001}]")
	r := made(t, p, 3, 1000)
	if first := r.rounds[0].took - r.rounds[1].took; r.rounds[0].steps != r.rounds[1].steps || first != 7e9 || r.rounds[1].took != r.rounds[2].took {
		t.Errorf("rounds take %d, %d and %d ns, want the first one 7 s longer", r.rounds[0].took, r.rounds[1].took, r.rounds[2].took)
	}
}

// Without scatter a prediction is exact: that of Eq. 3, with the overhead.
func TestCompare_ConstantClasses(t *testing.T) {
	p := prepare(t, "fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi4, overhead: {download: 0.25, upload: 0.5}, download_mbps: 8, upload_mbps: 2, seconds_per_step: 0.5},{name: pi3, download_mbps: 80, upload_mbps: 80, seconds_per_step: 0.001}]", "schedule.k0=4")
	c := compared(t, p, made(t, p, 20, 1000), fewDraws)
	bits := 32 * float64(p.Model.Params())
	for i, got := range RoundRows(c.Rows) {
		steps := float64(1 + (20-i)/8)
		want := 0.25 + bits/8e6 + 0.5*steps + 0.5 + bits/2e6 // a and b are slower than all others
		if math.Abs(got.P50-want) > 1e-6 || got.P05 != got.P50 || got.P95 != got.P50 || got.Measured != got.P50 {
			t.Errorf("round %d: %+v, want %g", i+1, got, want)
		}
	}
	if c.Inside != 20 || math.Abs(*c.Seconds.Ratio-1) > 1e-12 {
		t.Errorf("%d of 20 rounds are inside, %+v", c.Inside, c.Seconds)
	}
	want := map[string]float64{"download": 0.5 / 3, "compute": 0, "upload": 1. / 3}
	for _, phase := range c.Phases {
		if math.Abs(phase.Overhead-want[phase.Phase]) > 1e-12 || math.Abs(*phase.Ratio-1) > 1e-12 {
			t.Errorf("%+v, want an overhead of %g", phase, want[phase.Phase])
		}
	}
	if text := strings.Join(c.Unknown, "\n"); !strings.Contains(text, "Without scatter") {
		t.Errorf("it does not say that the classes have no scatter: %q", text)
	}
}

// Before a run its schedule says K_r, and where that needs losses it stays at K_0.
func TestCompare_AheadOfRun(t *testing.T) {
	constant := "fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi4, download_mbps: 8, upload_mbps: 2, seconds_per_step: 0.5},{name: pi3, download_mbps: 80, upload_mbps: 80, seconds_per_step: 0.001}]"
	for _, x := range []struct {
		schedule string
		steps    []float64
		says     bool
	}{{"rounds", []float64{8, 7, 6, 6}, false}, {"error", []float64{8, 8, 8, 8}, true}} {
		p := prepare(t, constant, "schedule.k="+x.schedule)
		c, err := Predict(context.Background(), p, len(x.steps))
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range RoundRows(c.Rows) {
			want := 32*float64(p.Model.Params())*(1/8e6+1/2e6) + 0.5*x.steps[i]
			if !math.IsNaN(row.Measured) || math.Abs(row.P50-want) > 1e-6 {
				t.Errorf("%s, round %d: %+v, want %g", x.schedule, i+1, row, want)
			}
		}
		if says := strings.Contains(strings.Join(c.Unknown, " "), "K_0"); says != x.says || c.Draws != manyDraws || c.Inside != 0 {
			t.Errorf("%s: %d draws, %q", x.schedule, c.Draws, c.Unknown)
		}
	}
	p := prepare(t, "devices.names={a: pi4, b: null, c: pi3}")
	if c, err := Predict(context.Background(), p, 3); err != nil || c.Draws != 0 || !strings.Contains(c.Unknown[0], "No class is known of b:") {
		t.Errorf("a device without a class: %+v, %v", c, err)
	}
}

// A device that was lost in a round is lost there in every draw, and away until it has a
// task again: the interval is that of the rounds as they were.
func TestCompare_LostDevices(t *testing.T) {
	p := prepare(t, "devices.liveness_seconds=50")
	r := made(t, p, 12, 1000, [2]int{4, 2})
	if took := r.rounds[3].took; took != 50e9 {
		t.Fatalf("the round takes %d ns with a lost device", took)
	}
	r.rounds[4].tasks = slices.DeleteFunc(r.rounds[4].tasks, func(t deviceTask) bool { return t.device == 2 }) // c comes back in round 6
	c := compared(t, p, r, fewDraws)
	if row := RoundRows(c.Rows)[3]; row.P05 != 50 || row.P95 != 50 {
		t.Errorf("round 4 is predicted as %+v, want the 50 s until the device is lost", row)
	}
	if n := c.Devices[2].Tasks; n != 10 || len(c.Devices) != 3 {
		t.Errorf("device c has answered %d tasks, want 10", n)
	}
}

// Where clients are drawn by their samples, a prediction draws by those that devices told.
func TestCompare_CohortsOfRun(t *testing.T) {
	p := prepare(t, "devices.include=sampled", "select={rule: oort, seconds: 1}")
	cohorts := func(told map[int]devicelog.Samples, n int) (list [][]int) {
		r := record{rounds: slices.Repeat([]roundTimes{{steps: 2, allTasks: 4}}, 20), samples: told}
		simulated, err := newCounterpart(p, &r)
		if err != nil {
			t.Fatal(err)
		}
		if err := simulated.simulate(t.Context(), n, func(m *roundTimes) {
			var devices []int
			for _, t := range m.tasks {
				devices = append(devices, t.device)
			}
			list = append(list, slices.Sorted(slices.Values(devices)))
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	told := map[int]devicelog.Samples{8: {Joined: 900, Answered: 900}, 9: {Joined: 900, Answered: 900}, 10: {Answered: 5000}}
	was := cohorts(told, 1000)
	if again := cohorts(told, 7); !reflect.DeepEqual(again, was) {
		t.Errorf("another draw has the devices %v, want %v", again, was)
	}
	if others := cohorts(nil, 1000); reflect.DeepEqual(others, was) {
		t.Error("what devices told makes no difference")
	}
	const unknown = "Who is drawn follows what clients tell (select: oort)"
	r := made(t, p, 3, 1000)
	r.samples = told
	said := strings.Join(compared(t, p, r, fewDraws).Unknown, " ")
	if !strings.Contains(said, unknown) {
		t.Errorf("the comparison says %q", said)
	}
}

// A folder that was published has no log of devices. A damaged one is told.
func TestCompare_DevicesLog(t *testing.T) {
	dir := t.TempDir()
	if list, err := reportedSamples(dir); list != nil || err != nil {
		t.Errorf("without a log: %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(dir, devicelog.File), []byte("fedpace"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := reportedSamples(dir); list != nil || err == nil {
		t.Errorf("of a log that is cut off: %v, %v", list, err)
	}
}

// Where devices answer no task in the first draw, the overhead of their classes is none, which
// can be written.
func TestCompare_NothingAnswered(t *testing.T) {
	p := prepare(t, "dropout.probability=0.5", "seed=5", "cohort=1")
	c := compared(t, p, record{isFuture: true, rounds: []roundTimes{{steps: 1, allTasks: 2}}}, fewDraws)
	if _, err := json.Marshal(c.Prediction); err != nil || len(c.Phases) != len(phases) {
		t.Errorf("%+v: %v", c, err)
	}
}

// With these numbers of draws the quantiles are draws themselves.
func TestCompare_QuantilesAreDraws(t *testing.T) {
	for _, n := range []int{manyDraws, fewDraws} {
		values := []float64{math.NaN()}
		for i := range n {
			values = append(values, float64((i*7)%n+1))
		}
		step := float64(n+1) / 20
		if got, want := intervalOf(values), (Interval{step, 10 * step, 19 * step}); got != want {
			t.Errorf("%d draws: %+v", n, got)
		}
	}
	if got := intervalOf([]float64{3}); got != (Interval{3, 3, 3}) {
		t.Errorf("one draw: %+v", got)
	}
}

func TestCompare_EffortIsBounded(t *testing.T) {
	for _, x := range []struct{ rounds, tasks, draws, compared int }{
		{20, 6, manyDraws, 20}, {10_000, 10, manyDraws, 10_000}, {100_000, 6, fewDraws, 100_000}, {1000, 10_000, fewDraws, 105}, {3, 1 << 26, fewDraws, 1},
	} {
		if draws, rounds := affordable(slices.Repeat([]roundTimes{{allTasks: x.tasks}}, x.rounds)); draws != x.draws || rounds != x.compared {
			t.Errorf("%d rounds of %d tasks: %d draws of %d rounds, want %d of %d", x.rounds, x.tasks, draws, rounds, x.draws, x.compared)
		}
	}
}

func TestCompare_Table(t *testing.T) {
	p := prepare(t)
	c := compared(t, p, made(t, p, 3, 1000), fewDraws)
	var b bytes.Buffer
	if err := c.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 1+3*columns || lines[0] != "round,phase,measured_seconds,predicted_p05,predicted_p50,predicted_p95" || !strings.HasPrefix(lines[1], "1,round,") || !strings.HasPrefix(lines[12], "3,upload,") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of 3 rounds are within", "download", "pi4", "pi3"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
