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
// the paper finds best, at a series of times of a run. [Advise] and [AlongRun] make it.
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

// maxAdvisedSteps bounds the whole number of local steps that is advised.
const maxAdvisedSteps = 1_000_000

// unknownK is the value of [Advised.Used] in advice for a configuration that has not been run.
const unknownK = 0

// Advise says what the theory advises for a configuration, looking ahead from its start. The loss stays
// the first one at all times, which makes K* and eta* upper bounds (the inequalities of Eq. 10 and 12).
// A convex task's constants are calculated; for any other task they must be given, in g or in the
// configuration (theory.l, mu, g, f_star). W is the time that the configuration's theory.time names.
// points is the number of rows.
func Advise(c config.Config, g Given, points int) (*Advice, error) {
	theorem1 := theory.Constants{N: c.Cohort, Clients: c.Clients}
	loss := Source{"F", metrics.Value(g.Loss), "loss", "given"}
	var sourceList []Source
	// A convex objective is known in closed form, so its constants need not be given.
	if c.Task.IsConvex() {
		var start float64
		var err error
		theorem1, sourceList, start, err = calculateConstants(c)
		if err != nil {
			return nil, err
		}
		// Without a given loss, that of the initial model is taken.
		if g.Loss == nil {
			loss.Value = start
			loss.Origin = "calculated: at the start"
		}
	} else {
		// Nothing is known yet of L, mu, the variance, Gamma and G. F*, the last of [constants], has a value.
		sourceList = sources(theorem1, "", "", "", "", "", "taken as 0, as in Eq. 13")
		// Each missing constant is reported by the flag that would give it.
		for _, required := range []struct {
			flag  string
			value *float64
		}{
			{"l", cmp.Or(g.L, c.Theory.L)},
			{"mu", cmp.Or(g.Mu, c.Theory.Mu)},
			{"g", cmp.Or(g.G, c.Theory.G)},
			{"loss", g.Loss},
		} {
			if required.value == nil {
				return nil, &MissingError{Task: string(c.Task), Flag: required.flag}
			}
		}
	}
	a, err := newAdvice(c, g, theorem1, append(sourceList, loss))
	if err != nil {
		return nil, err
	}
	// The negated comparison also refuses NaN.
	if fStar := a.constants.FStar; !(loss.Value >= fStar) {
		return nil, fmt.Errorf(
			"theory: the loss F is %v, want at least the least loss F*, which is %v",
			loss.Value,
			fStar,
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
	ratio := math.Max(1, last/first)
	intervals := float64(max(1, points-1))
	for i := range points {
		elapsed := first * exact.Pow(ratio, float64(i)/intervals)
		a.add(elapsed, loss.Value, unknownK)
	}
	return a, nil
}

// calculateConstants returns the constants of Theorem 1 for the convex task of configuration c, where each
// of them comes from, and the loss of the initial model. It opens the data to calculate them.
func calculateConstants(c config.Config) (theorem1 theory.Constants, sourceList []Source, loss float64, err error) {
	objective, err := OpenObjective(c)
	if err != nil {
		return theorem1, nil, 0, err
	}
	theorem1 = objective.Theorem1
	const calculated = "calculated"
	// The origins are in the order of [constants]: L, mu, the variance, Gamma, G and F*.
	sourceList = sources(
		theorem1,
		calculated,
		calculated,
		calculated,
		calculated,
		calculated+": the largest client gradient at the start and at x*",
		calculated,
	)
	loss = objective.Value(objective.Start)
	return theorem1, sourceList, loss, objective.Set.Close()
}

// MissingError names the flag of a constant that is needed and not given.
type MissingError struct{ Task, Flag string }

// Error says which flag is missing, and what may be given in its place.
func (e *MissingError) Error() string {
	return fmt.Sprintf("--%s is not given, and nothing is known of %s's objective: give --l, --mu, --g and "+
		"--loss, name a finished run with --run, or take a convex task", e.Flag, e.Task)
}

// horizon is the virtual time in seconds that the configuration runs for if each round takes roundSeconds.
// It fails if the configuration stops neither after a time nor after a number of rounds.
func horizon(c config.Config, roundSeconds float64) (float64, error) {
	if s := c.Stop; s.VirtualSeconds > 0 {
		return s.VirtualSeconds, nil
	} else if rounds := cmp.Or(s.EqualRuntimeRounds, s.Rounds); rounds > 0 {
		return float64(rounds) * roundSeconds, nil
	}
	return 0, errors.New("theory: no time is known until which to look: set stop.rounds, stop.virtual_seconds " +
		"or stop.equal_runtime_rounds")
}

// AlongRun says what the theory advises along a finished run, in about points rows. dir holds the run's
// configuration, rounds and model. The loss at the time of a row is the mean of the last window's first-step
// losses (Eq. 15). The constants of a convex task are calculated, and [Estimate] finds those of any other;
// those in g, or else in the configuration, take precedence.
func AlongRun(ctx context.Context, dir string, g Given, points int) (*Advice, error) {
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
	var theorem1 theory.Constants
	var sourceList []Source
	if c.Task.IsConvex() {
		theorem1, sourceList, _, err = calculateConstants(c)
	} else {
		theorem1, sourceList, err = Estimate(ctx, dir, c, bestLoss)
	}
	if err != nil {
		return nil, err
	}
	a, err := newAdvice(c, g, theorem1, append(sourceList, Source{
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
	factor := exact.Pow(float64(len(measured)), 1/float64(max(1, points-1)))
	for _, n := range Spaced(len(measured), factor) {
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

// newAdvice makes the advice for configuration c without rows. theorem1 has the constants that were
// found, and sourceList says where from; those that g or the configuration gives take their place.
func newAdvice(c config.Config, g Given, theorem1 theory.Constants, sourceList []Source) (*Advice, error) {
	if err := RequirePlainSteps(&c); err != nil {
		return nil, err
	}
	// Constants that the caller or the configuration gives take precedence.
	settle(sourceList, g, c.Theory, &theorem1)
	parameters, err := parametersOf(c)
	if err != nil {
		return nil, err
	}
	runtime := problem.Runtime(c, parameters)
	if err := errors.Join(theorem1.Validate(), runtime.Validate()); err != nil {
		return nil, err
	}
	// K* has G in its denominator.
	if theorem1.G == 0 {
		return nil, errors.New("theory: G is 0, and K* then infinite")
	}
	a := &Advice{
		Task:      string(c.Task),
		Constants: sourceList,
		Form:      theorem1.Form.String(),
		N:         theorem1.N,
		K:         c.Schedule.K0,
		Eta:       c.Schedule.Eta0,
		MaxRate:   theorem1.MaxRate(),
		Round:     [2]float64{runtime.Communication(), runtime.Step},
		constants: theorem1,
		runtime:   runtime,
	}
	// With theory.time: ahead, Eq. 8 is about the time until the end of the run.
	if c.Theory.Time == config.AheadTime {
		a.end, err = horizon(c, runtime.Round(float64(a.K)))
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
	if theorem1.Form == theory.Appendix {
		a.Notes = append(a.Notes, "The appendix's gap does not follow from Lemma 2.")
	}
	return a, nil
}

// add adds a row for the time elapsed, in seconds since the start, and the loss at that time. usedK is the K
// that a run had then, or [unknownK] where there is no run.
func (a *Advice) add(elapsed, loss float64, usedK int) {
	theorem1 := a.constants
	r := a.runtime
	eta := a.Eta
	w := elapsed
	// With theory.time: ahead, W is the time that is left.
	if a.end > 0 {
		w = a.end - elapsed
	}
	// The bound is about the gap between the loss and F*. A mean over a few minibatches is noisy and may be so
	// low that the gap is negative. The bound is then the one for a gap of 0, which is at the offset of
	// CubedSteps.
	boundLoss := loss
	if theorem1.Gap(loss) < 0 {
		const anyCommunication = 1
		_, zeroGapLoss := theorem1.CubedSteps(anyCommunication, eta)
		boundLoss = zeroGapLoss
	}
	row := Advised{
		W:          w,
		Elapsed:    elapsed,
		Loss:       loss,
		Used:       usedK,
		K:          theorem1.OptimalK(r, loss, eta, w),
		Steps:      theorem1.Steps(r, loss, eta, w, maxAdvisedSteps),
		KPrinted:   theorem1.PrintedK(r, loss, eta, w),
		Eta:        theorem1.OptimalEta(r, loss, float64(a.K), w),
		EtaPrinted: theorem1.PrintedEta(r, loss, float64(a.K), w),
		Bound:      theorem1.AtTime(r, boundLoss, float64(a.K), eta, w),
	}
	// Bound is for the run's K_0, and BoundStar for the number of steps that is advised.
	row.BoundStar = theorem1.AtTime(r, boundLoss, float64(row.Steps), eta, w)
	a.Rows = append(a.Rows, row)
}

// Write prints the advice to w for people: the constants with their sources, a row for each time,
// and the notes.
func (a *Advice) Write(w io.Writer) error {
	communication := a.Round[0]
	localStep := a.Round[1]
	fmt.Fprintf(
		w,
		"%s: %d clients a round, K_0 = %d, eta_0 = %g; a round takes %.4g s and %.4g s a local step\n\n",
		a.Task,
		a.N,
		a.K,
		a.Eta,
		communication,
		localStep,
	)
	if err := WriteSources(w, a.Constants); err != nil {
		return err
	}
	fmt.Fprintf(w, "gap: %s\n\n", a.Form)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// optional returns a cell of the table, or nothing where its column is left out.
	optional := func(shown bool, text string) string {
		if !shown {
			return ""
		}
		return text + "\t"
	}
	// The local steps that were used are known only along a run. Rows whose W is the time ahead (a.end is set)
	// also show the time that has elapsed.
	showsUsedK := slices.ContainsFunc(a.Rows, func(r Advised) bool { return r.Used > 0 })
	looksAhead := a.end > 0
	fmt.Fprintf(
		table,
		"%sW\tF\t%sK* (Eq. 9)\tsteps\tas printed\teta* (Eq. 11)\tas printed\tEq. 8 at K_0\tat K*\t\n",
		optional(looksAhead, "time"),
		optional(showsUsedK, "K used"),
	)
	for _, r := range a.Rows {
		fmt.Fprintf(
			table,
			"%s%.4g s\t%.4g\t%s%.4g\t%d\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n",
			optional(looksAhead, fmt.Sprintf("%.4g s", r.Elapsed)),
			r.W,
			r.Loss,
			optional(showsUsedK, strconv.Itoa(r.Used)),
			r.K,
			r.Steps,
			r.KPrinted,
			r.Eta,
			r.EtaPrinted,
			r.Bound,
			r.BoundStar,
		)
	}
	if err := table.Flush(); err != nil {
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
	xLabel := "virtual seconds W"
	if a.end > 0 {
		xLabel = "virtual seconds"
	}
	k := figure.Panel{
		Title: "local steps",
		X:     xLabel,
		Y:     "K*",
		Steps: true,
		LogX:  true,
		LogY:  true,
	}
	eta := figure.Panel{
		Title: "learning rate",
		X:     xLabel,
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
