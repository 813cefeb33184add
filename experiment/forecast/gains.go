package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/metrics"
)

// Gain says by what share rounds would be shorter if a class of clients, or a phase of all clients, were
// a tenth faster, or if a class were left out. The run is played again with the change, so that it counts
// which clients rounds wait for after the change. All shares are from 0 to 1.
type Gain struct {
	// Change names what is faster: a class, as in "class phone", or a phase: downloads, computing or
	// uploads.
	Change string `json:"what"`
	// Waited is the share of rounds that lasted until a task of the class: the last accepted one or, if tasks
	// were late at the deadline, the one that would have taken longest. It is 0 for a phase.
	Waited float64 `json:"waited,omitzero"`
	// Clients is the share of clients that are of the class. It is 0 for a phase.
	Clients float64 `json:"clients,omitzero"`
	// ShorterWithout is the share by which rounds are shorter if no client of the class is selected. It is
	// 0 for a phase, and for a class without which rounds are not shorter or have no end.
	ShorterWithout float64 `json:"without,omitzero"`
	// Shorter is the share by which rounds are shorter if Change is a tenth faster.
	Shorter float64 `json:"shorter"`
}

const (
	// faster is how many times as fast a class or phase is made.
	faster = 1.1
	// maxGainClasses bounds the classes that are made faster: those that most rounds wait for.
	maxGainClasses = 8
	// gainTasks is the largest number of tasks of a run that is played again.
	gainTasks = 200_000
)

// findGains finds out for whom the rounds wait, and what would shorten them. It plays the run again,
// without learning, with one class of devices or one phase faster, or with a class left out, and
// compares the mean time of a round. It fills f.Gains and f.Uncounted. It does nothing for a run with
// devices of one class or with too many tasks. limit is the end of the run in virtual time.
func (f *Forecast) findGains(ctx context.Context, p *problem.Problem, limit round.Time) error {
	classes := p.Fleet.Classes()
	if len(classes) < 2 || f.Rounds == 0 || f.Rounds*tasksOf(&p.Config) > gainTasks {
		return nil
	}
	again := &rerun{problem: p, limit: limit}
	waited := newWaitCounts(p, classes)
	// before is the mean time of a round as the run is, in seconds. The others are those with a change.
	before, err := again.meanRound(ctx, unchanged, waited)
	if err != nil || before == 0 {
		return err
	}
	f.Uncounted = metrics.Uncounted(waited.outcomes)
	clients := make([]int, len(classes))
	for client := range p.Config.Clients {
		clients[p.Fleet.Class(client)]++
	}
	for _, class := range waited.longest() {
		g := Gain{
			Change:  "class " + classes[class],
			Waited:  float64(waited.rounds[class]) / float64(f.Rounds),
			Clients: float64(clients[class]) / float64(p.Config.Clients),
		}
		if waited.rounds[class] > 0 && clients[class] < p.Config.Clients {
			excluding := change{excludedClass: class, fasterClass: noClass, fasterPhase: noPhase}
			without, err := again.meanRound(ctx, excluding, nil)
			if err != nil {
				return err
			}
			g.ShorterWithout = max(0, 1-without/before)
		}
		speedingUp := change{excludedClass: noClass, fasterClass: class, fasterPhase: noPhase}
		after, err := again.meanRound(ctx, speedingUp, nil)
		if err != nil {
			return err
		}
		g.Shorter = 1 - after/before
		f.Gains = append(f.Gains, g)
	}
	for phase, name := range []string{"downloads", "computing", "uploads"} {
		speedingUp := change{excludedClass: noClass, fasterClass: noClass, fasterPhase: phase}
		after, err := again.meanRound(ctx, speedingUp, nil)
		if err != nil {
			return err
		}
		f.Gains = append(f.Gains, Gain{Change: name, Shorter: 1 - after/before})
	}
	return nil
}

const (
	// noClass stands for no class of devices.
	noClass = -1
	// noPhase stands for no phase of a task.
	noPhase = -1
)

// change is one difference of a run that is played again from the run itself.
type change struct {
	// excludedClass is the class of which no client is selected, or noClass.
	excludedClass int
	// fasterClass is the class of which all phases are faster, or noClass.
	fasterClass int
	// fasterPhase is the phase that is faster for all clients, or noPhase: 0 is the download, 1 the
	// computation and 2 the upload.
	fasterPhase int
}

// unchanged is the run as it is.
var unchanged = change{excludedClass: noClass, fasterClass: noClass, fasterPhase: noPhase}

// rerun plays a run again, without learning, with changes. The first time must be without any.
type rerun struct {
	problem *problem.Problem
	// limit is the end of the run in virtual time, 0 for none.
	limit round.Time
	// unchangedStarts holds when each round of the unchanged run began. A task of a changed run meets the slowdown
	// periods and link speeds of that moment, even if its round begins earlier: other slowdown periods would
	// change its time by more than a tenth of the speed does. It is empty where clients are absent or
	// rounds overlap; a task then meets those of the moment at which it begins.
	unchangedStarts []round.Time
	// unchangedLength is the virtual time that the unchanged run takes; 0 before it was played.
	unchangedLength round.Time
}

// meanRound plays the run with a change and returns the mean time of a round in seconds. It is infinite
// if the run comes to a standstill without the excluded class. counts, which may be nil, is told of the tasks
// and rounds. The first call must be for the unchanged run: later ones need its length and the times at which
// its rounds began.
func (y *rerun) meanRound(ctx context.Context, c change, counts *waitCounts) (float64, error) {
	rounds, err := roundsOf(y.problem, y.limit)
	if err != nil {
		return 0, err
	}
	// The length of the unchanged run is not known before the first call.
	isFirst := y.unchangedLength == 0
	excludes := c.excludedClass != noClass
	if excludes {
		y.exclude(c.excludedClass, &rounds)
	}
	settings := &y.problem.Config
	isAlwaysThere := !settings.EverAbsent() && y.problem.Arrivals == nil
	// Round i of a changed run corresponds to round i of the unchanged one only under these conditions.
	keepsStarts := isFirst && isAlwaysThere && !closing.Overlaps(settings.Close)
	t := dryRun{
		rounds: rounds,
		answer: y.answers(c),
		report: func(r *round.Report) error {
			if keepsStarts {
				y.unchangedStarts = append(y.unchangedStarts, r.Start)
			}
			if counts != nil {
				counts.endRound()
			}
			return nil
		},
	}
	if counts != nil {
		t.task = counts.addTask
	}
	stop, _, err := t.play(ctx)
	if isFirst {
		y.unchangedLength = stop.EndTime
	}
	// Without the class whose updates were the only ones that count, the run has no end, but the rounds
	// that were played have a length.
	if errors.Is(err, errNoEnd) {
		err = nil
	}
	hasStopped := slices.Contains([]string{round.NoClients, round.BatteryEmpty, round.Excluded}, stop.Reason)
	if excludes && (stop.Rounds == 0 || hasStopped) {
		return math.Inf(1), err
	}
	return stop.EndTime.Seconds() / float64(max(1, stop.Rounds)), err
}

// exclude takes the clients of a class out of the rounds of a run, as if they were always absent. A run without a
// limit of time gets one: if it takes twice as long as the unchanged run, it has longer rounds, which is all
// that must be known.
func (y *rerun) exclude(class int, rounds *round.Config) {
	available := rounds.Available
	rounds.Available = func(client int, now round.Time) bool {
		if y.problem.Fleet.Class(client) == class {
			return false
		}
		return available == nil || available(client, now)
	}
	rounds.Stop.Time = cmp.Or(rounds.Stop.Time, 2*y.unchangedLength)
}

// answers returns the function that answers the tasks of the run with a change: a task takes as long as in the
// unchanged run, but the phases that the change makes faster are divided by the constant faster. These are all
// phases of the clients of c.fasterClass, and c.fasterPhase of all clients; either may be none (noClass,
// noPhase). The task meets the slowdown periods and link speeds of the moment at which its round began in the
// unchanged run (y.unchangedStarts), where that is known.
func (y *rerun) answers(c change) func(*round.Task) (round.Event, error) {
	unchangedAnswer := answers(&y.problem.Timing)
	return func(t *round.Task) (round.Event, error) {
		shifted := *t
		if t.Round <= len(y.unchangedStarts) {
			shifted.Start = y.unchangedStarts[t.Round-1]
		}
		e, err := unchangedAnswer(&shifted)
		isFasterClass := c.fasterClass != noClass && y.problem.Fleet.Class(t.Client) == c.fasterClass
		for phase, duration := range []*round.Time{&e.Plan.Download, &e.Plan.Compute, &e.Plan.Upload} {
			if isFasterClass || phase == c.fasterPhase {
				*duration = round.Time(float64(*duration) / faster)
			}
		}
		return e, err
	}
}

// waitCounts counts for which classes of devices the rounds of a run wait, and how their tasks end.
type waitCounts struct {
	problem *problem.Problem
	// outcomes counts the tasks of each class by outcome.
	outcomes []metrics.ClassOutcomes
	// rounds counts the rounds that lasted until a task of each class.
	rounds []int
	// slowest is the class of the slowest task so far of the round under way, noClass before the first.
	slowest int
	// done is when the slowest task is done, or would have been if it had not been late.
	done round.Time
}

// newWaitCounts returns the counts of a run with these classes before its first task.
func newWaitCounts(p *problem.Problem, classes []string) *waitCounts {
	w := &waitCounts{
		problem:  p,
		outcomes: make([]metrics.ClassOutcomes, len(classes)),
		rounds:   make([]int, len(classes)),
		slowest:  noClass,
	}
	for i, class := range classes {
		w.outcomes[i].Class = class
	}
	return w
}

// addTask counts a task of the round under way that has ended, and notes its class if it is the one for which the
// round has waited longest so far. Of tasks that ended together the last one counts.
func (w *waitCounts) addTask(e *round.TaskReport) {
	class := w.problem.Fleet.Class(e.Client)
	if !e.Probe {
		w.outcomes[class].Tasks[e.Outcome]++
	}
	// The round does not wait for every task.
	end, isAwaited := metrics.WaitedUntil(e, w.problem.Config.CountsLater())
	if isAwaited && (w.slowest == noClass || end >= w.done) {
		w.slowest = class
		w.done = end
	}
}

// endRound counts the round under way for the class of its slowest task, if it has one.
func (w *waitCounts) endRound() {
	if w.slowest != noClass {
		w.rounds[w.slowest]++
	}
	w.slowest = noClass
}

// longest returns the classes for which most rounds wait, at most maxGainClasses, the one with most
// rounds first, and those with as many by their number.
func (w *waitCounts) longest() []int {
	order := make([]int, len(w.rounds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(w.rounds[b], w.rounds[a]) })
	return order[:min(len(order), maxGainClasses)]
}

// percent writes a share with one decimal.
func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// gainsText puts f.Gains into sentences: for which classes rounds wait, how much shorter rounds would
// be if a class or phase were a tenth faster, and how much without a class. It is empty if nothing
// was varied.
func (f *Forecast) gainsText() string {
	var waits, list, exclusions []string
	for _, g := range f.Gains {
		if class, ok := strings.CutPrefix(g.Change, "class "); ok {
			waits = append(waits, fmt.Sprintf("%s (%s)", class, percent(g.Waited)))
			if g.ShorterWithout > 0 {
				exclusions = append(
					exclusions,
					fmt.Sprintf(
						" Without %s, %s of the clients, rounds are %s shorter.",
						class,
						percent(g.Clients),
						percent(g.ShorterWithout),
					),
				)
			}
		}
		list = append(list, fmt.Sprintf("%s %s", g.Change, percent(g.Shorter)))
	}
	if list == nil {
		return ""
	}
	return "Rounds wait for " + strings.Join(waits, ", ") + ". A tenth faster, they would be shorter: " +
		strings.Join(list, ", ") + "." + strings.Join(exclusions, "")
}
