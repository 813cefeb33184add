package simulation

import (
	"context"
	"fmt"
	"math"
	"slices"

	"fedpace/actors"
	"fedpace/bus"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/registry"
)

// history is what was accepted in each round of a run, and the models after them.
type history struct {
	rounds []accepted
	models map[int][]float32 // by round
}

type accepted struct {
	rate  float64
	tasks []round.TaskReport
}

func (h *history) task(r *round.TaskReport) {
	if len(h.rounds) == 0 {
		h.rounds = []accepted{{}}
	}
	if last := &h.rounds[len(h.rounds)-1]; r.Outcome == round.Accepted && !r.Probe {
		last.tasks = append(last.tasks, *r)
	}
}

func (h *history) report(r *round.Report) {
	if len(h.rounds) == 0 {
		h.rounds = []accepted{{}}
	}
	h.rounds[len(h.rounds)-1].rate = r.LearningRate
	h.rounds = append(h.rounds, accepted{})
}

func (h *history) model(number int, params []float32) {
	if h.models == nil {
		h.models = map[int][]float32{}
	}
	h.models[number] = slices.Clone(params)
}

// checkUpdates compares each update of a device with the one that its task's words
// lead to, and its task with what was accepted of that device before. It returns how
// many count.
func (s *scenario) checkUpdates(w *world, h *history, r *record) (n int, err error) {
	trainer, err := actors.NewTrainer(s.problem(w))
	if err != nil {
		return 0, err
	}
	models := map[bus.Digest][]float32{bus.DigestOf(w.initial): w.initial}
	for _, params := range h.models {
		models[bus.DigestOf(params)] = params
	}
	counted, steps := map[uint64]bool{}, map[int]int64{}
	for i, x := range h.rounds {
		for _, t := range x.tasks {
			if counted[t.Task] {
				return 0, fmt.Errorf("round %d: the update of task %d counts twice", i+1, t.Task)
			}
			counted[t.Task] = true
			if !isDevice(t.Task) {
				continue
			}
			a, ok := r.answers[t.Task]
			switch {
			case !ok || a.task == nil || a.Kind != round.Planned || a.Client != t.Client:
				return 0, fmt.Errorf("round %d: an update of task %d of client %d counts that is not on record", i+1, t.Task, t.Client)
			case int(a.task.LocalSteps) != t.LocalSteps, !s.overlaps() && int64(a.task.StepsDone) != steps[t.Client]:
				return 0, fmt.Errorf("round %d: task %d was sent with %d steps after %d, and counts as %d after %d",
					i+1, t.Task, a.task.LocalSteps, a.task.StepsDone, t.LocalSteps, steps[t.Client])
			}
			steps[t.Client] += int64(t.LocalSteps)
		}
	}
	for task, a := range r.answers {
		if a.Kind != round.Planned || !counted[task] {
			continue
		}
		base := models[bus.DigestFrom(a.task.ModelDigest)]
		if base == nil {
			return 0, fmt.Errorf("task %d of client %d started from a model that no round has made", task, a.Client)
		}
		want, _, loss, err := trainer.Local(context.Background(), base, actors.Assignment{
			Task: task, Client: a.Client - clients, LocalSteps: int(a.task.LocalSteps), StepsDone: int64(a.task.StepsDone), Rate: a.task.LearningRate,
		})
		if err != nil {
			return 0, err
		}
		n++
		if !slices.Equal(a.Values, want) || a.Loss != loss {
			return 0, fmt.Errorf("the update of task %d of client %d is not the one of its %d steps", task, a.Client, a.task.LocalSteps)
		}
	}
	return n, nil
}

func (s *scenario) overlaps() bool { return closing.Overlaps(s.rounds.Closing) }

// direct reports whether the run's models can be computed directly: the mean of
// updates, sent whole, that all start from the model of the round before.
func (s *scenario) direct() bool {
	return s.rounds.Train && s.compress == nil && !s.overlaps() && !closing.UsesLate(s.rounds.Late) && s.algorithm == "fedavg" && registry.NeedsOf(s.rounds.Select) == registry.Needs{}
}

// checkModels computes the models of the rounds from what was accepted, one client
// after the other: x + 2^-44 · Σ round(2^44 · (x_c − x)/n), without bus, jobs or
// rounds.
func (s *scenario) checkModels(w *world, h *history) error {
	trainer, err := actors.NewTrainer(s.problem(w))
	if err != nil {
		return err
	}
	x, steps := slices.Clone(w.initial), map[int]int64{}
	for n, r := range h.rounds {
		sum := make([]int64, len(x))
		for _, t := range r.tasks {
			client := t.Client % clients // a device's samples are a client's
			local, _, _, err := trainer.Local(context.Background(), x, actors.Assignment{
				Task: t.Task, Client: client, LocalSteps: t.LocalSteps, StepsDone: steps[t.Client], Rate: r.rate,
			})
			if err != nil {
				return err
			}
			steps[t.Client] += int64(t.LocalSteps)
			weight := 1 / float64(len(r.tasks))
			for i := range sum {
				sum[i] += int64(math.RoundToEven(float64(weight*(1<<44)) * (float64(local[i]) - float64(x[i]))))
			}
		}
		if len(r.tasks) == 0 {
			continue
		}
		for i := range x {
			x[i] = float32(float64(x[i]) + float64(sum[i])/(1<<44))
		}
		if got := h.models[n+1]; got != nil && !slices.Equal(got, x) {
			return fmt.Errorf("the model of round %d is not the mean of its %d updates", n+1, len(r.tasks))
		}
	}
	return nil
}
