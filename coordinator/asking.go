package coordinator

import (
	"context"
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// losses finds the losses of the round's candidates.
func (d *driver) losses(ctx context.Context) error {
	losses, err := d.learner.losses(ctx, d.machine.Round(), d.ask)
	if err != nil {
		return err
	}
	return d.step(round.Event{Kind: round.Queried, Losses: losses})
}

// losses returns the loss of each client's next minibatch on the newest model,
// in the order of the tasks. It is a training job whose one step has the
// learning rate 0 and whose update has the weight 0: what comes back beside the
// losses is a sum of nothing.
func (l *learner) losses(ctx context.Context, number int, tasks []round.Task) ([]float64, error) {
	losses := make([]float64, len(tasks))
	var jobs []assignment
	for _, part := range split(len(tasks), l.parts()) {
		job := l.newJob(bus.Train, number)
		for _, t := range tasks[part.from:part.to] {
			job.Clients = append(job.Clients, &bus.ClientWork{Task: t.Task, Client: uint64(t.Client), LocalSteps: 1, StepsDone: uint64(t.StepsDone)})
		}
		jobs = append(jobs, assignment{job: job, take: func(s *bus.Result) error {
			for i, c := range s.Clients {
				if c.Task != job.Clients[i].Task {
					return fmt.Errorf("coordinator: job %d, client %d: the loss is of task %d, not %d", job.Job, i, c.Task, job.Clients[i].Task)
				}
				losses[part.from+i] = c.FirstStepLoss
			}
			return nil
		}})
	}
	return losses, l.do(ctx, jobs)
}
