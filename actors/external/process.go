package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fedpace/internal/child"
)

// cancelWait is the time from cancelling a request until the process is killed.
const cancelWait = 5 * time.Second

// process is one running trainer. Its methods are for one goroutine.
type process struct {
	*child.Process
	config *Config

	// id is that of the last request.
	id uint64
	// busy says that a request has not been answered completely.
	busy bool
}

// start starts a process with its pipes and shared memory. If holdOutput is true, the last lines that
// the process prints are held back until the output is released, as an error may repeat them. It is an
// error if the system cannot share memory, or the command cannot be started. Close the process after use.
func start(c *Config, holdOutput bool) (*process, error) {
	if !child.Supported() {
		return nil, errors.New("trainer: this system cannot hand memory to another process; " +
			"use Linux, macOS or another Unix")
	}
	// The command is split as a shell does it, but no shell runs.
	list, err := child.Words(c.Command)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	options := child.Options{
		Words:       expandFlower(list),
		Environment: c.environment(),
		MaxReply:    maxReply,
		Notice:      c.notice,
		HoldOutput:  holdOutput,
	}
	if c.Data != nil {
		options.Files = c.Data.open
	}
	p, err := child.Start(options)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return &process{Process: p, config: c}, nil
}

// flowerPrefix begins a command that stands for the clients of a Flower app.
const flowerPrefix = "flower:"

// expandFlower replaces the word flower:FOLDER at the beginning of a command by the module of the
// package fedpace that runs the ClientApp of a Flower app. The environment variable FEDPACE_PYTHON
// names the Python, which must have flwr.
func expandFlower(list []string) []string {
	folder, ok := strings.CutPrefix(list[0], flowerPrefix)
	if !ok {
		return list
	}
	interpreter := cmp.Or(os.Getenv("FEDPACE_PYTHON"), "python3")
	return append([]string{interpreter, "-m", "fedpace.flower_trainer", folder}, list[1:]...)
}

// send writes a request. A process that does not read it for as long as it may be silent is killed.
func (p *process) send(ctx context.Context, r *request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	silence := p.config.silence()
	return p.Send(ctx, line, silence, fmt.Sprintf("it has read no request for %v, and was killed", silence))
}

// ask sends a request that will have replies, with the next id.
func (p *process) ask(ctx context.Context, r *request) error {
	p.id++
	r.ID = p.id
	p.busy = true
	return p.send(ctx, r)
}

// receive returns the next reply that is not a sign of life. It kills a process that sends nothing
// for the configured silence, or whose reply breaks the protocol, and returns the reason.
func (p *process) receive(ctx context.Context) (*reply, error) {
	for {
		line, err := p.Receive(ctx, p.config.silence())
		if errors.Is(err, child.ErrSilent) {
			return nil, p.Kill(fmt.Sprintf(
				"it has been silent for %v, and was killed "+
					"(trainer.silence_seconds is how long it may be, its start included)",
				p.config.silence(),
			))
		}
		if err != nil {
			return nil, err
		}
		r, err := parse(line)
		if len(line) > maxReply {
			err = fmt.Errorf("it is longer than %d bytes", maxReply)
		}
		// A reply to a request repeats the request's number; signs of life and the greeting have
		// none.
		hasID := err == nil && r.Alive == nil && r.Hello == nil
		if hasID && r.ID != p.id {
			err = fmt.Errorf("it repeats id %d, want %d", r.ID, p.id)
		}
		if err != nil {
			return nil, p.wrong(
				"a line on descriptor 4 that begins %.100q is no reply: %v",
				strings.TrimSpace(string(line[:min(len(line), 400)])),
				err,
			)
		}
		if r.Alive == nil {
			return r, nil
		}
	}
}

// wrong kills a process that breaks the protocol and returns the error.
func (p *process) wrong(format string, args ...any) error {
	_ = p.Kill("")
	return fmt.Errorf("trainer: %s breaks the protocol: %s", p.config.Command, fmt.Sprintf(format, args...))
}

// cancel cancels the request that the process is busy with, and reads its replies to the last, so that the
// process can take another request. A process that does not stop is killed.
func (p *process) cancel() {
	ctx, done := context.WithTimeout(context.Background(), cancelWait)
	defer done()
	if p.send(ctx, &request{Cancel: &struct{}{}}) != nil {
		return
	}
	for {
		switch r, err := p.receive(ctx); {
		case err != nil:
			_ = p.Kill("")
			return
		// Replies of single tasks may still come before the last one, which is that to the request as a whole.
		case r.Task == nil:
			p.busy = false
			return
		}
	}
}

// close asks the process to end, kills it if it does not end in time, and releases its pipes and
// its memory.
func (p *process) close() error {
	farewell, err := json.Marshal(&request{Close: &struct{}{}})
	if err != nil {
		return err
	}
	return p.Close(farewell)
}
