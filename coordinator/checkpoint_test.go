package coordinator_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"fedpace/actors/fleet"
	"fedpace/actors/host"
	"fedpace/algorithm"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// scene is a server with a host, on which runs are played one after another.
type scene struct {
	lab     *lab
	fleet   *fleet.Fleet // of the run: one of those below
	connect func() *natsbus.Conn

	leaving, staying *fleet.Fleet

	scores map[int][]metric.ClientScore // by round, of all lives
}

// newScene starts a server and returns a scene with a fleet whose clients leave and one whose clients stay.
func newScene(t *testing.T) *scene {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	s := &scene{lab: newLab(t), leaving: ruleFleet(t), staying: stayingFleet(t)}
	s.fleet = s.leaving
	store := natsbus.NewStore()
	s.connect = func() *natsbus.Conn {
		conn, err := natsbus.Connect(t.Context(), natsconn.Config{Server: server}, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	return s
}

// play plays one attempt of run name, with this many jobs a round. called is the name of the algorithm, after which
// other keys may be set. resume is the state to continue from, nil for a new run.
func (s *scene) play(name string, rounds round.Config, called string, jobs int, resume *coordinator.State, checkpoint coordinator.Checkpoint) (*coordinator.Result, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := coordinator.Config{Run: name, ModelBits: ruleBits, Round: rounds, Resume: resume, Checkpoint: checkpoint}
	problem := s.lab.problem
	if rounds.Train {
		params := make([]float32, s.lab.problem.Model.Params())
		s.lab.problem.Model.(learn.Model).Init(params, 1)
		defaults, err := config.Load("", strings.Fields("aggregate.algorithm="+called))
		if err != nil {
			return nil, err
		}
		problem.Algorithm, problem.Compression = defaults.Aggregate.Algorithm, defaults.Compress
		c.Learning = aggregate.Learning{
			Model: s.lab.problem.Model, Initial: params, Spec: problem.Spec(), Kernel: problem.Kernel.Class(), Jobs: jobs,
			HeldOut: s.lab.problem.Set.HeldOut(), EvaluationSamples: s.lab.problem.Set.Samples, Algorithm: algorithm.NewInstance(problem.Algorithm, problem.Compression, len(params), len(params), 0, rounds.Clients),
			Combine: defaults.Combining(),
		}
	}
	c.Observer.Clients = func(number int, scores []metric.ClientScore) error {
		s.scores[number] = scores
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	conn, own := s.connect(), s.connect()
	defer conn.Close()
	defer own.Close()
	host, err := host.Start(ctx, conn, host.Config{Run: name, Fleet: s.fleet, Workers: 2, Problem: problem})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	if rounds.Train {
		group.Go(func() error { return host.Train(ctx) })
	}
	var result *coordinator.Result
	group.Go(func() (err error) {
		defer stop()
		result, err = coordinator.Run(ctx, own, c)
		return err
	})
	err = group.Wait()
	return result, err
}

// anyRules draws the rules and the algorithm of a run of 30 clients.
func (s *scene) anyRules(t *rapid.T) (c round.Config, algorithm string) {
	const second = round.Time(1e9)
	closings := append(every(closing.Rules, rapid.Int64Range(2, 4).Draw(t, "n")), closing.Buffered{N: 2, StalenessLimit: 1})
	rule := rapid.SampledFrom(closings).Draw(t, "closing")
	train, buffered := rapid.Bool().Draw(t, "train"), closing.Overlaps(rule)
	choices := append(every(selection.Rules, 11), selection.PowerOfChoice{Candidates: 11, Base: selection.RoundRobin{}})
	choices = slices.DeleteFunc(choices, func(choose selection.Rule) bool {
		c = ruleConfig(s.lab, s.fleet, rule, choose)
		c.Train = train
		return c.Validate() != nil
	})
	c = ruleConfig(s.lab, s.fleet, rule, rapid.SampledFrom(choices).Draw(t, "select"))
	c.Train, c.Stop.Rounds = train, 8
	algorithms := []string{"fedavg", "fedavgm", "fedyogi", "fedbuff compress={method:sign,step:0.01}", "fedasync compress={method:qsgd,levels:3}",
		"fedavg aggregate.combine=trimmed_mean aggregate.clip=median", "fedasync aggregate.combine=geometric_median aggregate.clip={bound:quantile,initial:0.5}"}
	if train {
		c.Evaluate.Every = rapid.IntRange(0, 3).Draw(t, "evaluate every")
		c.EvaluateClients.Every = rapid.IntRange(0, 3).Draw(t, "evaluate clients every")
		c.K = rapid.SampledFrom([]schedule.K{
			schedule.RoundsK{}, schedule.ErrorK{}, schedule.StepK{},
			schedule.AdaComm{Seconds: 0.7, Gamma: 0.8}, schedule.ExpressionK{Formula: "accuracy * k + F / F0 * (converged ? 1 : r)"},
		}).Draw(t, "k")
		c.Loss = rapid.SampledFrom([]schedule.Loss{{}, {Validation: true}, {Trim: 0.2}}).Draw(t, "loss")
		c.Plateau.Patience = 1
		if !buffered {
			algorithms = append(algorithms, "scaffold", "fedavg compress={method:top_k,share:0.05}", "fedyogi compress={method:random_k,share:0.1}")
		}
	}
	if !buffered && rapid.Bool().Draw(t, "stragglers") {
		c.K = schedule.ExpressionK{Formula: "min(k, 4) + 6 * straggler_share"}
	}
	if rapid.Bool().Draw(t, "epochs") {
		samples := c.Samples // about 20, and K_r is 6 thousandths of an epoch
		c.Samples, c.Epochs = func(client int) int { return 1000 * samples(client) }, schedule.Epochs{Batch: 20, Samples: 20_000}
	}
	if rapid.Bool().Draw(t, "time") {
		c.Stop.Time = round.Time(rapid.IntRange(1, 8).Draw(t, "seconds")) * second
	}
	s.fleet = haste(t, &c, s.staying, s.leaving)
	if flat := c; rapid.Bool().Draw(t, "sites add up") {
		c.SiteRounds, c.Server.Sites, c.Leaves = rapid.IntRange(1, 3).Draw(t, "rounds of a site"), 3, nil
		if c.Validate() == nil {
			return c, rapid.SampledFrom(algorithms[:3]).Draw(t, "algorithm")
		}
		c = flat
	}
	c.Late = rapid.SampledFrom([]closing.Lateness{nil, closing.Use{Limit: 1}, closing.Use{Limit: 4}}).Draw(t, "late")
	if c.Validate() != nil {
		c.Late = nil
	} else if closing.UsesLate(c.Late) {
		algorithms = slices.DeleteFunc(algorithms, func(a string) bool { return a == "scaffold" || strings.Contains(a, "_k") })
		algorithms = append(algorithms, "refl", "refl compress={method:qsgd}")
	}
	return c, rapid.SampledFrom(algorithms).Draw(t, "algorithm")
}

var errStop = errors.New("stopped by the test")

// A run that is stopped after any of its steps and goes on from the state that
// was kept then, with another number of jobs, ends as if it had not been: the
// same history, the same model, the same scores of its clients.
func TestCheckpoint_AnyStep(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	s := newScene(t)
	number := 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		name := fmt.Sprintf("r%d", number)
		rounds, algorithm := s.anyRules(t)
		steps := 0
		s.scores = map[int][]metric.ClientScore{}
		want, err := s.play(name, rounds, algorithm, 3, nil, coordinator.Checkpoint{Due: func() bool { steps++; return false }})
		if err != nil {
			t.Fatal(err)
		}
		scores := s.scores
		s.scores = map[int][]metric.ClientScore{}
		var kept *coordinator.State
		stop := coordinator.Checkpoint{}
		left := 0
		stop.Due = func() bool { left--; return left < 0 }
		stop.Save = func(state *coordinator.State) error {
			kept = copied(t, state)
			return errStop
		}
		var got *coordinator.Result
		for life, jobs := range []int{3, 1, 4} {
			left = rapid.IntRange(0, steps).Draw(t, "steps")
			if life == 2 {
				left = 1 << 30
			}
			got, err = s.play(name, rounds, algorithm, jobs, kept, stop)
			if err == nil {
				break
			}
			if !errors.Is(err, errStop) {
				t.Fatal(err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Fingerprint != want.Fingerprint || got.Stop.Outcomes != want.Stop.Outcomes || got.Stop.Rounds != want.Stop.Rounds || got.Stop.EndTime != want.Stop.EndTime {
			t.Fatalf("another history: %+v, want %+v", got.Stop, want.Stop)
		}
		if !slices.Equal(got.Params, want.Params) {
			t.Fatal("another model")
		}
		if diff := cmp.Diff(scores, s.scores); diff != "" || rounds.EvaluateClients.Every > 0 && len(scores) == 0 && want.Stop.Rounds > 0 {
			t.Fatalf("%d evaluations by client, others: %s", len(scores), diff)
		}
	})
}

// copied returns a copy of state s that was encoded and decoded, as through a file.
func copied(t *rapid.T, s *coordinator.State) *coordinator.State {
	var b bytes.Buffer
	var again coordinator.State
	if err := errors.Join(gob.NewEncoder(&b).Encode(s), gob.NewDecoder(&b).Decode(&again)); err != nil {
		t.Fatal(err)
	}
	return &again
}

// States that are not those of the run are refused before anything is sent.
func TestCheckpoint_OtherRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	rounds := ruleConfig(s.lab, s.fleet, closing.Buffered{N: 3}, nil)
	var kept *coordinator.State
	n := 0
	_, err := s.play("r", rounds, "fedyogi", 3, nil, coordinator.Checkpoint{
		Due:  func() bool { n++; return n > 100 },
		Save: func(state *coordinator.State) error { kept = state; return errStop },
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name      string
		algorithm string
		change    func(*coordinator.State)
		want      string
	}{
		{"another algorithm", "fedavg", func(*coordinator.State) {}, "vectors"},
		{"another population", "fedyogi", func(s *coordinator.State) { s.Machine.StepsDone = s.Machine.StepsDone[1:] }, "steps done of 29 clients"},
	} {
		state := *kept
		state.Models = slices.Clone(kept.Models)
		x.change(&state)
		_, err := s.play("r", rounds, x.algorithm, 3, &state, coordinator.Checkpoint{})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
}
