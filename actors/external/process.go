package external

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"
)

// Waits for a process that should end or stop.
const (
	// closeWait is the time from asking a process to end until it is killed.
	closeWait = 5 * time.Second
	// cancelWait is the time from cancelling a request until the process is killed.
	cancelWait = 5 * time.Second
	// drainWait is the time to read what a dead process left in its pipes.
	drainWait = time.Second
)

// process is one running trainer. Its methods are for one goroutine.
type process struct {
	config  *Config
	command *exec.Cmd
	memory  *memory
	output  *output

	requests *os.File
	// replies are the lines of the process; closed at the end of its pipe.
	replies chan []byte
	// leave is closed when nobody takes replies any more.
	leave chan struct{}
	// dead is closed when the process has ended.
	dead chan struct{}
	// printed is closed when everything that the process printed was read.
	printed chan struct{}
	readers sync.WaitGroup
	// pipes are the ends that the readers read.
	pipes []*os.File
	// files are all ends of pipes that were opened here. Some are closed already.
	files []*os.File

	// id is that of the last request.
	id uint64
	// busy says that a request has not been answered completely.
	busy bool
	// broken says that the process can take no further request.
	broken bool
}

// processEnded is the error of a process that ended by itself or was killed because it was silent.
// The request can be repeated with another process.
type processEnded struct{ cause string }

// Error is the cause.
func (e *processEnded) Error() string { return e.cause }

// words splits a command into words as a shell would. There is no shell, so nothing is expanded,
// and characters that only a shell understands are errors.
func words(command string) ([]string, error) {
	p := shellwords.NewParser()
	list, err := p.Parse(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q cannot be split into words: %w", command, err)
	case p.Position >= 0:
		return nil, fmt.Errorf(
			"%q holds %q, which means nothing without a shell: quote it, or give a script",
			command,
			command[p.Position:],
		)
	case len(list) == 0:
		return nil, errors.New("the command is empty")
	}
	return list, nil
}

// start starts a process with its pipes and shared memory. If held is true the last printed lines
// are held back until the output is released, as an error may repeat them. Close it after use.
func start(c *Config, held bool) (_ *process, err error) {
	if !supported {
		return nil, errors.New("trainer: this system cannot hand memory to another process; " +
			"use Linux, macOS or another Unix")
	}
	list, err := words(c.Command)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	p := &process{
		config:  c,
		output:  &output{notice: c.notice, held: held},
		replies: make(chan []byte),
		leave:   make(chan struct{}),
		dead:    make(chan struct{}),
		printed: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.release())
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				p.files = append(p.files, r, w)
			}
		}
		return r, w
	}
	asked, requests := pipe()
	replies, replyWriter := pipe()
	printed, printWriter := pipe()
	if err != nil {
		return nil, err
	}
	p.requests = requests
	p.pipes = []*os.File{replies, printed}
	if p.memory, err = newMemory(); err != nil {
		return nil, err
	}
	command := exec.Command(list[0], list[1:]...)
	command.Stdout = printWriter
	command.Stderr = printWriter
	command.ExtraFiles = []*os.File{asked, replyWriter, p.memory.file}
	if c.Data != nil {
		command.ExtraFiles = append(command.ExtraFiles, c.Data.open...)
	}
	command.Env = c.environment()
	command.SysProcAttr = OwnGroup()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("trainer: %s cannot be started: %w", list[0], err)
	}
	for _, f := range []*os.File{asked, replyWriter, printWriter} {
		_ = f.Close() // the process has its own
	}
	p.command = command
	p.readers.Go(func() {
		defer close(p.printed)
		p.output.read(printed)
	})
	p.readers.Go(func() { p.read(replies) })
	go p.wait()
	return p, nil
}

// wait waits for the end of the process, not for the end of its pipes, which its children may hold.
// The children are killed, and what the process said before is still read.
func (p *process) wait() {
	_ = p.command.Wait() // ProcessState has how it ended
	KillGroup(p.command.Process.Pid)
	for _, f := range p.pipes {
		_ = f.SetReadDeadline(time.Now().Add(drainWait)) // should a child have left the group
	}
	close(p.dead)
}

// read passes complete lines of replies to p.replies until the end of the pipe.
func (p *process) read(r io.Reader) {
	defer close(p.replies)
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		reply := slices.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(reply) <= maxReply {
			line, err = lines.ReadSlice('\n')
			reply = append(reply, line...)
		}
		if len(reply) == 0 || err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return // what has no end of line is no reply
		}
		select {
		case p.replies <- reply:
		case <-p.leave:
			return
		}
	}
}

// send writes a request. A process that does not read it for as long as it may be silent is killed.
func (p *process) send(ctx context.Context, r *request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := p.requests.SetWriteDeadline(time.Now().Add(p.config.silence())); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.requests.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err = p.requests.Write(append(line, '\n')); err == nil {
		return nil
	}
	p.broken = true
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return p.kill(fmt.Sprintf("it has read no request for %v, and was killed", p.config.silence()))
	}
	return p.died()
}

// ask sends a request that will have replies, with the next id.
func (p *process) ask(ctx context.Context, r *request) error {
	p.id++
	r.ID = p.id
	p.busy = true
	return p.send(ctx, r)
}

// receive returns the next reply that is not a sign of life. It kills a process that is silent for
// too long or breaks the protocol.
func (p *process) receive(ctx context.Context) (*reply, error) {
	for {
		silence := time.NewTimer(p.config.silence())
		select {
		case <-ctx.Done():
			silence.Stop()
			return nil, ctx.Err()
		case <-silence.C:
			return nil, p.kill(fmt.Sprintf(
				"it has been silent for %v, and was killed "+
					"(trainer.silence_seconds is how long it may be, its start included)",
				p.config.silence(),
			))
		case line, open := <-p.replies:
			silence.Stop()
			if !open {
				return nil, p.died()
			}
			r, err := parse(line)
			if len(line) > maxReply {
				err = fmt.Errorf("it is longer than %d bytes", maxReply)
			}
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
}

// wrong kills a process that breaks the protocol and returns the error.
func (p *process) wrong(format string, args ...any) error {
	_ = p.kill("")
	return fmt.Errorf("trainer: %s breaks the protocol: %s", p.config.Command, fmt.Sprintf(format, args...))
}

// kill ends the process and its group, and returns an error with the cause.
func (p *process) kill(cause string) error {
	p.broken = true
	select {
	// The number of a process that has ended may belong to another one by now.
	case <-p.dead: // its number may be another's by now
	default:
		KillGroup(p.command.Process.Pid)
		<-p.dead
	}
	return &processEnded{cause}
}

// died waits for the end of a process that has closed its replies, and returns how it ended.
func (p *process) died() error {
	p.broken = true
	select {
	case <-p.dead:
		return &processEnded{"it ended: " + p.command.ProcessState.String()}
	case <-time.After(drainWait):
		return p.kill("it closed its replies, and was killed")
	}
}

// cancel cancels the request that the process is busy with, and reads its replies to the last. A
// process that does not stop is killed.
func (p *process) cancel() {
	ctx, done := context.WithTimeout(context.Background(), cancelWait)
	defer done()
	if p.send(ctx, &request{Cancel: &struct{}{}}) != nil {
		return
	}
	for {
		switch r, err := p.receive(ctx); {
		case err != nil:
			_ = p.kill("")
			return
		case r.Task == nil: // whatever it is, it is the last
			p.busy = false
			return
		}
	}
}

// close asks the process to end, kills it if it does not, and releases its resources.
func (p *process) close() error {
	if !p.broken {
		ctx, done := context.WithTimeout(context.Background(), closeWait)
		_ = p.send(ctx, &request{Close: &struct{}{}}) // it is killed then
		_ = p.requests.Close()
		select {
		case <-p.dead:
		case <-ctx.Done():
		}
		done()
	}
	_ = p.kill("")
	close(p.leave)
	p.readers.Wait()
	return p.release()
}

// release closes the files and the memory of a process.
func (p *process) release() (err error) {
	for _, f := range p.files {
		if e := f.Close(); !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	if p.memory != nil {
		err = errors.Join(err, p.memory.close())
	}
	return err
}
