// Package natsbus is the [bus.Transport] over NATS: on a connection ([Connect]) the
// two ends of a run, [Coordinator] and [Host], with the work queue, models and sums.
//
// What it promises:
//
//   - A plan or a sum that could not be delivered fails the run with its cause;
//     nothing is lost in silence.
//   - A host that stops or crawls holds nothing up for long: tasks go to hosts that
//     answer, and jobs of a host that is gone or slow are queued again (package
//     placement).
//   - Jobs travel through a JetStream work queue: a host that dies gives its
//     job back, and a sum counts once however often it is sent.
//   - Where both ends live in one process, models and partial sums are handed
//     over, not copied; between processes the same calls move them in chunks.
//
// To read it, begin with coordinator.go and host.go, the two ends. tasks.go has tasks and
// plans, which are plain messages; queue.go, jobs.go and sums.go have jobs and their
// results; models.go the models; lease.go the right to drive a run, which one coordinator
// has at a time; registry.go which hosts are present; cluster.go and headless.go what
// becomes of a cluster without leaders.
//
// How a connection is made, lost and found again, and what is tried again meanwhile, is
// package natsconn's. This one knows neither rounds nor the clock nor what a model is
// beyond its floats.
//
// # A host on the wire
//
//  1. Find the run. A coordinator whose run is open to other processes announces it on fedpace.runs
//     every second, and with over when it stops. The host sends an empty request to fedpace.<run>.info
//     and gets a RunInfo: the configuration, the kernel class, the Spec and the SHA-256 of every file.
//     One whose files, or whose protocol number (protocol), differ does not serve the run; one that
//     lacks the data or the kernel class does no jobs. Equal stamps mean equal plans and sums.
//  2. Stay. It publishes an InfoRequest every second, and when it takes a job, with its name, the jobs
//     that it does at a time and those that it holds, and a last one with leaves. After three silent
//     seconds others get its work.
//  3. Answer tasks. It subscribes to fedpace.<run>.client.*.task.<host>, and to
//     fedpace.<run>.client.*.task in the queue group hosts, and answers each Task at once with a Plan
//     that repeats task, placement and fence. A plan is a function of seed, client and task alone: the
//     coordinator may ask any host, and again.
//  4. Do jobs. It pulls one Job from the consumer of its kernel class
//     ($JS.API.CONSUMER.MSG.NEXT.fedpace_<run>_jobs.<kernel>), sends +WPI while it works, at least
//     every third of nats.ack_seconds, and returns one sum, in chunks, as requests to
//     fedpace.<run>.sums. After ACCEPTED or REPEATED only, it acknowledges the job with +ACK as a
//     request. Every result is a pure function of the job; the first sum counts.
//
// Job, Sum, SumReply and CallPart end with a digest: encode the message without digest, hash these bytes
// with XXH64 (seed 0), and append the byte 0x79 and the hash as 8 bytes, lowest first (field 15, a
// fixed64). A run of a Flower app has no tasks, jobs or models: each message to a client is a Call of one
// host, whose parts it fetches and answers by CallParts; joined they are a frame (docs/flower.md).
//
// docs/protocol.md has the subjects. A host that lost its connection takes 30 s without an
// announcement for the run's end. It stops, too, when an announcement or a task has the stamp of
// another run of that name. At most 127 plans of other waiting tasks may travel in a plan's others.
// Tasks of a host that leaves them open for 50 ms, while another has answered all of its own, go to
// others. A client has at most one task at a time; plans come in any order.
//
// Without a plan for 2 s (10 s if all hosts are the coordinator's), or when the first host joins, the
// coordinator sends open tasks again. If a trainer finds no model (a failure of kind "no model"), it puts
// its models again and refuses the sum.
//
// The protocol number is raised when an older host would misread a message, plan otherwise or compute
// another sum; bus/testdata/protocol.txt holds each field to it.
//
// The coordinator publishes a Call of a Flower app every two seconds until it has the reply; a host that
// has the call ignores repeats. The host requests each part on .fetch and sends the reply in parts on
// .reply, where CONTINUE asks for the next. An answer with 0 parts, or any other status, ends the call.
// A host keeps arrays once for all of its processes: one that lacks an array answers {"missing": true},
// and the message comes again with all.
//
// # Jobs
//
// The stream fedpace_<run>_jobs has work-queue retention, and one durable pull consumer for each kernel
// class, with its name and explicit acknowledgement. A trainer that stops early gives its job back
// (-NAK). The coordinator queues a job again when its host leaves or falls silent, when the ack wait
// passes, or, while a worker is idle, if the job takes more than twice as long as others or no host
// has reported it for 0.25 s.
//
// A training job has entries of clients: the local steps begin from the model x, on the client's
// minibatches that follow its first steps_done, of batch samples (0: that of the spec). With
// compression C(x_c − x) takes the place of x_c − x, except in a job that only asks for losses, whose
// clients have the weight 0. A difference that is not finite or reaches 2^17 ends the job with a failure
// of kind "diverged". A run that clips updates first shortens a finite update that long by one factor,
// to a largest difference of 2^16. In runs that clip or combine updates by a rule a job has one client,
// and the failure refuses its task alone; other runs have diverged.
//
// The sum is 0 for buffers and frozen values. If the job has buffers, each client sends in buffers of the
// sum the buffer_count values, as they are, from buffer_first to the last that its steps have changed.
// A loss query sends none. With differential privacy and secure aggregation a job has none, and float
// buffers are in the sum.
//
// A client with an attacker above 0 does the attack of that class, less one, of the fleet before its
// update is weighted and compressed. The attack may know the honest updates of the colluders with the
// same attacker, which are in no sum.
//
// What clients keep between tasks (method) travels in variates of the sum, in the order of clients, each
// with its digest, and is fetched as a model; an empty digest stands for zero. With variates it is
// SCAFFOLD's c_i: values then has twice params elements, the updates and the sum of c_i⁺ − c_i times
// variate_weight, in the same arithmetic. With residuals it is e_c: the trainer adds
// v = C(x_c − x + β e_c) and keeps x_c − x + β e_c − v, β being the decay of sparseloco, else 1. With
// kept it is a vector of that length: the variate or residual, if any; with streaming the client's copy
// of the model and, in the bits of a value, the number of rounds that it holds; an optimizer's velocity,
// or its two moments and β1^t and β2^t as the two words of a float64 each, the lower first; of a
// trainer's process the number of its bytes, in the bits of a value, and the bytes; the personal
// parameters, and a 1.
//
// An evaluation returns for each shard loss_sum and the scores of the spec's metrics: of accuracy the
// number of samples whose first largest logit is the label, and the number of samples. With a spread s
// sample i of s among all n is the one at ⌊i·n/s⌋. By client, a shard is those count of the client's n
// training samples with the numbers ⌊i·n/count⌋, without augmentation.
//
// # Sums
//
// Clients, or shards, are complete and in the job's order. What does not fit one message is cut at whole
// elements, values, then variates, then buffers, into chunks, sent one after the other. All repeat job,
// trainer, model_digest, chunks, params and fence; the first alone has clients and shards. A failure in
// the place of all ends the run with its text. The trainer sends a message again without a reply for
// 5 s (and 5 s more for each full 512 KiB of it), without a responder, and after SEND_AGAIN or a damaged
// reply, five times at most. After REPEATED it acknowledges the job at whatever chunk; after REFUSED it
// gives the job back with a delay of one second. SEND_VALUES says that the handle is of another process.
//
// A trainer ends a job that arrives damaged (+TERM damaged), and the coordinator sends it again; after
// five times the run ends. The run fails, too, and names the job, when it was handed out
// nats.max_deliver times without an acknowledgement or cannot be read (+TERM with a reason).
//
// # The lease
//
// A coordinator that opens a run empties its streams, and sends again what was open, with the same
// numbers. It holds the run by the key coordinator of the bucket fedpace_<run>_lease, which it writes
// every second and the server deletes 5 s after the last write.
//
// Each Task to a host and each Job has the fencing token of its coordinator: the revision at which it
// took the lease, times 2^16, plus a random number below that. Plans and sums repeat it, and an
// InfoRequest has the highest that the host has seen in the run. A host takes no task, and ends each
// job (+TERM fenced), with a lower token, so a coordinator that was taken over changes nothing.
package natsbus
