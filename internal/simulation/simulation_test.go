package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpace/algorithm"
	long "fedpace/internal/testkit/slow"
)

var (
	oneSeed  = flag.Int64("seed", -1, "play this seed alone, and with -v tell what happens")
	allSeeds = flag.Uint64("seeds", someSeeds, "how many seeds to play")
	progress = flag.String("progress", "", "a file with the number of the next seed: seeds are played from it on, and "+
		"it is written if all pass")
)

// How many seeds are played, and with FEDPACE_LONG.
const (
	someSeeds = 300
	manySeeds = 100_000
)

// played are the sums over all seeds.
type played struct {
	messages, devices, updates atomic.Int64 // sent; seeds with devices, and their updates that count
	simulated                  atomic.Int64 // nanoseconds
	cuts                       atomic.Int64 // of power, in the middle of something that is to be on the disk
	faults                     atomic.Int64 // kills, cuts and pauses
	stall                      atomic.Int64 // the longest of a run without devices, in nanoseconds
}

func (p *played) add(c *cluster, took time.Duration) {
	p.messages.Add(int64(c.net.messages))
	p.simulated.Add(int64(took))
	p.cuts.Add(int64(c.cuts))
	p.faults.Add(int64(c.stall.faults))
	if len(c.devices) == 0 {
		for longest := p.stall.Load(); int64(c.stall.longest) > longest; longest = p.stall.Load() {
			p.stall.CompareAndSwap(longest, int64(c.stall.longest))
		}
	}
	if len(c.devices) > 0 {
		p.devices.Add(1)
		p.updates.Add(int64(c.counted))
	}
}

func theWorld(t *testing.T) *world {
	t.Helper()
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSeeds plays all seeds.
func TestSeeds(t *testing.T) {
	w := theWorld(t)
	if *oneSeed >= 0 {
		s := w.draw(uint64(*oneSeed))
		t.Log(s)
		play(t, w, s, t.Logf)
		return
	}
	seeds := *allSeeds
	if long.On() {
		seeds = manySeeds
	}
	first := long.NextSeed(t, *progress)
	var next atomic.Uint64
	next.Store(first)
	var failed atomic.Bool
	var sums played
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < first+seeds && !failed.Load(); seed = next.Add(1) - 1 {
					sums.add(play(t, w, w.draw(seed), func(string, ...any) {}))
					failed.CompareAndSwap(false, t.Failed())
				}
			})
		}
	})
	long.SetNextSeed(t, *progress, first+seeds)
	t.Logf("%d seeds, %d with devices, of which %d updates count; %d power cuts in the middle of writing, %d messages, %v simulated",
		seeds, sums.devices.Load(), sums.updates.Load(), sums.cuts.Load(), sums.messages.Load(), time.Duration(sums.simulated.Load()).Round(time.Second))
	t.Logf("%d kills, cuts and pauses; the longest time without an event of an undisturbed run without devices: %v, %v may be",
		sums.faults.Load(), time.Duration(sums.stall.Load()).Round(time.Millisecond), stallBound)
	if !t.Failed() && seeds >= someSeeds && (sums.devices.Load() < int64(seeds)/10 || sums.updates.Load() < int64(seeds)/10) {
		t.Error("hardly any device takes part")
	}
	if !t.Failed() && seeds >= someSeeds && sums.cuts.Load() < int64(seeds)/10 {
		t.Error("hardly ever is the power cut in the middle of writing")
	}
}

// Some of the seeds compress updates, in each of the ways that there are.
func TestCompressions_AllDrawn(t *testing.T) {
	w := theWorld(t)
	drawn := map[string]int{}
	const seeds = 2000
	for seed := range uint64(seeds) {
		if c := w.draw(seed).compress; c != nil {
			drawn[algorithm.Compressions.NameOf(c)]++
		}
	}
	for _, name := range algorithm.Compressions.Names() {
		if drawn[name] < 5 { // of some fourteen at least
			t.Errorf("%d of %d seeds compress by %s", drawn[name], seeds, name)
		}
	}
	t.Log(drawn)
}

// A seed plays the same way each time.
func TestSeed_Replays(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	for seed := range uint64(40) {
		a, _ := play(t, w, w.draw(seed), func(string, ...any) {})
		b, _ := play(t, w, w.draw(seed), func(string, ...any) {})
		if a, b := a.net, b.net; a.trace != b.trace || a.messages != b.messages {
			t.Errorf("seed %d: %d messages with trace %x, then %d with %x", seed, a.messages, a.trace, b.messages, b.trace)
		}
	}
}

// play plays a seed in simulated time.
func play(t *testing.T, w *world, s *scenario, log func(string, ...any)) (c *cluster, took time.Duration) {
	t.Helper()
	var want *outcome
	var err error
	if len(s.devices) == 0 {
		want, err = s.reference(w, nil)
		if err != nil {
			t.Fatalf("seed %d: the reference: %v", s.seed, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, err = s.play(w, want, log)
		took = time.Since(epoch)
	})
	if err == nil {
		err = c.check()
	}
	if err != nil {
		t.Errorf("seed %d: %v\n%v\ngo test ./internal/simulation -run TestSeeds -seed %d -v", s.seed, err, s, s.seed)
	}
	return c, took
}

// check looks whether the run that was completed is one that can be.
func (c *cluster) check() (err error) {
	want := c.want
	if len(c.devices) > 0 {
		want, err = c.reference(c.world, c.said)
		if err != nil {
			return fmt.Errorf("a replay of what the devices said: %w", err)
		}
		if what := c.got.differs(want); what != "" {
			return fmt.Errorf("it ended otherwise than a replay of what the devices said, with %s", what)
		}
		c.counted, err = c.checkUpdates(c.world, &want.history, c.said)
		if err != nil {
			return err
		}
	}
	if c.direct() {
		return c.checkModels(c.world, &want.history)
	}
	return nil
}
