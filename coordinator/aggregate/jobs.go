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
	// handle receives the job's result, exactly once.
	handle   resultHandler
	answered bool

	// mayDiverge says that the job is of one client whose update the round can do without. A
	// divergence then does not end the run, and is kept in failure.
	mayDiverge bool
	failure    *bus.Failure
}

// resultHandler receives the result of a job. An error ends the round.
type resultHandler func(*bus.Result) error

// workQueue sends a run's jobs to its trainers and takes their results.
type workQueue struct {
	bus      bus.Coordinator
	learning *Learning
	// lastJob is the number of the job that was made last.
	lastJob uint64
}

// newJob makes the message of a job of the given kind for a round; base is the digest of the model that it
// starts from. Job numbers ascend within a run, so that a late result is never taken for another job's.
func (q *workQueue) newJob(kind bus.JobKind, roundNumber int, base bus.Digest) *bus.Job {
	q.lastJob++
	return &bus.Job{
		Job:         q.lastJob,
		Kind:        kind,
		Round:       uint32(roundNumber),
		ModelDigest: base.Bytes(),
		Params:      uint32(q.learning.Model.Params()),
		Spec:        q.learning.Spec,
		Kernel:      q.learning.Kernel,
	}
}

// run sends the jobs and waits until each has a result, which it passes to the job's handler exactly once,
// in the order in which results arrive. The jobs have consecutive numbers. The bus has checked each result
// against its job ([bus.Result.ValidateFor]). If the bus reports that a server with open jobs was lost, the
// unanswered jobs are sent again; a job that is done twice has the same result.
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

// answer handles one sum from a trainer and reports whether it has completed an open job. Accepting the sum
// removes its job from the queue. Only if the trainer could not find the model is the sum rejected, after
// the model was published again, so that the job is done once more. A divergence is stored in the job if
// the job may diverge; any other failure is the error. The bus delivers one sum for each job, so a second
// one is an error, and so is one for a job of no round so far.
func (q *workQueue) answer(ctx context.Context, jobs []job, sum *bus.ReceivedSum) (answered bool, err error) {
	firstJob := jobs[0].message.Job
	if sum.Job < firstJob {
		// The sum belongs to an earlier round, which ended when another of its jobs failed.
		sum.Accept()
		return false, nil
	}
	place := sum.Job - firstJob
	if place >= uint64(len(jobs)) || jobs[place].answered {
		return false, fmt.Errorf("coordinator: a sum for job %d, which is not open", sum.Job)
	}
	j := &jobs[place]
	failure := sum.Failure
	// The trainer could not find the model, which a restarted server may have lost.
	if failure != nil && failure.Kind == bus.NoModel {
		if err := q.bus.PutModelsAgain(ctx); err != nil {
			return false, err
		}
		sum.Reject("the model has been put again")
		return false, nil
	}
	// Unless the round can do without a client that diverges, no trainer can do better with this job.
	isTolerated := failure != nil && failure.Kind == bus.Diverged && j.mayDiverge
	if failure != nil && !isTolerated {
		sum.Accept()
		return false, trainerFailure{failure}
	}
	j.failure = failure
	if failure == nil {
		err = j.handle(sum.Result)
	}
	sum.Accept()
	if err != nil {
		return false, err
	}
	j.answered = true
	return true, nil
}

// jobCount returns into how many jobs to divide a round's work: the configured number, which is about two
// for each worker of this process, and two for each worker that is connected now. Without any worker yet it is
// two. No result depends on it.
func (q *workQueue) jobCount() int {
	_, workers := q.bus.Hosts()
	return max(2, q.learning.Jobs+2*workers)
}

// stepsPerJob is the number of local steps that cost about as much as one more job does: its sum has to be
// made, sent from another machine and added to the round's.
const stepsPerJob = 64

// trainingJobCount returns into how many jobs to divide tasks with this number of local steps in total: as
// many as other work or, if the steps are few, as little as half of that, one for each worker.
func (q *workQueue) trainingJobCount(totalSteps int) int {
	jobCount := q.jobCount()
	return min(jobCount, max((jobCount+1)/2, totalSteps/stepsPerJob))
}

// trainerFailure is a failure that a trainer reports, as an error.
type trainerFailure struct{ *bus.Failure }

// Unwrap returns the failure as the bus has it.
func (f trainerFailure) Unwrap() error { return f.Failure }

// Is makes [errors.Is] recognise a divergence as [round.ErrDiverged].
func (f trainerFailure) Is(target error) bool {
	return target == round.ErrDiverged && f.Kind == bus.Diverged
}

// span is a range of places in a list: start is within, end is not.
type span struct{ start, end int }

// split divides the places 0 to n-1 into contiguous spans of nearly equal length: as many as parts, or n if
// that is less.
func split(n, parts int) []span {
	parts = min(parts, n)
	spans := make([]span, parts)
	for i := range spans {
		spans[i] = span{i * n / parts, (i + 1) * n / parts}
	}
	return spans
}

// splitByBase divides updates, which are sorted by base model, into contiguous spans of one base model
// each, about as many as parts. Each base model gets its share of the parts, by its number of updates, and
// at least one.
func splitByBase(updates []clientUpdate, parts int) (spans []span) {
	total := len(updates)
	for start := 0; start < total; {
		end := start + 1
		for end < total && updates[end].task.Model == updates[start].task.Model {
			end++
		}
		count := end - start
		// The base model's share of the parts, parts·count/total, is rounded up.
		share := max(1, (parts*count+total-1)/total)
		for _, part := range split(count, share) {
			spans = append(spans, span{start + part.start, start + part.end})
		}
		start = end
	}
	return spans
}
