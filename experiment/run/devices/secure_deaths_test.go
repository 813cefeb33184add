package devices_test

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"testing"

	"fedpace/actors"
	"fedpace/actors/real"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// simulatedClients are the simulated clients of a run, each of which has a task in each round. Their updates are
// worked out beside the run, by a trainer of their own.
type simulatedClients struct {
	clients int
	trainer *actors.Trainer
	// steps and rates have for each round, from 1 on, the number K of local steps and their learning rate.
	steps map[int]int
	rates map[int]float64
	// done has by client the local steps of its accepted tasks, where rounds overlap.
	done map[int]int64
}

// newSimulatedClients are those of a run.
func newSimulatedClients(t *testing.T, c config.Config) *simulatedClients {
	t.Helper()
	p, err := problem.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := trainer.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &simulatedClients{
		clients: c.Clients,
		trainer: trainer,
		steps:   map[int]int{},
		rates:   map[int]float64{},
		done:    map[int]int64{},
	}
}

// note notes what a round asked of its clients.
func (s *simulatedClients) note(r *round.Report) {
	s.steps[r.Round] = r.LocalSteps
	s.rates[r.Round] = r.LearningRate
}

// acceptedTasks returns the accepted tasks of each buffered round of a run, by its folder, in the order of rounds. Each
// round has made a model, so the version from which a task starts is the number of rounds that had ended then.
func acceptedTasks(t *testing.T, dir string) iter.Seq2[int, []metrics.Task] {
	t.Helper()
	log, err := eventlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ends []round.Time
	return func(yield func(int, []metrics.Task) bool) {
		for r, err := range log.Rounds() {
			if err != nil {
				t.Fatal(err)
			}
			var accepted []metrics.Task
			for _, x := range r.Tasks {
				if x.Outcome != round.Accepted {
					continue
				}
				x.Model = 0
				for _, end := range ends {
					if end <= x.Start {
						x.Model++
					}
				}
				x.Staleness = len(ends) - int(x.Model)
				accepted = append(accepted, x)
			}
			ends = append(ends, r.End)
			if !yield(r.Report.Round, accepted) {
				return
			}
		}
	}
}

// addTasks adds to sum the updates of those of a buffered round's tasks that are of simulated clients, and returns
// their weight, where all clients together have weightOfAll. Each update starts from its version of the model: models
// has them by the number of the round that made them.
func (s *simulatedClients) addTasks(
	t *testing.T,
	number int,
	tasks []metrics.Task,
	models map[int][]float32,
	weightOfAll float64,
	sum []int64,
) (total uint64) {
	t.Helper()
	for _, x := range tasks {
		if x.Real {
			continue
		}
		weight := math.RoundToEven(1024 / math.Sqrt(float64(1+x.Staleness)))
		total += uint64(weight)
		work := actors.Assignment{
			Task:       x.Task,
			Client:     x.Client,
			LocalSteps: x.LocalSteps,
			StepsDone:  s.done[x.Client],
			Rate:       s.rates[number],
			Weight:     weight / weightOfAll,
		}
		s.done[x.Client] += int64(x.LocalSteps)
		if _, err := s.trainer.Train(t.Context(), models[int(x.Model)], nil, []actors.Assignment{work}, sum); err != nil {
			t.Fatal(err)
		}
	}
	return total
}

// add adds to sum the updates of all clients in a round with this number, from this model and with this weight.
func (s *simulatedClients) add(t *testing.T, number int, model []float32, weight float64, sum []int64) {
	t.Helper()
	done := 0
	for earlier := 1; earlier < number; earlier++ {
		done += s.steps[earlier]
	}
	var tasks []actors.Assignment
	for client := range s.clients {
		tasks = append(tasks, actors.Assignment{
			Task:       uint64(client + 1),
			Client:     client,
			LocalSteps: s.steps[number],
			StepsDone:  int64(done),
			Rate:       s.rates[number],
			Weight:     weight,
		})
	}
	if _, err := s.trainer.Train(t.Context(), model, nil, tasks, sum); err != nil {
		t.Fatal(err)
	}
}

// secureDeath is when devices die: in a stage of round 2, just before their message of the stage or just after they
// have its answer. uploads is true for a death just before the masked update is sent, which comes before the message
// of the stage of masks.
type secureDeath struct {
	stage    bus.SecureStage
	answered bool
	uploads  bool
}

// secureStages are the stages of a round that does not overlap with others.
var secureStages = []bus.SecureStage{
	bus.StageKeys, bus.StageShares, bus.StageMasked, bus.StageSurvivors, bus.StageRecovery,
}

// secureDeaths are all of them, in their order in a round.
func secureDeaths() (list []secureDeath) {
	for _, stage := range secureStages {
		if stage == bus.StageMasked {
			list = append(list, secureDeath{stage: stage, uploads: true})
		}
		list = append(list, secureDeath{stage: stage}, secureDeath{stage: stage, answered: true})
	}
	return list
}

// hasUploaded reports whether devices that die then have sent their update.
func (x secureDeath) hasUploaded() bool {
	return x.stage >= bus.StageMasked && x.stage != bus.StageTrained && !x.uploads
}

// String is the name of the test in which devices die then.
func (x secureDeath) String() string {
	switch {
	case x.uploads:
		return "before the upload"
	case x.answered:
		return fmt.Sprintf("after the answer of stage %v", x.stage)
	}
	return fmt.Sprintf("before the message of stage %v", x.stage)
}

// Three of eight devices die in round 2, at each point of the protocol, alone and beside eight simulated clients. The
// models have the bits of the sums without masks of the same survivors.
func TestSecure_DevicesDieAtEachStage(t *testing.T) {
	t.Parallel()
	// Three of eight are the smallest number of devices that is 30 % of them at least.
	dying := []string{"d2", "d3", "d7"}
	others := []string{"d1", "d4", "d5", "d6", "d8"}
	for _, mixed := range []bool{false, true} {
		for _, death := range secureDeaths() {
			name := fmt.Sprintf("alone, %v", death)
			if mixed {
				name = fmt.Sprintf("mixed, %v", death)
			}
			// Each case waits two seconds for the devices that died to be silent.
			isShort := death.uploads || mixed && !death.answered
			if !isShort && !slow.On() {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sets := []string{"secure_aggregation.dropouts=0.38"}
				if mixed {
					sets = append(sets, "clients=8", "cohort=8", "devices.robust=false", "devices.clip=null")
				}
				o, c, d := secureRun(t, sets...)
				if mixed {
					d.simulated = newSimulatedClients(t, c)
				}
				d.step = func(id string, s real.SecureStep, kill func()) {
					here := secureDeath{s.Stage, s.Answered, s.Words != nil}
					if s.Round == 2 && here == death && slices.Contains(dying, id) {
						kill()
					}
				}
				models := d.played(t, o, c, func(o run.Options) error {
					_, err := run.Run(t.Context(), c, o)
					return err
				})
				if len(models) != 3 {
					t.Fatalf("models of %d rounds, want 3", len(models))
				}
				d.expectModels(t, models, func(number int) []string {
					if number == 1 || number == 2 && death.hasUploaded() {
						return deviceIDs
					}
					return others
				})
			})
		}
	}
}

// In buffered rounds a device dies at each point of the protocol, from the end of its steps on, and while it waits for
// a group. The round goes on with those that are left, or with another device in its place, and the models have the
// bits of the sums without masks of the same survivors.
func TestSecure_BufferedDevicesDie(t *testing.T) {
	t.Parallel()
	deaths := append([]secureDeath{{stage: bus.StageTrained}, {stage: bus.StageTrained, answered: true}}, secureDeaths()...)
	for _, death := range deaths {
		// Each case waits two seconds for the device that died to be silent.
		isShort := death.stage == bus.StageTrained || death.uploads
		if !isShort && !slow.On() {
			continue
		}
		t.Run(death.String(), func(t *testing.T) {
			t.Parallel()
			o, c, d := bufferedRun(t)
			// died is the round in which the first device that comes to this point dies, 0 before. The first round is
			// left out.
			died := 0
			dying := ""
			d.step = func(id string, s real.SecureStep, kill func()) {
				here := secureDeath{s.Stage, s.Answered, s.Words != nil}
				if died == 0 && s.Round > 1 && here == death {
					died = s.Round
					dying = id
					kill()
				}
			}
			d.expectSurvivors(t, o, c, func(number int, id string) bool {
				return id != dying || number != died || death.hasUploaded()
			})
			if died == 0 {
				t.Error("no device has died")
			}
		})
	}
	t.Run("while it waits", func(t *testing.T) {
		t.Parallel()
		o, c, d := bufferedRun(t)
		// waiting has how to kill each device that waits for a group.
		waiting := map[string]func(){}
		died := ""
		d.step = func(id string, s real.SecureStep, kill func()) {
			delete(waiting, id)
			switch {
			case s.Stage == bus.StageTrained && !s.Answered:
				waiting[id] = kill
			// The members of a group upload, so a device that waits is in none.
			case s.Words != nil && died == "" && len(waiting) > 0:
				died = slices.Sorted(maps.Keys(waiting))[0]
				waiting[died]()
			}
		}
		d.expectSurvivors(t, o, c, func(int, string) bool { return true })
		if died == "" {
			t.Error("no device has died")
		}
	})
}

// Where a group needs every device, one that dies and is started again takes part again: it does its task once more,
// and where it has lost its secrets, the round goes on without it.
func TestSecure_BufferedDeviceComesBack(t *testing.T) {
	t.Parallel()
	for _, death := range []secureDeath{
		{stage: bus.StageTrained},
		{stage: bus.StageTrained, answered: true},
		{stage: bus.StageMasked, uploads: true},
	} {
		t.Run(death.String(), func(t *testing.T) {
			t.Parallel()
			o, c, d := bufferedRun(t, "close={rule: buffered, n: 8}")
			d.weightOfAll = math.Ldexp(1, secagg.Shift(8*1024))
			d.restarts = true
			died := false
			d.step = func(id string, s real.SecureStep, kill func()) {
				here := secureDeath{s.Stage, s.Answered, s.Words != nil}
				if !died && s.Round == 2 && here == death && id == "d2" {
					died = true
					kill()
				}
			}
			d.expectSurvivors(t, o, c, func(number int, id string) bool {
				return id != "d2" || number != 2 || !death.uploads
			})
			if !died {
				t.Error("no device has died")
			}
			for number := 3; number <= c.Stop.Rounds; number++ {
				if n := len(d.masked(number)); n != len(deviceIDs) {
					t.Errorf("round %d has %d devices", number, n)
				}
			}
		})
	}
}

// expectSurvivors plays a run of buffered rounds, and expects models of those devices that have masked an update in a
// round and survive it.
func (d *secureDevices) expectSurvivors(t *testing.T, o run.Options, c config.Config, survives func(number int, id string) bool) {
	t.Helper()
	models := d.played(t, o, c, func(o run.Options) error {
		_, err := run.Run(t.Context(), c, o)
		return err
	})
	if len(models) != c.Stop.Rounds {
		t.Errorf("models of %d rounds, want %d", len(models), c.Stop.Rounds)
	}
	d.expectModels(t, models, func(number int) []string {
		return slices.DeleteFunc(d.masked(number), func(id string) bool { return !survives(number, id) })
	})
}
