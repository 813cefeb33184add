package devices_test

import (
	"fmt"
	"slices"
	"testing"

	"fedpace/actors"
	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/slow"
)

// simulatedClients are the simulated clients of a run, each of which has a task in each round. Their updates are
// worked out beside the run, by a trainer of their own.
type simulatedClients struct {
	clients int
	trainer *actors.Trainer
	// steps and rates have for each round, from 1 on, the number K of local steps and their learning rate.
	steps map[int]int
	rates map[int]float64
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
	}
}

// note notes what a round asked of its clients.
func (s *simulatedClients) note(r *round.Report) {
	s.steps[r.Round] = r.LocalSteps
	s.rates[r.Round] = r.LearningRate
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

// secureDeaths are all of them, in their order in a round.
func secureDeaths() (list []secureDeath) {
	for _, stage := range []bus.SecureStage{
		bus.StageKeys, bus.StageShares, bus.StageMasked, bus.StageSurvivors, bus.StageRecovery,
	} {
		if stage == bus.StageMasked {
			list = append(list, secureDeath{stage: stage, uploads: true})
		}
		list = append(list, secureDeath{stage: stage}, secureDeath{stage: stage, answered: true})
	}
	return list
}

// hasUploaded reports whether devices that die then have sent their update.
func (x secureDeath) hasUploaded() bool { return x.stage >= bus.StageMasked && !x.uploads }

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
