package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"
)

// Waits for a process that should end.
const (
	// closeWait is the time from asking a process to end until it is killed.
	closeWait = 5 * time.Second
	// drainWait is the time to read what a dead process left in its pipes.
	drainWait = time.Second
)

// Options say how a process is started, what it inherits, and who sees what it prints.
type Options struct {
	// Words are the program and its arguments. No shell expands them.
	Words []string
	// Environment is the whole environment, as [os.Environ] has it.
	Environment []string
	// Files are open files that the process inherits from descriptor 6 on.
	Files []*os.File
	// MaxReply bounds a reply, in bytes. A longer line is passed on cut, and is longer than this.
	MaxReply int
	// Notice takes the lines that the process prints.
	Notice func(line string)
	// HoldOutput holds back the last printed lines until [Output.Release], as an error may repeat
	// them.
	HoldOutput bool
}

// Process is a running child with its pipes. Its methods are for one goroutine.
type Process struct {
	// Memory is what the child and this process share, empty at first.
	Memory *Memory
	// Output is what the child has printed.
	Output *Output

	// options are those it was started with, command is the child itself, and requests is the pipe
	// on which it reads requests.
	options  Options
	command  *exec.Cmd
	requests *os.File
	// replies are the lines of the process; closed at the end of its pipe.
	replies chan []byte
	// closing is closed when nobody takes replies any more.
	closing chan struct{}
	// dead is closed when the process has ended.
	dead chan struct{}
	// printed is closed when everything that the process printed was read.
	printed chan struct{}
	readers sync.WaitGroup
	// pipes are the ends that the readers read.
	pipes []*os.File
	// files are all ends of pipes that were opened here. Some are closed already.
	files []*os.File
	// broken says that the process can take no further request.
	broken bool
}

// EndedError is the error of a process that ended by itself or was killed because it was silent.
// The request can be repeated with another process.
type EndedError struct{ Cause string }

// Error returns the cause, without the name of the program.
func (e *EndedError) Error() string { return e.Cause }

// ErrSilent is the cause of [Process.Receive]'s error where no line has come in time. The process
// still runs; kill it.
var ErrSilent = errors.New("no line in time")

// Words splits a command into words as a shell would. There is no shell, so nothing is expanded,
// and characters that only a shell understands are errors.
func Words(command string) ([]string, error) {
	parser := shellwords.NewParser()
	list, err := parser.Parse(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q cannot be split into words: %w", command, err)
	// The parser stops at characters such as pipes and redirections.
	case parser.Position >= 0:
		return nil, fmt.Errorf(
			"%q holds %q, which means nothing without a shell: quote it, or give a script",
			command,
			command[parser.Position:],
		)
	case len(list) == 0:
		return nil, errors.New("the command is empty")
	}
	return list, nil
}

// Supported reports whether this system can hand descriptors and memory to a child.
func Supported() bool { return supported }

// Start starts a process, as the leader of a process group, with pipes for requests, replies and output,
// and with shared memory, which is empty at first. Call [Process.Close] after use.
func Start(options Options) (_ *Process, err error) {
	process := &Process{
		Output:  &Output{notice: options.Notice, held: options.HoldOutput},
		options: options,
		replies: make(chan []byte),
		closing: make(chan struct{}),
		dead:    make(chan struct{}),
		printed: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, process.release())
		}
	}()
	// pipe opens a pipe. After one has failed, the next calls do nothing; err is checked after the last.
	pipe := func() (reader, writer *os.File) {
		if err != nil {
			return nil, nil
		}
		reader, writer, err = os.Pipe()
		if err == nil {
			process.files = append(process.files, reader, writer)
		}
		return reader, writer
	}
	requestReader, requests := pipe()
	replies, replyWriter := pipe()
	printed, printWriter := pipe()
	if err != nil {
		return nil, err
	}
	process.requests = requests
	process.pipes = []*os.File{replies, printed}
	process.Memory, err = NewMemory()
	if err != nil {
		return nil, err
	}
	command := exec.Command(options.Words[0], options.Words[1:]...)
	command.Stdout = printWriter
	command.Stderr = printWriter
	// In the child these are the descriptors 3 (requests), 4 (replies), 5 (memory) and, from 6 on, options.Files.
	command.ExtraFiles = append([]*os.File{requestReader, replyWriter, process.Memory.File()}, options.Files...)
	command.Env = options.Environment
	command.SysProcAttr = OwnGroup()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", options.Words[0], err)
	}
	// The process has its own copies of these ends. Without ours, a pipe ends with the process.
	for _, f := range []*os.File{requestReader, replyWriter, printWriter} {
		_ = f.Close()
	}
	process.command = command
	process.readers.Go(func() {
		defer close(process.printed)
		process.Output.readLines(printed)
	})
	process.readers.Go(func() { process.readReplies(replies) })
	go process.wait()
	return process, nil
}

// wait waits for the end of the process itself, since its children may keep its pipes open. It then kills
// the children, and lets the readers read for up to drainWait what is left in the pipes.
func (p *Process) wait() {
	// How the process ended stands in its ProcessState.
	_ = p.command.Wait()
	KillGroup(p.command.Process.Pid)
	for _, f := range p.pipes {
		// A child that has left the group may keep the pipe open for ever.
		_ = f.SetReadDeadline(time.Now().Add(drainWait))
	}
	close(p.dead)
}

// readReplies passes complete lines of replies to p.replies until the end of the pipe, or until nobody
// takes them any more. A line that is longer than MaxReply is passed on cut, which the receiver
// sees by its length.
func (p *Process) readReplies(r io.Reader) {
	defer close(p.replies)
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		reply := slices.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(reply) <= p.options.MaxReply {
			line, err = lines.ReadSlice('\n')
			reply = append(reply, line...)
		}
		// Text without an end of line is no reply: the process died while it wrote.
		if len(reply) == 0 || err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		select {
		case p.replies <- reply:
		case <-p.closing:
			return
		}
	}
}

// Send writes a line, with an end of line added. A process that does not read it within patience is killed,
// and the error is an [EndedError] with unread, a text for the user, as its cause. If ctx ends, the write is broken
// off, and the process can take no further request.
func (p *Process) Send(ctx context.Context, line []byte, patience time.Duration, unread string) error {
	if err := p.requests.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	// A deadline in the past ends the write that is under way.
	stop := context.AfterFunc(ctx, func() { _ = p.requests.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := p.requests.Write(append(line, '\n'))
	if err == nil {
		return nil
	}
	p.broken = true
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return p.Kill(unread)
	}
	return p.endedError()
}

// Receive waits for the next line of the process and returns it, with its end of line. The error is
// [ErrSilent] where none comes within the patience, an [EndedError] where the process has ended,
// and otherwise that of ctx.
func (p *Process) Receive(ctx context.Context, patience time.Duration) ([]byte, error) {
	silence := time.NewTimer(patience)
	defer silence.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-silence.C:
		return nil, ErrSilent
	case line, open := <-p.replies:
		// The pipe has ended, and so has the process, or it soon will be killed.
		if !open {
			return nil, p.endedError()
		}
		return line, nil
	}
}

// PID returns the number that the operating system has given to the process, which is also that of
// its group.
func (p *Process) PID() int { return p.command.Process.Pid }

// Broken reports whether the process can take no further request, because it has ended or was
// killed, or because a request was only half written.
func (p *Process) Broken() bool { return p.broken }

// Printed waits until everything that a dead process printed was read, and returns its last lines
// for an error.
func (p *Process) Printed() string {
	<-p.printed
	return p.Output.tail()
}

// Kill ends the process and its group at once, waits for that, and returns an [EndedError] with the
// cause. A process that has ended already gets no signal. The process counts as broken from then on ([Process.Broken]).
func (p *Process) Kill(cause string) error {
	p.broken = true
	select {
	// The number of a process that has ended may belong to another one by now.
	case <-p.dead:
	default:
		KillGroup(p.command.Process.Pid)
		<-p.dead
	}
	return &EndedError{cause}
}

// endedError is called when a process has closed its pipes. It waits for the end of the process, and kills
// it if it goes on for more than drainWait. It returns how the process ended as an [EndedError].
func (p *Process) endedError() error {
	p.broken = true
	select {
	case <-p.dead:
		return &EndedError{"it ended: " + p.command.ProcessState.String()}
	case <-time.After(drainWait):
		return p.Kill("it closed its replies, and was killed")
	}
}

// Close asks the process to end, with farewell as its last request, kills it if it has not ended
// within closeWait, and releases its files and memory. It must be called once.
func (p *Process) Close(farewell []byte) error {
	if !p.broken {
		ctx, done := context.WithTimeout(context.Background(), closeWait)
		// A process that does not read its farewell is killed, which is as good.
		_ = p.Send(ctx, farewell, closeWait, "")
		_ = p.requests.Close()
		select {
		case <-p.dead:
		case <-ctx.Done():
		}
		done()
	}
	_ = p.Kill("")
	// The reader of replies may still wait for somebody to take one.
	close(p.closing)
	p.readers.Wait()
	return p.release()
}

// release closes all files and the memory that this process has made for the child. Files that are
// closed already are no error.
func (p *Process) release() (err error) {
	for _, f := range p.files {
		if e := f.Close(); !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	if p.Memory != nil {
		err = errors.Join(err, p.Memory.Close())
	}
	return err
}
