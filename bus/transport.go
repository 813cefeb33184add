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
	// OpenCoordinator opens the coordinator's end of a run. It removes what an earlier
	// coordinator of the run has left on the bus. The context bounds the opening alone.
	OpenCoordinator(ctx context.Context, run string, c CoordinatorConfig) (Coordinator, error)
	// OpenHost joins a run as a host. The run's coordinator need not be open yet.
	OpenHost(ctx context.Context, run string, c HostConfig) (Host, error)
}

// Coordinator is the coordinator's end of one run. Its methods may be called
// concurrently. TakePlans and TakeSum return the failures of the bus: an error
// that wraps [ErrInterrupted] is returned once, and open tasks and jobs must then
// be sent again; any other error is returned from then on.
type Coordinator interface {
	// SendTask sends a task to a simulated client and does not wait. The message may
	// leave together with those of later tasks, at the latest when TakePlans is called.
	// SendTask sets fields of t, such as the stamp, and does not keep t.
	SendTask(client int, t *Task) error
	// TakePlans waits until plans have arrived and returns all of them, in order of
	// arrival, on which no result may depend. The bus reuses the memory of buf for a
	// later batch: pass in the result of the last call. The plans themselves are the
	// caller's until the next call, which may use their memory again.
	TakePlans(ctx context.Context, buf []ClientPlan) ([]ClientPlan, error)

	// PutModel makes a model available to trainers and devices until DeleteModel is
	// called. digest must be DigestOf(params). The bus keeps params, whose values must
	// not change any more.
	PutModel(ctx context.Context, digest Digest, params []float32) error
	// PutModelsAgain puts all available models once more. It is called when a trainer
	// did not find one.
	PutModelsAgain(ctx context.Context) error
	// DeleteModel ends the availability of a model. Deleting twice is harmless.
	DeleteModel(ctx context.Context, digest Digest) error

	// SendJob queues a job for the trainers of the run's kernel class. The job is open
	// until its result is accepted; sending an open job again is harmless. The bus
	// keeps j, which must not change any more.
	SendJob(ctx context.Context, j *Job) error
	// TakeSum waits for the result of an open job and returns it. The caller must
	// accept or reject the result.
	TakeSum(ctx context.Context) (*ReceivedSum, error)

	Stats
	// Life returns a context that ends when the run cannot be driven any more, with
	// the error of TakePlans and TakeSum as its cause, and when Close is called. A
	// wait for anything else, such as a device, must end then, too: another
	// coordinator may have the run.
	Life() context.Context
	// Close ends the run on the bus. Calls under way return; a second Close does
	// nothing.
	Close(ctx context.Context) error
}

// Stats are figures of the coordinator's end of a run, for people alone. The
// methods may be called at any time, also after Close.
type Stats interface {
	// Pending returns the number of messages that have arrived and were not taken yet.
	Pending() int
	// Ignored returns the number of messages that did not count: of unknown senders,
	// refused or repeated.
	Ignored() int64
	// Hosts returns the number of hosts in other processes that are present, and how
	// many jobs they can do at a time. Neither decides a result.
	Hosts() (hosts, workers int)
}

// Fenced is a coordinator's end of a run that another process may take over.
type Fenced interface {
	// Fence returns the fencing token, which rises with each new coordinator of the run; 0
	// before there is one. It may be called concurrently.
	Fence() uint64
}

// ReceivedSum is the result of an open job. Its values may be read until Accept
// or Reject is called, as one of them must be; a second call does nothing.
type ReceivedSum struct {
	*Result
	// Accept closes the job. From then on the values belong to the trainer again.
	Accept func()
	// Reject leaves the job open and sends the reason to the trainer.
	Reject func(reason string)
}

// Host is a host's end of one run: it answers the tasks of simulated clients and
// does jobs. Its methods may be called concurrently.
type Host interface {
	// ServeTasks begins to answer the run's tasks to simulated clients, and returns;
	// it does so until Close is called. The hosts of a run share the tasks. fn fills
	// in p, which has the task's number already. It is called for one task at a time
	// and must not keep t or p; an error of it ends the host. When ServeTasks has
	// returned, no later task is missed.
	ServeTasks(ctx context.Context, fn func(client int, t *Task, p *Plan) error) error
	// NextJob waits for a job of a kernel class, for as long as the host lives.
	// Several workers may call it at once.
	NextJob(ctx context.Context, kernel string) (Delivery, error)
	// Model returns the model with this digest, whose values must not be changed. If
	// there is none, the error wraps [ErrNoModel].
	Model(ctx context.Context, digest Digest) ([]float32, error)
	// SendSum sends the result of a job and waits until the coordinator has taken it;
	// only then may Delivery.Done be called. Until SendSum returns nil, the
	// coordinator may read the result's tensors, which must not change; after an
	// error they must not change at all. The error of a refused result wraps
	// [ErrRefused].
	SendSum(ctx context.Context, r *Result) error

	// Done returns a channel that is closed when the host can no longer work.
	Done() <-chan struct{}
	// Err returns why the host can no longer work; nil while it can.
	Err() error
	// Close ends the host.
	Close() error
}

// Caller is the coordinator's end of a run whose clients are an app's processes on hosts. Its messages to
// clients are frames, bytes that the bus does not read. Its methods may be called concurrently.
type Caller interface {
	Coordinator
	// WatchHosts has changed called with the name of each host in another process that is present, joins or
	// changes its number of workers, and with 0 workers when one has gone. The calls are made one after the
	// other, under a lock of the transport: changed must return at once and call no method of the transport.
	WatchHosts(changed func(host string, workers int))
	// Call sends a frame for a client to a host, and waits for the frame of the reply until ctx ends.
	// fetched is called when the host has the whole frame; it may be nil. A host that starts again under
	// its name serves the frame again.
	Call(ctx context.Context, host string, client int, frame []byte, fetched func()) ([]byte, error)
}

// Callee is a host's end of a run whose coordinator's end is a Caller.
type Callee interface {
	Host
	// ServeCalls begins to answer the calls that are for this host, and returns; it does so until Close is
	// called. fn gets the frame of one call, which it may keep, and returns the frame of the reply. It is
	// called on a goroutine for each call, for at most a few more than the host's workers at a time. Its error
	// ends the host. When ServeCalls has returned, no later call is missed.
	ServeCalls(ctx context.Context, fn func(ctx context.Context, client int, frame []byte) ([]byte, error)) error
}

// Delivery is a job that a host holds. While the host lives, no other host gets the
// job before Done or Release is called, as one of them must be, unless the job is so
// slow that the coordinator queues a second copy.
type Delivery interface {
	Job() *Job
	// Done ends the job. It is called after SendSum has returned nil.
	Done(ctx context.Context) error
	// Release gives the job back for another host: at once, or with later a little
	// later.
	Release(later bool) error
}

// ErrInterrupted reports that messages may have been lost on their way, although
// the bus works again: tasks without a plan and jobs without a result must be sent
// again. Repeats are harmless. Errors that wrap it say what happened.
var ErrInterrupted = errors.New("messages may have been lost: open tasks and jobs must be sent again")

// ErrNoListener reports that the subject of a request has no subscription, as far as the server knows to which the
// request was sent.
var ErrNoListener = errors.New("nobody listens to the request")

// ErrTooLarge reports that the server takes no message as large as a request.
var ErrTooLarge = errors.New("the server takes no message of this size")

// ErrStale is wrapped by the error that ends a host whose configuration is no longer
// that of the run.
var ErrStale = errors.New("the run's configuration is another now")

// ErrNoModel is wrapped by errors about models that are not on the bus: they were
// deleted, or never put.
var ErrNoModel = errors.New("there is no such model")

// ErrRefused is wrapped by errors about sums that the coordinator refused.
var ErrRefused = errors.New("the coordinator refused the sum")

// CoordinatorConfig is what the coordinator's end of a run needs. The zero
// value will do within one process.
type CoordinatorConfig struct {
	// Kernel is the kernel class that the run's jobs are for; empty for a run without
	// jobs.
	Kernel string
	// PublishModels puts every model on the bus in chunks, for devices and for
	// hosts in other processes. Without it models are found in this process only.
	PublishModels bool
	// Lease is how long the coordinator's right to drive the run lasts on the server
	// after each renewal; 0 is 5 s.
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
	// Info is the description of the run for hosts in other processes; OpenCoordinator
	// sets its run and stamp. It is nil for a run that admits only hosts in this
	// process.
	Info *RunInfo
	// NeedsHosts says that this process has no hosts, so the run waits for others.
	NeedsHosts bool
	// Notice is called when hosts in other processes come and go, or are missing. It
	// may be called from any goroutine and may be nil.
	Notice func(Notice)
}

// HostConfig is what a host's end of a run needs; the zero value will do.
type HostConfig struct {
	// Name identifies this host in messages; if it is empty, the host gets a random
	// name.
	Name string
	// Stamp is RunInfo.Stamp of the configuration that this host has. A task with
	// another stamp ends the host with ErrStale. With 0 the host takes all tasks, as
	// where all hosts are in the coordinator's process.
	Stamp uint64
	// Local says that the host is in the coordinator's process.
	Local bool
	// Workers is how many jobs the host does at a time, for the coordinator to know;
	// 0 for a host that only answers tasks.
	Workers int
}

// Line is a connection on which a run's gateway and real devices send each other
// messages by subject. Package natsconn has the one over NATS. Its methods may be
// called concurrently.
type Line interface {
	// Publish sends a message and does not wait. It may be lost.
	Publish(subject string, data []byte) error
	// Subscribe has f called with each message on a subject, one after the other. A
	// "*" in the subject stands for any one token. b bounds the messages that may wait
	// for f. If it is nil, the transport has a limit, and the line is lost for good when
	// a message is dropped.
	Subscribe(subject string, b *Backlog, f func(*RawMessage)) (Subscription, error)
	// Settled waits until the server has taken the subscriptions and messages so far.
	Settled(ctx context.Context) error
	// Ask sends a request until it is answered, or r allows no more attempts.
	Ask(ctx context.Context, r *Request) error
	// AwaitModel fetches a run's model and checks its digest. If the model does not
	// exist yet, AwaitModel waits for it for at most timeout; after that the error
	// wraps [ErrNoModel].
	AwaitModel(ctx context.Context, run string, digest Digest, timeout time.Duration) ([]float32, error)

	// MoveOn makes the line anew, with its subscriptions, because it is of no use; reason says
	// why, for people. It returns false, and does nothing, if it is too soon after another
	// call.
	MoveOn(reason string) bool
	// Watch has failed called when the line is lost for good, and interrupted, with an
	// error that wraps [ErrInterrupted], each time that the line was lost and is back.
	// Neither is called after stop.
	Watch(failed, interrupted func(error)) (stop func())
	// Life returns a context that ends when the line is lost for good.
	Life() context.Context
	// Err returns why the line is lost for good; nil before that.
	Err() error
}

// RawMessage is what a subscription gets: a message with its subject, not decoded.
type RawMessage struct {
	Subject string
	// Reply is the subject for the answer; empty if the sender wants none.
	Reply string
	Data  []byte
	// Misdirected says that the message is a server's answer to a request of another client. A device may ask for
	// models, and a server does not check on which subject the device wants the answer. Such a message must be
	// ignored.
	Misdirected bool
}

// Subscription is a line's subscription to a subject.
type Subscription interface {
	// Unsubscribe ends the subscription; its handler may still get one message that is
	// under way. It fails only on a line that is closed, which has no subscriptions.
	Unsubscribe() error
}

// Backlog bounds the messages that may wait for a subscription's handler. Further
// messages are dropped.
type Backlog struct {
	// Messages is how many messages may wait.
	Messages int
	// Bytes is how many bytes the waiting messages may have together.
	Bytes int
	// Dropped is called when messages were dropped, but not for each of them. It may
	// be called from any goroutine.
	Dropped func()
}

// Request is a request that is sent until it has an answer.
type Request struct {
	Subject string
	Data    []byte
	// Decode reads the answer. If it returns an error, the attempt has failed.
	Decode func(answer []byte) error
	// Retry returns true if another attempt is to follow a failure.
	Retry func(failure error) bool
	// Timeout bounds all attempts together; with 0 they continue until the context
	// ends.
	Timeout time.Duration
	// Probe says that the request finds out whether answers arrive: one attempt may take all of
	// Timeout, and a missing answer changes nothing on the line.
	Probe bool
}

// Until derives a context from ctx that also ends when life does, with the cause of life as its own.
// The caller must call the returned function, which ends the derived context.
func Until(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Ticks returns a sequence that yields once in each period of length every until ctx ends. A slow
// consumer loses ticks, as with time.Ticker.
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
