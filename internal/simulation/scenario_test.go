package simulation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"fedpace/actors"
	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
)

// world is what all seeds share and none changes.
type world struct {
	set        federated.Set
	model      learn.Model
	initial    []float32
	kernel     learn.Kernel
	leaving    *fleet.Fleet
	algorithms map[string]algorithm.Algorithm
	folder     string // of devices' files
}

const (
	clients   = 16
	modelBits = 1e6
)

func newWorld(folder string) (w *world, err error) {
	w = &world{algorithms: map[string]algorithm.Algorithm{}, folder: folder}
	if err := writePaces(folder); err != nil {
		return nil, err
	}
	w.set, err = samples()
	if err != nil {
		return nil, err
	}
	w.model, err = (learn.Logistic{Features: 4, Classes: 2, Mu: 0.05}).Model(w.set.Info().Samples)
	if err != nil {
		return nil, err
	}
	w.initial = make([]float32, w.model.Params())
	w.model.Init(w.initial, 1)
	w.kernel, err = learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return nil, err
	}
	for _, name := range algorithm.Algorithms.Names() {
		sets := []string{"aggregate.algorithm=" + name}
		if name == "python" { // without a process it is fedavg
			sets = append(sets, "aggregate.path=server.py")
		}
		c, err := config.Load("", sets)
		if err != nil {
			return nil, err
		}
		w.algorithms[name] = c.Aggregate.Algorithm
	}
	w.leaving, err = fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5}, Compute: fleet.Compute{SecondsPerStep: 0.03, Std: 0.02},
		Availability: fleet.Markov{OnSeconds: 3, OffSeconds: 2},
		Dropout:      fleet.Dropout{Probability: 0.1, WhenUnavailable: true},
		Fleet: []fleet.Class{{
			Name: "phone", Watts: fleet.Watts{Download: 1, Compute: 4, Upload: 1.5}, // a task takes about 1 J
			Battery: &fleet.Battery{Joules: 3, Start: fleet.Uniform{Min: 0.1, Max: 1}, Floor: 0.2, ChargeWatts: 0.3, Charges: "available"},
		}},
	}, 1)
	return w, err
}

// scenario is a seed's run and what happens to it.
type scenario struct {
	seed      uint64
	rounds    round.Config
	algorithm string
	compress  algorithm.Compression // nil: updates are whole
	jobs      int                   // a round is split into, beside those for hosts
	hosts     int
	devices   []pi
	weather   weather
	due       float64 // the share of events at which a checkpoint is due
	last      float64 // the share of checkpoints with which the coordinator crashes
	asked     float64 // the share of jobs soon after which it does
	power     float64 // the share of steps on the disk before which it does
	faults    []fault
}

// fault is something that happens to a part, for a while.
type fault struct {
	at   time.Duration
	kind kind
	part int // a host, or behind them a device; the coordinator has -1
	long time.Duration
}

// kind of fault.
type kind int

// The kinds of fault.
const (
	crash     kind = iota // the part is gone, and another takes its place after a while
	stop                  // the part is told to end, leaves, and another takes its place after a while
	partition             // nothing reaches the part or leaves it
	hang                  // the part stands still: what is for it waits
	slow                  // all that the part says and hears takes long
	twin                  // the coordinator stands still, and somebody starts another
	rival                 // somebody starts another coordinator
	forget                // the bus is away for a while and comes back empty
	kinds
)

func (k kind) String() string {
	return []string{"crash", "stop", "partition", "hang", "slow", "twin", "rival", "forget"}[k]
}

// draw makes a seed's scenario.
func (w *world) draw(seed uint64) *scenario {
	r := keyed.New(seed, ofScenario)
	s := &scenario{seed: seed, jobs: 1 + r.IntN(4), hosts: 1 + r.IntN(3), due: pick(r, 0, 0.05, 0.3), last: pick(r, 0, 0, 0.2), asked: pick(r, 0, 0.1, 0.3)}
	s.rounds, s.algorithm = w.run(r)
	s.weather = weather{
		loss: pick(r, 0, 0.02, 0.15), twice: pick(r, 0, 0.05, 0.3), late: pick(r, 0, 0.05, 0.3),
		delay: pick(r, 2*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond), lateness: pick(r, time.Second, 30*time.Second),
	}
	for range r.IntN(6) {
		f := fault{kind: kind(r.IntN(int(kinds))), part: r.IntN(s.hosts+2) - 2, long: time.Duration(r.Int64N(int64(30*time.Second))) + time.Millisecond}
		f.at = time.Duration(float64(time.Minute) * r.Float64() * r.Float64() * r.Float64())
		f.part = max(f.part, -1)
		if f.kind == twin || f.kind == rival {
			f.part = -1
		}
		s.faults = append(s.faults, f)
	}
	w.drawDevices(s, r)
	s.power = pick(r, 0, 0.01, 0.05)
	s.compress = w.compression(s, r)
	slices.SortFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	return s
}

// compression draws what becomes of the updates: in half of the runs that may have it something.
func (w *world) compression(s *scenario, r *rand.Rand) algorithm.Compression {
	chosen := w.algorithms[s.algorithm]
	if !s.rounds.Train || s.rounds.Devices.Count > 0 || registry.NeedsOf(chosen).ClientState || r.IntN(2) == 0 {
		return nil
	}
	overlap := closing.Overlaps(s.rounds.Closing) || closing.UsesLate(s.rounds.Late)
	all := []algorithm.Compression{
		algorithm.QSGD{Levels: 2}, algorithm.TopK{Share: 0.3}, algorithm.RandomK{Share: 0.3}, algorithm.Sign{Step: 0.05},
		algorithm.TopK{Share: 0.3, Feedback: true}, algorithm.RandomK{Share: 0.3, Feedback: true},
		algorithm.FourBit{Format: "e3m0", Block: 4}, algorithm.SparseLoCo{Share: 0.3, Chunk: 4, Decay: 0.9},
	}
	return pick(r, slices.DeleteFunc(all, func(c algorithm.Compression) bool {
		needs := registry.NeedsOf(c)
		return overlap && (needs.Rounds || needs.ClientState) || algorithm.CheckCompression(chosen, c) != nil
	})...)
}

// drawDevices gives some of the runs that may have devices one to three of them.
func (w *world) drawDevices(s *scenario, r *rand.Rand) {
	with := s.rounds
	with.Devices = round.Devices{Count: 1 + r.IntN(3), Sampled: pick(r, false, false, false, true), Liveness: round.Time(1+r.IntN(20)) * 1e9}
	if !with.Train || with.Validate() != nil || registry.NeedsOf(w.algorithms[s.algorithm]).ClientState || r.IntN(6) == 0 {
		return
	}
	s.rounds = with
	for i := range with.Devices.Count {
		x := pi{pace: pick(r, paces[0], paces[0], paces[0], paces[1], paces[1], paces[2]), waits: r.IntN(2) == 0}
		if r.IntN(12) == 0 {
			x.pace = paces[3]
		}
		if r.IntN(3) == 0 {
			x.after = time.Duration(r.Int64N(int64(40 * time.Second)))
		}
		s.devices = append(s.devices, x)
		for range r.IntN(3) {
			f := fault{kind: pick(r, crash, crash, stop, partition, hang, slow), part: s.hosts + i, long: time.Duration(r.Int64N(int64(40 * time.Second)))}
			f.at = time.Duration(float64(time.Minute) * r.Float64() * r.Float64())
			if r.IntN(4) == 0 && f.kind <= stop {
				f.long = mostTime // it does not come back
			}
			s.faults = append(s.faults, f)
		}
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// run draws a run.
func (w *world) run(r *rand.Rand) (c round.Config, chosen string) {
	const second = round.Time(1e9)
	rules := append(every(closing.Rules, int64(2+r.IntN(3))), closing.Buffered{N: 2, StalenessLimit: 1})
	// One that asks for a formula has none by its defaults.
	rules = slices.DeleteFunc(rules, func(rule closing.Rule) bool { _, isFormula := rule.(closing.Formula); return isFormula })
	rule := pick(r, rules...)
	train := r.IntN(3) > 0
	c = round.Config{
		Seed: r.Uint64N(1000), Clients: clients, Cohort: 4 + r.IntN(3), Closing: rule,
		Setup: schedule.Setup{K0: 4, Eta0: 0.3}, K: schedule.RoundsK{}, Eta: schedule.FixedEta{},
		Window: schedule.WindowConfig{Size: 2}, Plateau: schedule.PlateauConfig{Patience: 1}, Metrics: []metric.Metric{{Name: metric.Accuracy}},
		Train: train, Stop: round.Limits{Rounds: 2 + r.IntN(5)},
		Available: func(client int, at round.Time) bool { return w.leaving.Available(client, int64(at)) },
		NextChange: func(at round.Time) (round.Time, bool) {
			next := int64(fleet.Never)
			for c := range clients {
				next = min(next, w.leaving.NextChange(c, int64(at)))
			}
			return round.Time(next), next != fleet.Never
		},
		Samples: w.set.Samples,
		Expect: func(client, steps int) round.Time {
			return round.Time(0.25e9) + round.Time(steps)*30e6*round.Time(1+client%3)
		},
	}
	choices := append(every(selection.Rules, 8), selection.PowerOfChoice{Candidates: 8, Base: selection.RoundRobin{}})
	choices = slices.DeleteFunc(choices, func(choose selection.Rule) bool {
		x := c
		x.Select = choose
		return x.Validate() != nil
	})
	c.Select = pick(r, choices...)
	c.Late = pick(r, every(closing.Lates, int64(1+r.IntN(3)))...)
	if c.Validate() != nil {
		c.Late = nil
	}
	names := algorithm.Algorithms.Names()
	if train {
		c.Evaluate.Every = r.IntN(3)
		c.EvaluateClients.Every = 2 * c.Evaluate.Every
		c.K = pick[schedule.K](r, schedule.RoundsK{}, schedule.ErrorK{}, schedule.StepK{})
	}
	if closing.Overlaps(rule) {
		names = slices.DeleteFunc(names, func(name string) bool { return registry.NeedsOf(w.algorithms[name]).Rounds })
	}
	if closing.UsesLate(c.Late) {
		names = slices.DeleteFunc(names, func(name string) bool { return registry.NeedsOf(w.algorithms[name]).ClientState })
	}
	if r.IntN(4) == 0 {
		c.Stop.Time = round.Time(1+r.IntN(8)) * second
	}
	chosen = pick(r, names...)
	charged := c
	charged.Batteries = (batteries{w.leaving})
	if r.IntN(3) == 0 && charged.Validate() == nil {
		c = charged
	}
	return c, chosen
}

// batteries are a fleet's as the round machine asks for them.
type batteries struct{ *fleet.Fleet }

func (b batteries) Charged(client int, joules float64, since, now round.Time) float64 {
	return b.Fleet.Charged(client, joules, int64(since), int64(now))
}

func (b batteries) Spent(client int, p round.Plan, after round.Time) float64 {
	return b.Fleet.Spent(client, fleet.Durations{Download: int64(p.Download), Compute: int64(p.Compute), Upload: int64(p.Upload)}, int64(after))
}

func (b batteries) Ready(client int, joules float64, since round.Time) round.Time {
	return round.Time(b.Fleet.Ready(client, joules, int64(since)))
}

// config is the run as a coordinator takes it.
func (s *scenario) config(w *world) coordinator.Config {
	c := coordinator.Config{Run: "r", ModelBits: modelBits, Round: s.rounds}
	if s.rounds.Train {
		problem := s.problem(w)
		c.Learning = aggregate.Learning{
			Model: w.model, Initial: w.initial, Spec: problem.Spec(), Kernel: w.kernel.Class(), Jobs: s.jobs, HeldOut: w.set.HeldOut(), EvaluationSamples: w.set.Samples,
			Algorithm: algorithm.NewInstance(problem.Algorithm, problem.Compression, len(w.initial), len(w.initial), problem.MemoryValues(), clients),
		}
	}
	return c
}

func (s *scenario) problem(w *world) actors.Problem {
	return actors.Problem{Model: w.model, Set: w.set, Seed: 1, Batch: 4, Augment: actors.NoAugment, Algorithm: w.algorithms[s.algorithm], Compression: s.compress, Kernel: w.kernel}
}

func (s *scenario) String() string {
	var b strings.Builder
	what := "timing only"
	if s.rounds.Train {
		what = "trained with " + s.algorithm
	}
	if s.compress != nil {
		what += " of updates by " + algorithm.Compressions.Text(s.compress)
	}
	if s.rounds.Batteries != nil {
		what += ", on batteries"
	}
	fmt.Fprintf(&b, "%d rounds of %d, %s, late %v, %s, %s; %d hosts, %d jobs; checkpoints at %.0f %% of events, a crash after %.0f %% of them and of %.0f %% of jobs, and before %.0f %% of steps on the disk; %v; devices %v", s.rounds.Stop.Rounds, s.rounds.Cohort, closing.Rules.Text(s.rounds.Closing), s.rounds.Late,
		selection.Rules.Text(s.rounds.Select), what, s.hosts, s.jobs, 100*s.due, 100*s.last, 100*s.asked, 100*s.power, s.weather, s.devices)
	for _, f := range s.faults {
		part := fmt.Sprintf("host %d", f.part)
		switch {
		case f.kind == forget:
			part = "the bus"
		case f.part < 0:
			part = "the coordinator"
		case f.part >= s.hosts:
			part = "device " + s.deviceName(f.part-s.hosts)
		}
		fmt.Fprintf(&b, "; at %v %v of %s for %v", f.at.Round(time.Millisecond), f.kind, part, f.long.Round(time.Millisecond))
	}
	return b.String()
}

// every lists the entries of a table, with a whole number for all options that are
// whole numbers, half a second for times, and nothing for the others.
func every[T any](table *registry.Table[T], whole int64) (list []T) {
	for _, name := range table.Names() {
		entry, _ := table.Entry(name)
		v := reflect.New(reflect.TypeOf(entry)).Elem()
		for _, o := range registry.Options(v.Type()) {
			switch f := v.FieldByIndex(o.Index); {
			case o.Null:
			case o.Path: // of a policy in Python, which has no process here
				f.SetString("policy.py")
			case o.Inert && f.CanInt():
				f.SetInt(int64(o.Range.Lo))
			case f.CanInt():
				f.SetInt(whole)
			case o.Unit == "seconds":
				f.SetFloat(0.5)
			case f.CanFloat() && !o.Range.Contains(0):
				f.SetFloat(o.Range.Hi)
			}
		}
		list = append(list, v.Interface().(T))
	}
	return list
}
