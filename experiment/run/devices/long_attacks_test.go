package devices_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/experiment/run"

	"fedpace/actors"
	"fedpace/actors/attack"
	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// lie is what an attacker makes of its honest answer to a task.
type lie struct {
	round        int
	base, values []float32 // the model, and what it honestly came to: to be changed
	update       *bus.Update
	flipped      []float32 // what it would have come to with wrong labels
	which        int       // attacker
}

// push adds a vector of a length, in a direction that is the same for one seed.
func (l *lie) push(length float64, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	direction, square := make([]float64, len(l.values)), 0.0
	for i := range direction {
		direction[i] = r.NormFloat64()
		square += direction[i] * direction[i]
	}
	for i := range direction {
		l.values[i] += float32(length * direction[i] / math.Sqrt(square))
	}
}

// move sends an update that is so many times as long as that to some values.
func (l *lie) move(towards []float32, times float64) {
	for i, x := range towards {
		l.values[i] = l.base[i] + float32(times*float64(x-l.base[i]))
	}
}

// frog adds a vector that grows by a part in each round.
func frog(growth float64) func(*lie) {
	return func(l *lie) { l.push(0.3*math.Pow(1+growth, float64(l.round)), 7) }
}

// siege is a run of 60 rounds that learns, with real devices of which some attack.
type siege struct {
	honest, hostile, simulated int
	rounds                     int // 0: 60
	seed                       uint64
	attack                     func(*lie) // nil: the hostile devices stay away
	sets                       []string
	leaves                     int // tasks after which a hostile device leaves, and joins anew; 0: it stays
	stopAt                     int // round after which it is stopped, and goes on; 0: none
}

// outcome is what a siege came to.
type outcome struct {
	folder.Summary
	dir   string
	tail  float64 // mean accuracy of the last five evaluations
	loss  float64 // the last
	grown float64 // bytes that the process holds at its end beyond those after a quarter
	lines string
	err   error
}

// play plays the run over a server of its own.
func (s siege) play(t *testing.T) (o outcome) {
	t.Helper()
	if s.rounds == 0 {
		s.rounds = 60
	}
	var names []string
	for i := range s.honest + s.hostile {
		names = append(names, fmt.Sprint("d", i))
	}
	server, load := devicesAlone(t, "["+strings.Join(names, ", ")+"]", append([]string{
		fmt.Sprint("stop.rounds=", s.rounds), "evaluate.every=1", "logistic.features=20", "logistic.classes=5", "logistic.samples=200", fmt.Sprint("seed=", s.seed+1),
	}, s.sets...)...)
	sets := load()
	if s.simulated > 0 {
		sets = append(sets, fmt.Sprint("clients=", s.simulated), fmt.Sprint("cohort=", s.simulated))
	}
	made := runtest.Small(t, sets...) // with as many clients as devices, whose samples these have
	made.Clients, made.Devices.Names, made.Cohort = s.simulated+len(names), nil, 1
	p, err := problem.Prepare(t.Context(), made, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	devices := map[string]lies{}
	for i, name := range names {
		if i >= s.honest && s.attack == nil {
			sets = append(sets, "devices.liveness_seconds=0.3")
			break
		}
		devices[name] = s.device(t, p, i)
	}
	c := runtest.Small(t, sets...)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for id, change := range devices {
		all.Go(func() {
			for ctx.Err() == nil {
				life, leave := context.WithCancel(ctx)
				answered := 0
				device := runtest.Device{ID: id, URL: server.NATS.URL, Forgives: true, Waits: true, Answer: func(task *bus.Task, values []float32, u *bus.Update) {
					if answered++; s.leaves > 0 && answered > s.leaves && s.isHostile(id) {
						leave()
					}
					change(task, values, u)
				}}
				if err := device.TakePart(life); err != nil && life.Err() == nil {
					t.Errorf("%s: %v", id, err)
				}
				leave()
			}
		})
	}
	var said sync.Mutex
	server.Notice = func(line string) {
		said.Lock()
		defer said.Unlock()
		o.lines += line + "\n"
	}
	going, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	server.Model = func(number int, _ []float32) {
		switch number {
		case s.stopAt:
			interrupt()
		case s.rounds / 4:
			o.grown -= heap()
		case s.rounds:
			o.grown += heap()
		}
	}
	o.Summary, o.err = run.Run(going, c, server)
	if s.stopAt > 0 && errors.Is(o.err, context.Canceled) {
		var r run.Resumed
		r, o.err = run.Resume(t.Context(), c.Out, server)
		if o.err == nil {
			o.Summary = r.Summary
		}
	}
	o.dir = c.Out
	list, err := runtest.ReadRounds(c.Out + "/" + folder.RoundsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list[max(0, len(list)-5):] {
		o.tail += r.Metrics[0] / 5
		o.loss = r.ValidationLoss
	}
	return o
}

// isHostile reports whether a device is one that attacks.
func (s siege) isHostile(id string) bool {
	var i int
	_, err := fmt.Sscanf(id, "d%d", &i)
	return err == nil && i >= s.honest
}

// device is the i-th device, which trains on the samples of a client behind the simulated ones.
func (s siege) device(t *testing.T, p *problem.Problem, i int) lies {
	t.Helper()
	learning := *p.Learning()
	learning.Attacks = []attack.Attack{attack.LabelFlip{Map: "reverse", Factor: 1}}
	trainer, err := actors.NewTrainer(learning)
	if err != nil {
		t.Fatal(err)
	}
	return func(task *bus.Task, values []float32, u *bus.Update) {
		base := slices.Clone(values)
		train := func(attacker int) ([]float32, []actors.Outcome, error) {
			own, sum := slices.Clone(base), make([]int64, len(base))
			done, err := trainer.Train(context.Background(), base, nil, []actors.Assignment{{
				Task: task.Task, Client: s.simulated + i, LocalSteps: int(task.LocalSteps), StepsDone: int64(task.StepsDone), Rate: task.LearningRate, Weight: 1, Attacker: attacker,
			}}, sum)
			for j := range own {
				own[j] += float32(float64(sum[j]) / algorithm.Unit)
			}
			if err == nil {
				copy(own[p.Model.Trainable()+done[0].FirstBuffer:], done[0].Buffers)
			}
			return own, done, err
		}
		own, done, err := train(0)
		u.DownloadNs, u.ComputeNs, u.UploadNs, u.Samples = 1, 1, 1, 50
		if err != nil { // its model is none
			values[0] = float32(math.NaN())
			return
		}
		u.FirstStepLoss = done[0].FirstStepLoss
		copy(values, own)
		if which := i - s.honest; which >= 0 {
			flipped, _, err := train(1)
			if err != nil {
				flipped = own
			}
			s.attack(&lie{int(task.Round), base, values, u, flipped, which})
		}
	}
}

// bannedOf are the devices among the first that are banned.
func (o *outcome) bannedOf(honest int) (list []string) {
	for _, b := range o.Banned {
		var i int
		if fmt.Sscanf(b.Device, "d%d", &i); i < honest {
			list = append(list, b.Device+": "+b.Reason)
		}
	}
	return list
}

// A device adds a vector that grows round by round. Beside three or more honest ones the model ends as
// good as without it; beside one the run says that a robust rule needs four, and goes on. None
// that is honest is banned.
func TestDevice_SlowDriftAttack(t *testing.T) {
	for _, simulated := range []int{0, 30} {
		for _, honest := range []int{1, 3, 9} {
			growths := []float64{0.2}
			if slow.On() {
				growths = []float64{0.05, 0.1, 0.2, 0.6, 2.2}
			} else if simulated > 0 && honest != 3 || honest == 9 {
				continue
			}
			t.Run(fmt.Sprintf("%d honest beside %d simulated", honest, simulated), func(t *testing.T) {
				t.Parallel()
				s := siege{honest: honest, hostile: 1, simulated: simulated}
				clean := s.play(t)
				for _, growth := range growths {
					s.attack = frog(growth)
					o := s.play(t)
					t.Logf("growth %g: accuracy %.3f, %.3f without it, loss %.3f, %.3f without it, %d returns", growth, o.tail, clean.tail, o.loss, clean.loss, o.Returns)
					if o.err != nil || o.Rounds != 60 || o.bannedOf(honest) != nil {
						t.Errorf("growth %g: %v after %d rounds; honest and banned are %v", growth, o.err, o.Rounds, o.bannedOf(honest))
					}
					if honest >= 3 && !(o.tail >= clean.tail-0.03) {
						t.Errorf("growth %g: an accuracy of %.3f, without it %.3f", growth, o.tail, clean.tail)
					}
					if believed := strings.Contains(o.lines, "it needs four devices in a round"); believed != (honest < 3) {
						t.Errorf("growth %g: the run says\n%s", growth, o.lines)
					}
				}
			})
		}
	}
}

// A device that is alone ruins the model again and again. The run goes back to its best model each
// time, says so and bans nobody; stopped on the way it goes on to the same bits, which a replay has, too.
func TestModel_Lost(t *testing.T) {
	t.Parallel()
	alone := siege{hostile: 1, attack: frog(0.2), sets: []string{"devices.keep_updates=true", "aggregate.algorithm=fedavgm"}}
	o := alone.play(t)
	if o.err != nil || o.Returns < 2 || o.Banned != nil || !(o.loss < 10) || !strings.Contains(o.lines, "The run goes back to its best one") {
		t.Errorf("%v, %d returns, a loss of %g, banned are %v:\n%s", o.err, o.Returns, o.loss, o.Banned, o.lines)
	}
	sameAgain(t, o.dir, o.Summary)
	alone.stopAt = 41
	if again := alone.play(t); *again.ModelSHA256 != *o.ModelSHA256 || again.Returns != o.Returns {
		t.Errorf("%d returns where it is stopped and goes on, %d where not; %v", again.Returns, o.Returns, again.err)
	}
}

// What a device sends of a model that has lost much, any other might send: it is refused, and does
// not count towards a ban.
func TestModel_LostBansNobody(t *testing.T) {
	t.Parallel()
	refused := 0
	o := siege{hostile: 1, sets: []string{"devices.quota.refused_tasks=2"}, attack: func(l *lie) {
		if l.push(0.3*math.Pow(1.2, float64(l.round)), 7); l.update.FirstStepLoss > 4 && l.round%3 > 0 {
			refused++
			l.values[0] = float32(math.NaN())
		}
	}}.play(t)
	if o.err != nil || o.Banned != nil || refused < 4 || o.Outcomes[round.Refused] != int64(refused) || o.Rounds != 60 {
		t.Errorf("%v after %d rounds, %d updates that are none, outcomes %v, banned are %v", o.err, o.Rounds, refused, o.Outcomes, o.Banned)
	}
}

// longAttacks are attackers that live for 60 rounds.
var longAttacks = []struct {
	name    string
	hostile int
	leaves  int
	attack  func(*lie)
	sets    []string
}{
	{name: "grows by 5 % a round", attack: frog(0.05)},
	{name: "grows by 100 % a round", attack: frog(1)},
	{name: "grows with alternate signs", attack: func(l *lie) { l.push(math.Pow(-1.3, float64(l.round)), 7) }},
	{name: "is honest until round 30", attack: func(l *lie) {
		if l.round > 30 {
			l.move(l.values, -100)
		}
	}},
	{name: "is two who take turns", hostile: 2, attack: func(l *lie) {
		if l.round%2 == l.which {
			l.push(0.3*math.Pow(1.2, float64(l.round)), 7)
		}
	}},
	{name: "flips labels more and more", attack: func(l *lie) { l.move(l.flipped, 1+float64(l.round)/4) }},
	{name: "claims more and more time", attack: func(l *lie) {
		l.push(0.1*float64(l.round), 7)
		l.update.ComputeNs = int64(1e6 * math.Pow(1.5, float64(l.round)))
	}},
	{name: "claims more and more samples and loss", sets: []string{"aggregate.weights=samples", "schedule={k: error, k0: 4, window: 2}"}, attack: func(l *lie) {
		l.update.Samples = 50 + uint64(l.round)*uint64(l.round)
		l.update.FirstStepLoss *= 1 + float64(l.round)/10
	}},
	{name: "leaves and joins anew", leaves: 15, attack: frog(0.2)},
	{name: "stays below the bound on norms", attack: func(l *lie) { l.push(2, 7) }},
	{name: "is another than it was in each round", attack: func(l *lie) { l.push(5, uint64(l.round)) }},
}

// Attackers of 60 rounds, beside three honest devices and more: none of these is banned, the model
// learns, the clock shows no time that was not waited, and the run holds no more at its end.
func TestLongAttacks(t *testing.T) {
	for _, x := range longAttacks {
		seeds := uint64(1)
		switch {
		case slow.On() && x.leaves > 0: // the run waits for its device, seconds each time
			seeds = 3
		case slow.On():
			seeds = 20
		case x.leaves > 0:
			continue
		}
		worst, began := 0.0, time.Now()
		for seed := range seeds {
			t.Run(fmt.Sprintf("one that %s, seed %d", x.name, seed), func(t *testing.T) {
				if x.hostile < 2 {
					slow.NotUnderRace(t)
				}
				honest := 3 + 2*int(seed%4)
				o := siege{honest: honest, hostile: max(1, x.hostile), seed: seed, attack: x.attack, leaves: x.leaves, sets: x.sets}.play(t)
				worst = max(worst, o.loss)
				if o.err != nil || o.Rounds != 60 || o.bannedOf(honest) != nil {
					t.Errorf("%v after %d rounds; honest and banned are %v", o.err, o.Rounds, o.bannedOf(honest))
				}
				if o.grown > 2<<20 {
					t.Errorf("the run holds %.0f kB more at its end than after a quarter", o.grown/1e3)
				}
				if !(o.loss < 1.5) || o.VirtualSeconds > 1.001*o.WallSeconds {
					t.Errorf("a loss of %.3f, of an untrained model 1.61; %.3f virtual seconds in %.3f of the clock on the wall", o.loss, o.VirtualSeconds, o.WallSeconds)
				}
			})
		}
		t.Logf("one that %s: a loss of %.3f at most, %v a run", x.name, worst, (time.Since(began) / time.Duration(seeds)).Round(time.Millisecond))
	}
}
