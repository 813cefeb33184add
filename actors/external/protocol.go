package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Versions of the protocol (docs/trainers.md).
const (
	// version is the one that this program speaks.
	version = 2
	// versionTyped is the first in which tensors may have a type and a rule.
	versionTyped = 2
	// oldest is the oldest version of a process that this program understands.
	oldest = 1
)

// maxReply bounds a line of the process, in bytes.
const maxReply = 16 << 20

// request is one line to the process, as JSON. Exactly one field besides ID is set. All offsets in
// requests are bytes of the shared memory.
type request struct {
	// ID numbers the requests that have replies, from 1; it is 0 for others.
	ID uint64 `json:"id,omitempty"`
	// Hello greets the process.
	Hello *hello `json:"hello,omitempty"`
	// Memory gives the size of the shared memory.
	Memory *size `json:"memory,omitempty"`
	// Initialise asks for an initial model.
	Initialise *initialise `json:"initialise,omitempty"`
	// Train asks for the local steps of some tasks.
	Train *train `json:"train,omitempty"`
	// Taken says that a task's model was read.
	Taken *taken `json:"taken,omitempty"`
	// Evaluate asks for the scores of a model.
	Evaluate *evaluate `json:"evaluate,omitempty"`
	// Cancel ends the request under way.
	Cancel *struct{} `json:"cancel,omitempty"`
	// Close ends the process.
	Close *struct{} `json:"close,omitempty"`
}

// hello greets a process and says what it works with.
type hello struct {
	// Protocol is the version of the protocol that this program speaks.
	Protocol int `json:"protocol"`
	// Threads is the number of threads that the process may use.
	Threads int `json:"threads"`
	// Worker is the number of the worker whose process it is, from 0.
	Worker int `json:"worker"`
	// Device is where the process computes, such as cpu.
	Device string `json:"device"`
	// Data describes the run's samples. It is nil if the process brings its own.
	Data *Data `json:"data"`
}

// size informs the process that the shared memory has grown.
type size struct {
	// Bytes is the length of the shared memory.
	Bytes int `json:"bytes"`
}

// initialise asks for the initial model of a seed at an offset.
type initialise struct {
	// Seed decides all random values of the model.
	Seed uint64 `json:"seed"`
	// Model is the offset to which the model is written.
	Model int `json:"model"`
}

// train asks for the local steps of several tasks from the model at Base. Models are written to
// Slots in turn.
type train struct {
	// Base is the offset of the model from which all tasks start.
	Base int `json:"base"`
	// Slots are the offsets to which the models of tasks are written in turn.
	Slots []int `json:"slots"`
	// Proximal is mu of the proximal term, 0 for none.
	Proximal float32 `json:"proximal"`
	// Optimizer is the name and options of the local optimizer; null stands for plain SGD.
	Optimizer json.RawMessage `json:"optimizer"`
	// Tasks are taken in this order.
	Tasks []trainTask `json:"tasks"`
}

// trainTask is one client's local steps. Rows and Correction are offsets.
type trainTask struct {
	// Client is the number of the client, and Name its name for people.
	Client int    `json:"client"`
	Name   string `json:"name"`
	// Steps is the number of local steps, and Rate their learning rate.
	Steps int     `json:"steps"`
	Rate  float64 `json:"rate"`
	// Seed decides all randomness of the steps.
	Seed uint64 `json:"seed"`
	// Rows is the offset of the row numbers of all minibatches.
	Rows int `json:"rows"`
	// Correction is the offset of the vector that is added to each gradient, nil for none.
	Correction *int `json:"correction"`
	// State says where the client's state lies, nil if it keeps none.
	State *state `json:"state,omitempty"`
}

// state is where a client's state lies: Bytes of it at an offset, with Room for the next one.
type state struct {
	// Offset is where the state begins.
	Offset int `json:"at"`
	// Bytes is the length of the present state, 0 before the client's first task.
	Bytes int `json:"bytes"`
	// Room is the largest length of the next state.
	Room int `json:"room"`
}

// taken says that the model of a task was read, so that its slot is free.
type taken struct {
	// Index is the number of the task in its request, from 0.
	Index int `json:"index"`
}

// evaluate asks for the scores of a model on Count rows.
type evaluate struct {
	// Model is the offset of the model.
	Model int `json:"model"`
	// Rows is the offset of the row numbers, and Count their number.
	Rows  int `json:"rows"`
	Count int `json:"count"`
}

// reply is one line of the process, as JSON. Exactly one field besides ID is set.
type reply struct {
	// ID repeats the number of the request.
	ID uint64 `json:"id"`
	// Hello is the greeting, the first thing that a process says.
	Hello *Greeting `json:"hello"`
	// Alive is a sign of life, which the process may send at any time.
	Alive *struct{} `json:"alive"`
	// Done says that a request is done.
	Done *struct{} `json:"done"`
	// Cancelled says that the request was cancelled as asked.
	Cancelled *struct{} `json:"cancelled"`
	// Task is the end of one task of a training request.
	Task *taskDone `json:"task"`
	// Scores is the result of an evaluation.
	Scores *Scores `json:"scores"`
	// Diverged says that a loss or a parameter is not finite, which ends the request.
	Diverged *Diverged `json:"diverged"`
	// Error is an exception of the script, which ends the request.
	Error *exception `json:"error"`
}

// taskDone says that a task's model lies in its slot.
type taskDone struct {
	// Index is the number of the task in its request, from 0.
	Index int `json:"index"`
	// Loss is the mean loss of the first minibatch before the first step.
	Loss *float64 `json:"loss"`
	// State is the number of bytes that the client keeps.
	State int `json:"state"`
}

// exception is an error that the user's code raised, with its place.
type exception struct {
	// Index is the number of the task in its request, and −1 if no single task is concerned.
	Index int `json:"index"`
	// Text is the message of the exception.
	Text string `json:"text"`
	// File is the file of the script in which it was raised, and Line the line in it, 0 if it is
	// not known.
	File string `json:"file"`
	Line int    `json:"line"`
}

// parse returns the reply in a line of the process. It is an error if the line is not one JSON object
// with exactly one of the fields that a reply can have, besides its id.
func parse(line []byte) (*reply, error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, errors.New("it is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	r := &reply{}
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	// Nothing but spaces may follow the object.
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return nil, errors.New("something stands behind the JSON object")
	}
	given := []bool{
		r.Hello != nil,
		r.Alive != nil,
		r.Done != nil,
		r.Cancelled != nil,
		r.Task != nil,
		r.Scores != nil,
		r.Diverged != nil,
		r.Error != nil,
	}
	// A reply says exactly one thing.
	fields := 0
	for _, present := range given {
		if present {
			fields++
		}
	}
	if fields != 1 {
		return nil, fmt.Errorf("it says %d of the things that a reply can say, want one", fields)
	}
	return r, nil
}
