package grid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/installed"
)

// The fleet of the tests, in numbers that a hand can calculate with.
const (
	downMbps = 10
	upMbps   = 2
	fastStep = 0.01
	slowStep = 0.1
)

// sessions are when clients of the class leaving are there, in seconds of a period of 40.
var sessions = [][2]float64{{0, 4}, {9, 40}}

const period = 40

// testFleet has clients of three classes by their numbers: fast ones, a tenth that are ten times
// slower, and a tenth that leave in the middle of what they do.
func testFleet(t *testing.T, clients int) *fleet.Fleet {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions.csv")
	text := "trace,from_second,to_second\n"
	for _, s := range sessions {
		text += fmt.Sprintf("a,%g,%g\n", s[0], s[1])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tenth := clients / 10
	f, err := fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: downMbps, UploadMbps: upMbps},
		Compute: fleet.Compute{SecondsPerStep: fastStep},
		Fleet: []fleet.Class{
			{Name: "fast", Count: clients - 2*tenth},
			{Name: "slow", Count: tenth, SecondsPerStep: fleet.Constant{Value: slowStep}},
			{
				Name:         "leaving",
				Count:        tenth,
				Availability: fleet.Trace{Sessions: path, PeriodSeconds: period},
				Dropout:      &fleet.Dropout{WhenUnavailable: true},
			},
		},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// settings are a run of the plain app with values of its run config.
func settings(t *testing.T, clients int, run map[string]any) Config {
	t.Helper()
	interpreter := installed.Python(t, "numpy")
	script, err := filepath.Abs("testdata/plain.py")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for key, value := range run {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		values[key] = string(text)
	}
	dir := t.TempDir()
	return Config{
		App: flower.Config{
			ServerCommand: []string{interpreter, script, "server"},
			ClientCommand: []string{interpreter, script, "client"},
			Hello:         flower.Hello{Run: values, Seed: 1, Nodes: clients, Out: dir},
			Log:           os.Stderr,
		},
		Workers:      1,
		Fleet:        testFleet(t, clients),
		Nodes:        clients,
		Journal:      filepath.Join(dir, "journal.log"),
		JournalBytes: 1 << 30,
	}
}

// plain is the run config of the tests: 100 clients, a fifth a round.
func plain() map[string]any {
	return map[string]any{
		"rounds":  6,
		"every":   5,
		"size":    100_000,
		"timeout": 4.5,
		"pause":   0.25,
		"ttl":     10,
		"steps":   35,
		"weight":  50_000,
	}
}

// heard is what the server of the plain app has seen: when each wait was over, and which replies it
// brought.
type heard struct {
	now     int64
	replies []string
}

// hearing plays an app and returns what its server has seen.
func hearing(t *testing.T, c Config) ([]heard, *Result) {
	t.Helper()
	result, err := Play(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return seen(t, c.App.Hello.Out), result
}

// seen reads what the server has written.
func seen(t *testing.T, dir string) (list []heard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "seen.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw [][2]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	for _, pair := range raw {
		var h heard
		var replies []json.RawMessage
		if err := errors.Join(json.Unmarshal(pair[0], &h.now), json.Unmarshal(pair[1], &replies)); err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			h.replies = append(h.replies, strings.ReplaceAll(string(r), " ", ""))
		}
		list = append(list, h)
	}
	return list
}

// The simulation below is written for this test alone: seconds as float64, events found by sorting.
// It knows the plain app and the fleet of the tests, and nothing of this package.

// sentMessage is a message in the simulation.
type sentMessage struct {
	number, client int
	kind           string
	expires        float64
	// ends is when the server may learn of its fate; +Inf if it never does.
	ends float64
	// value is what the reply holds; empty: it has expired.
	value string
}

// written simulates the plain app on the fleet of the tests.
type written struct {
	clients int
	run     map[string]any
	free    []float64
	ordinal []int
	count   []int
	last    int
}

// present reports whether a client is there, and until or from when, at a time.
func (w *written) present(client int, t float64) (there bool, change float64) {
	if client < w.clients-w.clients/10 {
		return true, math.Inf(1)
	}
	turn := math.Floor(t/period) * period
	switch at := t - turn; {
	case at < sessions[0][1]:
		return true, turn + sessions[0][1]
	case at < sessions[1][0]:
		return false, turn + sessions[1][0]
	}
	// The stay at the end of a period and the one at the beginning of the next are one.
	return true, turn + period + sessions[0][1]
}

// send lets a client serve a message that is sent now.
func (w *written) send(client int, kind string, size float64, ttl, now float64) sentMessage {
	w.last++
	m := sentMessage{number: w.last, client: client, kind: kind, expires: now + ttl, ends: now + ttl}
	w.ordinal[client]++
	begins := max(now, w.free[client])
	there, change := w.present(client, begins)
	if !there {
		begins = change
		_, change = w.present(client, begins)
	}
	steps := 1.0
	if kind == "train" {
		steps = float64(w.run["steps"].(int))
	}
	beta := fastStep
	isSlow := client >= w.clients-2*(w.clients/10) && client < w.clients-w.clients/10
	if isSlow {
		beta = slowStep
	}
	upBytes := float64(w.run["size"].(int))
	total := 8*size/(downMbps*1e6) + steps*beta + 8*upBytes/(upMbps*1e6)
	if begins+total > change {
		w.free[client] = change
		return m
	}
	w.free[client] = begins + total
	w.count[client]++
	if begins+total <= m.expires {
		m.ends = begins + total
		m.value = fmt.Sprintf("[%d,%d,%d,%.0f,%q]", client, w.ordinal[client], w.count[client], size, kind)
	}
	return m
}

// receive returns what a wait brings: the replies by arrival, and when it is over.
func receive(list []sentMessage, now, until float64) (over float64, replies []string) {
	slices.SortStableFunc(list, func(a, b sentMessage) int {
		if a.ends != b.ends && math.Abs(a.ends-b.ends) > 1e-9 {
			return int(math.Copysign(1, a.ends-b.ends))
		}
		return a.number - b.number
	})
	over = now
	for _, m := range list {
		if m.ends > until {
			return until, replies
		}
		over = max(over, m.ends)
		value := m.value
		if value == "" {
			value = "3"
		}
		replies = append(replies, fmt.Sprintf("[%d,%s]", m.number, value))
	}
	return over, replies
}

// play simulates the whole app.
func (w *written) play() (list []heard) {
	w.free = make([]float64, w.clients)
	w.ordinal = make([]int, w.clients)
	w.count = make([]int, w.clients)
	now := 0.0
	size := float64(w.run["size"].(int))
	timeout := w.run["timeout"].(float64)
	late := map[int][]sentMessage{}
	wait := func(sent []sentMessage, until float64) {
		var replies []string
		now, replies = receive(sent, now, until)
		list = append(list, heard{int64(math.Round(now * 1e9)), replies})
	}
	for number := 1; number <= w.run["rounds"].(int); number++ {
		var sent, evaluated []sentMessage
		var chosen []int
		for client := range w.clients {
			if there, _ := w.present(client, now); there && ((1000+client)*7+number*13)%w.run["every"].(int) == 0 {
				chosen = append(chosen, client)
			}
		}
		for _, client := range chosen {
			sent = append(sent, w.send(client, "train", size, 43200, now))
		}
		wait(sent, now+timeout)
		for _, client := range chosen[:3] {
			evaluated = append(evaluated, w.send(client, "evaluate", size, 43200, now))
		}
		wait(evaluated, now+timeout)
		now += w.run["pause"].(float64)
		late[number] = []sentMessage{w.send(number, "query.late", 1000, float64(w.run["ttl"].(int)), now)}
		if number > 2 {
			wait(late[number-2], now)
		}
	}
	return list
}

// A hundred clients, a tenth of them ten times slower and a tenth that leave: what the server gets,
// and when, is what a simulation says that is written out above.
func TestPlay_AgainstWrittenSimulation(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]any{
		"deadlines that cut off the slow":    {"timeout": 2.5},
		"timeouts that the slow keep":        {"timeout": 12.5},
		"messages of half a minute":          {"timeout": 45.5, "steps": 300, "rounds": 4},
		"a time to live that is over before": {"ttl": 1, "pause": 3.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := plain()
			for key, value := range change {
				run[key] = value
			}
			got, _ := hearing(t, settings(t, 100, run))
			want := (&written{clients: 100, run: run}).play()
			compare(t, got, want)
		})
	}
}

// compare compares what a server has seen with what it should have seen, times to a few nanoseconds.
func compare(t *testing.T, got, want []heard) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d waits, want %d", len(got), len(want))
	}
	for i := range want {
		if d := got[i].now - want[i].now; d < -100 || d > 100 {
			t.Errorf("wait %d is over at %d ns, want %d", i, got[i].now, want[i].now)
		}
		if !slices.Equal(got[i].replies, want[i].replies) {
			t.Fatalf("wait %d brings\n%v, want\n%v", i, got[i].replies, want[i].replies)
		}
	}
}

// The number of processes, and a process that dies in the middle, change nothing.
func TestPlay_SameBitsWithOtherProcesses(t *testing.T) {
	t.Parallel()
	var first []heard
	var print uint64
	for i, c := range []struct {
		name    string
		workers int
		more    map[string]any
	}{
		{"one", 1, nil},
		{"three", 3, nil},
		{"one that dies", 2, map[string]any{"client_dies": []int{4, 1}}},
	} {
		run := plain()
		for key, value := range c.more {
			run[key] = value
		}
		s := settings(t, 40, run)
		s.Workers = c.workers
		got, result := hearing(t, s)
		if i == 0 {
			first = got
			print = result.Fingerprint
			continue
		}
		if !reflect.DeepEqual(got, first) || result.Fingerprint != print {
			t.Errorf("%s: another run than with one process", c.name)
		}
		if wanted := int64(len(c.more)); result.Restarts != wanted {
			t.Errorf("%s: %d restarts, want %d", c.name, result.Restarts, wanted)
		}
	}
}

// A server that is killed is played again from the journal, to the same end.
func TestPlay_ResumesFromJournal(t *testing.T) {
	t.Parallel()
	whole, result := hearing(t, settings(t, 40, plain()))
	for name, limit := range map[string]int64{"of replies": 1 << 30, "of digests": 10_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := plain()
			run["die"] = 4
			s := settings(t, 40, run)
			s.JournalBytes = limit
			if _, err := Play(t.Context(), s); err == nil {
				t.Fatal("a server that dies is no error")
			}
			got, again := hearing(t, s)
			if !reflect.DeepEqual(got, whole) || again.Fingerprint != result.Fingerprint {
				t.Error("the resumed run is another one")
			}
			if again.Replayed == 0 || again.Replayed == again.Messages {
				t.Errorf("%d of %d replies came from the journal", again.Replayed, again.Messages)
			}
		})
	}
}

// A run that is cancelled while clients work is resumed as well.
func TestPlay_ResumesAfterCancellation(t *testing.T) {
	t.Parallel()
	whole, _ := hearing(t, settings(t, 40, plain()))
	s := settings(t, 40, plain())
	ctx, cancel := context.WithCancel(t.Context())
	s.Round = func(r *Round) error {
		if r.Report.Round == 3 {
			cancel()
		}
		return nil
	}
	if _, err := Play(ctx, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want %v", err, context.Canceled)
	}
	s.Round = nil
	if got, _ := hearing(t, s); !reflect.DeepEqual(got, whole) {
		t.Error("the resumed run is another one")
	}
}

// An app that asks something else the second time is named, with the message.
func TestPlay_NondeterministicApp(t *testing.T) {
	t.Parallel()
	run := plain()
	run["die"] = 3
	run["unrepeatable"] = true
	s := settings(t, 40, run)
	_, _ = Play(t.Context(), s)
	_, err := Play(t.Context(), s)
	if !errors.Is(err, ErrNotRepeated) || !strings.Contains(fmt.Sprint(err), "message 1, train to node") {
		t.Errorf("%v, want %v of message 1", err, ErrNotRepeated)
	}
}

// What flwr is silent about is told.
func TestPlay_Notices(t *testing.T) {
	t.Parallel()
	everybody := make([]int, 40)
	for i := range everybody {
		everybody[i] = i
	}
	for name, c := range map[string]struct {
		more map[string]any
		want string
	}{
		"all clients raise": {map[string]any{"raising": everybody}, "all of 8 clients raised an error"},
		"no reply in time":  {map[string]any{"timeout": 0.1}, "Round 1 has no reply of 8 clients (8 late)"},
		"fewer than asked":  {map[string]any{"timeout": 2.5}, "trained with 7 of 8 clients"},
		"a silent client":   {map[string]any{"timeout": 3600.0, "steps": 700}, "Round 1 waited 3592.52 s for nothing: 1 of its clients dropped out (node 1036 first)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := plain()
			for key, value := range c.more {
				run[key] = value
			}
			var lines []string
			s := settings(t, 40, run)
			s.Notice = func(line string) { lines = append(lines, line) }
			if _, err := Play(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(lines, "\n")
			if !strings.Contains(text, c.want) {
				t.Errorf("%q is not told; told was:\n%s", c.want, text)
			}
		})
	}
}

// TestNotices_SilentNode has a slow node before the one that dropped out: the latter is named.
func TestNotices_SilentNode(t *testing.T) {
	var lines []string
	n := notices{notify: func(line string) { lines = append(lines, line) }}
	slow := &message{sent: &flower.Message{Node: 7}}
	slow.plan.Dropout = fleet.NoPhase
	silent := &message{sent: &flower.Message{Node: 8}}
	silent.plan.Dropout = fleet.NoPhase + 1
	n.timedOut(&player{}, []*message{slow, silent}, 0, 2*longWait)
	if len(lines) != 1 || !strings.Contains(lines[0], "1 of its clients dropped out (node 8 first)") {
		t.Errorf("told was %q", lines)
	}
}

// Rounds and their messages are reported with what became of each.
func TestPlay_Reports(t *testing.T) {
	t.Parallel()
	run := plain()
	run["timeout"] = 2.5
	run["raising"] = []int{0}
	s := settings(t, 40, run)
	var reports []Round
	tasks := 0
	s.Task = func(*Task) error { tasks++; return nil }
	s.Round = func(r *Round) error { reports = append(reports, *r); return nil }
	if _, err := Play(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 6 {
		t.Fatalf("%d rounds, want 6", len(reports))
	}
	sum := 0
	for i, r := range reports {
		sum += r.Cohort + r.Candidates
		all := 0
		for _, n := range r.Outcomes {
			all += n
		}
		// A client that raises has taken no steps.
		steps := 35
		if r.Outcomes[round.Refused] > 0 {
			steps = 31
		}
		if all != r.Cohort || r.LearningRate != 0.5 || r.LocalSteps != steps {
			t.Errorf("round %d: %+v", i+1, r.Report)
		}
		if r.Train["train_loss"] != 1/float64(i+1) || r.Evaluate["loss"] != 2/float64(i+1) {
			t.Errorf("round %d: scores %v and %v", i+1, r.Train, r.Evaluate)
		}
	}
	if sum != tasks {
		t.Errorf("%d messages are in rounds, and %d were reported", sum, tasks)
	}
	if refused := reports[4].Outcomes[round.Refused]; refused != 1 {
		t.Errorf("round 5: %d refused, want that of node 1000", refused)
	}
}
