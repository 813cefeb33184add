package aggregate

import (
	"context"
	"errors"
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// job is a piece of work for a trainer, with what is to be done with its result.
type job struct {
	// span is the job's part of the tasks or shards that were divided into jobs.
	span
	// base is the version of the model from which the job's tasks start.
	base uint64
	// message is the job as it is sent.
	message *bus.Job
	// take receives the job's result, exactly once.
	take     takeResult
	answered bool

	// mayDiverge says that the job is of one client whose update the round can do without. A
	// divergence then does not end the run, and is kept in failure.
	mayDiverge bool
	failure    *bus.Failure
}

// takeResult receives the result of a job. An error ends the round.
type takeResult func(*bus.Result) error

// workQueue sends a run's jobs to its trainers and takes their results.
type workQueue struct {
	bus      bus.Coordinator
	learning *Learning
	// lastJob is the number of the job that was made last.
	lastJob uint64
}

// newJob makes the message of a job of a round, which starts from the model with the digest base.
// Numbers ascend within a run, so that a late result is never taken for another job's.
func (q *workQueue) newJob(kind bus.JobKind, number int, base bus.Digest) *bus.Job {
	q.lastJob++
	return &bus.Job{
		Job:         q.lastJob,
		Kind:        kind,
		Round:       uint32(number),
		ModelDigest: base.Bytes(),
		Params:      uint32(q.learning.Model.Params()),
		Spec:        q.learning.Spec,
		Kernel:      q.learning.Kernel,
	}
}

// run sends jobs and waits until each has a result, which it hands to the job's take exactly once,
// in whatever order results arrive. The jobs have consecutive numbers in their order. The bus has
// checked each result against its job ([bus.Result.ValidateFor]). If the bus reports that a server
// with open jobs was lost, the open ones are sent again; a job that is done twice has the same
// result.
func (q *workQueue) run(ctx context.Context, jobs []job) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := q.sendOpen(ctx, jobs); err != nil {
		return err
	}
	for open := len(jobs); open > 0; {
		sum, err := q.bus.TakeSum(ctx)
		// A server with open jobs was lost, so they are sent again.
		if errors.Is(err, bus.ErrInterrupted) {
			if err := q.sendOpen(ctx, jobs); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		answered, err := q.answer(ctx, jobs, sum)
		if err != nil {
			return err
		}
		if answered {
			open--
		}
	}
	return nil
}

// sendOpen sends those of the jobs that have no result yet, and leaves out the answered ones.
func (q *workQueue) sendOpen(ctx context.Context, jobs []job) error {
	for i := range jobs {
		if jobs[i].answered {
			continue
		}
		if err := q.bus.SendJob(ctx, jobs[i].message); err != nil {
			return err
		}
	}
	return nil
}

// answer handles one sum that was received, and reports whether it was the result of a job that was
// open. It accepts the sum, which removes the job from the queue. Only a trainer that could not find
// the model has its sum rejected, after the model was put again, so that the job is done once more.
// A divergence is kept in the job if the job may diverge; any other failure is returned. The
// bus hands over one sum of each job, so a second one is an error, as is one of no job.
func (q *workQueue) answer(ctx context.Context, jobs []job, sum *bus.ReceivedSum) (answered bool, err error) {
	first := jobs[0].message.Job
	if sum.Job < first {
		// The sum belongs to an earlier round, which ended when another of its jobs failed.
		sum.Accept()
		return false, nil
	}
	i := sum.Job - first
	if i >= uint64(len(jobs)) || jobs[i].answered {
		return false, fmt.Errorf("coordinator: a sum for job %d, which is not open", sum.Job)
	}
	j := &jobs[i]
	failure := sum.Failure
	// The trainer could not find the model, which a restarted server may have lost.
	if failure != nil && failure.Kind == bus.NoModel {
		if err := q.bus.PutModelsAgain(ctx); err != nil {
			return false, err
		}
		sum.Reject("the model has been put again")
		return false, nil
	}
	// No trainer can do better with this job.
	if failure != nil && !(failure.Kind == bus.Diverged && j.mayDiverge) {
		sum.Accept()
		return false, trainerFailure{failure}
	}
	j.failure = failure
	if failure == nil {
		err = j.take(sum.Result)
	}
	sum.Accept()
	if err != nil {
		return false, err
	}
	j.answered = true
	return true, nil
}

// parts returns how many jobs to make of a round's work: about two for each worker that is
// present now. No result depends on it.
func (q *workQueue) parts() int {
	_, workers := q.bus.Hosts()
	return q.learning.Jobs + 2*workers
}

// stepsOfSum is about how many local steps cost what the sum of one more job does: to gather it, to send
// it from another machine and to add it to the round's.
const stepsOfSum = 64

// trainingParts returns how many jobs to make of tasks with this number of local steps in all: as many as
// of other work or, where the steps are few, one for each worker.
func (q *workQueue) trainingParts(steps int) int {
	parts := q.parts()
	return min(parts, max((parts+1)/2, steps/stepsOfSum))
}

// trainerFailure is a failure that a trainer reports, as an error.
type trainerFailure struct{ *bus.Failure }

// Unwrap returns the failure as the bus has it.
func (f trainerFailure) Unwrap() error { return f.Failure }

// Is makes [errors.Is] recognise a divergence as [round.ErrDiverged].
func (f trainerFailure) Is(target error) bool {
	return target == round.ErrDiverged && f.Kind == bus.Diverged
}

// span is a range of places in a list: from is within, to is not.
type span struct{ start, end int }

// split cuts the places 0 to n-1 into at most parts contiguous spans of nearly equal length.
func split(n, parts int) []span {
	parts = min(parts, n)
	spans := make([]span, parts)
	for i := range spans {
		spans[i] = span{i * n / parts, (i + 1) * n / parts}
	}
	return spans
}

// splitByBase cuts updates, which are in the order of their base models, into contiguous spans of
// one base model each. Each base model gets the share of the parts that it has of the updates, at
// least one.
func splitByBase(updates []clientUpdate, parts int) (spans []span) {
	n := len(updates)
	for start := 0; start < n; {
		end := start + 1
		for end < n && updates[end].task.Model == updates[start].task.Model {
			end++
		}
		count := end - start
		share := max(1, (parts*count+n-1)/n)
		for _, s := range split(count, share) {
			spans = append(spans, span{start + s.start, start + s.end})
		}
		start = end
	}
	return spans
}
