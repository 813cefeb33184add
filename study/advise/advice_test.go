package advise

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/learn"
	"fedpace/metrics/outputs"
)

// The advice for a network is the formulas with what is given: FEMNIST with
// numbers that a person can calculate with, at W = 1.6775 s · 10.
func TestAdvise_WorkedExample(t *testing.T) {
	c, err := config.Load("", []string{"task=femnist", "compute.seconds_per_step=0", "schedule.eta0=0.1", "cohort=50", "stop.rounds=10"})
	if err != nil {
		t.Fatal(err)
	}
	g := Given{L: new(2.0), Mu: new(2.0), G: new(5.0), Loss: new(4.04)}
	a, err := Advise(c, g, 3)
	if err != nil {
		t.Fatal(err)
	}
	last := a.Rows[len(a.Rows)-1]
	// 4.04 · 1.6775 / (8 · 0.01 · 2 · 25 · 1.01 · 16.775) = 4.04/40.4 = 0.1.
	if math.Abs(last.W-16.775) > 1e-9 || math.Abs(last.K-math.Cbrt(0.1)) > 1e-9 || last.Steps != 1 {
		t.Errorf("K* is %v (%d) at %v s, want %v", last.K, last.Steps, last.W, math.Cbrt(0.1))
	}
	if math.Abs(last.KPrinted-math.Cbrt(2.5)) > 1e-9 {
		t.Errorf("as printed K* is %v", last.KPrinted)
	}
	z := (8 + 4.0/50) * 25 * 80 * 80
	if want := math.Sqrt(2 * 4.04 * 1.6775 / (2 * z * 16.775 * 80)); math.Abs(last.Eta-want) > 1e-12 {
		t.Errorf("eta* is %v, want %v", last.Eta, want)
	}
	if first := a.Rows[0]; math.Abs(first.W-1.6775) > 1e-9 || first.K <= last.K {
		t.Errorf("the first row is %+v", first)
	}
	var text bytes.Buffer
	if err := a.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"K* (Eq. 9)", "as printed", "not given: 0", "taken as 0, as in Eq. 13", "upper bounds"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the advice lacks %q:\n%s", want, &text)
		}
	}
	if b, err := json.Marshal(a); err != nil || !json.Valid(b) {
		t.Errorf("%s, %v", b, err)
	}
	path := filepath.Join(t.TempDir(), "advice.svg")
	if err := a.Draw(path); err != nil {
		t.Fatal(err)
	}
	if svg, err := os.ReadFile(path); err != nil || !bytes.Contains(svg, []byte("as printed")) {
		t.Errorf("the figure: %v", err)
	}
}

// A convex task needs nothing, and what is given goes first.
func TestAdvise_ConvexTask(t *testing.T) {
	c := runtest.BriefConvex(t, "quadratic")
	a, err := Advise(c, Given{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Rows) != 4 || a.Rows[0].K <= a.Rows[3].K || a.constants.Gamma <= 0 {
		t.Errorf("%+v", a)
	}
	g := Given{G: new(100.0), Form: theory.Statement}
	b, err := Advise(c, g, 4)
	if err != nil {
		t.Fatal(err)
	}
	if b.constants.G != 100 || b.constants.L != a.constants.L || b.Form != "κF − F*" || b.Rows[0].K >= a.Rows[0].K {
		t.Errorf("with G given: %+v", b)
	}
}

func TestAdvise_MissingConstants(t *testing.T) {
	c, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	g := Given{}
	epochs := c
	epochs.Schedule.Unit = config.Epochs
	if _, err := Advise(epochs, Given{L: new(1.0), Mu: new(1.0), G: new(1.0), Loss: new(1.0)}, 3); err == nil || !strings.Contains(err.Error(), "about local steps") {
		t.Errorf("epochs: %v", err)
	}
	momentum := c
	momentum.Local = learn.SGD{Momentum: 0.9}
	if _, err := Advise(momentum, Given{L: new(1.0), Mu: new(1.0), G: new(1.0), Loss: new(1.0)}, 3); err == nil || !strings.Contains(err.Error(), "local: theory is about plain steps of SGD") {
		t.Errorf("momentum: %v", err)
	}
	compressed := c
	compressed.Compress = algorithm.QSGD{Levels: 1}
	if _, err := Advise(compressed, Given{L: new(1.0), Mu: new(1.0), G: new(1.0), Loss: new(1.0)}, 3); err == nil || !strings.Contains(err.Error(), "compress: theory is about whole updates") {
		t.Errorf("compressed updates: %v", err)
	}
	for _, s := range []struct {
		flag string
		to   **float64
	}{{"l", &g.L}, {"mu", &g.Mu}, {"g", &g.G}, {"loss", &g.Loss}} {
		_, err := Advise(c, g, 3)
		if m := (*MissingError)(nil); !errors.As(err, &m) || m.Flag != s.flag {
			t.Errorf("%v, want --%s to be missing", err, s.flag)
		}
		*s.to = new(1.0)
	}
	g.Mu = new(2.0)
	if _, err := Advise(c, g, 3); err == nil {
		t.Error("mu above L is taken")
	}
	g.Mu, g.G = new(1.0), new(0.0)
	if _, err := Advise(c, g, 3); err == nil {
		t.Error("G = 0 is taken")
	}
	g.G, g.FStar = new(1.0), new(2.0)
	if _, err := Advise(c, g, 3); err == nil || !strings.Contains(err.Error(), "at least the least loss") {
		t.Errorf("a loss of 1 is taken where the least is 2: %v", err)
	}
}

// What the configuration gives for its schedule needs no flag, and flags go
// first. With theory.time: ahead W is what is left of the run, so that K* rises.
func TestAdvise_Configuration(t *testing.T) {
	c, err := config.Load("", []string{"task=femnist", "theory={l: 4, mu: 0.1, g: 2, f_star: 0.5, time: ahead}", "stop={equal_runtime_rounds: 100}"})
	if err != nil {
		t.Fatal(err)
	}
	g := Given{Loss: new(4.1), Mu: new(0.2)}
	a, err := Advise(c, g, 4)
	if err != nil {
		t.Fatal(err)
	}
	if k := a.constants; k.L != 4 || k.Mu != 0.2 || k.G != 2 || k.FStar != 0.5 {
		t.Errorf("%+v", k)
	}
	first, last, round := a.Rows[0], a.Rows[3], 1.6775+80*0.017
	if math.Abs(first.Elapsed-round) > 1e-9 || math.Abs(first.W-99*round) > 1e-9 || math.Abs(last.W-round) > 1e-9 || math.Abs(last.Elapsed-99*round) > 1e-9 {
		t.Errorf("from %+v to %+v", first, last)
	}
	// κ(F − F*) · communication / (8 η² L G² (1 + 1/120) W), one round ahead.
	if want := math.Cbrt(20 * 3.6 * 1.6775 / (8 * 0.09 * 4 * 4 * (1 + 1.0/120) * round)); math.Abs(last.K-want) > 1e-9 || first.K >= last.K {
		t.Errorf("K* is %v and then %v, want %v", first.K, last.K, want)
	}
	var text bytes.Buffer
	if err := errors.Join(a.Write(&text), a.Draw(filepath.Join(t.TempDir(), "advice.svg"))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"given: theory.l", "given: theory.f_star", "W is the time ahead", "time        W    F"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the advice lacks %q:\n%s", want, &text)
		}
	}
	exact := c
	exact.Network.ModelMegabits = 0 // 32 bits for each of the model's parameters
	a, err = Advise(exact, g, 4)
	if err != nil || math.Abs(a.Round[0]-6.709184*(1.0/20+1.0/5)) > 1e-9 {
		t.Errorf("with the model's own size: %v, %+v", err, a)
	}
	c.Stop.EqualRuntimeRounds = 1
	if _, err := Advise(c, g, 4); err == nil || !strings.Contains(err.Error(), "ahead after the first") {
		t.Errorf("of one round: %v", err)
	}
}

// Of a run whose schedule looks ahead W is the time to its end, and what was
// calculated for the schedule is told as such.
func TestAlongRun_TimeAhead(t *testing.T) {
	c := runtest.BriefConvex(t, "quadratic", "schedule.k=theory", "theory.time=ahead", "stop={equal_runtime_rounds: 20}")
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	a, err := AlongRun(t.Context(), c.Out, Given{}, 5)
	if err != nil {
		t.Fatal(err)
	}
	end := 20 * (a.Round[0] + 6*a.Round[1])
	for i, r := range a.Rows {
		if r.W <= 0 || math.Abs(r.W+r.Elapsed-end) > 1e-9 || i > 0 && r.W >= a.Rows[i-1].W {
			t.Errorf("row %d of a run of %v s: %+v", i, end, r)
		}
	}
	for _, s := range a.Constants {
		if strings.HasPrefix(s.Origin, "given") {
			t.Errorf("%+v was calculated", s)
		}
	}
}

// What is estimated of a finished run whose constants are known: the secant's
// slopes lie between mu and L, G is not far above the largest gradient.
func TestEstimate_KnownProblem(t *testing.T) {
	c := runtest.BriefConvex(t, "quadratic", "clients=40", "cohort=20", "quadratic={dimension: 6, samples: 10, noise: 0.3}")
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	of, err := OpenObjective(c)
	if err != nil {
		t.Fatal(err)
	}
	exact := of.Constants(make([]float64, 6), c.Cohort)
	k, sources, err := Estimate(t.Context(), c.Out, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if k.L > exact.L*(1+1e-6) || k.Mu < exact.Mu*(1-1e-6) || k.Mu > k.L {
		t.Errorf("slopes from %v to %v, of a problem from %v to %v", k.Mu, k.L, exact.Mu, exact.L)
	}
	if k.G < exact.G/2 || k.G > 1.5*exact.G || k.Variance < exact.Variance/3 || k.Variance > 3*exact.Variance {
		t.Errorf("G %v and variance %v, calculated %v and %v", k.G, k.Variance, exact.G, exact.Variance)
	}
	if len(sources) != 6 {
		t.Errorf("sources %v", sources)
	}
	// Of the same run: its losses are F_w, and a convex task is calculated.
	a, err := AlongRun(t.Context(), c.Out, Given{}, 5)
	if err != nil {
		t.Fatal(err)
	}
	if first, last := a.Rows[0], a.Rows[len(a.Rows)-1]; first.Used != 6 || last.Loss >= first.Loss || last.K >= first.K || a.constants.L != exact.L {
		t.Errorf("%+v", a)
	}
}

// A network's run gives estimates, in words.
func TestAlongRun_Network(t *testing.T) {
	c, err := config.Load("", []string{"task=femnist", "clients=20", "cohort=4", "schedule.k0=4", "stop.rounds=8", "schedule.window=2",
		"network.model_megabits=exact", "out=" + filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	a, err := AlongRun(t.Context(), c.Out, Given{}, 5)
	if err != nil {
		t.Fatal(err)
	}
	if a.constants.L <= 0 || a.constants.G <= 0 || a.constants.Mu <= 0 || math.Abs(a.Round[0]-6.709184*(1.0/20+1.0/5)) > 1e-9 {
		t.Errorf("%+v", a)
	}
	for _, s := range a.Constants {
		if s.Origin == "" || s.Name == "L" && !strings.Contains(s.Origin, "estimated") {
			t.Errorf("%+v", s)
		}
	}
	if err := os.Remove(filepath.Join(c.Out, outputs.ModelFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := AlongRun(t.Context(), c.Out, Given{}, 5); err == nil || !strings.Contains(err.Error(), "no final model") {
		t.Errorf("%v", err)
	}
	timed := c
	timed.Train, timed.Out = false, filepath.Join(t.TempDir(), "timed")
	if _, err := run.Run(t.Context(), timed, run.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := AlongRun(t.Context(), timed.Out, Given{}, 5); err == nil || !strings.Contains(err.Error(), "did not train") {
		t.Errorf("%v", err)
	}
}

// The lines of a run's table are as many as were asked for.
func TestSpaced_Rounds(t *testing.T) {
	for n := 40; n < 2000; n++ {
		if list := Spaced(n, math.Pow(float64(n), 1.0/4)); len(list) != 5 || list[4] != n {
			t.Fatalf("of %d rounds: %v", n, list)
		}
	}
}

// A fleet's classes are no constants of Eq. 3: the advice says whose times it has.
func TestAdvise_HeterogeneousClients(t *testing.T) {
	for _, fleet := range []string{"[]", "[{name: slow, weight: 1, seconds_per_step: 1}]"} {
		c, err := config.Load("", []string{"task=quadratic", "fleet=" + fleet})
		if err != nil {
			t.Fatal(err)
		}
		a, err := Advise(c, Given{}, 2)
		if err != nil || strings.Contains(strings.Join(a.Notes, "\n"), "Clients differ") != (fleet != "[]") {
			t.Errorf("%s: %v, %v", fleet, a, err)
		}
	}
}

// The page of theory has the advice as it is printed.
func TestAdvise_TableOfPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/theory.md")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("", []string{"task=quadratic"})
	if err != nil {
		t.Fatal(err)
	}
	advice, err := Advise(c, Given{}, 3)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := advice.Write(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		line = strings.TrimSpace(line)
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/theory.md lacks %q of fedpace theory advise --points 3", line)
		}
	}
}
