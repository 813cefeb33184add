package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"

	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/portable/exact"
	"fedpace/learn"
	"fedpace/metrics"
	"fedpace/metrics/figure"
)

// Advice says which number of local steps K* and which learning rate eta* the convergence theory of
// the paper finds best, at a series of times of a run. [Advise] and [AdviseRun] make it.
type Advice struct {
	// Task is the task of the configuration.
	Task string `json:"task"`
	// Constants are the constants of Theorem 1 and the loss F, with where each comes from.
	Constants []Source `json:"constants"`
	// Form names the form in which the bound has the gap between F and F*.
	Form string `json:"gap"`
	// N is the number of clients in a round.
	N int `json:"clients_a_round"`
	// K is the configuration's K_0, with which eta* is calculated.
	K int `json:"local_steps"`
	// Eta is the configuration's eta_0, with which K* is calculated.
	Eta float64 `json:"learning_rate"`
	// MaxRate is the learning rate 1/(4L), up to which the analysis holds.
	MaxRate float64 `json:"largest_learning_rate"`
	// Round holds the seconds of communication in a round, and the seconds of one local step.
	Round [2]float64 `json:"round_seconds"`
	// Rows holds the advice at each time, in the order of time.
	Rows []Advised `json:"rows"`
	// Notes are sentences that say what limits the advice.
	Notes []string `json:"notes"`

	constants theory.Constants
	runtime   theory.Runtime
	// end is the virtual second at which the run ends, where W is the time that is left. It is 0
	// where W is the time since the start.
	end float64
}

// Advised is the advice at one time W. All numbers are finite, as JSON needs, because W and G are
// positive.
type Advised struct {
	// W is the time in Eq. 8, in seconds: the time since the start, or the time to the end if
	// theory.time is ahead.
	W float64 `json:"seconds"`
	// Elapsed is the time since the start, in virtual seconds.
	Elapsed float64 `json:"elapsed_seconds"`
	// Loss is the training loss F at that time.
	Loss float64 `json:"loss"`
	// Used is the K that the run had at that time. It is 0 where there is no run.
	Used int `json:"local_steps_used,omitempty"`
	// K is K* by Eq. 9, which need not be whole.
	K float64 `json:"k_star"`
	// Steps is the whole number of local steps with the lowest bound.
	Steps int `json:"k_star_steps"`
	// KPrinted is K* by the equation as the paper prints it.
	KPrinted float64 `json:"k_star_printed"`
	// Eta is eta* by Eq. 11.
	Eta float64 `json:"eta_star"`
	// EtaPrinted is eta* by the equation as the paper prints it.
	EtaPrinted float64 `json:"eta_star_printed"`
	// Bound is Eq. 8 with the configuration's K and eta.
	Bound float64 `json:"bound"`
	// BoundStar is Eq. 8 with Steps and the configuration's eta.
	BoundStar float64 `json:"bound_star"`
}

// mostSteps bounds the whole number of local steps that is advised.
const mostSteps = 1_000_000

// Advise says what the theory advises for a configuration, looking ahead from its start. The loss stays
// the first one at all times, which makes K* and eta* upper bounds (the inequalities of Eq. 10 and 12).
// A convex task's constants are calculated; for any other task they must be given, in g or in the
// configuration (theory.l, mu, g, f_star). W is the time that the configuration's theory.time names.
// points is the number of rows.
func Advise(c config.Config, g Given, points int) (*Advice, error) {
	k := theory.Constants{N: c.Cohort, Clients: c.Clients}
	loss := Source{"F", metrics.Value(g.Loss), "loss", "given"}
	var found []Source
	// A convex objective is known in closed form, so its constants need not be given.
	if c.Task.IsConvex() {
		var start float64
		var err error
		k, found, start, err = calculated(c)
		if err != nil {
			return nil, err
		}
		// Without a given loss, that of the initial model is taken.
		if g.Loss == nil {
			loss.Value = start
			loss.Origin = "calculated: at the start"
		}
	} else {
		found = sources(k, "", "", "", "", "", "taken as 0, as in Eq. 13")
		// Each missing constant is reported by the flag that would give it.
		for _, need := range []struct {
			flag  string
			value *float64
		}{{"l", cmp.Or(g.L, c.Theory.L)}, {"mu", cmp.Or(g.Mu, c.Theory.Mu)}, {"g", cmp.Or(g.G,
			c.Theory.G)}, {"loss", g.Loss}} {
			if need.value == nil {
				return nil, &MissingError{Task: string(c.Task), Flag: need.flag}
			}
		}
	}
	a, err := newAdvice(c, g, k, append(found, loss))
	if err != nil {
		return nil, err
	}
	if k := a.constants; !(loss.Value >= k.FStar) {
		return nil, fmt.Errorf(
			"theory: the loss F is %v, want at least the least loss F*, which is %v",
			loss.Value,
			k.FStar,
		)
	}
	// The times run from the end of the first round to the end of the run, evenly on a logarithmic
	// scale.
	first := a.runtime.Round(float64(c.Schedule.K0))
	last, err := horizon(c, first)
	if err != nil {
		return nil, err
	}
	note := "W is the time since the start"
	if a.end > 0 {
		note = "W is the time ahead, as in Theorem 2 (theory.time: ahead)"
		last -= first
		// After the first round, at least one more round must be left.
		if last < first {
			return nil, fmt.Errorf(
				"theory: of %.4g s no round of %.4g s is ahead after the first (set a longer stop)",
				a.end,
				first,
			)
		}
	}
	a.Notes = append(
		a.Notes,
		note+"; the loss is that of the start throughout, so K* and eta* are upper bounds (Eq. 10, 12).",
	)
	// The loss is not known ahead of the run, so it stays that of the start.
	for i := range points {
		a.add(first*exact.Pow(math.Max(1, last/first), float64(i)/float64(max(1, points-1))), loss.Value, 0)
	}
	return a, nil
}

// calculated returns the constants of Theorem 1 for the convex task of configuration c, where each
// of them comes from, and the loss of the initial model. It opens the data to calculate them.
func calculated(c config.Config) (k theory.Constants, found []Source, loss float64, err error) {
	objective, err := OpenObjective(c)
	if err != nil {
		return k, nil, 0, err
	}
	k = objective.Theorem1
	const calculated = "calculated"
	return k, sources(
		k,
		calculated,
		calculated,
		calculated,
		calculated,
		calculated+": the largest client gradient at the start and at x*",
		calculated,
	), objective.Value(objective.Start), objective.Set.Close()
}

// MissingError names the flag of a constant that is needed and not given.
type MissingError struct{ Task, Flag string }

// Error says which flag is missing, and what may be given in its place.
func (e *MissingError) Error() string {
	return fmt.Sprintf("--%s is not given, and nothing is known of %s's objective: give --l, --mu, --g and "+
		"--loss, name a finished run with --run, or take a convex task", e.Flag, e.Task)
}

// horizon is the virtual time in seconds that the configuration runs for, if its rounds take round
// seconds.
func horizon(c config.Config, round float64) (float64, error) {
	if s := c.Stop; s.VirtualSeconds > 0 {
		return s.VirtualSeconds, nil
	} else if rounds := cmp.Or(s.EqualRuntimeRounds, s.Rounds); rounds > 0 {
		return float64(rounds) * round, nil
	}
	return 0, errors.New("theory: no time is known until which to look: set stop.rounds, stop.virtual_seconds " +
		"or stop.equal_runtime_rounds")
}

// AdviseRun says what the theory advises along a finished run, in about points rows. dir holds the run's
// configuration, rounds and model. The loss at the time of a row is the mean of the last window's first-step
// losses (Eq. 15). The constants of a convex task are calculated, and [Estimate] finds those of any other;
// those in g, or else in the configuration, take precedence.
func AdviseRun(ctx context.Context, dir string, g Given, points int) (*Advice, error) {
	r, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	c := r.Config
	// measured holds the rounds after which the last window has a mean loss, in order.
	var measured []folder.Progress
	bestLoss := math.NaN()
	// Rounds are left out while no round of the window has a training loss.
	for p, err := range r.Follow() {
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(p.WindowLoss) && p.End > 0 {
			measured = append(measured, p)
			bestLoss = p.BestLoss
		}
	}
	if len(measured) == 0 {
		return nil, fmt.Errorf(
			"%s: no round has a training loss: nothing can be estimated of a run that did not train",
			dir,
		)
	}
	var k theory.Constants
	var found []Source
	if c.Task.IsConvex() {
		k, found, _, err = calculated(c)
	} else {
		k, found, err = Estimate(ctx, dir, c, bestLoss)
	}
	if err != nil {
		return nil, err
	}
	a, err := newAdvice(c, g, k, append(found, Source{
		"F", measured[0].WindowLoss, "loss", fmt.Sprintf("the run's: mean first-step loss over the last %d "+
			"rounds (Eq. 15), at first this", c.Schedule.Window),
	}))
	if err != nil {
		return nil, err
	}
	note := "W is the time since the run's start, as in the paper's schedules."
	if a.end > 0 {
		note = "W is the time to the run's end, as in Theorem 2 (theory.time: ahead)."
		// Rounds that end at the run's end have no time ahead, and the theory says nothing of them.
		measured = slices.DeleteFunc(measured, func(r folder.Progress) bool { return !(r.End.Seconds() < a.end) })
		if len(measured) == 0 {
			return nil, fmt.Errorf(
				"%s: no round with a training loss ends before the run's end, %.4g s: nothing is ahead",
				dir,
				a.end,
			)
		}
	}
	a.Notes = append(a.Notes, note)
	// Such rows are correct but look odd, so a note explains them.
	if slices.ContainsFunc(measured, func(r folder.Progress) bool { return a.constants.Gap(r.WindowLoss) < 0 }) {
		a.Notes = append(
			a.Notes,
			"Where F, a mean over a few minibatches, is below F*, K* and eta* are 0 and Eq. 8 is that at F*.",
		)
	}
	// The rows are spaced evenly on a logarithmic scale of rounds.
	for _, n := range Spaced(len(measured), exact.Pow(float64(len(measured)), 1/float64(max(1, points-1)))) {
		p := &measured[n-1]
		a.add(p.End.Seconds(), p.WindowLoss, p.LocalSteps)
	}
	return a, nil
}

// parametersOf is the number of parameters of the configuration's model. It is 0 where
// network.model_megabits gives the size on the network, because nothing else needs it.
func parametersOf(c config.Config) (int, error) {
	if c.Network.ModelMegabits > 0 {
		return 0, nil
	}
	p, err := problem.Open(c)
	if err != nil {
		return 0, fmt.Errorf("theory: the size of the model is not known: %w (set network.model_megabits)", err)
	}
	return p.Model.Params(), p.Close()
}

// RequirePlainSteps returns an error for a configuration to which the theory does not apply. The
// theory needs one K in local steps for all clients, local steps of plain SGD, and updates that are
// not compressed.
func RequirePlainSteps(c *config.Config) error {
	switch {
	// With epochs, clients with more samples take more steps.
	case c.Schedule.Unit == config.Epochs:
		return &config.KeyError{
			Key:     "schedule.unit",
			Problem: "theory is about local steps, the same for all clients (set unit: steps)",
		}
	case !learn.Plain(c.Local):
		return &config.KeyError{Key: "local", Problem: "theory is about plain steps of SGD (set local: sgd)"}
	case c.Compress != nil:
		return &config.KeyError{Key: "compress", Problem: "theory is about whole updates (remove it)"}
	}
	return nil
}

// newAdvice makes the advice for configuration c without rows. k holds the constants that were
// found, and found says where from; those that g or the configuration gives take their place.
func newAdvice(c config.Config, g Given, k theory.Constants, found []Source) (*Advice, error) {
	if err := RequirePlainSteps(&c); err != nil {
		return nil, err
	}
	// Constants that the caller or the configuration gives take precedence.
	settle(found, g, c.Theory, &k)
	parameters, err := parametersOf(c)
	if err != nil {
		return nil, err
	}
	r := problem.Runtime(c, parameters)
	if err := errors.Join(k.Validate(), r.Validate()); err != nil {
		return nil, err
	}
	// K* has G in its denominator.
	if k.G == 0 {
		return nil, errors.New("theory: G is 0, and K* then infinite")
	}
	a := &Advice{
		Task:      string(c.Task),
		Constants: found,
		Form:      k.Form.String(),
		N:         k.N,
		K:         c.Schedule.K0,
		Eta:       c.Schedule.Eta0,
		MaxRate:   k.MaxRate(),
		Round:     [2]float64{r.Communication(), r.Step},
		constants: k,
		runtime:   r,
	}
	if c.Theory.Time == config.AheadTime {
		a.end, err = horizon(c, r.Round(float64(a.K)))
		if err != nil {
			return nil, err
		}
	}
	// The advice is still given, but the analysis does not cover this learning rate.
	if a.Eta > a.MaxRate {
		a.Notes = append(
			a.Notes,
			fmt.Sprintf("eta = %g is above 1/(4L) = %.4g, to which the analysis holds.", a.Eta, a.MaxRate),
		)
	}
	// The theory has one round time for all clients.
	if len(c.Fleet) > 0 || c.Network.Links.File != "" || c.Compute.Measured != "" {
		a.Notes = append(a.Notes, "Clients differ: a round's time is that of network.download_mbps, upload_mbps "+
			"and compute.seconds_per_step, as if all had these.")
	}
	// Only a run starts the trainer, and refuses one whose greeting has other steps.
	if c.External() {
		a.Notes = append(a.Notes, "Theory is about plain steps of SGD: it does not hold for a trainer that has an "+
			"optimizer of its own.")
	}
	if k.Form == theory.Appendix {
		a.Notes = append(a.Notes, "The appendix's gap does not follow from Lemma 2.")
	}
	return a, nil
}

// add adds a row for the time elapsed, in seconds since the start, and the loss at that time. used is the K
// that a run had then, 0 where there is no run.
func (a *Advice) add(elapsed, loss float64, used int) {
	k := a.constants
	r := a.runtime
	eta := a.Eta
	w := elapsed
	// With theory.time: ahead, W is the time that is left.
	if a.end > 0 {
		w = a.end - elapsed
	}
	// The mean over a few minibatches is noisy and may be below the loss at which the bound's gap is 0. The
	// bound is then the one at that loss.
	bounded := loss
	if k.Gap(loss) < 0 {
		_, zeroGapLoss := k.Steps3(1, eta)
		bounded = zeroGapLoss
	}
	row := Advised{
		W:          w,
		Elapsed:    elapsed,
		Loss:       loss,
		Used:       used,
		K:          k.OptimalK(r, loss, eta, w),
		Steps:      k.Steps(r, loss, eta, w, mostSteps),
		KPrinted:   k.PrintedK(r, loss, eta, w),
		Eta:        k.OptimalEta(r, loss, float64(a.K), w),
		EtaPrinted: k.PrintedEta(r, loss, float64(a.K), w),
		Bound:      k.AtTime(r, bounded, float64(a.K), eta, w),
	}
	row.BoundStar = k.AtTime(r, bounded, float64(row.Steps), eta, w)
	a.Rows = append(a.Rows, row)
}

// Write prints the advice to w for people: the constants with their sources, a row for each time,
// and the notes.
func (a *Advice) Write(w io.Writer) error {
	fmt.Fprintf(
		w,
		"%s: %d clients a round, K_0 = %d, eta_0 = %g; a round takes %.4g s and %.4g s a local step\n\n",
		a.Task,
		a.N,
		a.K,
		a.Eta,
		a.Round[0],
		a.Round[1],
	)
	if err := WriteSources(w, a.Constants); err != nil {
		return err
	}
	fmt.Fprintf(w, "gap: %s\n\n", a.Form)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// A column of which there is nothing is left out.
	some := func(shown bool, text string) string {
		if !shown {
			return ""
		}
		return text + "\t"
	}
	// The local steps that were used are known only along a run.
	used := slices.ContainsFunc(a.Rows, func(r Advised) bool { return r.Used > 0 })
	looksAhead := a.end > 0
	fmt.Fprintf(
		t,
		"%sW\tF\t%sK* (Eq. 9)\tsteps\tas printed\teta* (Eq. 11)\tas printed\tEq. 8 at K_0\tat K*\t\n",
		some(looksAhead, "time"),
		some(used, "K used"),
	)
	for _, r := range a.Rows {
		fmt.Fprintf(t, "%s%.4g s\t%.4g\t%s%.4g\t%d\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n", some(looksAhead,
			fmt.Sprintf("%.4g s", r.Elapsed)), r.W, r.Loss,
			some(used, strconv.Itoa(r.Used)), r.K, r.Steps, r.KPrinted, r.Eta, r.EtaPrinted, r.Bound, r.BoundStar)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(
		w,
		"\neta* is for K_0 steps, K* for eta_0; the analysis holds to eta = 1/(4L) = %.4g and from K = 1.\n",
		a.MaxRate,
	)
	for _, note := range a.Notes {
		fmt.Fprintln(w, note)
	}
	return nil
}

// Draw draws K* and eta* against virtual time into the file at path, *.svg, both as
// derived and as printed in the paper, on logarithmic axes.
func (a *Advice) Draw(path string) error {
	x := "virtual seconds W"
	if a.end > 0 {
		x = "virtual seconds"
	}
	k := figure.Panel{
		Title: "local steps",
		X:     x,
		Y:     "K*",
		Steps: true,
		LogX:  true,
		LogY:  true,
	}
	eta := figure.Panel{
		Title: "learning rate",
		X:     x,
		Y:     "eta*",
		Steps: true,
		LogX:  true,
		LogY:  true,
	}
	for _, r := range a.Rows {
		k.Add("Eq. 9", figure.Point{X: r.Elapsed, Y: r.K})
		k.Add("as printed", figure.Point{X: r.Elapsed, Y: r.KPrinted})
		// K of a run is known only if the advice goes along a run.
		if r.Used > 0 {
			k.Add("used", figure.Point{X: r.Elapsed, Y: float64(r.Used)})
		}
		eta.Add("Eq. 11", figure.Point{X: r.Elapsed, Y: r.Eta})
		eta.Add("as printed", figure.Point{X: r.Elapsed, Y: r.EtaPrinted})
		eta.Add("1/(4L)", figure.Point{X: r.Elapsed, Y: a.MaxRate})
	}
	return figure.Save(path, k, eta)
}
