package devices_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpace/experiment/run"

	"fedpace/actors/real"
	"fedpace/algorithm"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// secureDevices are real devices of a run with secure aggregation, in this process. They note what
// they add up before it is masked.
type secureDevices struct {
	// ids are the devices, and url the server to which they connect, but those that site matches to siteURL.
	ids     []string
	url     string
	site    func(id string) bool
	siteURL string
	// creds are the paths of the devices' credentials, none where the server asks for none.
	creds map[string]string
	all   sync.WaitGroup

	mu sync.Mutex
	// words has by round and device the weighted update, from the device's last attempt.
	words map[int]map[string][]uint64
	// weights has by round and device the weight of these words. One that is not there is 1.
	weights map[int]map[string]uint64
	// weightOfAll is 2^shift where it does not follow from the number of clients, else 0.
	weightOfAll float64
	// initial is the model that the first round started from.
	initial []float32
	// adapt, if set, changes a device's configuration.
	adapt func(c *real.Config)
	// simulated are the clients beside the devices; nil in a run of devices alone.
	simulated *simulatedClients
	// others, if set, takes part until its context ends in the place of device d8.
	others func(ctx context.Context) error
	// restarts says that a device that is killed is started again.
	restarts bool
	// step, if set, is called at each step of a device, which kill takes out of the run.
	step func(id string, s real.SecureStep, kill func())
}

// start starts a device, until ctx ends or it is killed.
func (d *secureDevices) start(ctx context.Context, t *testing.T, id string) {
	all := ctx
	ctx, kill := context.WithCancel(ctx)
	d.all.Go(func() {
		defer func() {
			kill()
			if d.restarts && all.Err() == nil {
				d.start(all, t, id)
			}
		}()
		url := d.url
		if d.site != nil && d.site(id) {
			url = d.siteURL
		}
		conn, err := natsconn.Connect(ctx, natsconn.Config{
			URL:   url,
			Name:  id,
			Creds: d.creds[id],
			Await: true,
			Slow:  true,
		})
		if err != nil {
			return
		}
		defer conn.Close()
		dies := func() {
			conn.Close() // as a process that is killed, without a word
			kill()
		}
		config := real.Config{
			ID:   id,
			Data: real.SyntheticData,
			Observe: func(s real.SecureStep) {
				d.mu.Lock()
				defer d.mu.Unlock()
				if s.Words != nil {
					if d.words[s.Round] == nil {
						d.words[s.Round] = map[string][]uint64{}
						d.weights[s.Round] = map[string]uint64{}
					}
					d.words[s.Round][id] = slices.Clone(s.Words)
					d.weights[s.Round][id] = s.Weight
					// Where rounds overlap, the first group may have no devices.
					if s.Round == 1 || d.initial == nil {
						d.initial = slices.Clone(s.Base)
					}
				}
				if d.step != nil {
					d.step(id, s, dies)
				}
			},
		}
		if d.adapt != nil {
			d.adapt(&config)
		}
		device, err := real.Open(config)
		if err != nil {
			t.Error(err)
			return
		}
		defer device.Close()
		if err := device.Work(ctx, conn); err != nil && ctx.Err() == nil {
			t.Logf("%s: %v", id, err)
		}
	})
}

// secureRun is the configuration of a run of eight devices alone.
func secureRun(t *testing.T, sets ...string) (run.Options, config.Config, *secureDevices) {
	t.Helper()
	o, load := devicesAlone(t, "[d1, d2, d3, d4, d5, d6, d7, d8]", append([]string{
		"stop.rounds=3", "logistic.features=20", "logistic.classes=5", "secure_aggregation.on=true", "secure_aggregation.dropouts=0.3", "evaluate.every=100",
		"devices.liveness_seconds=2", "http=", "checkpoint.seconds=1000",
	}, sets...)...)
	d := &secureDevices{
		ids:     deviceIDs,
		url:     o.NATS.URL,
		words:   map[int]map[string][]uint64{},
		weights: map[int]map[string]uint64{},
	}
	return o, runtest.Small(t, load()...), d
}

// deviceIDs are the eight devices.
var deviceIDs = []string{"d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8"}

// expectModels works out from what the survivors of each round added up which models the run should
// have, and compares them with those that it had. Each simulated client weighs 1 of 2^shift, as does each device whose
// weight is not known. Unless d.weightOfAll says otherwise, that is the smallest power of two that is at least their
// number. A round without survivors keeps the model.
func (d *secureDevices) expectModels(t *testing.T, models map[int][]float32, survivors func(round int) []string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.initial
	last := slices.Max(slices.Collect(maps.Keys(models)))
	clients := 0
	if d.simulated != nil {
		clients = d.simulated.clients
	}
	weightOfAll := d.weightOfAll
	if weightOfAll == 0 {
		weightOfAll = math.Ldexp(1, secagg.Shift(uint64(len(d.ids)+clients)))
	}
	for number := 1; number <= last; number++ {
		sum := make([]int64, len(x))
		ids := survivors(number)
		if len(ids) == 0 {
			continue
		}
		weight := uint64(clients)
		for _, id := range ids {
			words := d.words[number][id]
			weight += max(1, d.weights[number][id])
			if words == nil {
				t.Fatalf("round %d: no update of %s", number, id)
			}
			for i := range sum {
				sum[i] += int64(words[i])
			}
		}
		if d.simulated != nil {
			d.simulated.add(t, number, x, 1/weightOfAll, sum)
		}
		scale := weightOfAll / float64(weight)
		algorithm.Default.Server(len(x)).Apply(x, sum, scale)
		for i, want := range x {
			if got := models[number][i]; math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("round %d: parameter %d is %v, without masks %v", number, i, got, want)
			}
		}
	}
}

// played runs a configuration with its devices, and returns the models by round.
func (d *secureDevices) played(t *testing.T, o run.Options, c config.Config, play func(run.Options) error) map[int][]float32 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer d.all.Wait()
	defer stop()
	for _, id := range d.ids {
		if id != "d8" || d.others == nil {
			d.start(ctx, t, id)
			continue
		}
		d.all.Go(func() {
			if err := d.others(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	models := map[int][]float32{}
	o.Model = func(round int, params []float32) { models[round] = slices.Clone(params) }
	o.Notice = func(line string) { t.Log(line) }
	if d.simulated != nil {
		o.Round = d.simulated.note
	}
	if err := play(o); err != nil {
		t.Fatal(err)
	}
	return models
}

func TestSecure_DevicesHaveUnmaskedBits(t *testing.T) {
	t.Parallel()
	o, c, d := secureRun(t)
	models := d.played(t, o, c, func(o run.Options) error {
		s, err := run.Run(t.Context(), c, o)
		if err == nil && s.Outcomes[0] != 24 {
			err = fmt.Errorf("outcomes %v, want 24 accepted", s.Outcomes)
		}
		return err
	})
	d.expectModels(t, models, func(int) []string { return deviceIDs })
}

// bufferedRun is the configuration of a run of eight devices alone, of which every four that have taken their steps
// make a round.
func bufferedRun(t *testing.T, sets ...string) (run.Options, config.Config, *secureDevices) {
	t.Helper()
	o, c, d := secureRun(t, append([]string{"close={rule: buffered, n: 4}", "stop.rounds=6"}, sets...)...)
	// The newest updates have the weight 1,024, and four of them that of all.
	d.weightOfAll = math.Ldexp(1, secagg.Shift(4*1024))
	return o, c, d
}

// masked returns the devices that have masked an update in a round.
func (d *secureDevices) masked(number int) []string { return slices.Sorted(maps.Keys(d.words[number])) }

// Updates of devices weigh by their age, and by samples where the run says so.
func TestSecure_DevicesInBufferedRounds(t *testing.T) {
	t.Parallel()
	for _, weighs := range []string{"equal", "samples"} {
		t.Run(weighs, func(t *testing.T) {
			t.Parallel()
			// With samples each device weighs 16 times as much, which is the largest weight.
			const most = 16
			o, c, d := bufferedRun(t, "aggregate.weights="+weighs, fmt.Sprint("secure_aggregation.max_weight=", most))
			fresh := uint64(1024)
			if weighs == "samples" {
				fresh *= most
				d.weightOfAll *= most
			}
			models := d.played(t, o, c, func(o run.Options) error {
				s, err := run.Run(t.Context(), c, o)
				if err == nil && s.Outcomes[0] != 24 {
					err = fmt.Errorf("outcomes %v, want 24 accepted", s.Outcomes)
				}
				return err
			})
			d.expectModels(t, models, d.masked)
			kinds := map[bool]int{}
			for _, weights := range d.weights {
				for _, weight := range weights {
					kinds[weight < fresh]++
				}
			}
			if kinds[true] == 0 || kinds[false] == 0 {
				t.Errorf("%d stale updates and %d fresh ones, so the test says little of weights", kinds[true], kinds[false])
			}
		})
	}
}

// Two rounds of three take six of the first eight updates. The others are older than the rule allows: their devices,
// which wait for a group, are told so and get other tasks.
func TestSecure_BufferedUpdatesTooOld(t *testing.T) {
	t.Parallel()
	o, c, d := bufferedRun(t, "close={rule: buffered, n: 3, staleness_limit: 1}")
	d.weightOfAll = math.Ldexp(1, secagg.Shift(3*1024))
	models := d.played(t, o, c, func(o run.Options) error {
		s, err := run.Run(t.Context(), c, o)
		late := s.Outcomes[round.Late] + s.Outcomes[round.Cancelled]
		if err == nil && (s.Outcomes[round.Accepted] != 18 || late == 0) {
			err = fmt.Errorf("outcomes %v, want 18 accepted and some late", s.Outcomes)
		}
		return err
	})
	d.expectModels(t, models, d.masked)
	for number, weights := range d.weights {
		for id, weight := range weights {
			if weight < 724 {
				t.Errorf("round %d: the update of %s, with the weight %d, is too old", number, id, weight)
			}
		}
	}
}

// A device whose owner insists on secure aggregation sends nothing in a run without it, which goes on with
// the others.
func TestSecure_DeviceInsists(t *testing.T) {
	t.Parallel()
	o, c, d := secureRun(t, "secure_aggregation.on=false")
	d.adapt = func(c *real.Config) {
		if c.ID == "d5" {
			c.Survivors = 6
		}
	}
	d.played(t, o, c, func(o run.Options) error {
		s, err := run.Run(t.Context(), c, o)
		if err == nil && s.Outcomes[0] != 21 {
			err = fmt.Errorf("outcomes %v, want 21 accepted", s.Outcomes)
		}
		return err
	})
}

// Devices that know each other's keys, and insist on as many survivors as the run's minimum, take part.
func TestSecure_DevicesKnowEachOther(t *testing.T) {
	t.Parallel()
	o, c, d := secureRun(t)
	identities := map[string]ed25519.PrivateKey{}
	known := map[string]bool{}
	for i, id := range deviceIDs {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i)
		identities[id] = ed25519.NewKeyFromSeed(seed)
		known[string(identities[id].Public().(ed25519.PublicKey))] = true
	}
	d.adapt = func(c *real.Config) {
		c.Identity = identities[c.ID]
		c.Survivors = 3
		c.Trust = func(_ uint32, key []byte) bool { return known[string(key)] }
	}
	models := d.played(t, o, c, func(o run.Options) error {
		_, err := run.Run(t.Context(), c, o)
		return err
	})
	d.expectModels(t, models, func(int) []string { return deviceIDs })
}

// Two faults at once: a device dies in the recovery of a round in which the coordinator stops and goes on
// from its checkpoint. The others have signed a set with the device, and sign no other one for the round: two
// sums would show its update. So the round is refused, and the next one has the sum of the others.
func TestSecure_DeviceDiesWhileCoordinatorStops(t *testing.T) {
	t.Parallel()
	const attempts = 10
	for range attempts {
		models := stoppedInRecovery(t)
		// The recovery had all it needs before the coordinator stopped.
		if models[2] != nil {
			continue
		}
		if len(models) != 2 {
			t.Errorf("models of %d rounds, want those of rounds 1 and 3", len(models))
		}
		for number, model := range models {
			for i, x := range model {
				if math.IsNaN(float64(x)) || math.Abs(float64(x)) > 1e3 {
					t.Fatalf("round %d: parameter %d is %v: masks remain", number, i, x)
				}
			}
		}
		return
	}
	t.Errorf("in none of %d runs did the coordinator stop before the round was recovered", attempts)
}

// stoppedInRecovery plays a run in which device d4 dies in the recovery of round 2, while the coordinator stops
// and goes on from its checkpoint. It returns the models by the number of their round.
func stoppedInRecovery(t *testing.T) map[int][]float32 {
	o, c, d := secureRun(t)
	first, interrupt := context.WithCancel(t.Context())
	var once sync.Once
	d.step = func(id string, s real.SecureStep, kill func()) {
		if s.Round == 2 && s.Stage == bus.StageRecovery && !s.Answered && id == "d4" {
			once.Do(func() {
				interrupt()
				kill()
			})
		}
	}
	return d.played(t, o, c, func(o run.Options) error {
		if _, err := run.Run(first, c, o); first.Err() == nil {
			return fmt.Errorf("the run was not interrupted: %w", err)
		}
		_, err := run.Resume(t.Context(), c.Out, o)
		return err
	})
}

// The coordinator stops in round 2 at each stage and goes on from its checkpoint: the model has the
// bits of a run that never stopped, also with simulated clients beside the devices.
func TestSecure_CoordinatorStopsAtEachStage(t *testing.T) {
	t.Parallel()
	for _, stage := range secureStages {
		t.Run(stage.String(), func(t *testing.T) {
			o, c, d := secureRun(t)
			d.expectStopped(t, o, c, stage, func(int) []string { return deviceIDs })
		})
		// The other stages are those of devices alone but for the sum.
		if stage != bus.StageRecovery && !slow.On() {
			continue
		}
		t.Run("mixed, "+stage.String(), func(t *testing.T) {
			o, c, d := secureRun(t, "clients=8", "cohort=8", "devices.robust=false", "devices.clip=null")
			d.simulated = newSimulatedClients(t, c)
			d.expectStopped(t, o, c, stage, func(int) []string { return deviceIDs })
		})
	}
}

// In buffered rounds the group stays the same, with the same weights.
func TestSecure_BufferedCoordinatorStops(t *testing.T) {
	t.Parallel()
	for _, stage := range append([]bus.SecureStage{bus.StageTrained}, secureStages...) {
		t.Run(stage.String(), func(t *testing.T) {
			o, c, d := bufferedRun(t)
			d.expectStopped(t, o, c, stage, d.masked)
		})
	}
}

// expectStopped plays a run whose coordinator stops in round 2 before a device's message of a stage, and goes on. It
// expects models of the sums without masks of the survivors.
func (d *secureDevices) expectStopped(
	t *testing.T,
	o run.Options,
	c config.Config,
	stage bus.SecureStage,
	survivors func(round int) []string,
) {
	t.Helper()
	first, interrupt := context.WithCancel(t.Context())
	var once sync.Once
	d.step = func(_ string, s real.SecureStep, _ func()) {
		if s.Round == 2 && s.Stage == stage && s.Words == nil {
			once.Do(interrupt)
		}
	}
	models := d.played(t, o, c, func(o run.Options) error {
		if _, err := run.Run(first, c, o); first.Err() == nil {
			return fmt.Errorf("the run was not interrupted: %w", err)
		}
		_, err := run.Resume(t.Context(), c.Out, o)
		return err
	})
	if len(models) != c.Stop.Rounds {
		t.Fatalf("models of %d rounds, want %d", len(models), c.Stop.Rounds)
	}
	d.expectModels(t, models, survivors)
}

// A simulated run has the bits of one without secure aggregation where both rules weigh with the same
// numbers: 16 clients weigh 1 of 2^4.
func TestSecure_SimulatedHaveUnmaskedBits(t *testing.T) {
	t.Parallel()
	digest := func(on bool) string {
		c := runtest.Small(t, "clients=40", "cohort=16", "stop.rounds=3", fmt.Sprint("secure_aggregation.on=", on))
		s := mustRun(t, c, run.Options{})
		return *s.ModelSHA256
	}
	if with, without := digest(true), digest(false); with != without {
		t.Errorf("model %s, without secure aggregation %s", with, without)
	}
}

// Clients that leave at any stage leave the run as it goes without learning.
func TestSecure_TimingOnlyHasSameRounds(t *testing.T) {
	t.Parallel()
	play := func(train bool) (string, int64) {
		c := runtest.Small(t, "clients=60", "cohort=12", "stop.rounds=6", "secure_aggregation.on=true",
			"dropout.probability=0.4", fmt.Sprint("train=", train))
		s := mustRun(t, c, run.Options{})
		return s.Fingerprint, s.Outcomes[0]
	}
	trained, accepted := play(true)
	timed, timedAccepted := play(false)
	if trained != timed || accepted != timedAccepted {
		t.Errorf("fingerprint %s with %d updates, without learning %s with %d", trained, accepted, timed, timedAccepted)
	}
}

// Buffered rounds have the same history with and without learning, and the same bits when the run is
// interrupted, resumed and trained by a host of its own.
func TestSecure_BufferedRounds(t *testing.T) {
	t.Parallel()
	play := func(train, interrupted bool) folder.Summary {
		c := runtest.Small(t, "clients=60", "cohort=20", "stop.rounds=8", "secure_aggregation.on=true",
			"close={rule: buffered, n: 8}", "dropout.probability=0.1", "task=logistic", fmt.Sprint("train=", train),
			"fleet=[{name: a, weight: 1, vary: {compute: {dist: lognormal, mean: 1, sigma: 0.5}}}]")
		if interrupted {
			return mustResume(t, c)
		}
		return mustRun(t, c, run.Options{})
	}
	want := play(true, false)
	resumed := play(true, true)
	timed := play(false, false)
	checkSameHistory(t, want, resumed, timed)
	if want.Outcomes[0] == 0 {
		t.Error("no update counts")
	}
}

// Eight simulated clients and eight real devices have the bits of the same run in the open: each of
// the sixteen weighs 1 of 2^4 under both rules.
func TestSecure_SimulatedClientsBesideDevices(t *testing.T) {
	t.Parallel()
	play := func(on bool) map[int][]float32 {
		o, c, d := secureRun(t, fmt.Sprint("secure_aggregation.on=", on), "clients=8", "cohort=8", "devices.robust=false",
			"devices.clip=null")
		return d.played(t, o, c, func(o run.Options) error {
			s, err := run.Run(t.Context(), c, o)
			if err == nil && s.Outcomes[0] != 48 {
				err = fmt.Errorf("outcomes %v, want 48 accepted", s.Outcomes)
			}
			return err
		})
	}
	with := play(true)
	without := play(false)
	for number, want := range without {
		if !slices.Equal(with[number], want) {
			t.Errorf("the models of round %d differ", number)
		}
	}
}

// Groups of simulated clients and devices, of which the latter mask among each other, make the models of the sums
// without masks.
func TestSecure_BufferedClientsBesideDevices(t *testing.T) {
	t.Parallel()
	// Devices that are drawn with the clients are a few of the cohort.
	for include, cohort := range map[string]int{"every_round": 10, "sampled": 16} {
		t.Run(include, func(t *testing.T) {
			t.Parallel()
			expectMixed(t, 8*1024, 1, "devices.include="+include, fmt.Sprint("cohort=", cohort), "close={rule: buffered, n: 8}")
		})
	}
}

// In rounds of all that are drawn, devices mask among each other where a sum hides them, and else take no part.
func TestSecure_DrawnDevicesBesideClients(t *testing.T) {
	t.Parallel()
	// With this seed some rounds, and not the first, draw fewer than three devices.
	expectMixed(t, 12*1024, 1024, "devices.include=sampled", "cohort=12", "seed=2")
}

// expectMixed plays a run of thirty simulated clients and eight devices with these settings. A new update of a
// simulated client has the weight 1,024 of the given weight of all, and factor makes a device's weight one of the same
// unit.
func expectMixed(t *testing.T, weightOfAll, factor uint64, sets ...string) {
	t.Helper()
	o, c, d := secureRun(t, append(sets, "clients=30", "devices.robust=false", "devices.clip=null", "stop.rounds=12",
		"devices.liveness_seconds=20")...)
	d.weightOfAll = math.Ldexp(1, secagg.Shift(weightOfAll))
	clients := newSimulatedClients(t, c)
	d.simulated = clients
	models := d.played(t, o, c, func(o run.Options) error {
		_, err := run.Run(t.Context(), c, o)
		return err
	})
	if len(models) != c.Stop.Rounds {
		t.Errorf("models of %d rounds, want %d", len(models), c.Stop.Rounds)
	}
	mixed := 0
	x := slices.Clone(d.initial)
	models[0] = d.initial
	for number, tasks := range acceptedTasks(t, c.Out) {
		sum := make([]int64, len(x))
		weight := clients.addTasks(t, number, tasks, models, d.weightOfAll, sum)
		devices := d.masked(number)
		if weight > 0 && len(devices) > 0 {
			mixed++
		}
		if n := len(devices); n == 1 || n == 2 {
			t.Errorf("in round %d %d devices mask among each other", number, n)
		}
		for _, id := range devices {
			weight += factor * d.weights[number][id]
			for i, word := range d.words[number][id] {
				sum[i] += int64(word)
			}
		}
		algorithm.Default.Server(len(x)).Apply(x, sum, d.weightOfAll/float64(weight))
		if !slices.Equal(models[number], x) {
			t.Errorf("the model of round %d is not that of the sum without masks", number)
		}
	}
	if mixed == 0 {
		t.Error("no group has devices and simulated clients")
	}
}

// closeModels expects two models whose first trained values have the same bits, and the buffers behind them
// the same values within a part in a million.
func closeModels(t *testing.T, got, want []float32, trained int) {
	t.Helper()
	if !slices.Equal(got[:trained], want[:trained]) {
		t.Error("what is trained differs")
	}
	for i := trained; i < len(want); i++ {
		if d := math.Abs(float64(got[i] - want[i])); d > 1e-6*math.Max(1, math.Abs(float64(want[i]))) {
			t.Errorf("buffer %d is %v, in the open %v", i-trained, got[i], want[i])
		}
	}
}

// A batch norm of raw features, the running variance of which grows to billions, trains as in the open. Its
// number of batches is kept.
func TestSecure_BuffersOfRawFeatures(t *testing.T) {
	t.Parallel()
	const clients, samples = 16, 4
	table := filepath.Join(t.TempDir(), "raw.csv")
	text := "client,salary,age,y\n"
	for i := range clients * samples {
		text += fmt.Sprintf("c%d,%d,%d,%d\n", i%clients, 30_000+40_009*(i*i%17), 20+i*7%50, i%3)
	}
	if err := os.WriteFile(table, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	play := func(on bool) []float32 {
		c := runtest.Small(t, append(slices.Clone(runtest.Custom), "data={path: "+table+", client: client, features: [salary, age], label: y}",
			"clients=16", "cohort=16", "batch=3", "model=[batch_norm, dense]", "stop.rounds=3",
			fmt.Sprint("secure_aggregation.on=", on))...)
		var last []float32
		mustRun(t, c, run.Options{Callbacks: run.Callbacks{Model: func(_ int, params []float32) { last = slices.Clone(params) }}})
		return last
	}
	with := play(true)
	without := play(false)
	// γ and β of two features and three classes are trained, and the running variance of salaries is the
	// third buffer.
	const trained = 4 + 3*2 + 3
	if variance := without[trained+2]; variance < 1e9 {
		t.Fatalf("a running variance of %v is not raw", variance)
	}
	last := len(with) - 1
	if with[last] != 0 || without[last] == 0 {
		t.Errorf("%v batches with secure aggregation, which keeps them, %v without", with[last], without[last])
	}
	closeModels(t, with[:last], without[:last], trained)
}

// Buffers of eight simulated clients and eight devices are averaged as in the open.
func TestSecure_BuffersBesideDevices(t *testing.T) {
	t.Parallel()
	play := func(on bool) map[int][]float32 {
		o, c, d := secureRun(t, fmt.Sprint("secure_aggregation.on=", on), "clients=8", "cohort=8", "devices.robust=false",
			"devices.clip=null", "task=femnist", "model=[flatten, dense: 4, batch_norm, relu, dense]", "stop.rounds=2")
		return d.played(t, o, c, func(o run.Options) error {
			_, err := run.Run(t.Context(), c, o)
			return err
		})
	}
	with := play(true)
	without := play(false)
	if len(with) != 2 {
		t.Errorf("%d rounds", len(with))
	}
	for number, want := range without {
		last := len(want) - 1
		closeModels(t, with[number][:last], want[:last], 784*4+4+2*4+4*62+62)
	}
}

// Updates that begin with different models have no units in common, and their buffers would leave the range of
// what clients have: a model with buffers is refused where rounds overlap.
func TestSecure_BuffersNeedOneModel(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "clients=40", "cohort=16", "secure_aggregation.on=true", "close={rule: buffered, n: 8}",
		"model=[flatten, dense: 4, batch_norm, relu, dense]")
	if _, err := run.Run(t.Context(), c, run.Options{}); err == nil || !strings.Contains(err.Error(), "updates of different models") {
		t.Errorf("%v", err)
	}
}
