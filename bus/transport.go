package bus

import (
	"context"
	"errors"
	"time"
)

// Transport carries the messages of runs between a coordinator and its hosts.
// Package natsbus has the one over NATS. Both ends may be in one process; then a
// transport may hand over models and sums instead of copying them.
type Transport interface {
	// OpenCoordinator opens the coordinator's end of a run, of which nothing is
	// left from before. The context bounds the opening alone.
	OpenCoordinator(ctx context.Context, run string, c CoordinatorConfig) (Coordinator, error)
	// OpenHost joins a run. The coordinator need not be there yet.
	OpenHost(ctx context.Context, run string, c HostConfig) (Host, error)
}

// Coordinator is the coordinator's end of one run. Its methods may be called
// concurrently. What goes wrong on the bus comes out of TakePlans and TakeSum:
// for good, or once as an error that wraps [ErrInterrupted], after which open
// tasks and jobs must be sent again.
type Coordinator interface {
	// SendTask sends a task to a simulated client and does not wait; it may leave
	// with those that follow, or when TakePlans is called. The task is the caller's
	// again when SendTask returns; its stamp is set.
	SendTask(client int, t *Task) error
	// TakePlans waits until there are plans and returns all of them, in order of
	// arrival, which means nothing. buf is kept for the next batch: pass in the
	// last result when done with it. Plans may be kept.
	TakePlans(ctx context.Context, buf []ClientPlan) ([]ClientPlan, error)

	// PutModel makes a model available to trainers and devices until DeleteModel.
	// params must not be written to any more; digest must be DigestOf(params).
	PutModel(ctx context.Context, digest Digest, params []float32) error
	// PutModelsAgain puts all available models again: a trainer did not find one.
	PutModelsAgain(ctx context.Context) error
	// DeleteModel ends the availability of a model. Deleting twice is harmless.
	DeleteModel(ctx context.Context, digest Digest) error

	// SendJob queues a job for the trainers of the run's kernel class and expects
	// its result. Sending an open job again is harmless. j is kept and must not be
	// changed.
	SendJob(ctx context.Context, j *Job) error
	// TakeSum waits for the result of an open job, which must be answered.
	TakeSum(ctx context.Context) (*ReceivedSum, error)

	Stats
	// Life ends when the run cannot be driven any more, for the reason that TakePlans
	// and TakeSum return, and when it is closed. Who waits for something else, as for
	// a device, must end then, too: another coordinator may have the run.
	Life() context.Context
	// Close ends the run on the bus. Calls under way return; a second Close does
	// nothing.
	Close(ctx context.Context) error
}

// Stats tell how the coordinator's end of a run keeps up. They may be asked at any
// time, also after Close.
type Stats interface {
	// Pending is the number of messages that have come and are not taken yet.
	Pending() int
	// Ignored is the number of messages that were not taken: of unknown senders, refused or
	// repeated.
	Ignored() int64
	// Hosts counts the hosts in other processes that are there, and the jobs that
	// they do at a time. Neither decides a result.
	Hosts() (hosts, workers int)
}

// ReceivedSum is the result of an open job. Its values may be read until Accept
// or Reject, exactly one of which must be called; a second call does nothing.
type ReceivedSum struct {
	*Result
	// Accept closes the job. The values belong to the trainer again.
	Accept func()
	// Reject leaves the job open and tells the trainer why.
	Reject func(reason string)
}

// Host is a host's end of one run: it answers for simulated clients and does
// jobs. Its methods may be called concurrently.
type Host interface {
	// ServeTasks answers the run's tasks to simulated clients until Close. The
	// hosts of a run share them. fn fills p, which has the task's number; it runs
	// on one goroutine and must not keep t or p. Its error ends the host. When
	// ServeTasks returns, no later task is missed.
	ServeTasks(ctx context.Context, fn func(client int, t *Task, p *Plan) error) error
	// NextJob waits for a job of a kernel class, for as long as the host lives.
	// Several workers may call it at once.
	NextJob(ctx context.Context, kernel string) (Delivery, error)
	// Model returns a model, which must not be written to; an error that wraps
	// [ErrNoModel] when there is none of this digest.
	Model(ctx context.Context, digest Digest) ([]float32, error)
	// SendSum sends the result of a job and waits until the coordinator has it;
	// only then may the delivery be done. Until SendSum returns, and after an
	// error for good, the result's tensors are the coordinator's to read. A
	// refusal is an error that wraps [ErrRefused].
	SendSum(ctx context.Context, r *Result) error

	// Done is closed when the host can no longer work; Err says why.
	Done() <-chan struct{}
	Err() error
	Close() error
}

// Caller is the coordinator's end of a run whose clients are an app's processes on hosts: its messages to
// clients are frames, which it does not read. Its methods may be called concurrently.
type Caller interface {
	Coordinator
	// WatchHosts has changed called with the name of each host in another process that comes, or has another
	// number of workers than before, and with 0 workers when one has gone. The calls are made one after the
	// other, under a lock of the transport: changed must return at once and call nothing of it.
	WatchHosts(changed func(host string, workers int))
	// Call has a host serve a frame for a client, and waits for the frame of its reply until ctx ends.
	// fetched is called once the host has the whole frame; it may be nil. A host that starts again under
	// its name serves the frame again.
	Call(ctx context.Context, host string, client int, frame []byte, fetched func()) ([]byte, error)
}

// Callee is a host's end of such a run.
type Callee interface {
	Host
	// ServeCalls answers the calls that are for this host until Close. fn serves the frame of one call, which
	// it may keep, and returns that of the reply; it is called on a goroutine for each call, for at most
	// some more than the host's workers at a time. Its error ends the host. When ServeCalls returns, no later
	// call is missed.
	ServeCalls(ctx context.Context, fn func(ctx context.Context, client int, frame []byte) ([]byte, error)) error
}

// Delivery is a job that a host holds: nobody else gets it until Done or Release is
// called, as one must be.
type Delivery interface {
	Job() *Job
	// Done ends the job; call it after SendSum.
	Done(ctx context.Context) error
	// Release gives the job back: another host may do it, at once or a little later.
	Release(later bool) error
}

// ErrInterrupted reports that messages may have been lost on their way, although
// the bus works again: send tasks without a plan and jobs without a result
// again. Repeats are harmless. Errors that wrap it say what happened.
var ErrInterrupted = errors.New("messages may have been lost: open tasks and jobs must be sent again")

// ErrNoListener reports that nobody listens to a request, as far as the server knows to which it was sent.
var ErrNoListener = errors.New("nobody listens to the request")

// ErrStale is wrapped by what ends a host of a configuration that is no longer
// the run's.
var ErrStale = errors.New("the run's configuration is another now")

// ErrNoModel is wrapped by errors about models that are not on the bus: deleted
// since, or never put.
var ErrNoModel = errors.New("there is no such model")

// ErrRefused is wrapped by errors about sums that the coordinator refused.
var ErrRefused = errors.New("the coordinator refused the sum")

// CoordinatorConfig is what the coordinator's end of a run needs. The zero
// value will do within one process.
type CoordinatorConfig struct {
	// Kernel is the kernel class that the run's jobs are for; empty: it has none.
	Kernel string
	// PublishModels puts every model on the bus in chunks, for devices and for
	// hosts in other processes. Without it models are found in this process only.
	PublishModels bool
	// Lease is how long the run stays this coordinator's on the server without a
	// sign of life; 0 is 5 s.
	Lease time.Duration
	// Replicas is how many servers of a cluster hold a copy of the run's streams; 0 is three,
	// or as many as the cluster has. It is 1 on a server that is in no cluster.
	Replicas int
	// AckWait is how long a trainer may hold a job without a mark of progress
	// before another gets it; 0 is 30 s.
	AckWait time.Duration
	// MaxDeliver is how many trainers may fail at a job before the run does; 0 is 5.
	// A host that is gone does not count.
	MaxDeliver int
	// PlanPatience is how long TakePlans waits for a plan before it supposes that
	// tasks are lost, with a host that has died or since none has joined yet; 0
	// is 10 s.
	PlanPatience time.Duration
	// Info is what hosts in other processes are told of the run; OpenCoordinator
	// sets its run and stamp. Nil: all hosts are this process's own.
	Info *RunInfo
	// NeedsHosts says that this process has no hosts of its own.
	NeedsHosts bool
	// Notice is told of hosts in other processes that come and go; it may be called
	// from any goroutine and may be nil.
	Notice func(Notice)
}

// HostConfig is what a host's end of a run needs; the zero value will do.
type HostConfig struct {
	// Name tells this trainer from others in messages; empty: one is made up.
	Name string
	// Stamp is the RunInfo's by which this host knows the run; tasks of another
	// end it with ErrStale. Zero: it takes all, where a run has no other hosts.
	Stamp uint64
	// Local says that the host is in the coordinator's own process.
	Local bool
	// Workers is how many jobs it does at a time, for the coordinator to know; 0
	// where it answers tasks alone.
	Workers int
}

// Line is a connection on which a run's gateway and real devices meet: they send
// each other messages by subject. Package natsconn has the one over NATS. Its methods
// may be called concurrently.
type Line interface {
	// Publish sends a message and does not wait. It may be lost.
	Publish(subject string, data []byte) error
	// Subscribe has f called with each message on a subject, one after the other. A
	// "*" in the subject stands for any one token. b bounds what may wait for f;
	// with nil it is the transport's own limit, and a drop breaks the line.
	Subscribe(subject string, b *Backlog, f func(*RawMessage)) (Subscription, error)
	// Settled waits until the subscriptions made so far hold and what was sent before
	// is with the server.
	Settled(ctx context.Context) error
	// Ask sends a request until it is answered.
	Ask(ctx context.Context, r *Request) error
	// AwaitModel fetches a run's model, its digest checked, and keeps nothing. One
	// that is not there yet is waited for; after that the error wraps [ErrNoModel].
	AwaitModel(ctx context.Context, run string, digest Digest, timeout time.Duration) ([]float32, error)

	// Watch calls failed when the line is lost for good, and interrupted, with an
	// error that wraps [ErrInterrupted], when it was lost and is back. Both are
	// called until stop is.
	Watch(failed, interrupted func(error)) (stop func())
	// Life ends when the line is lost for good; Err says why, nil before.
	Life() context.Context
	Err() error
}

// RawMessage is what a subscription gets: a message with its subject, not decoded.
type RawMessage struct {
	Subject string
	// Reply is the subject for the answer; empty: none is wanted.
	Reply string
	Data  []byte
	// Relayed says that this is a server's answer that its asker had sent to another's
	// subject. A device may ask for models, and a server does not check on which
	// subject the asker wants the answer.
	Relayed bool
}

// Subscription is a line's interest in a subject.
type Subscription interface {
	// Unsubscribe ends it; one message may be under way to the handler. It fails only
	// on a line that is closed, which has no subscriptions.
	Unsubscribe() error
}

// Backlog bounds what may wait for a subscription's handler. More is dropped, and
// dropped is told, now and then and from any goroutine.
type Backlog struct {
	Messages, Bytes int
	Dropped         func()
}

// Request is a request that is asked until it has an answer.
type Request struct {
	Subject string
	Data    []byte
	// Decode reads the answer. An error of it counts as a failure of the request.
	Decode func(answer []byte) error
	// Retry reports whether to ask once more after a failure.
	Retry func(failure error) bool
	// Timeout bounds all attempts together; 0: they go on until the context ends.
	Timeout time.Duration
}

// Until derives a context that ends with ctx or with life, whichever is first. Where life ends
// first, its cause becomes the cause of the derived context.
func Until(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Ticks is a sequence that yields once per period until ctx ends. A slow consumer loses ticks, as
// with time.Ticker.
func Ticks(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !yield() {
					return
				}
			}
		}
	}
}
