package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"fedpace/internal/child"
	"fedpace/policy"
)

// protocol is the version of the protocol with the module fedpace.policy.
const protocol = 1

const (
	// maxReply bounds an answer, in bytes.
	maxReply = 1 << 20
	// minStart is how long a process may take to start and to read the user's file, at least.
	minStart = time.Minute
	// maxDeaths is how many processes may die at one question.
	maxDeaths = 3
)

// request is one line to the process, in JSON. Exactly one field besides ID is set. Only greetings,
// questions and echoes are answered.
type request struct {
	ID     uint64 `json:"id,omitempty"`
	Hello  *hello `json:"hello,omitempty"`
	Ask    *ask   `json:"ask,omitempty"`
	Memory *size  `json:"memory,omitempty"`
	// Echo is answered as it is: what the pipe costs.
	Echo  json.RawMessage `json:"echo,omitempty"`
	Close *struct{}       `json:"close,omitempty"`
}

// hello is the greeting of a process: which class it is to make an object of, and from which file.
type hello struct {
	Protocol  int    `json:"protocol"`
	Kind      string `json:"kind"`
	Path      string `json:"path"`
	Class     string `json:"class"`
	Arguments string `json:"arguments"`
	Megabytes int    `json:"memory_mb"`
}

// ask is a question to a method, with the places of its vectors in the shared memory.
type ask struct {
	Method   string          `json:"method"`
	Question json.RawMessage `json:"question"`
	Vectors  []place         `json:"vectors"`
}

// place is where a vector lies. Type is a code of Python's struct: q, d or f.
type place struct {
	Type     string `json:"type"`
	Offset   int    `json:"offset"`
	Length   int    `json:"length"`
	Writable bool   `json:"writable"`
}

// size says how large the shared memory is now, after it has grown. It is not answered.
type size struct {
	Bytes int `json:"bytes"`
}

// reply is one line of the process, in JSON. Exactly one field besides ID, which is that of the
// request, is set.
type reply struct {
	ID     uint64          `json:"id"`
	Hello  *greeting       `json:"hello"`
	Answer json.RawMessage `json:"answer"`
	Error  *exception      `json:"error"`
}

// greeting is what a process says of its policy once the object is made: its class, and the methods
// that it has.
type greeting struct {
	Protocol int      `json:"protocol"`
	Class    string   `json:"class"`
	Methods  []string `json:"methods"`
}

// exception is an error that the user's code raised, in place of an answer. The process goes on.
type exception struct {
	Text string `json:"text"`
	// Line of the policy's file; 0: none of it.
	Line int `json:"line"`
}

// Error returns the text of the exception, as the process tells it.
func (e *exception) Error() string { return e.Text }

// program is a policy's process, which is started again when it dies. It is for one goroutine at a
// time.
type program struct {
	// policy has the file, the class and the limits of the policy.
	policy policy.Policy
	// variables are added to the environment of the process, each NAME=VALUE.
	variables []string
	// notice takes lines for the user, such as what the process prints; it may be nil.
	notice func(string)

	// process is nil until it is started, and greeting is what it said of its class.
	process  *child.Process
	greeting greeting
	// id is that of the last request.
	id uint64
}

// interpreter returns the program that runs policies: the one that the variable FEDPACE_PYTHON
// names, or python3.
func interpreter() string {
	if name := os.Getenv("FEDPACE_PYTHON"); name != "" {
		return name
	}
	return "python3"
}

// name returns what errors call the policy: its file, class and arguments.
func (p *program) name() string { return "policy " + p.policy.Source().String() }

// patience returns how long an answer may take, in wall time, by the option answer_seconds.
func (p *program) patience() time.Duration {
	return time.Duration(p.policy.Source().Patience * float64(time.Second))
}

// start starts the process, has it load the user's file and make the policy's object, and keeps its
// greeting. The end of ctx breaks it off. An error names the policy, and the line of its file where
// the user's code failed.
func (p *program) start(ctx context.Context) error {
	if !child.Supported() {
		return fmt.Errorf("%s: this system cannot hand memory to another process (use Linux, macOS or another Unix)",
			p.name())
	}
	library, err := child.PythonLibrary()
	if err != nil {
		return fmt.Errorf("%s: %w", p.name(), err)
	}
	// The package fedpace is found in the library, and the module policy runs the user's file.
	process, err := child.Start(child.Options{
		Words:       []string{interpreter(), "-B", "-c", "from fedpace.policy import main; main()"},
		Environment: child.PythonEnvironment(library, 1, append([]string{"FEDPACE_POLICY=1"}, p.variables...)...),
		MaxReply:    maxReply,
		Notice: func(line string) {
			if p.notice != nil {
				p.notice("Policy " + filepath.Base(p.policy.Source().Path) + ": " + line)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("%s: %w (FEDPACE_PYTHON names another Python)", p.name(), err)
	}
	p.process = process
	source := p.policy.Source()
	// Loading a file may import large libraries, which takes far longer than an answer.
	patience := max(minStart, 10*p.patience())
	r, err := p.exchange(ctx, patience, &request{Hello: &hello{
		Protocol:  protocol,
		Kind:      p.policy.Kind(),
		Path:      source.Path,
		Class:     source.Class,
		Arguments: source.Arguments,
		Megabytes: source.Megabytes,
	}})
	if err != nil {
		return p.explain(err)
	}
	// A process of another version could misunderstand every later question.
	if r.Hello == nil || r.Hello.Protocol != protocol {
		return p.explain(p.killForBreach("its first reply is no greeting of protocol %d", protocol))
	}
	p.greeting = *r.Hello
	return nil
}

// exchange sends request r, numbered, and returns the reply to it, each within the given patience.
// The error is an [exception] where the user's code raised one, and a [child.EndedError] where the
// process died or was killed for its silence.
func (p *program) exchange(ctx context.Context, patience time.Duration, r *request) (*reply, error) {
	p.id++
	r.ID = p.id
	// A greeting has no number; the reply has none either.
	if r.Hello != nil {
		r.ID = 0
	}
	if err := p.send(ctx, patience, r); err != nil {
		return nil, err
	}
	// The process answers one request after the other, so the next line is the reply.
	line, err := p.process.Receive(ctx, patience)
	// User code that hangs cannot be interrupted, only killed.
	if errors.Is(err, child.ErrSilent) {
		return nil, p.process.Kill(fmt.Sprintf("it has not answered for %v, and was killed "+
			"(answer_seconds is how long it may take)", patience))
	}
	if err != nil {
		return nil, err
	}
	if len(line) > maxReply {
		return nil, p.killForBreach("an answer is longer than %d bytes", maxReply)
	}
	answer := &reply{}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(answer); err != nil || answer.ID != r.ID {
		return nil, p.killForBreach("a line that begins %.80q is no reply to request %d", line, r.ID)
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	return answer, nil
}

// send writes request r as a line of JSON. If the process does not read it within the given
// patience, it is killed.
func (p *program) send(ctx context.Context, patience time.Duration, r *request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.process.Send(ctx, line, patience, fmt.Sprintf("it has read no request for %v, and was killed", patience))
}

// killForBreach kills a process that breaks the protocol, since nothing that it says later can be trusted,
// and returns an error with the formatted text.
func (p *program) killForBreach(format string, args ...any) error {
	_ = p.process.Kill("")
	return fmt.Errorf("it breaks the protocol: %s", fmt.Sprintf(format, args...))
}

// explain returns err with the policy's name in front of it. If the process has ended, its last
// printed lines follow; if the user's code raised err, its line in the policy's file is named.
func (p *program) explain(err error) error {
	if ended := (*child.EndedError)(nil); errors.As(err, &ended) {
		return fmt.Errorf("%s: %w; %s", p.name(), err, p.process.Printed())
	}
	// The place in the user's file helps more than a stack of this program.
	if raised := (*exception)(nil); errors.As(err, &raised) {
		place := ""
		if raised.Line > 0 {
			place = fmt.Sprintf(", line %d", raised.Line)
		}
		return fmt.Errorf("%s%s: %s", p.name(), place, child.Printable(raised.Text))
	}
	return fmt.Errorf("%s: %w", p.name(), err)
}

// ask puts a question, in JSON, to a method of the policy and returns the answer as JSON. v are
// vectors that go with it, which the policy may read and write; nil: none. A process that dies is
// started again and asked the same, until maxDeaths processes have died at it.
func (p *program) ask(ctx context.Context, method string, question []byte, v *policy.Vectors) (json.RawMessage, error) {
	for deaths := 1; ; deaths++ {
		answer, err := p.askOnce(ctx, method, question, v)
		// An error of the user's code is final: the same question would raise it again.
		ended := (*child.EndedError)(nil)
		if err == nil || ctx.Err() != nil || !errors.As(err, &ended) {
			return answer, err
		}
		if deaths == maxDeaths {
			return nil, fmt.Errorf("%w (%d processes died at one question)", err, deaths)
		}
		if p.notice != nil {
			p.notice(fmt.Sprintf("%v. It is started again.", err))
		}
	}
}

// askOnce is ask with one process: it starts a process if there is none or if the last one broke,
// and asks it once. An error is explained, with the policy's name.
func (p *program) askOnce(
	ctx context.Context,
	method string,
	question []byte,
	v *policy.Vectors,
) (json.RawMessage, error) {
	// The process that broke is released before another one takes its place.
	if p.process != nil && p.process.Broken() {
		if err := p.close(); err != nil {
			return nil, err
		}
	}
	if p.process == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	places, err := p.copyIn(ctx, v)
	if err != nil {
		return nil, p.explain(err)
	}
	r, err := p.exchange(ctx, p.patience(), &request{Ask: &ask{Method: method, Question: question, Vectors: places}})
	if err != nil {
		return nil, p.explain(err)
	}
	// A method that returns None has an answer, too, which the caller judges.
	if r.Answer == nil {
		r.Answer = json.RawMessage("null")
	}
	p.copyBack(v, places)
	return r.Answer, nil
}

// copyIn copies the vectors of v into the memory that the process maps, one behind the other, and
// returns where each lies: first those that are read, then those that may be written. It tells the
// process if the memory has grown. A nil v gives an empty list.
func (p *program) copyIn(ctx context.Context, v *policy.Vectors) ([]place, error) {
	if v == nil {
		return []place{}, nil
	}
	var places []place
	end := 0
	// Offsets are aligned, as Python maps each vector as an array of its type.
	for i, vector := range all(v) {
		code, bytes := raw(vector)
		places = append(places, place{
			Type:     code,
			Offset:   end,
			Length:   length(vector),
			Writable: i >= len(v.Read),
		})
		end += child.Align(len(bytes))
	}
	grown, err := p.process.Memory.Grow(max(end, 1))
	if err != nil {
		return nil, err
	}
	// The process must map the file again before it looks at the vectors.
	if grown {
		if err := p.send(ctx, p.patience(), &request{Memory: &size{len(p.process.Memory.Bytes)}}); err != nil {
			return nil, err
		}
	}
	for i, vector := range all(v) {
		_, bytes := raw(vector)
		copy(p.process.Memory.Bytes[places[i].Offset:], bytes)
	}
	return places, nil
}

// copyBack copies the vectors that the policy may write out of the shared memory into v.Written, after
// an answer. places is what copyIn returned for v. A nil v has none.
func (p *program) copyBack(v *policy.Vectors, places []place) {
	if v == nil {
		return
	}
	for i, vector := range v.Written {
		_, bytes := raw(vector)
		copy(bytes, p.process.Memory.Bytes[places[len(v.Read)+i].Offset:])
	}
}

// all returns the vectors that a policy reads, followed by those that it may write, in the order in
// which the policy gets them.
func all(v *policy.Vectors) []any {
	// The capacity is cut off, so that append does not write into the caller's array.
	return append(v.Read[:len(v.Read):len(v.Read)], v.Written...)
}

// raw returns the bytes of a vector in this machine's memory, not a copy, and the code of its type
// in Python's module struct: q for int64, d for float64, f for float32. Another type is a mistake
// of the program.
func raw(vector any) (code string, bytes []byte) {
	switch x := vector.(type) {
	case []int64:
		return "q", memoryOf(x)
	case []float64:
		return "d", memoryOf(x)
	case []float32:
		return "f", memoryOf(x)
	}
	panic(fmt.Sprintf("policies: a vector of %T", vector))
}

// memoryOf returns the memory of the slice x as bytes, without a copy. It is valid as long as x is.
func memoryOf[T int64 | float64 | float32](x []T) []byte {
	var number T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(number)))
}

// length returns the number of values in a vector, which must be a slice of a type that
// [policy.Vectors] allows; any other type is a mistake of this program.
func length(vector any) int {
	switch x := vector.(type) {
	case []int64:
		return len(x)
	case []float64:
		return len(x)
	case []float32:
		return len(x)
	}
	panic(fmt.Sprintf("policies: a vector of %T", vector))
}

// close ends the process, if there is one, by asking it to; a process that does not end is killed.
// The program can start another afterwards.
func (p *program) close() error {
	process := p.process
	p.process = nil
	if process == nil {
		return nil
	}
	return process.Close([]byte(`{"close":{}}`))
}
