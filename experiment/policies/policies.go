package policies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"fedpace/config"
	"fedpace/policy"
)

// Set is the policies of one run, in their processes. nil is the set of a run without policies. A
// run asks from one goroutine, and forecasts from several; one question is asked at a time. Close
// it after use.
type Set struct {
	// ctx is that of every question. It does not end with the run's own context.
	ctx    context.Context
	askers []*asker

	// mu guards what follows, and the processes.
	mu sync.Mutex
	// err is the first failure, with which the run ends.
	err error
	// record takes a line for each decision; nil: none are kept now.
	record io.Writer
	// remembered are the decisions of an earlier attempt of the run, by [decision.key].
	remembered map[string]*decision
}

// decision is a question to a policy with its answer, a line of policies.jsonl. It has all that is
// needed to ask the question again, but for vectors.
type decision struct {
	// Policy is the key of the component in the configuration.
	Policy string `json:"policy"`
	Method string `json:"method"`
	// Question and Answer are as the policy's process is sent them.
	Question json.RawMessage `json:"question"`
	Answer   json.RawMessage `json:"answer"`
	// Vectors is the SHA-256 of the vectors that go with the question, and Written of those that
	// the policy wrote; empty: there are none.
	Vectors string `json:"vectors,omitempty"`
	Written string `json:"written,omitempty"`
}

// key returns a text that two decisions share if the same policy was asked the same question by the
// same method, with the same vectors.
func (d *decision) key() string {
	return d.Policy + "\n" + d.Method + "\n" + d.Vectors + "\n" + string(d.Question)
}

// Any reports whether any component of configuration c is a policy in Python, so that the run needs
// processes for it.
func Any(c *config.Config) bool { return len(policy.In(reflect.ValueOf(*c))) > 0 }

// Files returns the paths of the files that hold the policies of configuration c, each once, in the
// order of the policies' keys.
func Files(c *config.Config) (paths []string) {
	for _, p := range policy.In(reflect.ValueOf(*c)) {
		if path := p.Policy.Source().Path; !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Open starts the policies of a configuration and binds them to their components in c, so that a
// class that is not there is found before a run. notice takes lines for the user, and may be nil.
// The end of the context breaks off the start alone. It returns nil for a configuration without
// policies.
func Open(ctx context.Context, c *config.Config, notice func(string)) (*Set, error) {
	return open(ctx, c, notice)
}

// open is [Open] with variables that are added to the processes' environment, each NAME=VALUE. [Verify] sets one with
// which Python has another order of sets. notice may be nil.
func open(ctx context.Context, c *config.Config, notice func(string), variables ...string) (*Set, error) {
	if !Any(c) {
		return nil, nil
	}
	// An interrupted run ends between two steps, so a question under way is still answered.
	s := &Set{ctx: context.WithoutCancel(ctx), remembered: map[string]*decision{}}
	// Each component that is a policy gets an asker, and with it a process.
	err := policy.Bind(reflect.ValueOf(c).Elem(), func(key string, p policy.Policy) (policy.Asker, error) {
		a := &asker{
			set:      s,
			key:      key,
			program:  &program{policy: p, notice: notice, variables: variables},
			cache:    map[string]json.RawMessage{},
			recorded: slices.Contains(trainingKinds, p.Kind()),
		}
		s.askers = append(s.askers, a)
		// The process starts now, so that an error in the user's file is found before the run.
		if err := a.program.start(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return a, nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Err returns the first failure of a policy since the set was opened, nil while there is none. The
// run ends with it after the step under way. A nil set never fails.
func (s *Set) Err() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// trainingKinds are the kinds of policies that only a run asks, when it makes the next model. The others
// are asked by forecasts, too.
var trainingKinds = []string{"Aggregation", "Combination"}

// Record has each decision of the run from now on written as a line; nil: none any more. Decisions
// of forecasts, which are made while the run goes on, are not the run's: see [Recorded].
func (s *Set) Record(w io.Writer) {
	if s != nil {
		s.record = w
	}
}

// Recorded returns a copy of a component, whose policies answer for the run itself: each of their
// decisions is written to the record. The component itself stays as it is, for forecasts.
func Recorded[T any](component T) T {
	// The component's own asker is shared with forecasts, so it must not change.
	return policy.Rebound(component, func(other policy.Asker) policy.Asker {
		a := *other.(*asker)
		// The copy has a cache of its own, as a forecast's answer was not recorded.
		a.cache = map[string]json.RawMessage{}
		a.recorded = true
		return &a
	})
}

// Close ends the processes of all policies and returns what went wrong with that. A nil set has
// none. No question may be asked afterwards.
func (s *Set) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, a := range s.askers {
		err = errors.Join(err, a.program.close())
	}
	return err
}

// asker is one policy of a set. It implements [policy.Asker] for the component whose options name
// the policy.
type asker struct {
	// set is the set that it belongs to, key that of the component in the configuration, and
	// program the policy's process.
	set     *Set
	key     string
	program *program
	// cache holds answers by method and question. A round asks the same of a closing rule for each
	// task, and the same about a client, and a forecast asks it many times.
	cache map[string]json.RawMessage
	// recorded says that decisions are the run's, and written to its record.
	recorded bool
}

// maxCached bounds the answers of a policy that are cached.
const maxCached = 1 << 14

// cachedMethods are the methods of which answers are cached: their questions come again.
var cachedMethods = []string{"close", "local_steps", "learning_rate"}

// Has implements [policy.Asker]: it reports whether the user's class has a method, as the process
// told when it started.
func (a *asker) Has(method string) bool { return slices.Contains(a.program.greeting.Methods, method) }

// Fail implements [policy.Asker]: the text, formatted as by [fmt.Sprintf], says what is wrong with
// the answer of a method, and the run ends with it.
func (a *asker) Fail(method, format string, args ...any) {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	a.failAnswer(method, format, args...)
}

// failAnswer notes, like Fail, that an answer to a method cannot be used, for a caller that holds the
// lock of the set. The text is formatted as by [fmt.Sprintf].
func (a *asker) failAnswer(method, format string, args ...any) {
	a.fail(fmt.Errorf("%s: %s: %s", a.program.name(), method, fmt.Sprintf(format, args...)))
}

// fail keeps err, with the policy's key, as the failure of the set, unless there is one already.
// The lock of the set must be held.
func (a *asker) fail(err error) {
	if a.set.err == nil {
		a.set.err = fmt.Errorf("%s: %w", a.key, err)
	}
}

// Ask implements [policy.Asker]. For the methods whose questions come again, it keeps answers, so
// that the process is asked each question once.
func (a *asker) Ask(method string, question, answer any) bool {
	if !slices.Contains(cachedMethods, method) {
		return a.AskVectors(method, question, nil, answer)
	}
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	text, err := json.Marshal(question)
	if err != nil {
		a.fail(err)
		return false
	}
	// Equal questions have equal texts, since fields are written in their order.
	key := method + "\n" + string(text)
	known, ok := a.cache[key]
	// The answer is kept as JSON, because callers read it into values of their own.
	if !ok {
		if !a.ask(method, question, nil, &known) {
			return false
		}
		if len(a.cache) < maxCached {
			a.cache[key] = known
		}
	}
	return a.decode(method, known, answer)
}

// AskVectors implements [policy.Asker]: it asks the process each time, since vectors may differ
// where questions are equal.
func (a *asker) AskVectors(method string, question any, vectors *policy.Vectors, answer any) bool {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	return a.ask(method, question, vectors, answer)
}

// ask is AskVectors for a caller that holds the lock of the set. The answer comes from an earlier
// attempt of the run if that has been asked the same, otherwise from the policy's process. It is
// recorded and read into the pointer answer. After the first failure of any policy, ask reports
// false without asking.
func (a *asker) ask(method string, question any, vectors *policy.Vectors, answer any) bool {
	if a.set.err != nil {
		return false
	}
	text, err := json.Marshal(question)
	if err != nil {
		a.fail(err)
		return false
	}
	d := &decision{Policy: a.key, Method: method, Question: text}
	if vectors != nil {
		d.Vectors = digest(all(vectors))
	}
	d.Answer, err = a.answer(d, vectors)
	if err != nil {
		a.fail(err)
		return false
	}
	if vectors != nil && len(vectors.Written) > 0 {
		d.Written = digest(vectors.Written)
	}
	if err := a.writeRecord(d); err != nil {
		a.fail(err)
		return false
	}
	return a.decode(method, d.Answer, answer)
}

// answer returns the answer that an earlier attempt of the run has recorded to the question of d, or else that of the
// policy. The numbers that a
// policy writes to vectors are not in the record, so a question with vectors is always put to the policy.
func (a *asker) answer(d *decision, vectors *policy.Vectors) (json.RawMessage, error) {
	earlier := a.set.remembered[d.key()]
	if earlier != nil && vectors == nil {
		return earlier.Answer, nil
	}
	return a.program.ask(a.set.ctx, d.Method, d.Question, vectors)
}

// decode reads the JSON text of an answer into the pointer answer. It reports false, and notes the
// failure of the method, if the text has another form. null, which is Python's None, is an answer
// only where a list is wanted.
func (a *asker) decode(method string, text json.RawMessage, answer any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	// JSON would leave the answer's zero value, which the policy has not meant.
	if string(text) == "null" && reflect.TypeOf(answer).Elem().Kind() != reflect.Slice {
		a.failAnswer(method, "it returned None")
		return false
	}
	if err := decoder.Decode(answer); err != nil {
		a.failAnswer(method, "%.80s is no answer: %v", text, err)
		return false
	}
	return true
}

// writeRecord writes decision d to the record as one line of JSON, if the set has a record and the asker's
// decisions belong to it.
func (a *asker) writeRecord(d *decision) error {
	if a.set.record == nil || !a.recorded {
		return nil
	}
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = a.set.record.Write(append(line, '\n'))
	return err
}

// digest returns the SHA-256 of the vectors' bytes, one vector behind the other, in hexadecimal.
// Each vector is a slice as [policy.Vectors] allows.
func digest(vectors []any) string {
	sum := sha256.New()
	for _, v := range vectors {
		_, b := raw(v)
		sum.Write(b)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
