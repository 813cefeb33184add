package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The phases of a client's work on a task, in their order.
const (
	NoPhase  = Phase_PHASE_UNSPECIFIED
	Download = Phase_PHASE_DOWNLOAD
	Compute  = Phase_PHASE_COMPUTE
	Upload   = Phase_PHASE_UPLOAD
	// Recovery is the last of the phases that secure aggregation adds.
	Recovery = Phase_PHASE_RECOVERY
)

// The kinds of job.
const (
	// Train is local SGD of some clients, which yields one partial sum.
	Train = JobKind_JOB_KIND_TRAIN
	// Evaluate yields the losses and scores of some shards of the validation samples.
	Evaluate = JobKind_JOB_KIND_EVALUATE

	// EvaluateClients yields the losses and scores on some clients' own samples.
	EvaluateClients = JobKind_JOB_KIND_EVALUATE_CLIENTS
)

// Name returns the kind as lower-case words with underscores, such as evaluate_clients, for messages to
// people.
func (k JobKind) Name() string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "JOB_KIND_"))
}

// The answers to a message of an update, a join or a sum.
const (
	Continue   = Status_STATUS_CONTINUE
	Accepted   = Status_STATUS_ACCEPTED
	Repeated   = Status_STATUS_REPEATED
	Refused    = Status_STATUS_REFUSED
	SendValues = Status_STATUS_SEND_VALUES
	SendAgain  = Status_STATUS_SEND_AGAIN
	SendKeys   = Status_STATUS_SEND_KEYS
)

// The stages of secure aggregation in which a device sends a message.
const (
	StageKeys      = SecureStage_SECURE_STAGE_KEYS
	StageShares    = SecureStage_SECURE_STAGE_SHARES
	StageMasked    = SecureStage_SECURE_STAGE_MASKED
	StageSurvivors = SecureStage_SECURE_STAGE_SURVIVORS
	StageRecovery  = SecureStage_SECURE_STAGE_RECOVERY
	// StageTrained comes before the others where rounds overlap, although its number is the highest.
	StageTrained = SecureStage_SECURE_STAGE_TRAINED
)

// ClientPlan is a plan and its simulated client. The message's subject names the client of its first
// plan, and Plan.Client that of every nested one (Plan.Others). With tasks it is the same.
type ClientPlan struct {
	Client int
	Plan   *Plan
}

// Stateful reports whether each client keeps a vector from one task to the next: a control variate,
// a residual of compression, or the state of its local optimizer. Jobs name these vectors by their
// digests, and sums bring the new ones back. A nil method keeps none.
func (m *Method) Stateful() bool { return m.GetVariates() || m.GetResiduals() }

// StateLength returns the length of the vector that each of the job's clients keeps, 0 if clients keep
// none. It is the model's length unless the method gives another (Method.Kept).
func (j *Job) StateLength() int {
	switch {
	case !j.Method.Stateful():
		return 0
	case j.Method.Kept > 0:
		return int(j.Method.Kept)
	}
	return int(j.Params)
}

// SumLength returns the number of values in the job's exact sum: one for each
// parameter, and with control variates as many again for their changes. It is 0 for a
// job that trains nothing.
func (j *Job) SumLength() int {
	switch {
	case j.Kind != Train:
		return 0
	case j.Method.GetVariates():
		return 2 * int(j.Params)
	}
	return int(j.Params)
}

// Equal reports whether two specs describe the same learning problem.
func (s *Spec) Equal(spec *Spec) bool { return proto.Equal(s, spec) }

// Result is all of a job's result: the Sum message, and the numbers that travel
// in chunks or stay in the memory that both ends share.
type Result struct {
	// Sum describes the result. Its own Values and Variates are those of one chunk.
	*Sum
	// Values is the exact partial sum of a Train job, with Job.SumLength values.
	Values []int64

	// ClientStates are the clients' new states (control variates, residuals, optimizer
	// state) in the order of Sum.Clients, Job.StateLength values each; none where the
	// method is not stateful. The coordinator owns them: the sender must not write to them
	// any more.
	ClientStates [][]float32
	// Buffers are the parts of the model's buffers that the clients have changed, in the order of
	// Sum.Clients; ClientLoss.BufferFirst says where each begins. Nil where Job.Buffers is 0. The
	// coordinator owns them: the sender must not write to them any more.
	Buffers [][]float32
}

// BufferOf returns the buffers that client i of the result has changed, as one slice of values in a row. first is the
// place of its first value among the model's buffers, counted from 0. values is nil where the client has changed
// none.
func (r *Result) BufferOf(i int) (first int, values []float32) {
	if len(r.Buffers) == 0 {
		return 0, nil
	}
	return int(r.Clients[i].BufferFirst), r.Buffers[i]
}

// NoModel is the Failure.Kind of a job whose model is not on the bus. It does not end the
// run: the coordinator publishes the model once more and the job is done again.
const NoModel = "no model"

// Diverged is the Failure.Kind of losses or updates that are not finite.
const Diverged = "diverged"

// Error makes a Failure an error. [NoModel] never ends the run, and [Diverged] not where the round can do
// without the update; every other failure does.
func (f *Failure) Error() string { return f.Text }

// Last reports whether this is the message that ends an update. It carries what the device
// measured and no values; the messages before it are numbered from 0 to Chunks-1.
func (u *Update) Last() bool { return u.Chunk == u.Chunks }

// DeviceUpdate is a device's complete answer to a task: its last Update message, whose durations
// are nanoseconds of the device's own clock, and the values of the messages before it.
type DeviceUpdate struct {
	*Update
	// Values are the device's model after its local steps, or the compressed difference to the
	// task's model, followed by its client state. They are nil for an update that is refused.
	Values []float32
}

// FirstNumber draws the number from which a coordinator counts its jobs, the tokens of its tasks, or its calls of
// Flower apps. It is random, so that a late answer to an earlier coordinator of the same run is not taken
// for an answer to this one. The low 32 bits are 0 and all numbers stay below 2^53, which the
// numbers of every language hold exactly. It decides only what is ignored, so it needs no seed.
func FirstNumber() uint64 {
	var b [4]byte
	// Read of crypto/rand never fails.
	rand.Read(b[:])
	return uint64(binary.LittleEndian.Uint32(b[:])>>12) << 32
}

// SameNumbering reports whether number n was counted from first, a result of [FirstNumber].
func SameNumbering(first, n uint64) bool { return first>>32 == n>>32 }

// HeartbeatEvery returns the wall time between two heartbeats of a device.
func (w *Welcome) HeartbeatEvery() time.Duration {
	return time.Duration(w.GetHeartbeatSeconds() * float64(time.Second))
}

// Seal sets the stamp, a hash of everything that decides plans and sums: runs with equal stamps
// have equal plans and sums, whatever they are called.
func (r *RunInfo) Seal() (err error) {
	r.Stamp, err = r.computeStamp()
	return err
}

// CheckStamp returns ErrDamaged unless the stamp fits the other fields, as it does in
// every message that a coordinator of this program's protocol sent.
func (r *RunInfo) CheckStamp() error {
	stamp, err := r.computeStamp()
	if err == nil && r.Stamp != stamp {
		return ErrDamaged
	}
	return err
}

// computeStamp returns the hash of all fields that decide what hosts compute: all but the run's
// name, the program's version and the stamp itself. It is never 0, which stands for no stamp.
func (r *RunInfo) computeStamp() (uint64, error) {
	w := proto.CloneOf(r)
	w.Run = ""
	w.Version = ""
	w.Stamp = 0
	sum, err := hash(w)
	// A stamp of 0 would let a host accept tasks of every configuration.
	const noStamp = 0
	return max(binary.LittleEndian.Uint64(sum[:]), noStamp+1), err
}

// Seal sets the digest of a device's task, so that equal digests mean equal tasks. Equal numbers do not
// mean equal tasks: a run that continues after its coordinator died may give a number a second time, to
// another task. Seal also clears the task's fencing token, which is no part of the digest, because a
// coordinator that resumes the run sends the same task with another token.
func (t *Task) Seal() error {
	t.Digest = nil
	t.Fence = 0
	sum, err := hash(t)
	t.Digest = sum[:]
	return err
}

// hash returns the SHA-256 of message m in protobuf's deterministic encoding, which is the same for
// equal messages of one version of the library.
func hash(m proto.Message) (Digest, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return Digest{}, fmt.Errorf("bus: encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return sha256.Sum256(b), nil
}

// Message is a message of the protocol.
type Message interface {
	proto.Message
	// Validate returns an error that names the first field out of range.
	Validate() error
}

// Marshal appends the encoding of m to dst. It fails only on text that is not UTF-8.
func Marshal(dst []byte, m proto.Message) ([]byte, error) {
	if b, ok := marshalFrequent(dst, m); ok {
		return b, nil
	}
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("bus: encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return dst, nil
}

// The numbers of the fields that hold further tasks and further plans.
const (
	otherTasks protowire.Number = 24
	otherPlans protowire.Number = 7
)

// AppendTask adds a task to a message that carries several. The first task becomes the message itself;
// every further one is appended as an element of its field Task.Others, which protobuf allows because the
// encodings of fields can be concatenated.
func AppendTask(message []byte, t *Task) ([]byte, error) {
	return Marshal(appendNested(message, otherTasks, t.SizeVT()), t)
}

// AppendPlan adds a plan to a message that carries several, as AppendTask does.
func AppendPlan(message []byte, p *Plan) ([]byte, error) {
	return Marshal(appendNested(message, otherPlans, p.SizeVT()), p)
}

// appendNested appends to a message, unless it is empty, the beginning of a field that holds a message of
// this size.
func appendNested(message []byte, field protowire.Number, size int) []byte {
	if len(message) == 0 {
		return message
	}
	return protowire.AppendVarint(protowire.AppendTag(message, field, protowire.BytesType), uint64(size))
}

// SplitTasks yields the encodings of the tasks in a message that AppendTask has made. Of any other message it
// yields something that does not decode.
func SplitTasks(message []byte) iter.Seq[[]byte] { return split(message, otherTasks) }

// SplitPlans yields the encodings of the plans in a message that AppendPlan has made. Of any other message it
// yields something that does not decode.
func SplitPlans(message []byte) iter.Seq[[]byte] { return split(message, otherPlans) }

// split yields the beginning of a message, up to its first field with the given number, and then the content
// of each such field.
func split(message []byte, others protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		first := 0
		for first < len(message) {
			field, _, length := protowire.ConsumeField(message[first:])
			// A field that is cut off is left to the decoder of the first part, which refuses it.
			if length < 0 {
				first = len(message)
				break
			}
			if field == others {
				break
			}
			first += length
		}
		if !yield(message[:first]) {
			return
		}
		for rest := message[first:]; len(rest) > 0; {
			field, kind, tag := protowire.ConsumeTag(rest)
			content, length := protowire.ConsumeBytes(rest[max(0, tag):])
			isOther := tag >= 0 && length >= 0 && field == others && kind == protowire.BytesType
			if !isOther {
				yield(damagedPart)
				return
			}
			if !yield(content) {
				return
			}
			rest = rest[tag+length:]
		}
	}
}

// damagedPart is no message: its only field is cut off.
var damagedPart = []byte{0xff}

// Unmarshal decodes b into m, in place of what m held, and validates it. Slices that m held are not
// written to. If b cannot be decoded m is empty; if the message is not valid m holds it.
func Unmarshal(b []byte, m Message) error {
	if unmarshalFrequent(b, m) {
		return m.Validate()
	}
	if err := proto.Unmarshal(b, m); err != nil {
		proto.Reset(m)
		return fmt.Errorf("bus: decode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return m.Validate()
}

// ValidText returns s with bytes that are not UTF-8, which protobuf refuses to encode, replaced.
func ValidText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Printable returns a text that is safe to be shown on a terminal: characters that cannot be printed
// become spaces, and the text is cut to the limit of a device's log line.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), maxWhy)], "")
}

// Text returns a text as valid UTF-8 of at most MaxText bytes. It is cut to a quarter of that before,
// since a replaced byte takes three.
func Text(s string) string { return ValidText(s[:min(len(s), MaxText/4)]) }
