package flower

import (
	"bufio"
	"context"
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

	"fedpace/internal/child"
)

// protocol is the version of the frames. Each side refuses a peer of another version.
const protocol = 3

// closeWait is how long a process may take to end by itself, in wall time, before it is killed.
const closeWait = 5 * time.Second

// Config says how the processes of an app are started, and what they know of the run.
type Config struct {
	// Python is the command of a Python that has flwr, such as python3 or the path of a virtual
	// environment's.
	Python string
	// ServerCommand and ClientCommand take the place of the Python and its modules, for tests. They
	// are empty otherwise.
	ServerCommand, ClientCommand []string
	// Hello is the greeting of both kinds of processes.
	Hello Hello
	// Threads is the number of threads of each process's arithmetic; 0 means one.
	Threads int
	// Log takes what the processes print. It may be called from several goroutines.
	Log io.Writer
	// Arena is where clients' processes leave replies for the server's process; nil: they send them.
	Arena *Arena
}

// Hello is the greeting of a process of an app, the same for the server and the clients: all that
// it knows of the run.
type Hello struct {
	// App is the app's folder, and Run holds values of its run config as texts by key.
	App string            `json:"app"`
	Run map[string]string `json:"run"`
	// Seed is the run's, from which all generators follow.
	Seed uint64 `json:"seed"`
	// Nodes is the number of nodes.
	Nodes int `json:"nodes"`
	// Folder is the folder in which the app runs, empty for the working folder of this process. Out is
	// where the server leaves the arrays of its result.
	Folder string `json:"folder"`
	Out    string `json:"out"`
	// Steps and EvaluateSteps are formulas for the local steps of a message. Empty means the usual rule.
	Steps         string `json:"steps"`
	EvaluateSteps string `json:"evaluate_steps"`
	// AtOnce is the number of messages that the older API has under way at once; 0 means all.
	AtOnce int `json:"at_once"`
	// AnyVersion lets a version of flwr through that is not tested.
	AnyVersion bool `json:"any_version"`
	// MeasureAll has the processor time of every message that trains measured, not of some.
	MeasureAll bool `json:"measure_all"`
}

// Ready is a process's answer to its greeting once it has loaded the app, in which it describes itself.
type Ready struct {
	// Protocol is the version of the frames that the process speaks.
	Protocol int `json:"protocol"`
	// Flwr is the version of flwr, and App the name of the app.
	Flwr string `json:"flwr"`
	App  string `json:"app"`
	// Libraries are the libraries that the process has loaded, with their versions, as "numpy 2.4.6".
	Libraries []string `json:"libraries"`
	// Config is the app's run config with the run's values, as texts by key. Only the server sends it.
	Config map[string]string `json:"config"`
}

// Failed is the error of a process that has reported why it cannot continue.
type Failed struct {
	// Reason is the process's text, and Refused says that the user's input is wrong.
	Reason  string
	Refused bool
}

// Error returns the reason that the process gave, without its name or its output.
func (f *Failed) Error() string { return f.Reason }

// errEnded is wrapped by the error of a process that ended without reporting a reason.
var errEnded = errors.New("it ended")

// process is a running process of an app, with the pipes on which it gets requests and sends
// replies. Its methods are for one goroutine.
type process struct {
	command *exec.Cmd
	// requests is the pipe to the process, replies the one from it.
	requests *os.File
	replies  *bufio.Reader
	pipe     *os.File
	// buffer gathers a frame to the process.
	buffer bufio.Writer
	// memory is shared with the process: the large blobs of requests and replies lie there by turns.
	memory *child.Memory
	// tail keeps the last lines that the process printed.
	tail *tail
	// ended is closed when the process has ended and all that it printed was read.
	ended chan struct{}
}

// commandOf returns the words of the command that starts a process of the app: instead, if it is
// not empty, otherwise the configured Python with the module of package fedpace that has this name.
// An error says that the configured Python is no command.
func (c *Config) commandOf(instead []string, module string) ([]string, error) {
	if len(instead) > 0 {
		return instead, nil
	}
	words, err := shellwords.Parse(c.Python)
	if err != nil || len(words) == 0 {
		return nil, fmt.Errorf("flower.python: %q is no command", c.Python)
	}
	return append(words, "-m", "fedpace."+module), nil
}

// allocator are variables by which glibc's malloc keeps the memory that it has got from the system. Otherwise it gives
// back the arrays of a message when the message has been served, and gets memory for the next one page by page, which
// takes longer than to copy the arrays. Other allocators do not read them.
var allocator = []string{
	"MALLOC_MMAP_THRESHOLD_=33554432",
	"MALLOC_TRIM_THRESHOLD_=1073741824",
	"MALLOC_TOP_PAD_=16777216",
}

// environment returns the variables of the environment for a process of the app: those of this
// process, and what its Python needs. The package fedpace is found in the folder library, sets have
// the same order in all processes, and arithmetic uses the configured number of threads.
func (c *Config) environment(library string) []string {
	path := library
	if old := os.Getenv("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	// Of two values for a name the last one counts, so the user's own go before the allocator's usual ones.
	list := append(slices.Clone(allocator), os.Environ()...)
	list = append(list, "PYTHONHASHSEED=0", "PYTHONUNBUFFERED=1", "FLWR_TELEMETRY_ENABLED=0", "PYTHONPATH="+path)
	threads := fmt.Sprint(max(1, c.Threads))
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		list = append(list, name+"="+threads)
	}
	return list
}

// start starts a process of the app by the words of its command, greets it and waits until it is
// ready. It returns the process and its answer to the greeting. The end of ctx kills the process
// while it gets ready. Close the process after use.
func (c *Config) start(ctx context.Context, command []string) (*process, *Ready, error) {
	library, err := child.PythonLibrary()
	if err != nil {
		return nil, nil, err
	}
	memory, err := child.NewMemory()
	if err != nil {
		return nil, nil, err
	}
	requestReader, requestWriter, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, memory.Close())
	}
	replyReader, replyWriter, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, memory.Close(), requestReader.Close(), requestWriter.Close())
	}
	// The process reads requests from descriptor 3 and writes replies to descriptor 4, so that what
	// it prints cannot be taken for a reply; the memory is descriptor 5, and the arena 6.
	printed := &tail{next: c.Log}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = c.environment(library)
	cmd.Stdout = printed
	cmd.Stderr = printed
	cmd.ExtraFiles = []*os.File{requestReader, replyWriter, memory.File()}
	if c.Arena != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.Arena.memory.File())
	}
	cmd.SysProcAttr = child.OwnGroup()
	// A child of the process may hold its output open after it has ended.
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	// The process has its own ends of the pipes.
	err = errors.Join(err, requestReader.Close(), replyWriter.Close())
	if err != nil {
		err = fmt.Errorf("flower.python: %s cannot be started: %w", command[0], err)
		return nil, nil, errors.Join(err, memory.Close(), requestWriter.Close(), replyReader.Close())
	}
	p := &process{
		command:  cmd,
		requests: requestWriter,
		replies:  bufio.NewReaderSize(replyReader, 1<<16),
		pipe:     replyReader,
		memory:   memory,
		tail:     printed,
		ended:    make(chan struct{}),
	}
	go func() {
		// How the process ended stands in its ProcessState, and what it printed in the tail.
		_ = cmd.Wait()
		child.KillGroup(cmd.Process.Pid)
		close(p.ended)
	}()
	ready, err := p.greet(ctx, c)
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	return p, ready, nil
}

// greeting is a [Hello] with what a process must know of its descriptors.
type greeting struct {
	*Hello
	// Arena is the size of the arena in bytes; 0: there is none.
	Arena int `json:"arena"`
}

// greet sends the greeting in c to the new process and returns its answer once the app has been
// loaded. A process of another protocol version is refused, and a [Failed] is returned if it cannot
// go on.
func (p *process) greet(ctx context.Context, c *Config) (*Ready, error) {
	hello := greeting{Hello: &c.Hello}
	if c.Arena != nil {
		hello.Arena = arenaSize
	}
	if err := p.send(map[string]any{"hello": hello}, nil); err != nil {
		return nil, p.explain(err)
	}
	// The process answers that it is ready, or why it cannot continue.
	var answer struct {
		Ready *Ready `json:"ready"`
		failure
	}
	if _, err := p.receive(ctx, &answer); err != nil {
		return nil, err
	}
	if err := answer.err(); err != nil {
		return nil, err
	}
	if answer.Ready == nil || answer.Ready.Protocol != protocol {
		return nil, fmt.Errorf("a process of the app speaks another protocol: want version %d", protocol)
	}
	return answer.Ready, nil
}

// failure is the part of a header by which a process reports that it cannot continue.
type failure struct {
	Failed  string `json:"failed"`
	Refused bool   `json:"refused"`
}

// err returns the failure as a [Failed], or nil if the process has reported none.
func (f *failure) err() error {
	if f.Failed == "" {
		return nil
	}
	return &Failed{f.Failed, f.Refused}
}

// send writes a frame of the header and the blobs to the process. It waits while the pipe is full,
// so the process must read.
func (p *process) send(header any, blobs [][]byte) error {
	p.buffer.Reset(p.requests)
	if err := writeFrame(&p.buffer, p.memory, header, blobs); err != nil {
		return err
	}
	return p.buffer.Flush()
}

// receive waits for the next frame of the process, decodes its header into the pointer header and
// returns its blobs. When ctx ends, the process is killed and the error is that of ctx. If the
// process ends, the error wraps errEnded.
func (p *process) receive(ctx context.Context, header any) ([][]byte, error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	blobs, err := readFrame(p.replies, p.memory, header)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, p.explain(err)
	}
	return blobs, nil
}

// explain returns an error for a pipe that failed with err: how the process ended, with the last
// lines that it printed, wrapping errEnded. If the process has not ended within closeWait, it
// returns err itself, wrapped.
func (p *process) explain(err error) error {
	select {
	case <-p.ended:
	case <-time.After(closeWait):
		return fmt.Errorf("a process of the app: %w", err)
	}
	return fmt.Errorf("a process of the app: %w (%v); %s", errEnded, p.command.ProcessState, p.tail.text())
}

// kill ends the process and its children at once, without waiting until they are gone.
func (p *process) kill() { child.KillGroup(p.command.Process.Pid) }

// close asks the process to end, by closing the pipe of requests, waits for it, and kills it if it
// has not ended within closeWait. Then it closes the pipe of replies and the shared memory.
func (p *process) close() error {
	err := p.requests.Close()
	select {
	case <-p.ended:
	case <-time.After(closeWait):
		p.kill()
		<-p.ended
	}
	return errors.Join(err, p.pipe.Close(), p.memory.Close())
}

// tail is a writer that passes on what a process prints and keeps the end of it, for the text of an
// error. Several goroutines may write.
type tail struct {
	// next takes everything that is printed. Nil means that it is dropped.
	next io.Writer
	mu   sync.Mutex
	// last is the end of what was printed, at most maxTail bytes.
	last []byte
}

// maxTail is the number of printed bytes that an error repeats at most.
const maxTail = 800

// Write implements [io.Writer]. What cannot be passed on is dropped: an app does not fail because
// its output cannot be kept.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// An error here must not reach the process, which would lose its output pipe.
	if t.next != nil {
		_, _ = t.next.Write(b)
	}
	t.last = append(t.last, b...)
	if n := len(t.last) - maxTail; n > 0 {
		t.last = append(t.last[:0], t.last[n:]...)
	}
	return len(b), nil
}

// text returns what was printed last, at most maxTail bytes, as the part of an error message: its
// lines on one line, separated by bars.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(t.last), ""), func(r rune) bool {
		return r == '\n' || r == '\r'
	})
	if len(lines) == 0 {
		return "it printed nothing"
	}
	return "it printed last: " + strings.Join(lines, " | ")
}
