//go:build unix

package external_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/actors/external"
	"fedpace/actors/external/externaltest"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// heard keeps notices.
type heard struct {
	mu    sync.Mutex
	lines []string
}

// notice notes a line for the user.
func (h *heard) notice(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// text returns all noted lines.
func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// digits returns a small set of six clients.
func digits(t *testing.T) federated.Set {
	t.Helper()
	set, err := synthetic.New("femnist", 6, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// open starts the test's trainer with these flags on the set of digits. silence is how long the trainer may be
// silent, 0 for the default. It is closed at the end of the test.
func open(t *testing.T, h *heard, silence time.Duration, flags ...string) (*external.Program, error) {
	t.Helper()
	shared, err := external.Share(digits(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := external.Open(t.Context(), external.Config{
		Command: externaltest.Command(flags...), Data: shared, Notice: h.notice, Silence: silence,
	})
	if err != nil {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		return nil, err
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, nil
}

// worker returns a worker of the program, which is closed at the end of the test.
func worker(t *testing.T, p *external.Program) *external.Worker {
	t.Helper()
	w := p.Worker()
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// job returns a job in which three clients take two steps on two samples each.
func job(base []float32) *external.Job {
	j := &external.Job{Base: base}
	for c := range 3 {
		j.Tasks = append(j.Tasks, external.Task{Client: c, Name: "writer " + strconv.Itoa(c), Steps: 2, Rate: 0.1, RowsLength: 6,
			Rows: func(dst []int32) { copy(dst, []int32{2, int32(c), int32(c + 1), 2, int32(c + 2), int32(c + 3)}) }})
	}
	return j
}

// train does the job of function job and returns the models of its tasks.
func train(ctx context.Context, w *external.Worker, base []float32) (models [][]float32, err error) {
	err = w.Train(ctx, job(base), func(i int, model []float32, _ float64) error {
		if i != len(models) {
			return errors.New("not the next task")
		}
		models = append(models, slices.Clone(model))
		return nil
	})
	return models, err
}

// equalModels reports whether two lists hold the same models.
func equalModels(a, b [][]float32) bool { return slices.EqualFunc(a, b, slices.Equal[[]float32]) }

// sound returns a base model, and the models that a trainer without faults makes of it in the job of function job.
func sound(t *testing.T) (base []float32, models [][]float32) {
	t.Helper()
	p, err := open(t, &heard{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	base, err = p.Initial(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	models, err = train(t.Context(), worker(t, p), base)
	if err != nil || len(models) != 3 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	return base, models
}

// lives reports whether the process with this number exists and has not ended, as a zombie has.
func lives(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// A trainer that dies is started again, and only what is missing is done again. When it
// dies each time, the error has its last words.
func TestFaults_DyingTrainers(t *testing.T) {
	t.Parallel()
	base, want := sound(t)
	for _, place := range []string{"die at task", "child"} {
		h := &heard{}
		once := filepath.Join(t.TempDir(), "once")
		if place == "child" { // the first process is to live
			if err := os.WriteFile(once, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := open(t, h, 0, "-fault", place, "-once", once)
		if err != nil {
			t.Fatal(err)
		}
		w := worker(t, p)
		if place == "child" {
			if err := errors.Join(w.Close(), os.Remove(once)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := train(t.Context(), w, base)
		if err != nil || !equalModels(got, want) {
			t.Errorf("%s: other models than without it, %v", place, err)
		}
		if !strings.Contains(h.text(), "It is started again") || p.Restarts() != 1 {
			t.Errorf("%s: started again %d times, said %q", place, p.Restarts(), h.text())
		}
		if place == "die at task" && strings.Count(h.text(), "these are the last words") != 1 {
			t.Errorf("said %q, want the last words once", h.text())
		}
		for _, line := range strings.Split(h.text(), "\n") {
			if _, number, is := strings.Cut(line, "Trainer: child "); is {
				if lives(number) {
					t.Errorf("the child %s of a trainer that died lives on", number)
				}
			}
		}
	}
	p, err := open(t, &heard{}, 0, "-fault", "die at task", "-from", "1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = train(t.Context(), worker(t, p), base)
	if err == nil || !strings.Contains(err.Error(), "3 processes died at one job") || !strings.Contains(err.Error(), "these are the last words") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("three deaths: %v", err)
	}
	h := &heard{} // to which nothing is said that is in the error
	if _, err := open(t, h, 0, "-fault", "die at start"); err == nil || !strings.Contains(err.Error(), "these are the last words") || h.text() != "" {
		t.Errorf("death at the start: %v; said %q", err, h.text())
	}
}

// A trainer that is silent for too long is killed, and started again.
func TestFaults_HangingTrainers(t *testing.T) {
	t.Parallel()
	base, want := sound(t)
	const silence = 5 * time.Second // enough for a start on a busy machine
	p, err := open(t, &heard{}, silence, "-fault", "hang at task", "-once", filepath.Join(t.TempDir(), "once"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := train(t.Context(), worker(t, p), base); err != nil || !equalModels(got, want) {
		t.Errorf("other models than without it, %v", err)
	}
	if _, err := open(t, &heard{}, 50*time.Millisecond, "-fault", "hang at start"); err == nil || !strings.Contains(err.Error(), "silent for 50ms") {
		t.Errorf("silence at the start: %v", err)
	}
}

// A trainer that says for ever that it is alive, and not what it is, is stopped.
func TestFaults_NoGreeting(t *testing.T) {
	t.Parallel()
	slow.Test(t, "it waits for ten times the silence that a start may take")
	if _, err := open(t, &heard{}, 3*time.Second, "-fault", "alive without end"); err == nil || !strings.Contains(err.Error(), "it has said for 30s that it is alive, and no greeting") {
		t.Error(err)
	}
}

// What a trainer says is checked before it is used. A lie ends the job at once.
func TestFaults_LyingTrainers(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	base, _ := sound(t)
	for fault, want := range map[string]string{
		"wrong index":       "task 1 with a loss of its own is the next one, it says 2",
		"no loss":           "task 1 with a loss of its own is the next one",
		"much kept":         "client 1 keeps 99 bytes, and there is room for 0",
		"wrong id":          "repeats id",
		"done early":        "done after 1 of 3 tasks",
		"two things":        "says 2 of the things",
		"garbage":           `begins "Epoch 1: loss 3.2" is no reply`,
		"long line":         "longer than 16777216 bytes",
		"exception":         "trainer test.go, my_model.py, line 12, client 1 (writer 1): ValueError: no such thing",
		"exception of none": "speaks of task 99",
		"diverged":          "the loss is nan",
	} {
		p, err := open(t, &heard{}, 0, "-fault", fault)
		if err != nil {
			t.Fatal(err)
		}
		w := worker(t, p)
		models, err := train(t.Context(), w, base)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fault, err, want)
		}
		if len(models) != 1 {
			t.Errorf("%s: %d models, want that of the task before", fault, len(models))
		}
		if d := (*external.Diverged)(nil); fault == "diverged" && (!errors.As(err, &d) || d.Index != 1 || d.Step != 3) {
			t.Errorf("diverged: %+v", d)
		}
	}
	for fault, want := range map[string]string{
		"few metrics in evaluation": "scores with 0 metrics",
		"no weight in evaluation":   "has the weight 0",
		"done in evaluation":        "answers another request",
	} {
		p, err := open(t, &heard{}, 0, "-fault", fault)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := worker(t, p).Evaluate(t.Context(), base, 3, func(rows []int32) { copy(rows, []int32{1, 2, 3}) }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fault, err, want)
		}
	}
}

func TestFaults_LyingGreetings(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for fault, want := range map[string]string{
		"tensors=negative": "[-3]",
		"tensors=huge":     "[1048576 1048576]",
		"tensors=behind":   `"w" is trainable and lies behind "m"`,
		"tensors=twice":    `"w" is there twice`,
		"tensors=both":     `"w" is frozen and trainable`,
		"tensors=middle":   `"f" is frozen, and one behind it is not: frozen ones come last`,
		"tensors=none":     "a model of 0 tensors",
		"metrics=better":   "want higher or lower",
		"metrics=dash":     `metric "top-1" is not 1 to 40 letters, digits and _`,
		"data=data":        "2 clients with 1 numbers of samples",
		"data=empty":       "has 0 samples",
		"protocol=zero":    "speaks protocol 0, want 1 to 2",
		"class=word":       `class "x y"`,
		"digest=word":      "hexadecimal",
	} {
		if _, err := open(t, &heard{}, 0, "-fault", "greeting "+fault); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fault, err, want)
		}
	}
	if _, err := open(t, &heard{}, 0, "-own", "femnist"); err == nil || !strings.Contains(err.Error(), "brings its own data") {
		t.Errorf("two sets: %v", err)
	}
}

// A script that changes while its run goes on is found when the trainer is started again.
func TestFaults_ChangedScript(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	base, _ := sound(t)
	once := filepath.Join(t.TempDir(), "once")
	if err := os.WriteFile(once, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := open(t, &heard{}, 0, "-fault", "another script", "-once", once)
	if err != nil {
		t.Fatal(err)
	}
	w := worker(t, p)
	if err := errors.Join(w.Close(), os.Remove(once)); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t.Context(), w, base); err == nil || !strings.Contains(err.Error(), "its script is another") {
		t.Errorf("%v", err)
	}
}

// A job that is wanted no longer is cancelled, and the process takes the next.
func TestFaults_Cancel(t *testing.T) {
	t.Parallel()
	base, want := sound(t)
	p, err := open(t, &heard{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := worker(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	long := job(base)
	long.Tasks = slices.Repeat(long.Tasks, 100) // more than there are slots
	err = w.Train(ctx, long, func(i int, _ []float32, _ float64) error {
		if i == 1 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	refused := errors.New("refused")
	if err := w.Train(t.Context(), long, func(int, []float32, float64) error { return refused }); !errors.Is(err, refused) {
		t.Fatalf("refused here: %v", err)
	}
	if got, err := train(t.Context(), w, base); err != nil || !equalModels(got, want) {
		t.Errorf("the next job: other models, %v", err)
	}
}

// What a trainer prints is told line by line.
func TestFaults_Notices(t *testing.T) {
	t.Parallel()
	h := &heard{}
	p, err := open(t, h, 0, "-fault", "chatter")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 15 {
		if want := fmt.Sprintf("Trainer: line %d of standard output", i); strings.Count(h.text()+"\n", want+"\n") != 1 {
			t.Errorf("said %q, want %q once", h.text(), want)
		}
	}
}

// Commands are split into words, without a shell.
func TestFaults_Commands(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"":                         "the command is empty",
		"python3 x.py | tee log":   `holds "| tee log"`,
		"'python3":                 "cannot be split",
		"/no/such/program --quiet": "/no/such/program cannot be started",
	} {
		_, err := external.Open(t.Context(), external.Config{Command: command})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", command, err, want)
		}
	}
}

// Where the Python package cannot be written is said, with the way out.
func TestFaults_NoFolderForLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", file)
	t.Setenv("HOME", file) // where other systems keep caches
	if _, err := external.Open(t.Context(), external.Config{Command: "true"}); err == nil || !strings.Contains(err.Error(), "give XDG_CACHE_HOME or HOME a folder") {
		t.Errorf("%v", err)
	}
}

// The sum of a long-lived worker's models does not depend on the room of its memory.
func TestFaults_JobsLargerThanOneRequest(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	base, want := sound(t)
	p, err := open(t, &heard{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := worker(t, p)
	j := job(base)
	const many = 20 << 20 // numbers, so that each task fills a request
	for i := range j.Tasks {
		rows := j.Tasks[i].Rows
		j.Tasks[i].RowsLength, j.Tasks[i].Rows = many, func(dst []int32) { rows(dst) }
	}
	var got [][]float32
	if err := w.Train(t.Context(), j, func(_ int, model []float32, _ float64) error {
		got = append(got, slices.Clone(model))
		return nil
	}); err != nil || !equalModels(got, want) {
		t.Errorf("other models, %v", err)
	}
}

var _ learn.ModelInfo = (*external.Model)(nil)
