package paper

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/learn"
	"fedpace/study"
)

// WriteTable1 writes Table 1 from the models and the tasks' defaults: the size is that of the
// float32 parameters, beside the one that the paper prints and that its runtimes follow from.
func WriteTable1(w io.Writer, plan Plan) error {
	rows := [][]any{{"task", "type", "classes", "model", "parameters", "Mb", "Mb (paper)", "clients", "a round",
		"samples a client (paper)", "K_0", "eta_0"}}
	for _, task := range plan.tasks() {
		p, _ := task.Paper()
		m, err := model(task)
		if err != nil {
			return err
		}
		rows = append(rows, []any{task, taskKinds[task].kind, p.Classes, taskKinds[task].model, m.Params(),
			fmt.Sprintf("%.3f", float64(m.Params())*32/1e6),
			p.Megabits, p.Clients, p.Cohort, p.SamplesPerClient, p.K0, p.Eta0})
	}
	return writeTitled(w, "Table 1: tasks and models", rows)
}

// model returns the model that the paper uses for a task, made from the task's architecture. It
// fails if the architecture is not valid.
func model(task config.Task) (learn.Model, error) {
	p, _ := task.Paper()
	m, err := learn.Parse(p.Architecture)
	if err != nil {
		return nil, fmt.Errorf("paper: %s: %w", task, err)
	}
	return m, nil
}

// WriteTable2 writes Table 2: seconds a minibatch on the paper's device and, below it, on those
// that the plan's configurations have (as fedpace calibrate writes them), with the round times that
// follow (Eq. 4) and the time of the fixed rounds (Eq. 5). What is not one number has no figure.
func WriteTable2(w io.Writer, plan Plan) error {
	rounds := plan.FixedRounds()
	rows := [][]any{{"task", "device", "mean", "std", "transfers s", "round s (Eq. 4)", "minutes (Eq. 5)"}}
	for _, task := range plan.tasks() {
		// The paper's own device is the first row of each task.
		first, err := paperSpeed(task)
		if err != nil {
			return err
		}
		list := []deviceSpeed{first}
		c, configured, err := plan.configFile(task)
		if err != nil {
			return fmt.Errorf("paper: %w", err)
		}
		// Other devices are shown only where the plan has a configuration for the task.
		if configured {
			m, err := model(task)
			if err != nil {
				return err
			}
			list = append(list, configuredSpeeds(&c, m.Params())...)
		}
		for _, s := range list {
			// A time that is not one number would need a distribution, which the table does not
			// show.
			if s.notOneNumber != "" {
				rows = append(rows, []any{task, s.name, s.notOneNumber, "-", "-", "-", "-"})
				continue
			}
			rows = append(rows, []any{task, s.name, fmt.Sprintf("%.4g", s.Step), fmt.Sprintf("%.2g", s.std),
				fmt.Sprintf("%.5g", s.Communication()),
				fmt.Sprintf("%.5g", s.Round(s.k0)), fmt.Sprintf("%.2f", s.Round(s.k0)*float64(rounds)/60)})
		}
	}
	return writeTitled(
		w,
		fmt.Sprintf("Table 2: seconds a minibatch (fedpace calibrate measures other devices), and what follows "+
			"for %d rounds of K-eta-fixed", rounds),
		rows,
	)
}

// WriteTable3 writes Table 3 of the paper to w: the formulas of the schedules, and for the plan's
// tasks the values of those schedules that need no loss.
func WriteTable3(w io.Writer, plan Plan) error {
	rows := [][]any{
		{"schedule", "K_r", "eta_r"},
		{"dsgd", "1", "eta_0"},
		{"fixed", "K_0", "eta_0"},
		{"rounds", "ceil(cbrt(1/r) K_0)", "eta_0"},
		{"error", "ceil(cbrt(F_r/F_0) K_0)", "eta_0"},
		{"step", "ceil(K_0/10) if converged", "eta_0"},
		{"eta-rounds", "K_0", "sqrt(1/r) eta_0"},
		{"eta-error", "K_0", "sqrt(F_r/F_0) eta_0"},
		{"eta-step", "K_0", "eta_0/10 if converged"},
	}
	if err := writeTitled(
		w,
		"Table 3: schedules (F_r by Eq. 15; converged: no better validation accuracy in the last 10 evaluations)",
		rows,
	); err != nil {
		return err
	}
	// The rounds are spaced so that the decay can be seen.
	rounds := []int{1, 2, 8, 10, 100, 1000, 10000}
	head := []any{"task", "value"}
	for _, r := range rounds {
		head = append(head, fmt.Sprintf("r=%d", r))
	}
	rows = [][]any{head}
	for _, task := range plan.tasks() {
		p, _ := task.Paper()
		steps := []any{task, "K_r"}
		rates := []any{task, "eta_r"}
		for _, r := range rounds {
			// The schedules that need no loss are evaluated by the program's own code.
			now := schedule.Progress{Setup: schedule.Setup{K0: p.K0, Eta0: p.Eta0}, Round: r}
			steps = append(steps, schedule.RoundsK{}.LocalSteps(now))
			rates = append(rates, fmt.Sprintf("%.4g", schedule.RoundsEta{}.LearningRate(now)))
		}
		rows = append(rows, steps, rates)
	}
	return writeTitled(w, "K_r of rounds (Eq. 10) and eta_r of eta-rounds (Eq. 12)", rows)
}

// WriteTable4 writes Table 4 beside the paper's: the SGD steps of each decaying K schedule relative
// to K-eta-fixed's in the same virtual time, a mean over the seeds that are complete.
func WriteTable4(w io.Writer, curves []Curve) error {
	rows := [][]any{{"task", "schedule", "paper", "here", "times fewer", "seeds", "rounds", "decay after round",
		"minute", "of fixed rounds", "model Mb"}}
	for _, g := range groups(curves) {
		// Schedules that the paper's table does not have are left out.
		printed, ok := table4[g[0].Task][g[0].Schedule]
		relativeSteps := g.mean(func(c *Curve) float64 { return c.RelativeSteps })
		if !ok || relativeSteps.N == 0 {
			continue
		}
		rounds := g.mean(func(c *Curve) float64 { return float64(c.Rounds) })
		decayMinute := g.mean(func(c *Curve) float64 { return c.DecayedAt / 60 })
		decayed := g.mean(func(c *Curve) float64 {
			// A run that did not decay is left out of the mean.
			if c.Decayed == 0 {
				return math.NaN()
			}
			return float64(c.Decayed)
		})
		timesFewer := fmt.Sprintf("%.2f", 1/relativeSteps.Mean)
		rows = append(rows, []any{g[0].Task, g[0].Schedule, printed, relativeSteps.Digits(4), timesFewer,
			relativeSteps.N, rounds.Digits(6), decayed.Digits(5), decayMinute.Digits(5),
			g[0].FixedRounds, g[0].Megabits})
	}
	if err := writeTitled(w, "Table 4: SGD steps relative to K-eta-fixed in the same virtual time", rows); err != nil ||
		len(rows) == 1 {
		return err
	}
	if err := writeDataNotes(w, groups(curves)); err != nil {
		return err
	}
	return writeParagraph(w, unexplained)
}

// WriteOutcomes writes a table to w of what each schedule learned in the virtual time of the fixed
// rounds: losses, accuracies, and the gain over fixed K, as means over the seeds.
func WriteOutcomes(w io.Writer, curves []Curve) error {
	rows := [][]any{{"task", "schedule", "seeds", "lowest training loss", "best accuracy", "tail accuracy",
		"against fixed", "last accuracy", "plateau min"}}
	fixed := map[string]group{}
	tail := func(c *Curve) float64 { return c.TailAccuracy }
	all := groups(curves)
	for _, g := range all {
		// The gain of a schedule is measured against complete runs of fixed K on the same data.
		if g[0].Schedule == "fixed" && !g.isCut() {
			fixed[g.comparisonKey()] = g
		}
	}
	for _, g := range all {
		best := g.mean(func(c *Curve) float64 { return c.BestAccuracy })
		// Nothing was evaluated, so there is no outcome.
		if best.N == 0 {
			continue
		}
		gain := "-"
		// Runs with the same seed are compared in pairs, which removes what they have in common.
		if f, ok := fixed[g.comparisonKey()]; ok && g[0].Schedule != "fixed" && !g.isCut() {
			gain = signed(statistics.EstimateMean(study.Paired(g, f, (*Curve).seed, tail)))
		}
		lowestLoss := g.mean(func(c *Curve) float64 { return c.BestLoss })
		last := g.mean(func(c *Curve) float64 { return c.FinalAccuracy })
		plateau := g.mean(func(c *Curve) float64 { return c.Plateaued / 60 })
		// Where some seeds have no plateau, the number of those that do is shown.
		seedsNote := ""
		if plateau.N > 0 && plateau.N < len(g) {
			seedsNote = fmt.Sprintf(" (n = %d)", plateau.N)
		}
		rows = append(rows, []any{g[0].Task, g.name(), best.N, lowestLoss.Digits(4), best.Digits(4),
			g.mean(tail).Digits(4), gain, last.Digits(4), plateau.Digits(4) + seedsNote})
	}
	return writeTitled(w, "Figures 1 and 2 at their right edge", rows)
}

// signed returns a mean difference with its interval as text for a table. A positive one has a plus
// before it.
func signed(e statistics.Estimated) string {
	text := e.Digits(4)
	if e.Mean > 0 {
		return "+" + text
	}
	return text
}

// group is one schedule's curves of one task, over seeds: those that are
// complete, or where none is, the first of those that were cut.
type group []Curve

// groups gathers curves of one schedule on the same data, one for each seed. curves must stand in
// the order of [Curves]. Runs that were cut stay only in a group without a complete one.
func groups(curves []Curve) (list []group) {
	for _, c := range curves {
		single := group{c}
		isNew := true
		// The curves are sorted, so a group ends where the schedule or the data change.
		if len(list) > 0 {
			last := list[len(list)-1]
			isNew = last[0].Schedule != c.Schedule || last.comparisonKey() != single.comparisonKey()
		}
		if isNew {
			list = append(list, single)
			continue
		}
		current := &list[len(list)-1]
		switch {
		case !c.Completed:
		// The first complete run takes the place of the run that was cut.
		case current.isCut():
			*current = single
		default:
			*current = append(*current, c)
		}
	}
	return list
}

// isCut reports whether the group has no complete run. It then has a single one, which was stopped early.
func (g group) isCut() bool { return !g[0].Completed }

// name is the schedule, with the round at which it was cut if it was.
func (g group) name() string {
	if g.isCut() {
		return fmt.Sprintf("%s (cut at round %d)", g[0].Schedule, g[0].Rounds)
	}
	return g[0].Schedule
}

// dataText names what the group's runs learned from.
func (g group) dataText() string { return cmp.Or(g[0].Data, "timing only") }

// writeDataNotes writes a sentence to w on the data and the clients of each task in the groups, each
// sentence once.
func writeDataNotes(w io.Writer, all []group) error {
	noted := map[string]bool{}
	for _, g := range all {
		text := fmt.Sprintf("%s: %s; %d clients, %d a round", g[0].Task, g.dataText(), g[0].Clients, g[0].Cohort)
		if d := g[0].Devices; d != "" {
			text += "; devices: " + d
		}
		text += "."
		// Groups of the same task and data need the sentence only once.
		if noted[text] {
			continue
		}
		noted[text] = true
		if err := writeParagraph(w, text); err != nil {
			return err
		}
	}
	return nil
}

// comparisonKey is equal for groups whose runs can be compared with each other: of the same task, virtual time,
// size of model, data and clients.
func (g group) comparisonKey() string {
	c := &g[0]
	return fmt.Sprint(c.Task, c.FixedRounds, c.Megabits, c.Data, c.Devices, c.Clients, c.Cohort)
}

// mean is the mean of a quantity over the group's seeds.
func (g group) mean(quantity func(*Curve) float64) statistics.Estimated {
	return study.MeanOf(g, quantity)
}

// writeTitled writes a table for people under a title. The first row names the columns; a table without
// other rows is not written.
func writeTitled(w io.Writer, title string, rows [][]any) error {
	if len(rows) == 1 {
		return nil
	}
	texts := make([][]string, len(rows))
	for i, cells := range rows {
		for _, c := range cells {
			texts[i] = append(texts[i], fmt.Sprint(c))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n", title)
	return cmp.Or(err, table.WriteText(w, texts))
}

// writeParagraph writes a paragraph with lines of at most 100 characters.
func writeParagraph(w io.Writer, text string) error {
	_, err := fmt.Fprintf(w, "\n%s\n", wrap(text, 100))
	return err
}

// wrap breaks text into lines of at most width bytes between words. A word that is longer has a
// line of its own.
func wrap(text string, width int) string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
}
