package round

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/learn/metric"
	"fedpace/registry"
)

// The traces read like a conversation with the machine: what
// happens to it, and what it answers. Regenerate with -rewrite and read the
// difference.
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		var c *conversation
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				c = newConversation(t, d)
				return c.step(Event{Kind: Started})
			}
			return c.command(t, d)
		})
	})
}

// conversation is a machine and a clock small enough to be read.
type conversation struct {
	machine *Machine
	timers  []Timer
}

// newConversation returns a conversation with a machine, whose configuration the arguments of the first command change.
func newConversation(t *testing.T, d *datadriven.TestData) *conversation {
	config := Config{
		Seed: 1, Clients: 10, Cohort: 3, Closing: closing.All{},
		Setup: schedule.Setup{K0: 8, Eta0: 0.5}, K: schedule.FixedK{}, Eta: schedule.FixedEta{},
		Window: schedule.WindowConfig{Size: 2}, Plateau: schedule.PlateauConfig{Patience: 2}, Metrics: []metric.Metric{{Name: metric.Accuracy}},
		Train: true,
	}
	var n int
	if d.MaybeScanArgs(t, "clients", &n) {
		config.Clients = n
	}
	if d.MaybeScanArgs(t, "cohort", &n) {
		config.Cohort = n
	}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "k": // k=rounds
			config.K, _ = schedule.Ks.Entry(arg.Vals[0])
		case "close": // close=all, close=(first, n=2)
			config.Closing = made(t, d, closing.Rules, arg.Vals)
		case "late": // late=(use, limit=1)
			config.Late = made(t, d, closing.Lates, arg.Vals)
		case "select": // select=round_robin, select=(power_of_choice, candidates=5, from=round_robin)
			config.Select = made(t, d, selection.Rules, arg.Vals)
		case "away":
			config.Available, config.NextChange = absences(t, d, arg.Vals)
		}
	}
	config.Samples = func(client int) int { return 100 * client * ((client + 1) % 2) }  // odd clients have none
	config.Expect = func(client, steps int) Time { return Time(20 + steps*(1+client)) } // a step takes client c so many units more than one
	var down, up int
	d.MaybeScanArgs(t, "server-download", &down)
	d.MaybeScanArgs(t, "server-upload", &up)
	config.Server = server(down, up)
	if d.MaybeScanArgs(t, "devices", &n) {
		config.Devices = Devices{Count: n, Liveness: 60}
		if d.HasArg("sampled") {
			config.Devices.Sampled = true
		}
	}
	d.MaybeScanArgs(t, "evaluate", &config.Evaluate.Every)
	if d.MaybeScanArgs(t, "evaluate-grid", &n) {
		config.Evaluate.Grid = int64(n)
	}
	d.MaybeScanArgs(t, "evaluate-clients", &config.EvaluateClients.Every)
	d.MaybeScanArgs(t, "rounds", &config.Stop.Rounds)
	if d.MaybeScanArgs(t, "until", &n) {
		config.Stop.Time = Time(n)
	}
	if d.HasArg("timing-only") {
		config.Train = false
	}
	m, err := New(config)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for client := range config.Devices.Count { // all are there, unless one is missing
		if i := config.Clients + client; !d.HasArg(fmt.Sprintf("without-%d", i)) {
			if _, err := m.Step(&Event{Kind: Joined, Client: i}); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
	}
	return &conversation{machine: m}
}

// made returns an entry of a table. args are its name and then its options, as key=value.
func made[T any](t *testing.T, d *datadriven.TestData, table *registry.Table[T], args []string) T {
	entry, ok := table.Entry(args[0])
	if !ok {
		d.Fatalf(t, "%s is not one of %v", args[0], table.Names())
	}
	v := reflect.New(reflect.TypeOf(entry)).Elem()
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		options := registry.Options(v.Type())
		i := slices.IndexFunc(options, func(o registry.Option) bool { return o.Key == key })
		if i < 0 {
			d.Fatalf(t, "%s has no option %s", args[0], key)
		}
		f := v.FieldByIndex(options[i].Index)
		if options[i].Type == reflect.TypeFor[selection.Rule]() {
			f.Set(reflect.ValueOf(made(t, d, selection.Rules, []string{value})))
		} else if err := json.Unmarshal([]byte(value), f.Addr().Interface()); err != nil {
			d.Fatalf(t, "%s: %v", arg, err)
		}
	}
	return v.Interface().(T)
}

const never = Time(math.MaxInt64)

// absences reads when clients are away: client:from-to, or *:from-to for all clients. A client is back at to, or never
// where that is left out. The results are for [Config].
func absences(t *testing.T, d *datadriven.TestData, list []string) (available func(int, Time) bool, next func(Time) (Time, bool)) {
	type absence struct {
		client   int
		from, to Time
	}
	var all []absence
	for _, s := range list {
		a := absence{client: -1}
		who, when, _ := strings.Cut(s, ":")
		from, to, _ := strings.Cut(when, "-")
		if to == "" {
			to = fmt.Sprint(never)
		}
		if _, err := fmt.Sscan(from+" "+to, &a.from, &a.to); err != nil {
			d.Fatalf(t, "away=%s: %v", s, err)
		}
		if who != "*" {
			if _, err := fmt.Sscan(who, &a.client); err != nil {
				d.Fatalf(t, "away=%s: %v", s, err)
			}
		}
		all = append(all, a)
	}
	available = func(client int, now Time) bool {
		for _, a := range all {
			if (a.client == client || a.client < 0) && a.from <= now && now < a.to {
				return false
			}
		}
		return true
	}
	next = func(now Time) (first Time, ok bool) {
		for _, a := range all {
			for _, at := range []Time{a.from, a.to} {
				if at > now && at != never && (!ok || at < first) {
					first, ok = at, true
				}
			}
		}
		return first, ok
	}
	return available, next
}

// command carries out one command of a script and returns the machine's answer as text.
func (c *conversation) command(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "plan": // plan task=1 client=2 takes=10+20+30 [drops=15]
		e := Event{Kind: Planned}
		var n int
		var takes string
		scanDeviceTask(t, d, &e)
		d.MaybeScanArgs(t, "task", &e.Task)
		d.ScanArgs(t, "client", &e.Client)
		d.ScanArgs(t, "takes", &takes)
		if _, err := fmt.Sscanf(takes, "%d+%d+%d", &e.Plan.Download, &e.Plan.Compute, &e.Plan.Upload); err != nil {
			d.Fatalf(t, "takes=%s: %v", takes, err)
		}
		if d.MaybeScanArgs(t, "drops", &n) {
			e.Plan.Drops, e.Plan.Dropout = true, Time(n)
		}
		return c.step(e)
	case "joined", "left": // joined client=10
		e := Event{Kind: Joined}
		if d.Cmd == "left" {
			e.Kind = Departed
		}
		d.ScanArgs(t, "client", &e.Client)
		return c.step(e)
	case "silent", "invalid": // invalid device-task=1 client=10 takes=10+20+30
		e := Event{Kind: Silent}
		scanDeviceTask(t, d, &e)
		if d.Cmd == "invalid" {
			e.Kind = Invalid
			var takes string
			d.ScanArgs(t, "takes", &takes)
			if _, err := fmt.Sscanf(takes, "%d+%d+%d", &e.Plan.Download, &e.Plan.Compute, &e.Plan.Upload); err != nil {
				d.Fatalf(t, "takes=%s: %v", takes, err)
			}
		}
		return c.step(e)
	case "tick": // the next timer falls due
		next := -1
		for i, a := range c.timers {
			if next < 0 || earlier(a, c.timers[next]) {
				next = i
			}
		}
		if next < 0 {
			return "no timer is set"
		}
		timer := c.timers[next]
		c.timers = append(c.timers[:next], c.timers[next+1:]...)
		return fmt.Sprintf("at %d: %s", timer.At, timerText(timer)) + "\n" + c.step(Event{Kind: Due, Timer: timer})
	case "trained":
		e := Event{Kind: Trained}
		scanFloat(t, d, "loss", &e.Loss)
		return c.step(e)
	case "queried": // queried losses=(1.5, 2)
		e := Event{Kind: Queried}
		for _, arg := range d.CmdArgs {
			for _, s := range arg.Vals {
				var loss float64
				if _, err := fmt.Sscan(s, &loss); err != nil {
					d.Fatalf(t, "losses: %s: %v", s, err)
				}
				e.Losses = append(e.Losses, loss)
			}
		}
		return c.step(e)
	case "evaluated":
		e := Event{Kind: Evaluated}
		scanFloat(t, d, "loss", &e.Loss)
		e.Metrics = make([]float64, 1)
		scanFloat(t, d, "accuracy", &e.Metrics[0])
		return c.step(e)
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

// scanFloat reads the argument key of a command as a number into to.
func scanFloat(t *testing.T, d *datadriven.TestData, key string, to *float64) {
	var s string
	d.ScanArgs(t, key, &s)
	if _, err := fmt.Sscan(s, to); err != nil {
		d.Fatalf(t, "%s=%s: %v", key, s, err)
	}
}

// earlier reports whether timer a falls due before timer b.
func earlier(a, b Timer) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.Seq < b.Seq
}

// timerText returns what a timer is set for, in words.
func timerText(t Timer) string {
	switch t.Kind {
	case TaskArrives:
		return fmt.Sprintf("task %s arrives", taskName(t.Task))
	case TaskDrops:
		return fmt.Sprintf("client of task %s drops out", taskName(t.Task))
	case DeadlinePasses:
		return "deadline"
	case AvailabilityChanges:
		return "availability changes"
	case CandidatesAnswered:
		return "all candidates have answered"
	case TransferEnds:
		return "a transfer through the server is complete"
	case TaskComputed:
		return fmt.Sprintf("task %d has computed", t.Task)
	}
	return "end of the run"
}

// overlaps reports whether updates may be late, so that the staleness of each is of interest.
func (c *conversation) overlaps() bool {
	return c.machine.overlapping != nil || closing.UsesLate(c.machine.config.Late)
}

// step gives the machine an event and returns its effects as text.
func (c *conversation) step(e Event) string {
	out, err := c.machine.Step(&e)
	if err != nil {
		return "error: " + err.Error()
	}
	c.timers = append(c.timers, out.Timers...)
	for _, seq := range out.Cancel {
		for i := range c.timers {
			if c.timers[i].Seq == seq {
				c.timers = append(c.timers[:i], c.timers[i+1:]...)
				break
			}
		}
	}
	var b strings.Builder
	for _, x := range out.Train {
		fmt.Fprintf(&b, "train task %s: client %d from model %d, K %d, eta %g, after %d steps",
			taskName(x.Task), x.Client, x.Model, x.LocalSteps, x.LearningRate, x.StepsDone)
		if c.overlaps() {
			fmt.Fprintf(&b, ", staleness %d", x.Staleness)
		}
		fmt.Fprintln(&b)
	}
	for _, x := range out.Query {
		fmt.Fprintf(&b, "ask for the loss of client %d (task %d), model %d, after %d steps\n", x.Client, x.Task, x.Model, x.StepsDone)
	}
	for _, x := range out.Cancel {
		fmt.Fprintf(&b, "cancel timer %d\n", x)
	}
	for _, x := range out.Release {
		if c.overlaps() { // elsewhere always the one before the newest
			fmt.Fprintf(&b, "release model %d\n", x)
		}
	}
	if out.Evaluate {
		fmt.Fprintln(&b, "evaluate")
	}
	if out.EvaluateClientsRound > 0 {
		fmt.Fprintf(&b, "evaluate the model of round %d on each client's samples\n", out.EvaluateClientsRound)
	}
	if r := out.Report; r != nil {
		fmt.Fprintf(&b, "round %d: %d to %d, K %d, outcomes %v, loss %g, %d steps", r.Round, r.Start, r.End, r.LocalSteps, r.Outcomes, r.TrainingLoss, r.SGDSteps)
		if r.Evaluated {
			fmt.Fprintf(&b, ", validation %g / %g", r.ValidationLoss, r.Metrics[0])
		}
		fmt.Fprintln(&b)
	}
	for _, x := range out.Tasks {
		if x.Probe {
			fmt.Fprintf(&b, "probe %d of client %d: round %d, model %d\n", x.Task, x.Client, x.Round, x.Model)
			continue
		}
		fmt.Fprintf(&b, "task %s to client %d: round %d, model %d, K %d, eta %g, after %d steps\n",
			taskName(x.Task), x.Client, x.Round, x.Model, x.LocalSteps, x.LearningRate, x.StepsDone)
	}
	for _, x := range out.Timers {
		fmt.Fprintf(&b, "timer %d at %d: %s\n", x.Seq, x.At, timerText(x))
	}
	if s := out.Stopped; s != nil {
		fmt.Fprintf(&b, "stopped: %s; %d rounds, %d, outcomes %v", s.Reason, s.Rounds, s.EndTime, s.Outcomes)
		if s.Evaluated {
			fmt.Fprintf(&b, ", validation %g / %g", s.ValidationLoss, s.Metrics[0])
		}
		fmt.Fprintln(&b)
	}
	if out.Ignored != "" {
		fmt.Fprintln(&b, "ignored:", out.Ignored)
	}
	fmt.Fprintf(&b, "-- %v", c.machine.Phase())
	return b.String()
}
