package round

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/keyed"
	"fedpace/learn/metric"
	"fedpace/registry"
)

type failer interface{ Fatalf(string, ...any) }

// play runs a machine to its end with plans and results that are functions of
// the task, the plans in an order drawn from shuffle. It checks what the
// package promises on the way and returns the history.
func play(t failer, c Config, shuffle *rand.Rand, plan func(Task) Plan) (reports []Report, popped []Timer, stop Stop) {
	p := newPlayer(t, c, shuffle, plan)
	for p.machine.Phase() != Stopped {
		p.turn(t)
	}
	p.over(t)
	return p.reports, p.popped, p.stop
}

// player is what a driver does, done naively, with a watch on the machine.
type player struct {
	config  Config
	machine *Machine
	shuffle *rand.Rand
	plan    func(Task) Plan
	queue   []Event // what may happen now, the clock's next timer apart
	timers  []Timer
	now     Time

	gathered int // devices that a run has waited for

	reports []Report
	popped  []Timer
	trained []Task // in all rounds
	stop    Stop

	issued   int
	underway map[uint64]Task // by number; probes are not tasks
	atWork   map[int]bool
	probed   map[int]bool // candidates of the round
	done     map[int]int64
	released map[uint64]bool
	newest   uint64
	ended    map[uint64]bool // by number: whether it was a probe
	outcomes [Outcomes]int   // ended since the last report
	ledger   *ledger
	steps    []int // of the tasks that ended since then
	measured []int // rounds whose models were measured on the clients' own samples
}

// newPlayer returns a player of a run that has not started. plan gives each task its plan, and shuffle decides the
// order of events.
func newPlayer(t failer, c Config, shuffle *rand.Rand, plan func(Task) Plan) *player {
	m, err := New(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &player{
		config: c, machine: m, shuffle: shuffle, plan: plan, underway: map[uint64]Task{}, atWork: map[int]bool{},
		probed: map[int]bool{}, done: map[int]int64{}, released: map[uint64]bool{}, ended: map[uint64]bool{},
		ledger: newLedger(&c),
	}
	p.queue = []Event{{Kind: Started}}
	return p
}

// turn takes one event of the queue. If there is none, it has clients join or moves the clock on.
func (p *player) turn(t failer) {
	if len(p.queue) == 0 && p.machine.Phase() == WaitingForClients {
		p.gather(t)
	}
	if len(p.queue) == 0 {
		if p.machine.Phase() != Running || len(p.timers) == 0 {
			t.Fatalf("nothing can happen while the machine is %v", p.machine.Phase())
		}
		next := slices.MinFunc(p.timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		p.timers = slices.DeleteFunc(p.timers, func(x Timer) bool { return x.Seq == next.Seq })
		p.meet(t)
		p.idle(t, next.At)
		p.popped = append(p.popped, next)
		p.now = next.At
		p.queue = append(p.queue, Event{Kind: Due, Timer: next})
	}
	i := p.shuffle.IntN(len(p.queue))
	e := p.queue[i]
	p.queue = slices.Delete(p.queue, i, i+1)
	p.step(t, e)
}

// step gives the machine an event, and checks and carries out its effects.
func (p *player) step(t failer, e Event) {
	out, err := p.machine.Step(&e)
	if err != nil {
		t.Fatalf("%v event: %v", e.Kind, err)
	}
	switch {
	case out.Ignored != "":
		t.Fatalf("%v event ignored: %s", e.Kind, out.Ignored)
	case e.Kind == Trained:
		p.newest++
	}
	for _, x := range out.Timers {
		if x.At < p.now {
			t.Fatalf("timer %d is set for %d, it is %d", x.Seq, x.At, p.now)
		}
		p.timers = append(p.timers, x)
	}
	for _, seq := range out.Cancel {
		i := slices.IndexFunc(p.timers, func(x Timer) bool { return x.Seq == seq })
		if i < 0 {
			t.Fatalf("timer %d is cancelled, and not set", seq)
		}
		p.timers = slices.Delete(p.timers, i, i+1)
	}
	for _, v := range out.Release {
		if p.released[v] || v >= p.newest {
			t.Fatalf("model %d is released, %d is the newest", v, p.newest)
		}
		p.released[v] = true
	}
	for i := range out.Ended {
		p.ends(t, &out.Ended[i])
	}
	if out.Report != nil {
		for o, n := range out.Report.Outcomes {
			// The run's end may cancel more than the last round did.
			if got := p.outcomes[o]; got < n || got > n && Outcome(o) != Cancelled {
				t.Fatalf("round %d: %d tasks ended %v, the report says %d", out.Report.Round, got, Outcome(o), n)
			}
		}
		if got, want := out.Report.Steps, spreadOf(p.steps[:out.Report.Cohort]); got != want {
			t.Fatalf("round %d: local steps %+v, want %+v", out.Report.Round, got, want)
		}
		p.outcomes, p.steps = [Outcomes]int{}, nil
		p.report(t, *out.Report)
	}
	p.queue = append(p.queue, p.follow(t, out)...)
	if out.Stopped != nil {
		p.stop = *out.Stopped
	}
}

// follow checks the effects of a step and returns the events that follow from them.
func (p *player) follow(t failer, out *Effects) (events []Event) {
	for _, x := range out.Tasks {
		p.issue(t, x)
		events = append(events, p.answer(x))
	}
	if len(out.Query) > 0 {
		e := Event{Kind: Queried}
		for _, x := range out.Query {
			if !p.probed[x.Client] {
				t.Fatalf("client %d is asked for a loss and was no candidate", x.Client)
			}
			e.Losses = append(e.Losses, lossOf(x))
		}
		events = append(events, e)
	}
	if len(out.Train) > 0 {
		for i, x := range out.Train {
			if p.released[x.Model] || x.Staleness != int(p.newest-x.Model) {
				t.Fatalf("task %d trains from model %d with staleness %d, the newest is %d", x.Task, x.Model, x.Staleness, p.newest)
			}
			if i > 0 && out.Train[i-1].Task >= x.Task {
				t.Fatalf("task %d is trained after task %d", x.Task, out.Train[i-1].Task)
			}
		}
		p.trained = append(p.trained, out.Train...)
		events = append(events, trainedEvent(p.machine, out))
	}
	if out.EvaluateClientsRound > 0 {
		p.measured = append(p.measured, out.EvaluateClientsRound)
	}
	if out.Evaluate || out.EvaluateClientsRound > 0 {
		events = append(events, Event{Kind: Evaluated, Loss: 1, Metrics: []float64{1 - 1/float64(p.machine.Round())}})
	}
	return events
}

// spreadOf returns the smallest, the mean and the largest of some steps, straight from their meaning.
func spreadOf(steps []int) (s metric.Spread) {
	if len(steps) == 0 {
		return s
	}
	s = metric.Spread{Tasks: len(steps), Smallest: slices.Min(steps), Largest: slices.Max(steps)}
	for _, k := range steps {
		s.Sum += int64(k)
	}
	return s
}

// trainedEvent returns the result of the training that a machine asks for.
func trainedEvent(m *Machine, out *Effects) Event {
	e := Event{Kind: Trained, Loss: 1 / float64(m.Round())}
	for _, x := range out.Train {
		e.Losses = append(e.Losses, 1+lossOf(x))
	}
	return e
}

// lossOf returns a candidate's loss. Equal losses are frequent.
func lossOf(x Task) float64 { return float64(keyed.Hash(1, keyed.Compute, uint64(x.Client)) % 4) }

// issue notes a task that is issued, and fails the test unless its client may have it.
func (p *player) issue(t failer, x Task) {
	if x.Client < p.config.Clients && p.config.Available != nil && !p.config.Available(x.Client, p.now) {
		t.Fatalf("task %d is for client %d, who is away at %d", x.Task, x.Client, p.now)
	}
	if p.atWork[x.Client] {
		t.Fatalf("task %d is for client %d, who has another", x.Task, x.Client)
	}
	if x.Model != p.newest {
		t.Fatalf("task %d names model %d, the newest is %d", x.Task, x.Model, p.newest)
	}
	if x.Probe {
		p.probed[x.Client] = true
		return
	}
	if d := selection.QueryOf(p.config.Select); d > 0 && !p.probed[x.Client] {
		t.Fatalf("task %d is for client %d, who was no candidate", x.Task, x.Client)
	}
	if x.StepsDone != p.done[x.Client] {
		t.Fatalf("task %d says %d steps of client %d, who has done %d", x.Task, x.StepsDone, x.Client, p.done[x.Client])
	}
	p.ledger.issue(t, &x, p.now)
	p.issued++
	p.underway[x.Task] = x
	p.atWork[x.Client] = true
}

// ends notes the outcome of a task and checks the time that it took.
func (p *player) ends(t failer, e *TaskReport) {
	if _, twice := p.ended[e.Task]; twice || e.Task == 0 {
		t.Fatalf("task %d ends twice", e.Task)
	}
	p.ended[e.Task] = e.Probe
	full := e.Plan.Total()
	if e.Plan.Drops {
		full = e.Plan.Dropout
	}
	switch took := e.End - e.Start; {
	case took < 0 || took > full || e.End > p.now:
		t.Fatalf("task %d took its client %d of %d ns, until %d at %d", e.Task, took, full, e.End, p.now)
	case e.Probe:
		return
	case (e.Outcome == Accepted || e.Outcome == Dropped) && took != full:
		t.Fatalf("task %d is %v after %d of %d ns", e.Task, e.Outcome, took, full)
	}
	p.ledger.end(e)
	p.outcomes[e.Outcome]++
	p.steps = append(p.steps, e.LocalSteps)
	switch x := p.underway[e.Task]; {
	case e.LocalSteps != x.LocalSteps || p.config.Train && e.Model != x.Model: // without training no task names a model
		t.Fatalf("task %d of %d steps from model %d ends as one of %d from model %d", e.Task, x.LocalSteps, x.Model, e.LocalSteps, e.Model)
	case p.config.Train && e.Staleness != int(p.newest-x.Model):
		t.Fatalf("task %d ends with staleness %d, it is from model %d and the newest is %d", e.Task, e.Staleness, x.Model, p.newest)
	}
	p.end(t, e.Task)
}

// end notes that a task is over. The machine's count of the client's steps must be as before, or more by the task's.
func (p *player) end(t failer, task uint64) {
	x, ok := p.underway[task]
	if !ok {
		t.Fatalf("task %d ends and is not under way", task)
	}
	delete(p.underway, task)
	delete(p.atWork, x.Client)
	if p.config.Train {
		p.done[x.Client] = p.machine.stepsDone[x.Client]
	}
	if d := p.done[x.Client] - x.StepsDone; d != 0 && d != int64(x.LocalSteps) {
		t.Fatalf("task %d of %d steps made it %d", task, x.LocalSteps, d)
	}
}

// report notes the report of a round and checks it.
func (p *player) report(t failer, r Report) {
	before := Time(0)
	if n := len(p.reports); n > 0 {
		before = p.reports[n-1].End
	}
	e := &p.config.Evaluate
	due := e.Every > 0 && r.Round%e.Every == 0
	for at := Time(e.Grid); e.Grid > 0 && at <= r.End; at += Time(e.Grid) {
		due = due || before < at
	}
	if r.Evaluated != (due && p.config.Train) {
		t.Fatalf("round %d, from %d to %d, is evaluated: %v, by %+v", r.Round, before, r.End, r.Evaluated, *e)
	}
	p.reports = append(p.reports, r)
	clear(p.probed)
	sum := 0
	for _, n := range r.Outcomes {
		sum += n
	}
	if sum != r.Cohort {
		t.Fatalf("round %d: %d tasks, outcomes %v", r.Round, r.Cohort, r.Outcomes)
	}
	if r.Start > r.End || r.End != p.now || r.Round != len(p.reports) {
		t.Fatalf("round %d, the %d., lasts from %d to %d, it is %d", r.Round, len(p.reports), r.Start, r.End, p.now)
	}
}

// over checks a whole run: one outcome for each task, no model kept but the
// last, and as many updates trained as were accepted.
func (p *player) over(t failer) {
	total := 0
	for _, n := range p.stop.Outcomes {
		total += n
	}
	tasks := 0
	for _, probe := range p.ended {
		if !probe {
			tasks++
		}
	}
	if tasks != p.issued {
		t.Fatalf("%d tasks were issued, %d ended", p.issued, tasks)
	}
	if total != p.issued || len(p.underway) > 0 {
		t.Fatalf("%d tasks were issued, %d have an outcome (%v), %d are under way", p.issued, total, p.stop.Outcomes, len(p.underway))
	}
	if !p.config.Train {
		if p.measured != nil {
			t.Fatalf("the models of rounds %v are measured and nothing is trained", p.measured)
		}
		return
	}
	if want := p.toMeasure(); !slices.Equal(p.measured, want) {
		t.Fatalf("the models of rounds %v are measured on the clients' samples, want %v", p.measured, want)
	}
	if len(p.trained) < p.stop.Outcomes[Accepted] {
		t.Fatalf("%d updates were accepted, %d trained", p.stop.Outcomes[Accepted], len(p.trained))
	}
	if len(p.released) != int(p.newest) {
		t.Fatalf("of %d old models %d were released", p.newest, len(p.released))
	}
}

// toMeasure lists the rounds whose models are to be measured on the clients' own samples:
// those that are due and, as long as there is a newer model, the last.
func (p *player) toMeasure() (list []int) {
	of, last := p.config.EvaluateClients, 0
	for _, r := range p.reports {
		if of.Every > 0 && r.Round%of.Every == 0 || slices.Contains(of.Rounds, r.Round) {
			list, last = append(list, r.Round), r.Round
		}
	}
	newer := slices.ContainsFunc(p.reports[last:], func(r Report) bool { return r.Outcomes[Accepted] > 0 })
	if (of.Every > 0 || len(of.Rounds) > 0) && len(p.reports) > 0 && (newer || last == 0) {
		list = append(list, len(p.reports))
	}
	return list
}

// world draws a run: a rule, a way to choose, availability, schedules, ends.
func world(t *rapid.T) (Config, func(Task) Plan) {
	c := config()
	c.Clients = rapid.IntRange(1, 40).Draw(t, "clients")
	c.Cohort = rapid.IntRange(1, c.Clients).Draw(t, "cohort")
	c.Seed = rapid.Uint64().Draw(t, "seed")
	c.Train = rapid.Bool().Draw(t, "train")
	c.Evaluate = metric.Timetable{Every: rapid.IntRange(0, 3).Draw(t, "evaluate"), Grid: int64(rapid.IntRange(0, 90).Draw(t, "grid"))}
	c.EvaluateClients = metric.Timetable{Every: rapid.IntRange(0, 4).Draw(t, "by client"), Rounds: rapid.SliceOfN(rapid.IntRange(1, 12), 0, 3).Draw(t, "rounds by client")}
	c.Stop = Limits{Rounds: rapid.IntRange(1, 12).Draw(t, "rounds"), Time: Time(rapid.IntRange(0, 400).Draw(t, "until"))}
	c.K = rapid.SampledFrom([]schedule.K{
		schedule.FixedK{}, schedule.RoundsK{}, schedule.ErrorK{}, schedule.StepK{},
		schedule.AdaComm{Seconds: 20e-9, Gamma: 0.75},
		schedule.ExpressionK{Formula: "max(1, k0 * F / F0 + 1e8 * t - r + k * straggler_share)"},
		schedule.ExpressionK{Formula: "converged ? k0 * accuracy : 40 * straggler_share"},
	}).Draw(t, "k")
	c.Eta = rapid.SampledFrom([]schedule.Eta{c.Eta, schedule.ExpressionEta{Formula: "eta / (1 + straggler_share)"}}).Draw(t, "eta")
	c.Loss = rapid.SampledFrom([]schedule.Loss{{}, {Validation: true}, {Trim: 0.2}}).Draw(t, "loss")
	if rapid.Bool().Draw(t, "epochs") {
		c.Epochs = schedule.Epochs{Batch: 7, Samples: 20}
	}
	c.Samples = func(client int) int { return (client*7 + 1) % 5 * 10 }
	c.Expect = func(client, steps int) Time { return Time(5 + steps*(client%8)) }
	drawEntry(t, closing.Rules, &c, func(rule closing.Rule) { c.Closing, c.Select = rule, nil })
	drawEntry(t, selection.Rules, &c, func(s selection.Rule) { c.Select = s })
	if rapid.Bool().Draw(t, "availability") {
		// Client c is there in a share of the time, in turns of its own length.
		share := rapid.IntRange(0, 4).Draw(t, "there")
		until := Time(rapid.IntRange(1, 1000).Draw(t, "nobody any more"))
		c.Available = func(client int, at Time) bool {
			turn := at / Time(5+client%7)
			return at < until && int(keyed.Hash(c.Seed, keyed.Availability, uint64(client), uint64(turn))%4) < share
		}
		c.NextChange = func(at Time) (Time, bool) { return at + 1, at < until } // a change need not be one
	}
	drawDevices(t, &c)
	if late := drawn(t, closing.Lates, &c); rapid.Bool().Draw(t, "late") {
		c.Late = late
		if c.Validate() != nil {
			c.Late = nil
		}
	}
	drops := rapid.IntRange(0, 3).Draw(t, "drops")
	if rapid.Bool().Draw(t, "shared") {
		c.Server = server(rapid.IntRange(0, 30).Draw(t, "server's download"), rapid.IntRange(0, 30).Draw(t, "server's upload"))
		c.Server.Sites = rapid.IntRange(0, 4).Draw(t, "sites")
		if c.Server.Sites > 0 {
			s := server(rapid.IntRange(0, 60).Draw(t, "a site's download"), rapid.IntRange(0, 60).Draw(t, "a site's upload"))
			c.Server.SiteDownload, c.Server.SiteUpload = s.Download, s.Upload
		}
		// Not where rounds overlap: were all to leave early, they would never end.
		if stays := rapid.IntRange(0, 80).Draw(t, "stays"); stays > 0 && !closing.Overlaps(c.Closing) {
			c.Leaves = func(client int, at Time) (Time, bool) { return at + Time(stays+client), client%3 > 0 }
		}
	}
	if c.Server.Sites > 0 && rapid.Bool().Draw(t, "sites add up") {
		old := c
		c.SiteRounds = rapid.IntRange(1, 3).Draw(t, "rounds of a site")
		c.Closing, c.Late = closing.All{}, nil
		c.Leaves = nil
		if c.Validate() != nil {
			c = old
		}
	}
	if !c.Server.shared() && selection.QueryOf(c.Select) == 0 && rapid.Bool().Draw(t, "batteries") {
		c.Batteries = cells{}
	}
	return c, func(x Task) Plan {
		r := rand.New(rand.NewPCG(c.Seed, x.Task))
		return Plan{
			Download: Time(r.IntN(20)), Compute: Time(r.IntN(20)), Upload: Time(1 + r.IntN(20)),
			Drops: r.IntN(4) < drops, Dropout: Time(r.IntN(30)),
		}
	}
}

// drawEntry draws an entry of a table and its options until it fits the run.
func drawEntry[T any](t *rapid.T, table *registry.Table[T], c *Config, set func(T)) {
	for {
		set(drawn(t, table, c))
		if c.Validate() == nil {
			return
		}
	}
}

// drawn draws an entry of a table: whole numbers up to twice the cohort, times
// up to 60 ns.
func drawn[T any](t *rapid.T, table *registry.Table[T], c *Config) T {
	name := rapid.SampledFrom(table.Names()).Draw(t, "entry")
	entry, _ := table.Entry(name)
	v := reflect.New(reflect.TypeOf(entry)).Elem()
	for _, o := range registry.Options(v.Type()) {
		switch f := v.FieldByIndex(o.Index); {
		case o.Path: // of a policy in Python, which has no process here
			f.SetString("policy.py")
		case o.Inert && f.CanInt():
			f.SetInt(int64(o.Range.Lo))
		case f.Kind() == reflect.String:
		case o.Null && rapid.Bool().Draw(t, "null "+o.Key):
		case f.CanInt():
			f.SetInt(rapid.Int64Range(int64(o.Range.Lo), min(int64(o.Range.Hi), 2*int64(c.Cohort))).Draw(t, o.Key))
		case o.Unit == "seconds":
			f.SetFloat(Time(rapid.IntRange(1, 60).Draw(t, o.Key)).Seconds())
		case f.CanFloat():
			f.SetFloat(rapid.Float64Range(o.Range.Lo, o.Range.Hi).Draw(t, o.Key))
		case f.Kind() == reflect.String && o.Key == "seconds":
			texts := []string{"expected", "quantile(0.5) + 1e-9", "2e-9 * k"}
			f.SetString(rapid.SampledFrom(texts).Draw(t, o.Key))
		case f.Kind() == reflect.String:
			f.SetString(rapid.SampledFrom([]string{"cohort / 2", "1 + straggler_share"}).Draw(t, o.Key))
		case o.Type == reflect.TypeFor[selection.Rule]():
			f.Set(reflect.ValueOf(drawn(t, selection.Rules, c)))
		default:
			t.Fatalf("%s.%s: no value is drawn for a %v", name, o.Key, o.Type)
		}
	}
	return v.Interface().(T)
}

// chosen returns an entry of [selection.Rules]. options are its keys and values in turn.
func chosen(name string, options ...any) selection.Rule {
	entry, ok := selection.Rules.Entry(name)
	if !ok {
		panic(name + " is not registered")
	}
	v := reflect.New(reflect.TypeOf(entry)).Elem()
	list := registry.Options(v.Type())
	for ; len(options) > 0; options = options[2:] {
		i := slices.IndexFunc(list, func(o registry.Option) bool { return o.Key == options[0] })
		f := v.FieldByIndex(list[i].Index)
		f.Set(reflect.ValueOf(options[1]).Convert(f.Type()))
	}
	return v.Interface().(selection.Rule)
}

// Whatever the closing rule, the selection, the availability, the schedule and
// the plans: the history does not depend on the order in which plans arrive,
// and every task has one outcome.
func TestHistory_AnyArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := anyWorld(t)
		reports, popped, stop := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		again, poppedAgain, stopAgain := play(t, c, rand.New(rand.NewPCG(2, 2)), plan)
		if !slices.Equal(popped, poppedAgain) {
			t.Fatalf("two orders of arrival, two histories")
		}
		if len(reports) != len(again) || stop.Outcomes != stopAgain.Outcomes || stop.EndTime != stopAgain.EndTime {
			t.Fatalf("two orders of arrival, two ends: %+v, %+v", stop, stopAgain)
		}
		if limit := c.Stop.Time; limit > 0 && stop.EndTime > limit {
			t.Fatalf("a round that ends at %d counts, the limit is %d", stop.EndTime, limit)
		}
	})
}

// A run that trains and one that does not have one history where no decision
// reads a loss.
func TestHistory_TimingOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.K = rapid.SampledFrom([]schedule.K{
			schedule.RoundsK{}, schedule.ExpressionK{Formula: "1 + 40 * straggler_share"}, schedule.ExpressionK{Formula: "k - straggler_share + 1e8 * t"},
			schedule.ListK{Values: []schedule.StepsFrom{{Value: 3, From: schedule.From{Seconds: 60e-9}}}},
		}).Draw(t, "K")
		c.Train, c.Devices = true, Devices{}
		if registry.NeedsOf(c.Select).Losses {
			c.Select = selection.Uniform{}
		}
		reports, trained, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		c.Train = false
		again, timed, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		if !slices.Equal(trained, timed) {
			t.Fatalf("training changes the history")
		}
		for i, r := range reports {
			if r.Outcomes != again[i].Outcomes || r.Steps != again[i].Steps {
				t.Fatalf("training changes the outcomes of round %d: %v, %v, %+v, %+v", r.Round, r.Outcomes, again[i].Outcomes, r.Steps, again[i].Steps)
			}
		}
	})
}
