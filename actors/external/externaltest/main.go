package externaltest

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/edsrzf/mmap-go"

	"fedpace/actors/external"
	"fedpace/algorithm"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// Started reports whether this process was started as a trainer.
func Started() bool { return os.Getenv("FEDPACE_TRAINER") != "" }

// Command returns the command that starts this test's binary as a trainer with the given flags,
// quoted as in a configuration.
func Command(flags ...string) string {
	list := []string{"'" + os.Args[0] + "'"}
	for _, f := range flags {
		list = append(list, "'"+f+"'")
	}
	return strings.Join(list, " ")
}

// trainer is the process: its flags, its pipes and what it has done so far.
type trainer struct {
	model  learn.Model
	work   learn.Workspace
	kernel learn.Kernel
	// buffers is the number of values behind the parameters that are running means of the samples'
	// first values.
	buffers int
	// scale multiplies the values that buffers follow.
	scale float64
	// integers adds a count of steps, the largest of which counts, and a boolean, by majority, that each
	// step turns over.
	integers bool
	// frozen is the number of values behind those. Value i of them is i/7, and the trainer ends if a
	// model comes back with another.
	frozen int
	// state is the number of bytes that the script keeps for a client, of which the first counts the
	// client's tasks.
	state int

	name, digest, class, fault, once, own, timing string

	in      *bufio.Reader
	out     *os.File
	shared  *os.File
	memory  mmap.MMap
	samples *samples
	mine    *owned
	// tasks is the number of tasks that have begun.
	tasks int
	// from is the first of these, counted from 1, that a fault spoils.
	from int
	// worked is the time that all local steps took.
	worked time.Duration
}

// message is a request, as docs/trainers.md describes it.
type message struct {
	ID    uint64
	Hello *struct {
		Data *external.Data
	}
	Memory *struct{ Bytes int }
	Train  *struct {
		Base      int
		Slots     []int
		Proximal  float32
		Optimizer json.RawMessage
		Tasks     []task
	}
	Initialise *struct {
		Seed  uint64
		Model int
	}
	Evaluate *struct{ Model, Rows, Count int }
	Cancel   *struct{}
	Close    *struct{}
	Taken    *struct{ Index int }
}

// task is one client's local steps.
type task struct {
	Client, Steps, Rows int
	Name                string
	Rate                float64
	Seed                uint64
	Correction          *int
	// State is where in the shared memory the client's state lies, its length, and the room for the next one.
	State *struct{ At, Bytes, Room int }
	// kept is the number of bytes that the client keeps next.
	kept int
}

// object is a JSON object of a reply.
type object map[string]any

// check ends the process with a message if err is an error.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "the test's trainer:", err)
		os.Exit(1)
	}
}

// Main is the trainer: it reads requests from descriptor 3 and writes replies to descriptor 4, with
// the flags of its command. It ends the process, and never returns.
func Main() {
	t := newTrainer()
	if t.shouldFail("child") {
		leaveChild()
	}
	t.dieOrHang("start")
	for t.shouldFail("alive without end") {
		t.say(object{"alive": object{}})
		time.Sleep(time.Millisecond)
	}
	for {
		t.answer(t.read())
	}
}

// newTrainer returns the trainer that the flags of the process describe. Most of them are fields of the trainer.
func newTrainer() *trainer {
	t := &trainer{
		in:     bufio.NewReaderSize(os.NewFile(3, "requests"), 1<<20),
		out:    os.NewFile(4, "replies"),
		shared: os.NewFile(5, "memory"),
	}
	var model string
	f := flag.NewFlagSet("trainer", flag.ExitOnError)
	f.StringVar(&model, "model", "mlp:784,12,62", "")
	f.StringVar(&t.name, "name", "test.go", "")
	f.StringVar(&t.class, "class", "go1.0-cpu", "")
	f.StringVar(&t.digest, "digest", strings.Repeat("0f", 32), "")
	f.StringVar(&t.fault, "fault", "", "")
	f.StringVar(&t.once, "once", "", "the fault happens while this file is not there")
	f.StringVar(&t.own, "own", "", "task of own data")
	f.StringVar(&t.timing, "timing", "", "file for the nanoseconds that all steps took")
	f.IntVar(&t.from, "from", 2, "task of the process, from 1, from which on there are faults")
	f.IntVar(&t.buffers, "buffers", 0, "")
	f.BoolVar(&t.integers, "integers", false, "")
	f.Float64Var(&t.scale, "scale", 1, "")
	f.IntVar(&t.frozen, "frozen", 0, "")
	f.IntVar(&t.state, "state", 0, "")
	check(f.Parse(os.Args[1:]))
	var err error
	t.model, err = learn.Parse(model)
	check(err)
	t.kernel, err = learn.SelectKernel(learn.AutoKernel)
	check(err)
	t.work = t.model.NewWorkspace(1024, t.kernel)
	// With data of its own the trainer makes a synthetic set.
	if t.own != "" {
		set, err := synthetic.New(t.own, 12, 3, 1)
		check(err)
		t.mine = newOwned(set)
	}
	return t
}

// answer does what a request asks for, and replies to it where it wants a reply. A request to close ends the process.
func (t *trainer) answer(request *message) {
	switch {
	case request.Close != nil:
		if t.timing != "" {
			check(os.WriteFile(t.timing, fmt.Append(nil, t.worked.Nanoseconds()), 0o600))
		}
		os.Exit(0)
	case request.Hello != nil:
		if request.Hello.Data != nil {
			t.samples = &samples{about: request.Hello.Data, open: map[string]mmap.MMap{}}
		}
		t.greet()
	case request.Memory != nil:
		memory, err := mmap.MapRegion(t.shared, request.Memory.Bytes, mmap.RDWR, 0, 0)
		check(err)
		t.memory = memory
	case request.Initialise != nil:
		x := t.floats(request.Initialise.Model, t.size())
		t.model.Init(x[:t.model.Params()], request.Initialise.Seed)
		clear(x[t.model.Params():])
		// Frozen values are sevenths of their numbers, by which train sees that they arrive unchanged.
		for i := range x[t.size()-t.frozen:] {
			x[t.size()-t.frozen+i] = float32(i) / 7
		}
		t.dieOrHang("initialise")
		t.say(object{"id": request.ID, "done": object{}})
	case request.Train != nil:
		t.train(request)
	case request.Evaluate != nil:
		t.evaluate(request)
	}
}

// read returns the next request. The process ends if there is none any more.
func (t *trainer) read() *message {
	line, err := t.in.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		os.Exit(0)
	}
	check(err)
	m := &message{}
	check(json.Unmarshal(line, m))
	return m
}

// say writes a reply.
func (t *trainer) say(o object) {
	line, err := json.Marshal(o)
	check(err)
	_, err = t.out.Write(append(line, '\n'))
	check(err)
}

// floats returns n floats of the shared memory, from a byte offset on.
func (t *trainer) floats(offset, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&t.memory[offset])), n)
}

// rows returns the shared memory from a byte offset on as row numbers. The caller knows how many of them
// count.
func (t *trainer) rows(offset int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(&t.memory[offset])), (len(t.memory)-offset)/4)
}

// protocol returns the version that the process speaks: typed tensors need the second.
func (t *trainer) protocol() int {
	if t.integers {
		return 2
	}
	return 1
}

// size returns the number of values of the flat model: parameters, buffers, integers and frozen
// values.
func (t *trainer) size() int {
	n := t.model.Params() + t.buffers + t.frozen
	// The integers are a count of steps and a boolean.
	if t.integers {
		n += 2
	}
	return n
}

// greet sends the greeting: the tensors of the model with those that flags add, its metrics, and
// the trainer's own data if it has any.
func (t *trainer) greet() {
	var tensors []object
	for _, x := range t.model.Tensors() {
		tensors = append(tensors, object{"name": x.Name, "shape": x.Shape, "trainable": true})
	}
	if t.buffers > 0 {
		tensors = append(tensors, object{"name": "running_mean", "shape": []int{t.buffers}, "trainable": false})
	}
	// Integers have a rule by which clients' values become one.
	if t.integers {
		one := []int{}
		tensors = append(tensors,
			object{"name": "steps", "shape": one, "trainable": false, "type": "int64", "rule": "largest"},
			object{"name": "odd", "shape": one, "trainable": false, "type": "bool", "rule": "majority"})
	}
	if t.frozen > 0 {
		tensors = append(tensors, object{"name": "base", "shape": []int{t.frozen}, "trainable": false, "frozen": true})
	}
	metrics := []object{}
	for _, m := range t.model.Metrics() {
		better := map[bool]string{true: "lower", false: "higher"}[m.Lower]
		metrics = append(metrics, object{"name": m.Name, "better": better})
	}
	o := object{"protocol": t.protocol(), "name": t.name, "class": t.class, "digest": t.digest, "tensors": tensors,
		"metrics": metrics, "optimizers": []string{"sgd", "adamw"}, "state": t.state}
	if t.mine != nil {
		o["data"] = t.mine.about()
	}
	t.spoilGreeting(o)
	t.say(object{"hello": o})
}

// batch returns the samples of the given rows as a minibatch, from the trainer's own set or from
// the run's.
func (t *trainer) batch(rows []int32) *learn.Batch {
	b := &learn.Batch{}
	for _, row := range rows {
		if t.mine != nil {
			t.mine.append(b, int(row))
		} else {
			t.samples.append(b, int(row))
		}
	}
	return b
}

// train takes the local steps of each task of a training request, writes the models to the slots in
// turn, and replies to each. It waits for a free slot if all are in use.
func (t *trainer) train(m *message) {
	base := t.floats(m.Train.Base, t.size())
	// Frozen values must arrive as the initial model had them.
	for i, x := range base[t.size()-t.frozen:] {
		if x != float32(i)/7 {
			check(fmt.Errorf("frozen number %d is %g", i, x))
		}
	}
	local := make([]float32, t.size())
	// taken is the index of the last task whose model was taken out of its slot.
	taken := -1
	for i, x := range m.Train.Tasks {
		t.tasks++
		copy(local, base)
		began := time.Now()
		loss := t.steps(m, &x, base, local)
		t.worked += time.Since(began)
		cancelled := false
		// A slot is free when the model in it was taken.
		for !cancelled && taken < i-len(m.Train.Slots) {
			next := t.read()
			cancelled = next.Cancel != nil
			if next.Taken != nil {
				taken = next.Taken.Index
			}
		}
		if cancelled {
			t.say(object{"id": m.ID, "cancelled": object{}})
			return
		}
		if t.spoilTask(m.ID, i, local) {
			return
		}
		copy(t.floats(m.Train.Slots[i%len(m.Train.Slots)], t.size()), local)
		t.say(object{"id": m.ID, "task": object{"index": i, "loss": loss, "state": x.kept}})
	}
	t.say(object{"id": m.ID, "done": object{}})
}

// steps takes the local steps of task x in local, which holds the model base at the start, and returns
// the loss before the first. Plain steps are those of package learn.
func (t *trainer) steps(m *message, x *task, base, local []float32) (first float64) {
	n := t.model.Params()
	params := local[:n]
	gradient := make([]float32, n)
	var stepper learn.Stepper
	if string(m.Train.Optimizer) != "null" && len(m.Train.Optimizer) > 0 {
		o, err := learn.Optimizers.Decode(string(m.Train.Optimizer))
		check(err)
		stepper = o.Stepper(n)
		stepper.Start()
	}
	defer t.keep(x, stepper)()
	var pull algorithm.Client
	if m.Train.Proximal != 0 {
		pull = algorithm.FedProx{Mu: float64(m.Train.Proximal)}.Client(n)
		pull.Start(base[:n], nil, nil)
	}
	// The rows of each step's minibatch stand behind their number.
	rows := t.rows(x.Rows)
	for k := range x.Steps {
		size := int(rows[0])
		batch := t.batch(rows[1 : 1+size])
		rows = rows[1+size:]
		// Behind the parameters lie buffers of floats, the running means of the samples, as in a batch normalisation.
		for i := range t.buffers {
			local[n+i] = 0.9*local[n+i] + 0.1*float32(t.scale)*batch.X[i]
		}
		// Behind them are the number of steps, and whether it is odd (see greet).
		if t.integers {
			local[n+t.buffers]++
			local[n+t.buffers+1] = 1 - local[n+t.buffers+1]
		}
		var loss float64
		var err error
		if pull == nil && stepper == nil && x.Correction == nil {
			loss, err = t.work.Step(params, batch, float32(x.Rate))
			check(err)
		} else {
			loss, err = t.work.Gradient(gradient, params, batch)
			check(err)
			if x.Correction != nil {
				for i, c := range t.floats(*x.Correction, n) {
					gradient[i] += c
				}
			}
			if pull != nil {
				pull.Correct(params, gradient)
			}
			if stepper != nil {
				stepper.Step(params, gradient, float32(x.Rate))
			} else {
				for i, g := range gradient {
					params[i] -= float32(float32(x.Rate) * g)
				}
			}
		}
		if k == 0 {
			first = loss
		}
	}
	return first
}

// keep loads what the client of task x has kept into the optimizer, before the task's steps. The
// function that it returns is called after the steps, and writes what the client keeps next. That lies in the shared
// memory at x.State.At: the memory of the optimizer, four bytes a value, and then the t.state bytes of the script. A
// state of 0 bytes stands for a client that has kept nothing yet.
func (t *trainer) keep(x *task, stepper learn.Stepper) func() {
	if x.State == nil {
		return func() {}
	}
	optimizer, isStateful := stepper.(learn.StatefulStepper)
	// Room for no more than the script's own state means that the optimizer starts afresh in each task.
	isStateful = isStateful && x.State.Room > t.state
	values := 0
	if isStateful {
		values = optimizer.Memory()
	}
	scriptState := t.memory[x.State.At+4*values:]
	count := byte(0)
	if x.State.Bytes > 0 {
		if isStateful {
			optimizer.Load(t.floats(x.State.At, values))
		}
		if t.state > 0 {
			count = scriptState[0]
		}
	}
	return func() {
		x.kept = 4 * values
		if isStateful {
			optimizer.Save(t.floats(x.State.At, values))
		}
		if t.state > 0 {
			scriptState[0] = count + 1
			x.kept++
		}
	}
}

// evaluate answers a request for the scores of a model, in batches of 256 samples.
func (t *trainer) evaluate(m *message) {
	const evaluation = -1
	if t.spoilTask(m.ID, evaluation, nil) {
		return
	}
	rows := t.rows(m.Evaluate.Rows)[:m.Evaluate.Count]
	params := t.floats(m.Evaluate.Model, t.model.Params())
	scores := make([]learn.Score, 1)
	sum := 0.0
	for len(rows) > 0 {
		n := min(256, len(rows))
		loss, err := t.work.Evaluate(params, t.batch(rows[:n]), scores)
		check(err)
		sum += loss
		rows = rows[n:]
	}
	t.say(object{"id": m.ID, "scores": object{"loss": object{"sum": sum, "weight": m.Evaluate.Count},
		"metrics": []object{{"sum": scores[0].Sum, "weight": scores[0].Weight}}}})
}
