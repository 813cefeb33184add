package calibrate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/robust"
)

// machine is a device whose times are made.
type machine struct {
	overhead, step float64
	task, cv       float64                // deviations: of a task's factor, of a step
	slow           func(task int) float64 // factor by task; nil: 1
	first          int                    // K_0, if it is known
	draws          *rand.Rand
	tasks          int
	said           []string
}

// run returns the seconds that a simulated task of so many local steps takes, with the noise of the machine.
func (m *machine) run(steps int) (float64, error) {
	m.tasks++
	if m.draws == nil {
		m.draws = rand.New(rand.NewPCG(1, 2))
	}
	n := float64(steps)
	took := n*m.step*(1+m.task*m.draws.NormFloat64()) + math.Sqrt(n)*m.cv*m.step*m.draws.NormFloat64()
	if m.slow != nil {
		took *= m.slow(m.tasks)
	}
	return m.overhead + max(0, took), nil
}

// say notes a line for the user.
func (m *machine) say(line string) { m.said = append(m.said, line) }

// measure measures the machine as a device is measured, in this many seconds.
func (m *machine) measure(t *testing.T, seconds float64) Compute {
	t.Helper()
	c, err := measureSteps(stopping{seconds: seconds, notice: m.say}, m.first, "it", m.run)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within fails the test unless got equals want to the given relative tolerance. what names the number.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*want) {
		t.Errorf("%s is %g, want %g within %g %%", what, got, want, 100*tolerance)
	}
}

// Steps, overhead and scatter come out as they were put in, within what 400 tasks tell:
// a robust deviation of n values has itself a deviation of about 1.2/sqrt(n).
func TestCompute_StepsAndOverheadApart(t *testing.T) {
	m := machine{overhead: 0.004, step: 0.001, task: 0.01, cv: 0.05}
	c := m.measure(t, 80)
	within(t, "a step", c.SecondsPerStep.Value, 0.001, 0.005)
	within(t, "the overhead", c.Overhead.Value, 0.004, 0.03)
	within(t, "step_cv", c.StepCV, 0.05, 0.25)
	within(t, "the scatter of long tasks", c.Scatter, math.Hypot(0.01, 0.05/math.Sqrt(float64(c.Steps))), 0.2)
	if c.Noisy || c.Settled || len(m.said) > 0 || c.SecondsPerStep.Low > 0.001 || c.SecondsPerStep.High < 0.001 || c.Steps < 100 || c.Tasks < 300 {
		t.Errorf("%+v, said %v", c, m.said)
	}
	// The factors have what is left of the scatter.
	within(t, "the deviation of the factors", robust.Deviation(c.Vary), 0.01, 0.3)
}

// Tasks that take ten times as long now and then move neither the step nor step_cv; they
// are among the factors, so that a simulated run is as long on average.
func TestCompute_OutliersAreNoScatter(t *testing.T) {
	m := machine{overhead: 0.001, step: 0.002, cv: 0.02, slow: func(task int) float64 {
		if task%25 == 0 {
			return 10
		}
		return 1
	}}
	c := m.measure(t, 40)
	within(t, "a step", c.SecondsPerStep.Value, 0.002, 0.005)
	if c.StepCV > 0.04 {
		t.Errorf("step_cv is %g", c.StepCV)
	}
	mean := 0.0
	for _, f := range c.Vary {
		mean += f / float64(len(c.Vary))
	}
	if most := slices.Max(c.Vary); most < 1.5 || math.Abs(mean-1.36) > 0.25 {
		t.Errorf("the factors have mean %g up to %g: %v", mean, most, c.Vary)
	}
}

// What the first task takes besides is found, and tasks have no more steps than a run's.
func TestCompute_FirstTask(t *testing.T) {
	m := machine{overhead: 0.002, step: 0.001, task: 0.01, first: 20, slow: func(task int) float64 {
		if task == 1 {
			return 6
		}
		return 1
	}}
	c := m.measure(t, 4)
	within(t, "the first task", c.FirstTask, 5*20*0.001, 0.05)
	within(t, "a step", c.SecondsPerStep.Value, 0.001, 0.02)
	if c.Steps != 20 {
		t.Errorf("long tasks have %d steps, and a run's 20 at most", c.Steps)
	}
}

// A class's uncertainty holds the pace of a later time: devices whose pace changes now and
// then, and stays for a fifth of the measurement. Where it does not change the interval is
// that of a median, not merely wide.
func TestCompute_AnotherTimesPace(t *testing.T) {
	const devices, tasks, steps = 1000, 60, 20
	draws := rand.New(rand.NewPCG(3, 5))
	for _, change := range []float64{0, 0.03, 0.1} {
		inside, width := 0, 0.0
		for range devices {
			m := machine{step: 0.01, task: 0.02, draws: draws}
			one, long := Group{Size: 1}, Group{Size: steps}
			pace := 0.0
			for i := range tasks {
				if i%(tasks/5) == 0 {
					pace = 1 + change*draws.NormFloat64()
				}
				for _, g := range []*Group{&one, &long} {
					took, _ := m.run(int(g.Size)) // it does not fail
					g.Seconds = append(g.Seconds, pace*took)
				}
			}
			c := Compute{Steps: steps}
			c.summarise(fitLine(long, one), one)
			if later := 0.01 * (1 + change*draws.NormFloat64()); math.Abs(math.Log(later/c.SecondsPerStep.Value)) <= 1.645*math.Sqrt(math.Log1p(c.Uncertainty*c.Uncertainty)) {
				inside++
			}
			width += 1.645 * c.Uncertainty / devices
		}
		share := float64(inside) / devices
		t.Logf("paces that change by %g: %.3f inside, mean width ±%.2f %%", change, share, 100*width)
		if share < 0.85 || share > 0.96 {
			t.Errorf("paces that change by %g: %.3f of the later ones are inside, want 0.9", change, share)
		}
		if change == 0 && width > 0.01 {
			t.Errorf("a steady pace is known within ±%g", width)
		}
	}
}

// A device that slows down and is quick again is not one that settles.
func TestCompute_DeviceBusyAtTimes(t *testing.T) {
	m := machine{step: 0.005, task: 0.005, slow: func(task int) float64 {
		if task/50%2 == 1 {
			return 1.3
		}
		return 1
	}}
	if c := m.measure(t, 40); c.Settled || c.Uncertainty < 0.05 {
		t.Errorf("%+v, said %v", c, m.said)
	}
}

// What is slow at first is a warm-up, and does not count.
func TestCompute_WarmUpIsLeftOut(t *testing.T) {
	m := machine{step: 0.01, slow: func(task int) float64 { return 1 + 5*math.Exp(-float64(task)/6) }}
	c := m.measure(t, 5)
	within(t, "a step", c.SecondsPerStep.Value, 0.01, 0.02)
	if c.WarmUp < 3 {
		t.Errorf("%+v", c)
	}
}

// A device that gets slower says so, and its class is that of the last half.
func TestCompute_HotDevice(t *testing.T) {
	m := machine{step: 0.005, task: 0.005, slow: func(task int) float64 {
		if task > 100 {
			return 1.5
		}
		return 1
	}}
	c := m.measure(t, 40)
	within(t, "a step", c.SecondsPerStep.Value, 0.0075, 0.01)
	if !c.Settled || math.Abs(c.Drift-0.5) > 0.05 || !slices.ContainsFunc(m.said, func(s string) bool { return strings.Contains(s, "50 % longer than the first") }) {
		t.Errorf("%+v, said %v", c, m.said)
	}
}

// A noisy device is measured longer, at most twice, and then says that it stays so.
func TestCompute_NoisyDeviceIsMeasuredLonger(t *testing.T) {
	m := machine{step: 0.02, task: 0.4}
	c := m.measure(t, 4)
	again, stays := 0, 0
	for _, line := range m.said {
		if strings.Contains(line, "measuring longer") {
			again++
		}
		if strings.Contains(line, "stays noisy") {
			stays++
		}
	}
	if !c.Noisy || again != 2 || stays != 1 {
		t.Errorf("%+v, said %v", c, m.said)
	}
	if c.Seconds < 12 {
		t.Errorf("it was measured for %g s, want three times 4", c.Seconds)
	}
}

// The effort's measures: least rounds, the time, what is as good as the time, the end.
func TestCompute_EffortEnds(t *testing.T) {
	for _, c := range []struct {
		what   string
		effort stopping
		rounds int
		spent  float64
		width  float64
		want   bool
	}{
		{"too few rounds", stopping{seconds: 1}, 6, 3, 0, true},
		{"too few, and each takes long", stopping{seconds: 1}, 3, 6.5, 0, false},
		{"three at least", stopping{seconds: 1}, 2, 100, 0, true},
		{"the time is not over", stopping{seconds: 10}, 100, 9, 0, true},
		{"it is, and rounds are wanted", stopping{seconds: 10}, 10, 11, 0.01, true},
		{"it is", stopping{seconds: 10}, 20, 11, 0.01, false},
		{"as good as the time", stopping{seconds: 10, sufficientRounds: 20}, 20, 1, 0.01, false},
		{"noisy", stopping{seconds: 10}, 20, 11, 0.1, true},
		{"noisy for the second time", stopping{seconds: 10, repeats: 1}, 20, 20, 0.1, true},
		{"noisy for good", stopping{seconds: 10, repeats: 2}, 20, 30, 0.1, false},
		{"however noisy", stopping{seconds: 1e9}, maxRounds, 1, 1, false},
	} {
		if got := c.effort.needsRound("it", c.rounds, c.spent, c.width); got != c.want {
			t.Errorf("%s: more is %v", c.what, got)
		}
	}
}

func TestCompute_FailingDeviceEndsMeasurement(t *testing.T) {
	broken := errors.New("broken")
	for fails := range 9 {
		n := 0
		_, err := measureSteps(stopping{seconds: 1, notice: func(string) {}}, 0, "it", func(int) (float64, error) {
			if n++; n > 3*fails {
				return 0, broken
			}
			return 0.1, nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("after %d tasks: %v", 3*fails, err)
		}
	}
}
