package lab

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
)

// Result is what a laboratory found.
type Result struct {
	Task    string  `json:"task"`
	Clients int     `json:"clients"`
	Cohort  int     `json:"cohort"`
	Batch   int     `json:"batch"`
	Seeds   int     `json:"seeds"`
	K0      int     `json:"k0"`
	Eta     float64 `json:"eta"`
	Limit   float64 `json:"virtual_seconds"` // of every run

	Constants theory.Constants `json:"-"` // calculated; G and the variance at x₁ and x*
	F0        float64          `json:"-"` // F(x₁)
	Distance  float64          `json:"-"` // ‖x₁ − x*‖
	PrintedG  float64          `json:"-"` // L‖x₁ − x*‖

	Bounds []Bound  `json:"bounds"`
	Curves []Moment `json:"curves"`

	Runs []study.Origin `json:"runs"`
}

// Bound is Theorem 1 after a number of rounds of a schedule, beside what was
// measured; all in loss²/length². Means are over seeds.
type Bound struct {
	Schedule   string  `json:"schedule" csv:"schedule"`
	Rounds     int     `json:"rounds" csv:"rounds"`
	Iterations float64 `json:"iterations" csv:"iterations"` // T

	Measured float64 `json:"measured" csv:"measured"`           // mean over iterations of ‖∇F(x̄_t)‖²
	Half     half    `json:"measured_ci95" csv:"measured_ci95"` // half its 95% interval
	Least    float64 `json:"least" csv:"least"`                 // least over iterations of the mean over seeds

	G        float64 `json:"g" csv:"g"`               // largest of any client at any iterate
	Variance float64 `json:"variance" csv:"variance"` // Σ p_c² σ_c²

	Lemma2    float64 `json:"lemma2" csv:"lemma2"`                         // the sharpest: D as in Lemma 1
	Proof     float64 `json:"theorem1_proof" csv:"theorem1_proof"`         // Theorem 1 with 2κ²(F₀ − F*)
	Statement float64 `json:"theorem1_stated" csv:"theorem1_stated"`       // with 2κ(κF₀ − F*)
	Appendix  float64 `json:"theorem1_appendix" csv:"theorem1_appendix"`   // with 2κ(F₀ − F*)
	PrintedG  float64 `json:"theorem1_printed_g" csv:"theorem1_printed_g"` // the statement with the paper's G
}

// Moment is how far a schedule is from the optimum at a virtual time.
type Moment struct {
	Schedule   string  `json:"schedule" csv:"schedule"`
	Seconds    float64 `json:"seconds" csv:"seconds"`
	Rounds     float64 `json:"rounds" csv:"rounds"`           // completed
	Steps      float64 `json:"steps" csv:"steps"`             // Σ K_r of them
	LocalSteps float64 `json:"local_steps" csv:"local_steps"` // K of the round that is open
	Gap        float64 `json:"gap" csv:"gap"`                 // F − F*, a loss
	Half       half    `json:"gap_ci95" csv:"gap_ci95"`       // half its 95% interval
}

// half is half an interval; NaN, of one seed, is null in JSON.
type half float64

func (h half) MarshalJSON() ([]byte, error) { return json.Marshal(metrics.Measured(float64(h))) }

// MarshalJSON adds what the tables derive.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		*plain
		Holds     bool     `json:"bound_holds"`
		Constants []Source `json:"constants"`
	}{(*plain)(r), r.Holds(), r.constants()})
}

// last are the schedules' bounds after all their rounds, in the order in which they were run.
func (r *Result) last() (list []Bound) {
	for i, b := range r.Bounds {
		if i+1 == len(r.Bounds) || r.Bounds[i+1].Schedule != b.Schedule {
			list = append(list, b)
		}
	}
	return list
}

// at is a schedule's moment at a share of the time.
func (r *Result) at(name string, share float64) (m Moment) {
	for _, x := range r.Curves {
		if x.Schedule == name && x.Seconds <= r.Limit*share*(1+1e-9) {
			m = x
		}
	}
	return m
}

// Holds says whether Lemma 2, Theorem 1 as its proof has it, and Theorem 1 as stated hold for every
// schedule and at every number of rounds that was looked at.
func (r *Result) Holds() bool {
	for _, b := range r.Bounds {
		if !(b.Measured <= b.Lemma2 && b.Measured <= b.Proof) || r.Constants.FStar >= 0 && b.Measured > b.Statement {
			return false
		}
	}
	return len(r.Bounds) > 0
}

func (r *Result) Write(w io.Writer) error {
	k := r.Constants
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
	if err := writeSources(w, r.constants()); err != nil {
		return err
	}
	if r.Eta > k.MaxRate() {
		fmt.Fprintf(
			w,
			"\neta = %g is above 1/(4L) = %.4g: Theorem 1 does not speak of these runs.\n",
			r.Eta,
			k.MaxRate(),
		)
	}
	fmt.Fprintf(w, "\nTheorem 1: mean of |grad F|² over the iterations, beside its bounds\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "schedule\tT\tmeasured\tleast\tG\tLemma 2\tproof\tstated\tappendix\tprinted G\tLemma 2/measured\t")
	for _, b := range r.last() {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%.3g\t%.3g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.3g\t\n", b.Schedule, b.Iterations, plusMinus(b.Measured, b.Half), b.Least, b.G,
			b.Lemma2, b.Proof, b.Statement, b.Appendix, b.PrintedG, b.Lemma2/b.Measured)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	holds := "The bound holds for every schedule at every number of rounds that was looked at."
	if !r.Holds() {
		holds = "THE BOUND DOES NOT HOLD everywhere."
	}
	fmt.Fprintf(w, "\n%s\n\nSchedules at equal virtual time: F - F* (%.5g at the start)\n\n", holds, r.F0-k.FStar)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "schedule\trounds\tsteps\trelative\tlast K\tat 10% of the time\tat 30%\tat the end\t")
	fixed := r.at("fixed", 1).Steps
	for _, b := range r.last() {
		m := r.at(b.Schedule, 1)
		relative := "-"
		if fixed > 0 {
			relative = fmt.Sprintf("%.3f", m.Steps/fixed)
		}
		early := r.at(m.Schedule, 0.1)
		later := r.at(m.Schedule, 0.3)
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%s\t%.1f\t%s\t%s\t%s\t\n", m.Schedule, m.Rounds, m.Steps, relative, m.LocalSteps,
			plusMinus(early.Gap, early.Half), plusMinus(later.Gap, later.Half), plusMinus(m.Gap, m.Half))
	}
	return t.Flush()
}

func plusMinus(mean float64, within half) string {
	return statistics.Estimated{Mean: mean, Half: float64(within), N: 1}.Digits(4)
}

func (r *Result) constants() []Source {
	k := r.Constants
	return []Source{
		{"L", k.L, "loss/length²", "smoothness of every client's objective"},
		{"mu", k.Mu, "loss/length²", "their strong convexity"},
		{"kappa", k.Kappa(), "", "L/mu"},
		{"1/(4L)", k.MaxRate(), "length²/loss", "largest rate of the analysis"},
		{"Gamma", k.Gamma, "loss", "F* - sum of p_c f_c*"},
		{"variance", k.Variance, "loss²/length²", "sum of p_c² sigma_c², the larger of that at the start and at x*"},
		{"G", k.G, "loss/length", "largest client gradient at the start and at x*"},
		{"printed G", r.PrintedG, "loss/length", "L |x_1 - x*|"},
		{"F_0", r.F0, "loss", "at the start"},
		{"F*", k.FStar, "loss", "the minimum"},
		{"distance", r.Distance, "length", "|x_1 - x*|"},
	}
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

// digits are those of numbers in the files: what figures and tables show, and what
// differs between machines is below them.
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

// Draw draws the figures of the CSV files in one folder into another.
func Draw(from, into string) error {
	bounds, err := table.Read[Bound](filepath.Join(from, BoundsFile))
	curves, other := table.Read[Moment](filepath.Join(from, CurvesFile))
	if err := cmp.Or(err, other); err != nil {
		return err
	}
	return errors.Join(
		figure.Save(filepath.Join(into, BoundsFigure), boundPanels(bounds)...),
		figure.Save(filepath.Join(into, CurvesFigure), curvePanels(curves)...),
	)
}

// boundPanels show, for each of the first schedules, what was measured beside the bounds.
func boundPanels(bounds []Bound) (panels []figure.Panel) {
	for i := range bounds {
		b := &bounds[i]
		if n := len(panels); n == 0 || panels[n-1].Title != b.Schedule {
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

// curvePanels show the schedules' ways to the optimum and their local steps.
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

// maxPanels is how many schedules' bounds stand in one figure.
const maxPanels = 3
