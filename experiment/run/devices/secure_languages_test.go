package devices_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// languages are the devices of a run in several languages: those in JavaScript and Python are processes,
// the examples of device-js and device-py, and the others are this package's.
type languages struct {
	*secureDevices
	t   *testing.T
	ids []string
	// masked says that processes take part with secure aggregation alone.
	masked bool

	mu        sync.Mutex
	processes map[string]*exec.Cmd
	// rounds are those of tasks, by number.
	rounds map[uint64]uint32
	// values are the models that devices have sent without masks, by round and device.
	values map[uint32]map[string][]float32
	// uploaded are the devices whose update's last message was sent, by round.
	uploaded map[uint32][]string
	// fatal is called with each message that a process sends of a round, and says whether it was its last.
	fatal func(id string, round uint32, m sent) bool
}

// sent is a message of a task that a device sends: one of a stage of secure aggregation, or the last one of
// its update.
type sent struct {
	stage bus.SecureStage
	last  bool
}

// listen connects the witness, who hears all messages of devices, until the test ends.
func (l *languages) listen(t *testing.T) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(l.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Subscribe("fedpace.*.client.*.>", l.hear); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

// hear takes a message between the coordinator and a device, which the witness has heard.
func (l *languages) hear(m *nats.Msg) {
	parts := strings.Split(m.Subject, ".")
	id := parts[3]
	l.mu.Lock()
	defer l.mu.Unlock()
	var said sent
	var task uint64
	switch {
	case parts[4] == "task":
		x := &bus.Task{}
		if bus.Unmarshal(m.Data, x) == nil {
			l.rounds[x.Task] = x.Round
		}
		return
	case parts[4] == "update" && parts[5] == "secure":
		x := &bus.SecureMessage{}
		if bus.Unmarshal(m.Data, x) != nil {
			return
		}
		task = x.Task
		said.stage = x.Stage
	case parts[4] == "update":
		x := &bus.Update{}
		if bus.Unmarshal(m.Data, x) != nil {
			return
		}
		task = x.Task
		round := l.rounds[task]
		// These models are small: one chunk has all of it.
		if len(x.Values) > 0 {
			values := make([]float32, len(x.Values)/4)
			if _, err := binary.Decode(x.Values, binary.LittleEndian, values); err != nil {
				l.t.Error(err)
			}
			if l.values[round] == nil {
				l.values[round] = map[string][]float32{}
			}
			l.values[round][id] = values
			return
		}
		said.last = true
		if !slices.Contains(l.uploaded[round], id) {
			l.uploaded[round] = append(l.uploaded[round], id)
		}
	default:
		return
	}
	if p := l.processes[id]; p != nil && l.fatal != nil && l.fatal(id, l.rounds[task], said) {
		_ = p.Process.Kill() // which may be dead already
	}
}

// start starts the device with an id, whose first letters are its language, until ctx ends.
func (l *languages) start(ctx context.Context, id string) {
	l.t.Helper()
	var program []string
	switch id[:2] {
	case "js":
		program = []string{installed.Program(l.t, "node", "nodejs"), "../../../examples/device-js/device.js"}
	case "py":
		program = []string{deviceInPython(l.t), "../../../examples/device-py/device.py"}
	default:
		l.secureDevices.start(ctx, l.t, id)
		return
	}
	args := append(program[1:], "--nats", l.url, "--client", id)
	if l.masked {
		args = append(args, "--secure", "3")
	}
	p := exec.CommandContext(ctx, program[0], args...)
	out := &bytes.Buffer{}
	p.Stdout = out
	p.Stderr = out
	if err := p.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.processes[id] = p
	l.mu.Unlock()
	l.all.Go(func() {
		_ = p.Wait() // it is killed in any case
		if l.t.Failed() {
			l.t.Logf("%s says:\n%s", id, out)
		}
	})
}

// deviceInPython is the path of a Python with the packages that the example names.
func deviceInPython(t *testing.T) string {
	t.Helper()
	uv := installed.Program(t, "uv", "python3-venv")
	const script = "../../../examples/device-py/device.py"
	if out, err := exec.Command(uv, "sync", "--quiet", "--script", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path, err := exec.Command(uv, "python", "find", "--script", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(path))
}

// awaitProcesses returns once all processes listen: each answers a call of a run that nobody plays.
func (l *languages) awaitProcesses(c *nats.Conn) {
	l.t.Helper()
	call, err := bus.Marshal(nil, &bus.Task{})
	if err != nil {
		l.t.Fatal(err)
	}
	refusal, err := bus.Marshal(nil, &bus.DeviceReply{Status: bus.Refused, Reason: "it is nobody's"})
	if err != nil {
		l.t.Fatal(err)
	}
	joins := make(chan string, 1000)
	if _, err := c.Subscribe("fedpace.nobody.client.*.join", func(m *nats.Msg) {
		_ = m.Respond(refusal) // or the device asks again
		joins <- strings.Split(m.Subject, ".")[3]
	}); err != nil {
		l.t.Fatal(err)
	}
	for id := range l.processes {
		for joined := ""; joined != id; {
			if err := c.Publish("fedpace.nobody.client."+id+".task", call); err != nil {
				l.t.Fatal(err)
			}
			select {
			case joined = <-joins:
			case <-l.t.Context().Done():
				l.t.Fatal("no device answers")
			case <-time.After(200 * time.Millisecond): // it does not listen yet: call again
			}
		}
	}
}

// playLanguages plays a run of devices in several languages, and returns its models by round.
func playLanguages(
	t *testing.T,
	ids []string,
	fatal func(id string, round uint32, m sent) bool,
	sets ...string,
) (*languages, map[int][]float32) {
	t.Helper()
	o, c, d := secureRun(t, append([]string{
		"devices.names=[" + strings.Join(ids, ", ") + "]", "stop.rounds=2", "devices.liveness_seconds=6",
	}, sets...)...)
	l := &languages{
		secureDevices: d,
		t:             t,
		ids:           ids,
		masked:        c.Secure.On,
		processes:     map[string]*exec.Cmd{},
		rounds:        map[uint64]uint32{},
		values:        map[uint32]map[string][]float32{},
		uploaded:      map[uint32][]string{},
		fatal:         fatal,
	}
	return l, l.playWith(t, o, c)
}

// playWith starts the devices, and plays the run once all listen.
func (l *languages) playWith(t *testing.T, o run.Options, c config.Config) map[int][]float32 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer l.all.Wait()
	defer stop()
	witness := l.listen(t)
	for _, id := range l.ids {
		l.start(ctx, id)
	}
	l.awaitProcesses(witness)
	models := map[int][]float32{}
	o.Model = func(round int, params []float32) { models[round] = slices.Clone(params) }
	o.Notice = func(line string) { t.Log(line) }
	if _, err := run.Run(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	return models
}

// playInTheOpen plays the same run without secure aggregation, whose rule has the same numbers for eight devices. It
// returns the models by round, and what each device adds up in each round: the witness has heard what it
// sends, and initial is the model of the first round.
func playInTheOpen(t *testing.T, ids []string, initial []float32) (map[int][]float32, map[int]map[string][]uint64) {
	t.Helper()
	l, models := playLanguages(t, ids, nil, "secure_aggregation.on=false", "devices.robust=false", "devices.clip=null")
	words := map[int]map[string][]uint64{}
	start := initial
	for round := 1; round <= len(models); round++ {
		words[round] = map[string][]uint64{}
		for id, values := range l.values[uint32(round)] {
			w := make([]uint64, len(values))
			if err := secagg.Encode(w, 0x1p-3, values, start); err != nil {
				t.Fatal(err)
			}
			words[round][id] = w
		}
		start = models[round]
	}
	return models, words
}

// sameModels compares the models of two runs.
func sameModels(t *testing.T, got, want map[int][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d models, want %d", len(got), len(want))
	}
	for round := range want {
		if !slices.Equal(got[round], want[round]) {
			t.Errorf("the models of round %d differ", round)
		}
	}
}

// Devices in JavaScript and devices of this program aggregate securely to the bits of the run without
// masks, also in buffered rounds of all of them, where they take their steps first.
func TestSecure_DevicesInJavaScript(t *testing.T) {
	t.Parallel()
	haveNodePackages(t)
	ids := []string{"js1", "js2", "js3", "d1", "d2", "d3", "d4", "d5"}
	none := func(string, uint32, sent) bool { return false }
	l, models := playLanguages(t, ids, none)
	open, _ := playInTheOpen(t, ids, l.initial)
	sameModels(t, models, open)
	_, buffered := playLanguages(t, ids, none, "close={rule: buffered, n: 8}")
	sameModels(t, buffered, open)
}

// haveNodePackages skips the test where the packages of the example are missing, and fails it in CI.
func haveNodePackages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../../examples/device-js/node_modules"); err == nil {
		return
	}
	const missing = "the example's packages are not here: run npm ci in examples/device-js"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Devices in JavaScript, and where tests may take long in Python, add their part of the noise of a run: the second
// model is the first one with the noise of all eight. A learning rate of next to nothing leaves no updates beside it.
// If the devices of a language added none, the deviation would be 0, or 0.7 of what it should be.
func TestDistributedNoise_Languages(t *testing.T) {
	t.Parallel()
	haveNodePackages(t)
	ids := []string{"js1", "js2", "js3", "js4", "js5", "js6", "js7", "js8"}
	if slow.On() {
		ids = []string{"js1", "js2", "js3", "js4", "py1", "py2", "py3", "py4"}
	}
	none := func(string, uint32, sent) bool { return false }
	const clip, multiplier = 0.5, 4.0
	_, models := playLanguages(t, ids, none, "logistic.features=200", "schedule.eta0=1e-9", "devices.robust=false",
		fmt.Sprintf("privacy.distributed={clip: %v, noise_multiplier: %v}", clip, multiplier))
	if len(models) != 2 {
		t.Fatalf("models of %d rounds, want 2", len(models))
	}
	square := 0.0
	for i, x := range models[2] {
		d := float64(x) - float64(models[1][i])
		square += d * d
	}
	n := float64(len(models[2]))
	got := math.Sqrt(square / n)
	// Six of eight survive at least, with whose noise the sum has the whole of it; the model has the mean of eight.
	want := clip * multiplier / math.Sqrt(6) * math.Sqrt(8) / 8
	if math.Abs(got-want) > 5*want/math.Sqrt(2*n) {
		t.Errorf("the noise of the model has the deviation %.4g, want %.4g", got, want)
	}
	t.Logf("the noise of the model has the deviation %.4g, want %.4g", got, want)
}

// A device in Python and one in JavaScript are killed in round 2 once they have sent each of their six
// messages. The model has the bits of the sum without masks of those whose update was sent, as the run in
// the open has shown them, and as devices of this program alone add them up.
func TestSecure_LanguagesDieAfterEachMessage(t *testing.T) {
	t.Parallel()
	slow.Test(t, "it fetches packages for Python, and each time the dead are waited for")
	haveNodePackages(t)
	ids := []string{"py1", "py2", "js1", "js2", "py3", "js3", "d1", "d2"}
	none := func(string, uint32, sent) bool { return false }
	l, whole := playLanguages(t, ids, none)
	open, words := playInTheOpen(t, ids, l.initial)
	sameModels(t, whole, open)
	_, buffered := playLanguages(t, ids, none, "close={rule: buffered, n: 8}")
	sameModels(t, buffered, open)
	for _, last := range []sent{
		{stage: bus.StageKeys}, {stage: bus.StageShares}, {last: true}, {stage: bus.StageMasked}, {stage: bus.StageSurvivors},
		{stage: bus.StageRecovery},
	} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			killed, models := playLanguages(t, ids, func(id string, round uint32, m sent) bool {
				return round == 2 && m == last && (id == "py1" || id == "js2")
			})
			survivors := killed.uploaded[2]
			if dead := 8 - len(survivors); dead > 2 {
				t.Fatalf("only %v have uploaded", survivors)
			}
			killed.words = words
			killed.initial = slices.Clone(l.initial)
			killed.expectModels(t, models, func(round int) []string {
				if round == 1 {
					return ids
				}
				return survivors
			})
			goAlone(t, words[2], survivors)
		})
	}
}

// goAlone plays a round of members of this program alone, of whom the survivors upload these words. It
// compares the sum with that without masks.
func goAlone(t *testing.T, words map[string][]uint64, survivors []string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := slices.Sorted(maps.Keys(words))
	c := secagg.NewContext("alone", 2)
	plan, err := secagg.Choose(len(ids), 0.1, 0.3)
	check(err)
	server, err := secagg.NewServer(c, plan.Terms)
	check(err)
	members := map[string]*secagg.Client{}
	for i, id := range ids {
		_, identity, err := ed25519.GenerateKey(rand.Reader)
		check(err)
		members[id], err = secagg.NewClient(rand.Reader, c, plan.Terms, identity, uint32(i), 1)
		check(err)
		entry, err := members[id].Keys()
		check(err)
		check(server.Keys(uint32(i), entry))
	}
	roster, err := server.Roster()
	check(err)
	for i, id := range ids {
		shares, err := members[id].Shares(roster)
		check(err)
		check(server.Shares(uint32(i), shares))
	}
	_, err = server.Members()
	check(err)
	total := make([]uint64, len(words[ids[0]]))
	want := make([]uint64, len(total))
	var uploaded []uint32
	for i, id := range ids {
		if !slices.Contains(survivors, id) {
			continue
		}
		inbox, err := server.Inbox(uint32(i))
		check(err)
		masked := slices.Clone(words[id])
		check(members[id].Mask(inbox, masked))
		for j := range total {
			total[j] += masked[j]
			want[j] += words[id][j]
		}
		uploaded = append(uploaded, uint32(i))
	}
	set, err := server.Survivors(uploaded)
	check(err)
	for _, client := range uploaded {
		signature, err := members[ids[client]].Sign(set)
		check(err)
		check(server.Signature(client, signature))
	}
	signatures, err := server.Signatures()
	check(err)
	for _, client := range uploaded {
		reveal, err := members[ids[client]].Reveal(signatures)
		check(err)
		_, err = server.Reveal(client, reveal)
		check(err)
	}
	_, err = server.Unmask(total)
	check(err)
	if !slices.Equal(total, want) {
		t.Error("devices of this program alone have another sum")
	}
}
