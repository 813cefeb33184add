package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"fedpace/coordinator/theory"
	"fedpace/internal/atomicfile"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/metrics"
	"fedpace/metrics/figure"
	"fedpace/study"
	"fedpace/study/advise"
)

// Result is what the runs of a plan showed.
type Result struct {
	// Task is the name of the convex task.
	Task string `json:"task"`
	// Clients is the number of clients in the population.
	Clients int `json:"clients"`
	// Cohort is the number of clients in a round.
	Cohort int `json:"cohort"`
	// Batch is the number of samples in a minibatch.
	Batch int `json:"batch"`
	// Seeds is the number of runs of each schedule.
	Seeds int `json:"seeds"`
	// K0 is the number of local steps in the first round.
	K0 int `json:"k0"`
	// Eta is the learning rate at the start.
	Eta float64 `json:"eta"`
	// Limit is how long every run lasts, in virtual seconds.
	Limit float64 `json:"virtual_seconds"`

	// Constants are calculated from the objective. Their G and variance are those at x₁ and x*.
	Constants theory.Constants `json:"-"`
	// F0 is the loss F(x₁) of the initial model.
	F0 float64 `json:"-"`
	// Distance is ‖x₁ − x*‖, from the initial model to the optimum.
	Distance float64 `json:"-"`
	// PrintedG is L‖x₁ − x*‖, which the paper takes for G.
	PrintedG float64 `json:"-"`

	// Bounds compares Theorem 1 with what was measured, by schedule and number of rounds.
	Bounds []Bound `json:"bounds"`
	// Curves holds the gap to the optimum, by schedule and virtual time.
	Curves []Moment `json:"curves"`

	// Runs says by which version, configuration and seed each run can be repeated.
	Runs []study.Origin `json:"runs"`
}

// Bound is Theorem 1 after a number of rounds of a schedule, beside what was measured; all in
// loss²/length² but G, in loss/length. Means are over seeds.
type Bound struct {
	// Schedule is the name of the schedule.
	Schedule string `json:"schedule" csv:"schedule"`
	// Rounds is the number of rounds after which the bound is taken.
	Rounds int `json:"rounds" csv:"rounds"`
	// Iterations is T, the number of SGD steps of one client in these rounds.
	Iterations float64 `json:"iterations" csv:"iterations"`

	// Measured is the mean over iterations of ‖∇F(x̄_t)‖², which Theorem 1 bounds.
	Measured float64 `json:"measured" csv:"measured"`
	// Half is half of the 95 % interval of Measured.
	Half half `json:"measured_ci95" csv:"measured_ci95"`
	// Minimum is the least value over iterations of the mean over seeds.
	Minimum float64 `json:"least" csv:"least"`

	// G is the largest root mean square gradient norm of any client at any iterate.
	G float64 `json:"g" csv:"g"`
	// Variance is Σ p_c² σ_c², the variance of the mean of the clients' minibatch gradients.
	Variance float64 `json:"variance" csv:"variance"`

	// Lemma2 is the sharpest of the bounds, with D as in Lemma 1.
	Lemma2 float64 `json:"lemma2" csv:"lemma2"`
	// Proof is the bound of Theorem 1 with 2κ²(F₀ − F*), as its proof has it.
	Proof float64 `json:"theorem1_proof" csv:"theorem1_proof"`
	// Statement is the bound of Theorem 1 with 2κ(κF₀ − F*), as the theorem states it.
	Statement float64 `json:"theorem1_stated" csv:"theorem1_stated"`
	// Appendix is the bound of Theorem 1 with 2κ(F₀ − F*), as the appendix has it.
	Appendix float64 `json:"theorem1_appendix" csv:"theorem1_appendix"`
	// PrintedG is Statement with the paper's G.
	PrintedG float64 `json:"theorem1_printed_g" csv:"theorem1_printed_g"`
}

// Moment is how far a schedule is from the optimum at a virtual time.
type Moment struct {
	Schedule string `json:"schedule" csv:"schedule"`
	// Seconds is the virtual time since the start.
	Seconds float64 `json:"seconds" csv:"seconds"`
	// Rounds is the number of completed rounds, averaged over seeds.
	Rounds float64 `json:"rounds" csv:"rounds"`
	// Steps is the sum of K_r over the completed rounds.
	Steps float64 `json:"steps" csv:"steps"`
	// LocalSteps is the K of the round that is open at this time.
	LocalSteps float64 `json:"local_steps" csv:"local_steps"`
	// Gap is the loss F − F*.
	Gap float64 `json:"gap" csv:"gap"`
	// Half is half of the 95 % interval of Gap.
	Half half `json:"gap_ci95" csv:"gap_ci95"`
}

// half is half of a 95 % interval. One seed has none: NaN, which JSON holds as null.
type half float64

// MarshalJSON writes NaN as null.
func (h half) MarshalJSON() ([]byte, error) { return json.Marshal(metrics.Measured(float64(h))) }

// MarshalJSON adds what the tables derive: whether the bound holds, and the constants with their
// explanations.
func (r *Result) MarshalJSON() ([]byte, error) {
	// The type plain has no MarshalJSON, so that this method does not call itself.
	type plain Result
	return json.Marshal(struct {
		*plain
		BoundHolds bool            `json:"bound_holds"`
		Constants  []advise.Source `json:"constants"`
	}{(*plain)(r), r.BoundHolds(), r.constants()})
}

// last lists each schedule's bound after all of its rounds, in the order of the plan.
func (r *Result) last() []Bound {
	var list []Bound
	for i, b := range r.Bounds {
		// The bounds of a schedule follow each other, the one after all of its rounds last.
		isLast := i+1 == len(r.Bounds) || r.Bounds[i+1].Schedule != b.Schedule
		if isLast {
			list = append(list, b)
		}
	}
	return list
}

// momentAt finds a schedule's last moment at or before a share of the virtual time, from 0 to 1.
func (r *Result) momentAt(name string, share float64) Moment {
	// Moments are multiples of a hundredth of Limit, which floating-point numbers hold inexactly.
	const rounding = 1 + 1e-9
	var last Moment
	for _, m := range r.Curves {
		if m.Schedule == name && m.Seconds <= r.Limit*share*rounding {
			last = m
		}
	}
	return last
}

// BoundHolds reports whether Lemma 2, Theorem 1 as its proof has it, and Theorem 1 as stated hold for every
// schedule and at every number of rounds that was examined. The statement needs F* >= 0.
func (r *Result) BoundHolds() bool {
	for _, b := range r.Bounds {
		// b.Appendix, the bound of the paper's appendix, is not looked at: it does not follow from Lemma 2, so it need
		// not hold.
		proofHolds := b.Measured <= b.Lemma2 && b.Measured <= b.Proof
		statementHolds := r.Constants.FStar < 0 || !(b.Measured > b.Statement)
		if !proofHolds || !statementHolds {
			return false
		}
	}
	return len(r.Bounds) > 0
}

// Write prints the constants, the bounds and the schedules as tables.
func (r *Result) Write(w io.Writer) error {
	fmt.Fprintf(
		w,
		"%s: %d clients, %d a round, minibatches of %d, K_0 = %d, eta = %g; seeds: %d; %.6g virtual s each\n\n",
		r.Task,
		r.Clients,
		r.Cohort,
		r.Batch,
		r.K0,
		r.Eta,
		r.Seeds,
		r.Limit,
	)
	if err := advise.WriteSources(w, r.constants()); err != nil {
		return err
	}
	// The analysis needs eta of at most 1/(4L).
	if limit := r.Constants.MaxRate(); r.Eta > limit {
		fmt.Fprintf(
			w,
			"\neta = %g is above 1/(4L) = %.4g: Theorem 1 does not speak of these runs.\n",
			r.Eta,
			limit,
		)
	}
	fmt.Fprintf(w, "\nTheorem 1: mean of |grad F|² over the iterations, beside its bounds\n\n")
	if err := r.writeBounds(w); err != nil {
		return err
	}
	verdict := "The bound holds for every schedule at every number of rounds that was looked at."
	if !r.BoundHolds() {
		verdict = "THE BOUND DOES NOT HOLD everywhere."
	}
	start := r.F0 - r.Constants.FStar
	fmt.Fprintf(w, "\n%s\n\nSchedules at equal virtual time: F - F* (%.5g at the start)\n\n", verdict, start)
	return r.writeSchedules(w)
}

// writeBounds prints each schedule's last bound.
func (r *Result) writeBounds(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "schedule\tT\tmeasured\tleast\tG\tLemma 2\tproof\tstated\tappendix\tprinted G\tLemma 2/measured\t")
	for _, b := range r.last() {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%.3g\t%.3g\t", b.Schedule, b.Iterations, plusMinus(b.Measured, b.Half),
			b.Minimum, b.G)
		fmt.Fprintf(t, "%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t", b.Lemma2, b.Proof, b.Statement, b.Appendix, b.PrintedG)
		fmt.Fprintf(t, "%.3g\t\n", b.Lemma2/b.Measured)
	}
	return t.Flush()
}

// writeSchedules prints how far each schedule is from the optimum over time. Steps are relative to
// those of fixed K, where that was run.
func (r *Result) writeSchedules(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "schedule\trounds\tsteps\trelative\tlast K\tat 10% of the time\tat 30%\tat the end\t")
	// Without a run of fixed K there is nothing that steps could be relative to.
	fixed := r.momentAt("fixed", 1).Steps
	for _, b := range r.last() {
		early := r.momentAt(b.Schedule, 0.1)
		later := r.momentAt(b.Schedule, 0.3)
		end := r.momentAt(b.Schedule, 1)
		relative := "-"
		if fixed > 0 {
			relative = fmt.Sprintf("%.3f", end.Steps/fixed)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%s\t%.1f\t", end.Schedule, end.Rounds, end.Steps, relative, end.LocalSteps)
		for _, m := range []Moment{early, later, end} {
			fmt.Fprintf(t, "%s\t", plusMinus(m.Gap, m.Half))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// plusMinus prints a mean with half of its interval, to two digits of that half.
func plusMinus(mean float64, halfInterval half) string {
	return statistics.Estimated{Mean: mean, Half: float64(halfInterval), N: 1}.Digits(4)
}

// constants lists the problem's constants with their units and what each one is.
func (r *Result) constants() []advise.Source {
	k := r.Constants
	var list []advise.Source
	add := func(name string, value float64, unit, meaning string) {
		list = append(list, advise.Source{
			Name:   name,
			Value:  value,
			Unit:   unit,
			Origin: meaning,
		})
	}
	add("L", k.L, "loss/length²", "smoothness of every client's objective")
	add("mu", k.Mu, "loss/length²", "their strong convexity")
	add("kappa", k.Kappa(), "", "L/mu")
	add("1/(4L)", k.MaxRate(), "length²/loss", "largest rate of the analysis")
	add("Gamma", k.Gamma, "loss", "F* - sum of p_c f_c*")
	add("variance", k.Variance, "loss²/length²", "sum of p_c² sigma_c², the larger of that at the start and at x*")
	add("G", k.G, "loss/length", "largest client gradient at the start and at x*")
	add("printed G", r.PrintedG, "loss/length", "L |x_1 - x*|")
	add("F_0", r.F0, "loss", "at the start")
	add("F*", k.FStar, "loss", "the minimum")
	add("distance", r.Distance, "length", "|x_1 - x*|")
	return list
}

// The files of a result.
const (
	BoundsFile   = "bounds.csv"
	CurvesFile   = "curves.csv"
	RunsFile     = study.RunsFile
	TableFile    = "table.txt"
	BoundsFigure = "bounds.svg"
	CurvesFigure = "curves.svg"
)

// digits is the number of significant digits in the files. Figures and tables show no more, and
// differences between machines lie below them.
const digits = 6

// Save writes the tables, the CSV files and the figures into a folder.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(dir, TableFile), r.Write),
		table.Write(filepath.Join(dir, BoundsFile), r.Bounds, digits),
		table.Write(filepath.Join(dir, CurvesFile), r.Curves, digits),
		table.Write(filepath.Join(dir, RunsFile), r.Runs, digits),
		Draw(dir, dir),
	)
}

// Draw draws the figures of the CSV files of one folder into another one.
func Draw(csvDir, into string) error {
	bounds, err := table.Read[Bound](filepath.Join(csvDir, BoundsFile))
	curves, curvesErr := table.Read[Moment](filepath.Join(csvDir, CurvesFile))
	if err := cmp.Or(err, curvesErr); err != nil {
		return err
	}
	return errors.Join(
		figure.Save(filepath.Join(into, BoundsFigure), boundPanels(bounds)...),
		figure.Save(filepath.Join(into, CurvesFigure), curvePanels(curves)...),
	)
}

// maxPanels is the number of schedules that the figure of bounds shows, the first ones.
const maxPanels = 3

// boundPanels draws what was measured beside the bounds, a panel for each of the first schedules. The
// bounds of a schedule follow each other.
func boundPanels(bounds []Bound) []figure.Panel {
	var panels []figure.Panel
	for i := range bounds {
		b := &bounds[i]
		// A new schedule begins a new panel.
		n := len(panels)
		if n == 0 || panels[n-1].Title != b.Schedule {
			if n == maxPanels {
				break
			}
			panels = append(panels, figure.Panel{
				Title: b.Schedule,
				X:     "iterations T",
				Y:     "mean of |∇F|² over T, and bounds",
				Steps: true,
				LogX:  true,
				LogY:  true,
			})
		}
		p := &panels[len(panels)-1]
		p.Add("measured", figure.Point{X: b.Iterations, Y: b.Measured, Half: float64(b.Half)})
		p.Add("Lemma 2", figure.Point{X: b.Iterations, Y: b.Lemma2})
		p.Add("Theorem 1, proof", figure.Point{X: b.Iterations, Y: b.Proof})
		p.Add("Theorem 1, stated", figure.Point{X: b.Iterations, Y: b.Statement})
	}
	return panels
}

// curvePanels draws each schedule's distance from the optimum, and its local steps, over virtual time.
func curvePanels(curves []Moment) []figure.Panel {
	gap := figure.Panel{
		Title: "distance from the optimum",
		X:     "virtual seconds",
		Y:     "F − F*",
		Steps: true,
		LogY:  true,
	}
	steps := figure.Panel{
		Title: "local steps",
		X:     "virtual seconds",
		Y:     "K_r",
		Steps: true,
		LogY:  true,
	}
	for _, m := range curves {
		gap.Add(m.Schedule, figure.Point{X: m.Seconds, Y: m.Gap, Half: float64(m.Half)})
		steps.Add(m.Schedule, figure.Point{X: m.Seconds, Y: m.LocalSteps})
	}
	return []figure.Panel{gap, steps}
}
