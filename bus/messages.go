package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
)

// The kinds of job.
const (
	Train    = JobKind_JOB_KIND_TRAIN    // local SGD of some clients: one partial sum
	Evaluate = JobKind_JOB_KIND_EVALUATE // losses and scores of some shards of the validation samples

	EvaluateClients = JobKind_JOB_KIND_EVALUATE_CLIENTS // the same of some clients' own samples
)

// Name is the kind in a word, for people.
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
)

// ClientPlan is a plan with the client that its subject, or itself among others, names.
type ClientPlan struct {
	Client int
	Plan   *Plan
}

// Stateful reports whether each client keeps a vector from task to task, which jobs
// name and sums bring back: a control variate or a residual, what its steps remember, or both.
func (m *Method) Stateful() bool { return m.GetVariates() || m.GetResiduals() }

// StateLength is the length of what each of the job's clients keeps.
func (j *Job) StateLength() int {
	switch {
	case !j.Method.Stateful():
		return 0
	case j.Method.Kept > 0:
		return int(j.Method.Kept)
	}
	return int(j.Params)
}

// SumLength is the number of values in the job's exact sum: one for each
// parameter, and with control variates as many again for their changes.
func (j *Job) SumLength() int {
	switch {
	case j.Kind != Train:
		return 0
	case j.Method.GetVariates():
		return 2 * int(j.Params)
	}
	return int(j.Params)
}

// Equal tells whether two specs name the same learning problem.
func (s *Spec) Equal(spec *Spec) bool { return proto.Equal(s, spec) }

// Result is all of a job's result: the Sum message, and the numbers that travel
// in chunks or stay in the memory that both ends share.
type Result struct {
	*Sum           // its own Values and Variates are those of one chunk
	Values []int64 // Train: the exact partial sum, Job.SumLength values

	// Variates are the clients' next control variates, or their residuals, in the
	// order of Sum.Clients, Job.Kept values each, where the job's method has them.
	// The coordinator keeps them: nobody may write to them any more.
	ClientStates [][]float32
}

// NoModel is the kind of failure of a job whose model is not on the bus: the
// model is put there again and the job is done again.
const NoModel = "no model"

// Diverged is the kind of failure of losses or updates that are not finite.
const Diverged = "diverged"

// Error makes a failure, which ends a run unless it is a NoModel, an error.
func (f *Failure) Error() string { return f.Text }

// Last tells whether this message ends an update: it has no values, and what the
// device measured.
func (u *Update) Last() bool { return u.Chunk == u.Chunks }

// DeviceUpdate is a device's whole answer to a task: the last Update message
// and the values of the ones before it.
type DeviceUpdate struct {
	*Update // durations in nanoseconds of the device's own clock
	// the device's model after its steps, or the compressed difference, then what it keeps; nil of one that is refused
	Values []float32
}

// FirstNumber is where a coordinator starts to number jobs and the tokens of tasks: a
// random number, so that a late answer to the run's coordinator before is never taken
// for one to this. It leaves 2^32 numbers below 2^53, which every language's numbers
// hold. It decides nothing but what is ignored.
func FirstNumber() uint64 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:])>>12) << 32
}

// SameNumbering tells whether a number is one that counts on from a first one.
func SameNumbering(first, n uint64) bool { return first>>32 == n>>32 }

// HeartbeatEvery is the wall time from one heartbeat to the next.
func (w *Welcome) HeartbeatEvery() time.Duration {
	return time.Duration(w.GetHeartbeatSeconds() * float64(time.Second))
}

// Seal sets the stamp, which depends on all that decides plans and sums: equal
// stamps, equal plans and sums.
func (r *RunInfo) Seal() (err error) {
	r.Stamp, err = r.computeStamp()
	return err
}

// CheckStamp returns ErrDamaged unless the stamp is that of the rest, as it is of what
// a coordinator of this program's protocol sent.
func (r *RunInfo) CheckStamp() error {
	stamp, err := r.computeStamp()
	if err == nil && r.Stamp != stamp {
		return ErrDamaged
	}
	return err
}

func (r *RunInfo) computeStamp() (uint64, error) {
	w := proto.CloneOf(r)
	w.Run = ""
	w.Version = ""
	w.Stamp = 0
	sum, err := hash(w)
	return max(binary.LittleEndian.Uint64(sum[:]), 1), err // 0 says that there is none
}

// Seal sets the digest of a device's task: equal digests, equal tasks. A run that goes
// on after its coordinator died may give a task's number to another task.
func (t *Task) Seal() error {
	t.Digest = nil
	sum, err := hash(t)
	t.Digest = sum[:]
	return err
}

// hash is the SHA-256 of a message as protobuf encodes it.
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

// Marshal appends m to dst. It fails only on text that is not UTF-8.
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

// AppendPlan adds a plan to a message of plans; into an empty one goes the one whose client
// the subject names.
func AppendPlan(message []byte, p *Plan) ([]byte, error) {
	if len(message) > 0 {
		const othersField = 7 // the field's number
		message = protowire.AppendVarint(protowire.AppendTag(message, othersField, protowire.BytesType), uint64(p.SizeVT()))
	}
	return Marshal(message, p)
}

// Unmarshal decodes and validates a message in place of what m held; slices that
// m held are not written to. After an error of decoding m is empty.
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

// ValidText replaces what is not UTF-8, which protobuf refuses.
func ValidText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Printable makes of a text what people may be shown of a device's reason to leave.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), maxWhy)], "")
}

// Text cuts a text to what a message may hold, as valid UTF-8.
func Text(s string) string { return ValidText(s[:min(len(s), MaxText/4)]) }
