package devices_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/vector"
)

// hostile is a device of a run with secure aggregation whose updates change nothing, and who changes what
// it sends.
type hostile struct {
	url, id string
	// weight is what it says that it weighs.
	weight uint64
	// payload returns what it sends in a stage of a round in the place of b; nil: it sends nothing more,
	// and stays alive.
	payload func(round uint32, stage bus.SecureStage, b []byte) []byte
	// report, if set, changes its message of stage TRAINED, in buffered rounds.
	report func(m *bus.SecureMessage)
	// more is the number of values of its update beside those of the model.
	more int

	identity ed25519.PrivateKey
}

// errNoMore is the end of a task for a device that goes no further.
var errNoMore = errors.New("the device goes no further")

// takePart has the device answer tasks until ctx ends.
func (h *hostile) takePart(ctx context.Context) error {
	conn, err := natsconn.Connect(ctx, natsconn.Config{
		URL:   h.url,
		Name:  h.id,
		Await: true,
		Slow:  true,
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	join := &bus.Join{
		Name:     h.id,
		Kernel:   "go",
		Samples:  20,
		Protocol: bus.DeviceProtocol,
	}
	to, err := gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{ID: h.id, Join: join})
	if err != nil {
		return err
	}
	defer to.Close()
	_, h.identity, err = ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	for {
		task, err := to.Next(ctx)
		if errors.Is(err, gateway.ErrOver) {
			return nil
		}
		if err != nil {
			return err
		}
		// Whatever comes of it, the next task is another chance.
		if err := h.do(to, task); err != nil && ctx.Err() != nil {
			return err
		}
	}
}

// stage sends what the device makes of its message of a stage, and returns the answer's payload.
func (h *hostile) stage(to *gateway.Device, t *gateway.DeviceTask, stage bus.SecureStage, b []byte) ([]byte, error) {
	if h.payload != nil {
		b = h.payload(t.Task.Round, stage, b)
	}
	if b == nil {
		<-t.Context.Done() // it lives, and its heartbeats say that it works
		return nil, errNoMore
	}
	// So does a device give its task up.
	if len(b) == 0 && stage != bus.StageMasked {
		stage = bus.StageKeys
	}
	r, err := to.SecureMessage(t.Context, t.Run, &bus.SecureMessage{
		Task:       t.Task.Task,
		TaskDigest: t.Task.Digest,
		Stage:      stage,
		Payload:    b,
	})
	if err != nil {
		return nil, err
	}
	if r.Status != bus.Continue && r.Status != bus.Accepted {
		return nil, errNoMore
	}
	return r.Secure, nil
}

// do goes through the stages of a task.
func (h *hostile) do(to *gateway.Device, t *gateway.DeviceTask) error {
	s := t.Welcome.Secure
	terms := secagg.Terms{
		Neighbours: int(s.Neighbours),
		Threshold:  int(s.Threshold),
		Colluders:  int(s.Colluders),
		Minimum:    int(s.Minimum),
	}
	number := t.Task.Round
	factor := uint64(1)
	if s.FreshFactor > 0 {
		trained := &bus.SecureMessage{
			Task:          t.Task.Task,
			TaskDigest:    t.Task.Digest,
			Stage:         bus.StageTrained,
			ComputeNs:     1e6,
			FirstStepLoss: 1,
			Samples:       20,
		}
		if h.report != nil {
			h.report(trained)
		}
		r, err := to.SecureMessage(t.Context, t.Run, trained)
		if err != nil {
			return err
		}
		if r.Status != bus.Continue {
			return errNoMore
		}
		number = binary.LittleEndian.Uint32(r.Secure)
		factor = binary.LittleEndian.Uint64(r.Secure[4:])
	}
	c := secagg.NewContext(t.Run, number)
	member, err := secagg.NewClient(rand.Reader, c, terms, h.identity, uint32(t.Welcome.Client), factor*max(1, h.weight))
	if err != nil {
		return err
	}
	entry, err := member.Keys()
	if err != nil {
		return err
	}
	roster, err := h.stage(to, t, bus.StageKeys, entry)
	if err != nil {
		return err
	}
	shares, err := member.Shares(roster)
	if err != nil {
		return err
	}
	inbox, err := h.stage(to, t, bus.StageShares, shares)
	if err != nil {
		return err
	}
	words := make([]uint64, int(t.Welcome.Params)+h.more)
	if err := member.Mask(inbox, words); err != nil {
		return err
	}
	err = to.Send(t.Context, t.Run, &bus.DeviceUpdate{
		Update: &bus.Update{
			Task:          t.Task.Task,
			TaskDigest:    t.Task.Digest,
			DownloadNs:    1e6,
			ComputeNs:     1e6,
			FirstStepLoss: 1,
			Samples:       20,
		},
		Values: vector.Append([]float32(nil), vector.Bytes(words)),
	})
	if err != nil {
		return err
	}
	set, err := h.stage(to, t, bus.StageMasked, []byte{})
	if err != nil {
		return err
	}
	signature, err := member.Sign(set)
	if err != nil {
		return err
	}
	signatures, err := h.stage(to, t, bus.StageSurvivors, signature)
	if err != nil {
		return err
	}
	reveal, err := member.Reveal(signatures)
	if err != nil {
		return err
	}
	_, err = h.stage(to, t, bus.StageRecovery, reveal)
	return err
}

// What becomes of the round of a device that lies.
const (
	// counts means that its update, which changes nothing, is in the sum.
	counts = iota
	// leaves means that the round goes on without it.
	leaves
	// refused means that the round has no updates.
	refused
	// leavesAlways means that each round goes on without it, and not round 2 alone.
	leavesAlways
)

// playHostile plays three rounds of seven devices and a hostile one, d8, and compares their models with what
// they should be where round 2 has this outcome. said is what the run says of it once, or once in each round.
func playHostile(t *testing.T, h *hostile, outcome int, said string, sets ...string) {
	t.Helper()
	o, c, d := secureRun(t, sets...)
	h.url = o.NATS.URL
	h.id = "d8"
	ctx, stop := context.WithCancel(t.Context())
	defer d.all.Wait()
	defer stop()
	for _, id := range deviceIDs[:7] {
		d.start(ctx, t, id)
	}
	d.all.Go(func() {
		if err := h.takePart(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	models := map[int][]float32{}
	o.Model = func(round int, params []float32) { models[round] = slices.Clone(params) }
	var mu sync.Mutex
	var lines []string
	o.Notice = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	if _, err := run.Run(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	text := strings.Join(lines, "\n")
	want := 1
	if outcome == leavesAlways {
		want = 3
	}
	if got := strings.Count(text, said); said != "" && got != want {
		t.Errorf("the run says %q %d times, want %d:\n%s", said, got, want, text)
	}
	for number := range models {
		if d.words[number] != nil {
			d.words[number]["d8"] = make([]uint64, len(d.initial))
		}
	}
	d.expectModels(t, models, func(round int) []string {
		switch {
		case outcome == leavesAlways, outcome == leaves && round == 2:
			return deviceIDs[:7]
		case round != 2 || outcome == counts:
			return deviceIDs
		}
		return nil
	})
}

// inRound2 changes what is sent in a stage of round 2.
func inRound2(stage bus.SecureStage, change func(b []byte) []byte) func(uint32, bus.SecureStage, []byte) []byte {
	return func(round uint32, s bus.SecureStage, b []byte) []byte {
		if round != 2 || s != stage {
			return b
		}
		return change(slices.Clone(b))
	}
}

// flipEach changes the last byte of each record of this length.
func flipEach(length int) func([]byte) []byte {
	return func(b []byte) []byte {
		for at := length - 1; at < len(b); at += length {
			b[at] ^= 1
		}
		return b
	}
}

// In buffered rounds a device reports steps that took longer than a task may, goes no further once it has a group, or
// gives its task up. The others make rounds without it.
func TestSecureHostile_BufferedRounds(t *testing.T) {
	t.Parallel()
	silent := func(_ uint32, stage bus.SecureStage, b []byte) []byte {
		if stage == bus.StageShares {
			return nil
		}
		return b
	}
	for name, h := range map[string]*hostile{
		"long steps": {report: func(m *bus.SecureMessage) { m.ComputeNs = 1e16 }},
		"gives up":   {report: func(m *bus.SecureMessage) { m.Stage = bus.StageKeys }},
		"no shares":  {payload: silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h.payload != nil {
				slow.Test(t, "the stage of shares waits for ten seconds")
			}
			o, c, d := bufferedRun(t, "secure_aggregation.stage_seconds=10")
			h.url = o.NATS.URL
			h.id = "d8"
			d.others = func(ctx context.Context) error { return h.takePart(ctx) }
			d.expectSurvivors(t, o, c, func(int, string) bool { return true })
		})
	}
}

func TestSecureHostile_OldKeys(t *testing.T) {
	t.Parallel()
	var old []byte
	h := &hostile{payload: func(round uint32, stage bus.SecureStage, b []byte) []byte {
		switch {
		case stage != bus.StageKeys:
		case round == 1:
			old = slices.Clone(b)
		case round == 2:
			return old
		}
		return b
	}}
	playHostile(t, h, leaves, "Device d8: secure aggregation: secagg: the signature of client 7's keys is not valid")
}

func TestSecureHostile_SharesDoNotOpen(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageShares, flipEach(84))}
	playHostile(t, h, refused, "Round 2 has no updates: the masks of device d8 cannot be removed")
}

func TestSecureHostile_SharesAreCut(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageShares, func(b []byte) []byte { return b[84:] })}
	playHostile(t, h, leaves, "Device d8: secure aggregation: secagg: client 7 does not send shares to its neighbours")
}

func TestSecureHostile_SignsAnotherSet(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageSurvivors, flipEach(64))}
	playHostile(t, h, counts, "Device d8: secure aggregation: secagg: client 7 has not signed the set of survivors")
}

func TestSecureHostile_RevealsUnwantedShares(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageRecovery, func(b []byte) []byte {
		b[4] ^= 1
		return b
	})}
	playHostile(t, h, counts, "")
}

func TestSecureHostile_RevealsFalseShares(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageRecovery, flipEach(37))}
	playHostile(t, h, counts, "")
}

// A device that gives its task up is not waited for.
func TestSecureHostile_GivesUp(t *testing.T) {
	t.Parallel()
	h := &hostile{payload: inRound2(bus.StageShares, func([]byte) []byte { return []byte{} })}
	playHostile(t, h, leaves, "Device d8 takes no further part in round 2: it has given its task up")
}

// Each of these lies in every round: it never counts, and the others go on.
func TestSecureHostile_EachRound(t *testing.T) {
	t.Parallel()
	cut := func(_ uint32, _ bus.SecureStage, b []byte) []byte { return b[:len(b)-1] }
	for said, h := range map[string]*hostile{
		"Device d8: secure aggregation: secagg: client 7 has the weight 1000, want at most 1": {weight: 1000},
		"Device d8: secure aggregation: secagg: an entry of 203 bytes, want 204":              {payload: cut},
		"An update of device d8 is refused":                                                   {more: 1},
	} {
		t.Run(said, func(t *testing.T) { playHostile(t, h, leavesAlways, said) })
	}
}

// A device that lives and sends nothing in a stage holds the run no longer than a quarter of the time of a
// task.
func TestSecureHostile_SaysNothing(t *testing.T) {
	t.Parallel()
	slow.Test(t, "each stage waits for a quarter of the time of a task")
	for stage, outcome := range map[bus.SecureStage]int{
		bus.StageKeys: leaves, bus.StageShares: leaves, bus.StageSurvivors: counts, bus.StageRecovery: counts,
	} {
		t.Run(stage.String(), func(t *testing.T) {
			h := &hostile{payload: inRound2(stage, func([]byte) []byte { return nil })}
			playHostile(t, h, outcome, "", "devices.task_seconds=60", "devices.liveness_seconds=30")
		})
	}
}
