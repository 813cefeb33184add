package forecast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/metrics"
	"fedpace/simclock"
)

// dryRun is a run that is played without learning: its rounds, and how its tasks are
// answered.
type dryRun struct {
	rounds round.Config
	// answer says how a task is answered: by a plan, or by silence, as an event of the
	// round machine. It is asked once for each task, in the order of their numbers
	// within a round.
	answer func(t *round.Task) (round.Event, error)
	// beforeRound says which devices join and leave before a round opens: those of round 1
	// before the run, the others' while the round before is under way. It may be nil.
	beforeRound func(number int) []round.Event
	// task is called with each task that has its outcome. It may be nil.
	task func(e *round.TaskReport)
	// report is called with each complete round. It may be nil.
	report func(r *round.Report) error

	// The fields that follow are those of the run under way.

	machine *round.Machine
	clock   *simclock.Clock
	// open holds the tasks that were issued since all were answered.
	open []round.Task
	// answered is the number of open tasks that are answered.
	answered int
	// round is the number of the round whose tasks are answered.
	round int
	// uselessTasks is the number of tasks that have ended since the last update that counts.
	uselessTasks int
}

// MoreUpdates says for people what makes more updates count.
const MoreUpdates = "raise close.seconds, let fewer clients drop out"

// MoreUpdatesAfter says for people what makes updates count after tasks of which none did, by how most of
// them ended.
func MoreUpdatesAfter(outcomes metrics.Outcomes) string {
	remedies := [round.Outcomes]string{
		round.Late:      "give clients more time by close, or lower schedule.k0",
		round.Dropped:   "let fewer clients drop out, by dropout or availability",
		round.Lost:      "keep devices connected, or raise devices.liveness_seconds",
		round.Cancelled: "let the run last longer by stop, or lower schedule.k0",
		round.Refused:   "notices say why updates were refused",
	}
	most := round.Late
	for i, n := range outcomes {
		if n > outcomes[most] && remedies[i] != "" {
			most = round.Outcome(i)
		}
	}
	return remedies[most]
}

// AboutUncounted says for people that no update of a class of devices counts in a run, how its tasks end,
// and what would make them count.
func AboutUncounted(class *metrics.ClassOutcomes) string {
	var ends []string
	for outcome, n := range class.Tasks {
		if n > 0 {
			ends = append(ends, fmt.Sprintf("%d %s", n, round.Outcome(outcome)))
		}
	}
	remedy := MoreUpdatesAfter(class.Tasks)
	// Updates of other classes do count, so it is the rounds that close without this one, not the run.
	if most := slices.Max(class.Tasks[:]); class.Tasks[round.Cancelled] == most {
		remedy = "let rounds wait for more clients by close, or lower schedule.k0"
	}
	return fmt.Sprintf("No update of class %s counts: %s (%s).", class.Class, strings.Join(ends, ", "), remedy)
}

// errNoEnd is the error of a run that ends with a number of updates, or of rounds that close with a number of
// updates, and gets none any more: [maxPlayed] tasks in a row had none that counts.
var errNoEnd = errors.New("no end is in sight: task after task brings no update that " +
	"counts (" + MoreUpdates + ", or set stop.virtual_seconds)")

// Play plays a problem of simulated clients to its end without learning: tasks take the time that the clients' fleet
// gives them, and nothing is trained. It returns how the run stopped, and the fingerprint of the clock's history,
// which is equal for runs in which the same happened at the same virtual times.
func Play(ctx context.Context, p *problem.Problem) (round.Stop, uint64, error) {
	rounds, err := roundsOf(p, 0)
	if err != nil {
		return round.Stop{}, 0, err
	}
	return (&dryRun{rounds: rounds, answer: answers(&p.Timing)}).play(ctx)
}

// ones is a list of one loss, 1. Repeated, it is the losses of as many clients.
var ones = []float64{1}

// play plays a run to its end without learning. It returns how the run stopped and the fingerprint
// of the clock's history. Every loss is 1: schedules that follow losses stay at K_0, and of
// candidates that would report their losses the first are taken. Nothing is evaluated between rounds.
func (p *dryRun) play(ctx context.Context) (round.Stop, uint64, error) {
	m, err := round.New(p.rounds)
	if err != nil {
		return round.Stop{}, 0, err
	}
	p.machine = m
	p.clock = simclock.New()
	if err := p.joinAndLeave(1); err != nil {
		return round.Stop{}, 0, err
	}
	next := round.Event{Kind: round.Started}
	for {
		// One step may search for a client for half a second, so each looks at the context.
		if err := ctx.Err(); err != nil {
			return m.Stop(), 0, err
		}
		effects, err := m.Step(&next)
		if err != nil {
			return m.Stop(), 0, err
		}
		if err := p.carryOut(effects); err != nil {
			return m.Stop(), 0, err
		}
		if effects.Stopped != nil {
			return *effects.Stopped, p.clock.Fingerprint(), nil
		}
		next, err = p.next(effects)
		if err != nil {
			return m.Stop(), 0, err
		}
	}
}

// carryOut carries out the effects of a step: it sets and cancels timers, counts the tasks that ended,
// and reports a closed round. It returns errNoEnd if more than maxPlayed tasks in a row have ended without an update
// that counts, in a run that ends by updates alone.
func (p *dryRun) carryOut(effects *round.Effects) error {
	for _, timer := range effects.Timers {
		p.clock.Schedule(timer)
	}
	for _, seq := range effects.Cancel {
		p.clock.Cancel(seq)
	}
	for i := range effects.Ended {
		p.uselessTasks++
		if effects.Ended[i].Outcome == round.Accepted {
			p.uselessTasks = 0
		}
		if p.task != nil {
			p.task(&effects.Ended[i])
		}
	}
	p.open = append(p.open, effects.Tasks...)
	if p.report != nil && effects.Report != nil {
		if err := p.report(effects.Report); err != nil {
			return err
		}
	}
	// Without a limit of time only updates end the run, or its rounds where these overlap.
	stop := &p.rounds.Stop
	needsUpdates := stop.Time == 0 && (stop.Rounds == 0 || closing.Overlaps(p.rounds.Closing))
	if needsUpdates && p.uselessTasks > maxPlayed {
		return errNoEnd
	}
	return nil
}

// next returns the event that follows a step of the round machine. What the machine asked for is answered at
// once: losses, training and evaluations all with the loss 1. Then open tasks get their plans, one a call, in the
// order of their numbers. Only when all have one does the clock move to its next timer.
func (p *dryRun) next(effects *round.Effects) (round.Event, error) {
	switch {
	case len(effects.Query) > 0:
		return round.Event{Kind: round.Queried, Losses: slices.Repeat(ones, len(effects.Query))}, nil
	case len(effects.Train) > 0:
		return round.Event{Kind: round.Trained, Loss: 1, Losses: slices.Repeat(ones, len(effects.Train))}, nil
	case effects.Evaluate || effects.EvaluateClientsRound > 0:
		return round.Event{Kind: round.Evaluated, Loss: 1}, nil
	case p.answered < len(p.open):
		p.answered++
		return p.answer(&p.open[p.answered-1])
	}
	p.open = p.open[:0]
	p.answered = 0
	// All tasks of a new round have their answers. Who joins or leaves now takes part from the next round on.
	if number := p.machine.Round(); number > p.round {
		p.round = number
		if err := p.joinAndLeave(number + 1); err != nil {
			return round.Event{}, err
		}
	}
	e, ok := p.clock.Pop()
	if !ok {
		return round.Event{}, errors.New("forecast: nothing is left on the clock of a run that is not over")
	}
	return round.Event{Kind: round.Due, Timer: e}, nil
}

// joinAndLeave gives the machine the events of devices that join or leave before the round with this
// number opens.
func (p *dryRun) joinAndLeave(number int) error {
	if p.beforeRound == nil {
		return nil
	}
	for _, e := range p.beforeRound(number) {
		// Joining and leaving have no effects that must be carried out.
		if _, err := p.machine.Step(&e); err != nil {
			return err
		}
	}
	return nil
}

// answers returns the function that answers the tasks of a problem's simulated clients as its hosts do.
func answers(p *problem.Timing) func(*round.Task) (round.Event, error) {
	return func(t *round.Task) (round.Event, error) { return planTask(p.Fleet, t, p.Bits) }
}

// drawnAnswers returns a function like that of [answers], but for clients of classes that say how uncertain their
// speeds are: each of these clients differs from its class as the seed draws, in all of the run alike.
func drawnAnswers(p *problem.Timing, seed uint64) func(*round.Task) (round.Event, error) {
	classes := p.Config.Fleet
	if !slices.ContainsFunc(classes, isUncertain) {
		return answers(p)
	}
	return func(t *round.Task) (round.Event, error) {
		e, err := planTask(p.Fleet, t, p.Bits)
		class := &classes[p.Fleet.Class(t.Client)]
		if isUncertain(*class) {
			own := variationOf(class, seed, t.Client)
			// The plan of a simulated client has the extra time of its first task already.
			own.firstTask = [len(phases)]round.Time{}
			own.apply(&e.Plan)
		}
		return e, err
	}
}

// isUncertain reports whether a class says how far its speeds may be wrong.
func isUncertain(k fleet.Class) bool { return k.Uncertainty != fleet.Uncertainty{} }

// planTask returns the answer of a simulated client of fleet f to task t: how long its phases take
// for messages of these sizes, and whether it drops out.
func planTask(f *fleet.Fleet, t *round.Task, bits fleet.Bits) (round.Event, error) {
	c := f.Client(t.Client)
	// What the client has left in its battery, and the part of a minibatch that its steps take, are the task's.
	c.Joules = t.Joules
	c.BatchPart = t.BatchPart
	d, err := f.Plan(c, t.Task, t.LocalSteps, bits, int64(t.Start))
	return round.Event{
		Kind:   round.Planned,
		Task:   t.Task,
		Client: t.Client,
		Stages: stagesOf(&d),
		Plan: round.Plan{
			Download: round.Time(d.Download),
			Compute:  round.Time(d.Compute),
			Upload:   round.Time(d.Upload),
			Drops:    d.Dropout != fleet.NoPhase,
			Dropout:  round.Time(d.After),
		},
	}, err
}

// stagesOf returns how long a client's stages of secure aggregation take by its plan, from its keys to the
// recovery. It is nil where the run adds updates without secure aggregation.
func stagesOf(p *fleet.Plan) *round.Stages {
	if p.Stages[0] == 0 {
		return nil
	}
	return &round.Stages{
		Keys:      round.Time(p.Stages[0]),
		Shares:    round.Time(p.Stages[1]),
		Survivors: round.Time(p.Stages[2]),
		Recovery:  round.Time(p.Stages[3]),
	}
}

// variation is how the times of one client in a draw differ from those of its class.
type variation struct {
	// factors multiply the durations of the phases, without their overhead.
	factors [len(phases)]float64
	// overhead is the part of each phase that is the same for all clients of the class.
	overhead [len(phases)]round.Time
	// firstTask is the extra time of each phase of the client's first task. It is 0 after that.
	firstTask [len(phases)]round.Time
}

// variationOf draws by how much a client's device differs from its class k, as the class's uncertainty
// says. The draw depends on the seed and the client alone. The class's overheads and the extra time of a
// first task are copied from k.
func variationOf(k *fleet.Class, seed uint64, client int) (d variation) {
	d.factors = k.Uncertainty.Pace(seed, client)
	for p := range d.factors {
		d.overhead[p] = round.Time(math.RoundToEven(*k.Overhead.Phases()[p] * 1e9))
		d.firstTask[p] = round.Time(math.RoundToEven(*k.FirstTask.Phases()[p] * 1e9))
	}
	return d
}

// apply turns the plan of a task by the client's class into the client's own plan. The extra time of a first task is
// in the plan of the first call alone. A task in which the client drops out ends at the same share of its time.
func (d *variation) apply(plan *round.Plan) {
	classTotal := plan.Total()
	for p, took := range [...]*round.Time{&plan.Download, &plan.Compute, &plan.Upload} {
		overhead := min(d.overhead[p], *took)
		varying := round.Time(math.RoundToEven(d.factors[p] * float64(*took-overhead)))
		*took = overhead + d.firstTask[p] + varying
	}
	if plan.Drops && classTotal > 0 {
		plan.Dropout = round.Time(float64(plan.Dropout) / float64(classTotal) * float64(plan.Total()))
	}
	d.firstTask = [len(phases)]round.Time{}
}
