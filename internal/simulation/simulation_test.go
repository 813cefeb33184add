package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var oneSeed = flag.Int64("seed", -1, "play this seed alone, and with -v tell what happens")

// How many seeds are played, and with FEDPACE_LONG.
const (
	someSeeds = 1000
	manySeeds = 100_000
)

func theWorld(t *testing.T) *world {
	t.Helper()
	w, err := newWorld()
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
	seeds := uint64(someSeeds)
	if os.Getenv("FEDPACE_LONG") != "" {
		seeds = manySeeds
	}
	var next, messages atomic.Uint64
	var failed atomic.Bool
	var simulated atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < seeds && !failed.Load(); seed = next.Add(1) - 1 {
					n, took := play(t, w, w.draw(seed), func(string, ...any) {})
					messages.Add(uint64(n.messages))
					simulated.Add(int64(took))
					failed.CompareAndSwap(false, t.Failed())
				}
			})
		}
	})
	t.Logf("%d seeds, %d messages, %v simulated", seeds, messages.Load(), time.Duration(simulated.Load()).Round(time.Second))
}

// A seed plays the same way each time.
func TestASeedReplays(t *testing.T) {
	w := theWorld(t)
	for seed := range uint64(40) {
		a, _ := play(t, w, w.draw(seed), func(string, ...any) {})
		b, _ := play(t, w, w.draw(seed), func(string, ...any) {})
		if a.trace != b.trace || a.messages != b.messages {
			t.Errorf("seed %d: %d messages with trace %x, then %d with %x", seed, a.messages, a.trace, b.messages, b.trace)
		}
	}
}

// play plays a seed in simulated time.
func play(t *testing.T, w *world, s *scenario, log func(string, ...any)) (n *network, took time.Duration) {
	t.Helper()
	want, err := s.reference(w)
	if err != nil {
		t.Fatalf("seed %d: the reference: %v", s.seed, err)
	}
	synctest.Test(t, func(t *testing.T) {
		n, err = s.play(w, want, log)
		took = time.Since(epoch)
	})
	if err != nil {
		t.Errorf("seed %d: %v\n%v\ngo test ./internal/simulation -run TestSeeds -seed %d -v", s.seed, err, s, s.seed)
	}
	return n, took
}
