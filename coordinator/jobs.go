package coordinator

import (
	"context"
	"errors"
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// assignment is a job with what is to be done with its sum.
type assignment struct {
	span // tasks or shards that it was cut from
	job  *bus.Job
	take func(*bus.Result) error
	done bool

	single bool         // its one client's update is wanted by itself: the round may do without
	failed *bus.Failure // of such a job whose update is not valid
}

// newJob numbers a job. Numbers ascend within a run, so that a late sum is
// never taken for another's.
func (l *learner) newJob(kind bus.JobKind, number int) *bus.Job {
	l.job++
	return &bus.Job{
		Job:         l.job,
		Kind:        kind,
		Round:       uint32(number),
		ModelDigest: l.digest.Bytes(),
		Params:      uint32(len(l.params)),
		Spec:        l.config.Learning.Spec,
		Kernel:      l.config.Learning.Kernel,
	}
}

// do sends the jobs and takes each one's sum once, in whatever order they come. The bus
// has held it to its job ([bus.Result.ValidateFor]).
// Jobs that may have been lost with a server are sent again.
func (l *learner) do(ctx context.Context, jobs []assignment) error {
	if len(jobs) == 0 {
		return nil
	}
	first := jobs[0].job.Job
	send := func() error {
		for i := range jobs {
			a := &jobs[i]
			if a.done {
				continue
			}
			if err := l.bus.SendJob(ctx, a.job); err != nil {
				return err
			}
		}
		return nil
	}
	if err := send(); err != nil {
		return err
	}
	for open := len(jobs); open > 0; {
		s, err := l.bus.TakeSum(ctx)
		if errors.Is(err, bus.ErrInterrupted) {
			if err := send(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if s.Job < first { // of a round that was given up with another's failure
			s.Accept()
			continue
		}
		i := s.Job - first
		if i >= uint64(len(jobs)) || jobs[i].done {
			return fmt.Errorf("coordinator: a sum for job %d, which is not open", s.Job)
		}
		if f := s.Failure; f != nil && f.Kind == bus.NoModel {
			if err := l.bus.PutModelsAgain(ctx); err != nil {
				return err
			}
			s.Reject("the model has been put again")
			continue
		} else if f != nil && (f.Kind != bus.Diverged || !jobs[i].single) {
			s.Accept()
			return failed{f}
		}
		jobs[i].failed = s.Failure
		if s.Failure == nil {
			err = jobs[i].take(s.Result)
		}
		s.Accept()
		if err != nil {
			return err
		}
		jobs[i].done = true
		open--
	}
	return nil
}

// parts is how many jobs to make of a round's work: about two a worker, of those
// that are there now. No result depends on it.
func (l *learner) parts() int {
	_, workers := l.bus.Hosts()
	return l.config.Learning.Jobs + 2*workers
}

type span struct{ from, to int }

// split cuts 0..n-1 into at most parts contiguous spans of nearly equal length.
func split(n, parts int) []span {
	parts = min(parts, n)
	spans := make([]span, parts)
	for i := range spans {
		spans[i] = span{i * n / parts, (i + 1) * n / parts}
	}
	return spans
}

// splitByModel cuts tasks, which are in the order of their base models, into
// contiguous spans of one base model each, each base's as many of the parts as
// it has of the tasks, at least one.
func splitByModel(tasks []round.Task, parts int) []span {
	var spans []span
	for from := 0; from < len(tasks); {
		to := from + 1
		for to < len(tasks) && tasks[to].Model == tasks[from].Model {
			to++
		}
		n := to - from
		for _, s := range split(n, max(1, (parts*n+len(tasks)-1)/len(tasks))) {
			spans = append(spans, span{from + s.from, from + s.to})
		}
		from = to
	}
	return spans
}

// Held-out samples are measured in shards of fixed places and sizes, so the
// order in which losses are added is, too, whoever measures them.
const (
	shard  = 1024 // samples, where all are measured
	spread = 64   // samples, where some are: neighbours are alike (one writer's, one role's)
	places = 64   // shards at least of some samples of a text: neighbours share all but their ends
)

// shards covers all held-out samples, or so many of them (0: all) in small
// shards at even distances. Where the distance is less than a shard, samples near
// all of them are wanted: each shard ends where the next begins.
func shards(heldOut, samples int, text bool) []*bus.Shard {
	size := spread
	all := samples == 0 || samples >= heldOut
	if text {
		size = min(spread, max(1, samples/places))
	}
	if all {
		size = shard
		samples = heldOut
	}
	list := make([]*bus.Shard, (samples+size-1)/size)
	begin := func(i int) int {
		if all {
			return i * size
		}
		return int(int64(i) * int64(heldOut) / int64(len(list)))
	}
	for i := range list {
		count := min(size, samples-i*size, begin(i+1)-begin(i))
		list[i] = &bus.Shard{Index: uint32(i), From: uint64(begin(i)), Count: uint64(count)}
	}
	return list
}

// ErrDiverged reports that a loss, an update or the model became NaN or
// infinite: the run was sound, and its learning rate too high.
var ErrDiverged = errors.New("diverged")

// failed is a failure that a trainer reports.
type failed struct{ *bus.Failure }

func (f failed) Unwrap() error { return f.Failure }

// Is makes a divergence known as one.
func (f failed) Is(target error) bool { return target == ErrDiverged && f.Kind == bus.Diverged }

// Attackers says which simulated clients attack, and how many of a class collude.
type Attackers struct {
	// Class is the number of a client's class, whose attack it does; false: it is honest.
	Class func(client int) (number int, attacks bool)
	// Circle is of how many of a round's attackers of a class the others know what they
	// would have sent; 0: they do not collude.
	Circle func(class int) int
}

// number is a client's attacker as jobs name it.
func (a *Attackers) number(client int) uint32 {
	if a == nil {
		return 0
	}
	if class, attacks := a.Class(client); attacks {
		return uint32(class + 1)
	}
	return 0
}

// collude adds to each job that has tasks of colluders those that they know of: of their
// class, from the same base model, and the first ones of the round. It does not depend on
// how the tasks, which jobs have in their order, are cut into jobs.
func (a *Attackers) collude(jobs []assignment, tasks []round.Task) {
	if a == nil {
		return
	}
	type key struct {
		model    uint64
		attacker uint32
	}
	circles := map[key][]*bus.ClientWork{}
	for i := range jobs {
		for j, w := range jobs[i].job.Clients {
			of := key{tasks[jobs[i].from+j].Model, w.Attacker}
			if w.Attacker > 0 && len(circles[of]) < a.Circle(int(w.Attacker)-1) {
				circles[of] = append(circles[of], w)
			}
		}
	}
	for i := range jobs {
		job := jobs[i].job
		added := map[uint32]bool{}
		for _, w := range job.Clients {
			if !added[w.Attacker] {
				added[w.Attacker] = true
				job.Colluders = append(job.Colluders, circles[key{tasks[jobs[i].from].Model, w.Attacker}]...)
			}
		}
	}
}
