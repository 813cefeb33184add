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

// request is one line to the process. Exactly one field besides ID is set. All offsets in requests
// are bytes of the shared memory.
type request struct {
	ID         uint64      `json:"id,omitempty"`
	Hello      *hello      `json:"hello,omitempty"`
	Memory     *size       `json:"memory,omitempty"`
	Initialise *initialise `json:"initialise,omitempty"`
	Train      *train      `json:"train,omitempty"`
	Taken      *taken      `json:"taken,omitempty"`
	Evaluate   *evaluate   `json:"evaluate,omitempty"`
	Cancel     *struct{}   `json:"cancel,omitempty"`
	Close      *struct{}   `json:"close,omitempty"`
}

// hello greets a process and says what it works with.
type hello struct {
	Protocol int    `json:"protocol"`
	Threads  int    `json:"threads"`
	Worker   int    `json:"worker"`
	Device   string `json:"device"`
	Data     *Data  `json:"data"`
}

// size tells the process that the shared memory has grown.
type size struct {
	Bytes int `json:"bytes"`
}

// initialise asks for the initial model of a seed at an offset.
type initialise struct {
	Seed  uint64 `json:"seed"`
	Model int    `json:"model"`
}

// train asks for the local steps of several tasks from the model at Base. Models are written to
// Slots in turn.
type train struct {
	Base      int             `json:"base"`
	Slots     []int           `json:"slots"`
	Proximal  float32         `json:"proximal"`
	Optimizer json.RawMessage `json:"optimizer"`
	Tasks     []trainTask     `json:"tasks"`
}

// trainTask is one client's local steps. Rows and Correction are offsets.
type trainTask struct {
	Client     int     `json:"client"`
	Name       string  `json:"name"`
	Steps      int     `json:"steps"`
	Rate       float64 `json:"rate"`
	Seed       uint64  `json:"seed"`
	Rows       int     `json:"rows"`
	Correction *int    `json:"correction"`
	State      *state  `json:"state,omitempty"`
}

// state is where a client's state lies: Bytes of it at an offset, with Room for the next one.
type state struct {
	Offset int `json:"at"`
	Bytes  int `json:"bytes"`
	Room   int `json:"room"`
}

// taken says that the model of a task was read, so that its slot is free.
type taken struct {
	Index int `json:"index"`
}

// evaluate asks for the scores of a model on Count rows.
type evaluate struct {
	Model int `json:"model"`
	Rows  int `json:"rows"`
	Count int `json:"count"`
}

// reply is one line of the process. Exactly one field besides ID is set.
type reply struct {
	ID        uint64     `json:"id"`
	Hello     *Greeting  `json:"hello"`
	Alive     *struct{}  `json:"alive"`
	Done      *struct{}  `json:"done"`
	Cancelled *struct{}  `json:"cancelled"`
	Task      *taskDone  `json:"task"`
	Scores    *Scores    `json:"scores"`
	Diverged  *Diverged  `json:"diverged"`
	Error     *exception `json:"error"`
}

// taskDone says that a task's model lies in its slot.
type taskDone struct {
	Index int      `json:"index"`
	Loss  *float64 `json:"loss"`
	// Bytes.
	State int `json:"state"`
}

// exception is an error that the user's code raised, with its place.
type exception struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
	File  string `json:"file"`
	Line  int    `json:"line"`
}

// parse reads a line of the process and checks that it is exactly one reply: one JSON object with
// exactly one of the fields that a reply can have. The object may have a number beside that.
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
