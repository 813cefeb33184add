package fairshare

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

const second = int64(1e9)

// need returns the work of a transfer of this many megabits through a server of mbps megabits a second.
func need(t testing.TB, megabits, mbps float64) Work {
	w, err := Need(int64(math.Round(megabits*1e6)), mbps)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type failer interface{ Fatalf(string, ...any) }

// drain takes all transfers as they become complete, and returns their ids and the times.
func drain(t failer, s *FairLink) (ids []uint64, at []int64) {
	for {
		now, ok := s.Due()
		if !ok {
			return ids, at
		}
		id, ok := s.Take(now)
		if !ok {
			t.Fatalf("nothing is complete at %d, when it was due", now)
		}
		ids, at = append(ids, id), append(at, now)
	}
}

// Start adds a whole transfer.
func (s *FairLink) Start(now int64, id uint64, own int64) (handle int32) {
	return s.Resume(now, id, own, s.need)
}

// n equal transfers of 40 Mbit through 100 Mbit/s take n·0.4 s, where the
// clients' own 20 Mbit/s (2 s) do not hold them up: from five clients on.
func TestShares_EqualTransfers(t *testing.T) {
	for _, n := range []int{1, 4, 5, 6, 60, 1000} {
		s := New(need(t, 40, 100), 0)
		for id := range n {
			s.Start(0, uint64(id+1), 2*second)
		}
		want := max(2*second, int64(n)*second*2/5)
		ids, at := drain(t, s)
		for i := range n {
			if at[i] != want || ids[i] != uint64(i+1) {
				t.Fatalf("%d transfers: the %d. is %d after %d ns, want %d after %d", n, i+1, ids[i], at[i], i+1, want)
			}
		}
	}
}

// Water-filling by hand: 10 Mbit each, a server of 10 Mbit/s, own speeds of 1,
// 4, 8 and 16. From 0 the level is (10 - 1)/3 = 3. The three have their 10 Mbit
// at 10/3 s; then the slow one goes on at its own speed, to 10 s.
func TestShares_WaterFillingByHand(t *testing.T) {
	s := New(need(t, 10, 10), 0)
	for i, mbps := range []int64{1, 4, 8, 16} {
		s.Start(0, uint64(i), 10*second/mbps)
	}
	ids, at := drain(t, s)
	third := int64(3333333334)
	if !slices.Equal(ids, []uint64{1, 2, 3, 0}) || !slices.Equal(at, []int64{third, third, third, 10 * second}) {
		t.Errorf("complete: %v at %v", ids, at)
	}
}

// The level moves with who comes and goes. One of 20 Mbit/s alone has 10 of its
// 40 Mbit after half a second; then a second one halves a server of 20: 10 each.
// The first is stopped at 2.5 s with 10 left; the second, with 20 left, goes on
// at its own 20 and is complete at 3.5 s.
func TestShares_SpeedsFollowTransfers(t *testing.T) {
	s := New(need(t, 40, 20), 0)
	first := s.Start(0, 1, 2*second)
	s.Start(second/2, 2, 2*second)
	if at, _ := s.Due(); at != 7*second/2 {
		t.Errorf("the first is due at %d, want 3.5 s", at)
	}
	left := s.Stop(5*second/2, first)
	if got := left.Over(s.need); got != 0.25 {
		t.Errorf("left of the first: %v, want 10 of 40 Mbit", got)
	}
	if _, at := drain(t, s); !slices.Equal(at, []int64{7 * second / 2}) {
		t.Errorf("the second is complete at %v, want 3.5 s", at)
	}
}

func TestShares_NoTransfers(t *testing.T) {
	s := New(need(t, 0, 20), 5)
	h := s.Start(5, 2, 0)
	s.Start(5, 1, 0)
	if at, ok := s.Due(); !ok || at != 5 {
		t.Fatalf("due at %d (%v), want at once", at, ok)
	}
	if left := s.Stop(5, h); !left.IsZero() {
		t.Fatalf("left of nothing: %v", left)
	}
	if id, ok := s.Take(5); !ok || id != 1 {
		t.Fatalf("complete: %d (%v)", id, ok)
	}
	if _, ok := s.Due(); ok {
		t.Fatal("something is due on an empty server")
	}
}

func TestNeed_ImpossibleSpeeds(t *testing.T) {
	for _, x := range []struct {
		bits int64
		mbps float64
	}{{1, 0}, {1, -1}, {1, math.NaN()}, {1, math.Inf(1)}, {-1, 1}, {1 << 60, 1e-9}} {
		if w, err := Need(x.bits, x.mbps); err == nil {
			t.Errorf("%d bits at %v Mbit/s need %v", x.bits, x.mbps, w)
		}
	}
	if w := need(t, 1e6, 0.0078125); w != workAt(fullRate, 128e6*second) {
		t.Errorf("10^6 Mbit at 2^-7 Mbit/s need %v", w)
	}
}

// A transfer that nobody slows down takes its own time to the nanosecond.
func TestShares_SingleTransferExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := workAt(fullRate, rapid.Int64Range(1e6, 1e9).Draw(t, "alone"))
		own := rapid.SliceOfN(rapid.Int64Range(1e10, 1e12), 1, 9).Draw(t, "own") // nine at most a tenth each
		s := New(w, 0)
		start := int64(0)
		want := map[uint64]int64{}
		for i, d := range own {
			s.Start(start, uint64(i), d)
			want[uint64(i)] = start + d
			start += rapid.Int64Range(0, 1e8).Draw(t, "gap")
		}
		ids, at := drain(t, s)
		for i, id := range ids {
			if at[i] != want[id] {
				t.Fatalf("transfer %d is complete at %d, want %d", id, at[i], want[id])
			}
		}
	})
}

// plain is a brute-force fluid simulation of what a FairLink promises, in float64:
// rates by sorting, everything found anew at every step.
type plain struct {
	need float64 // ns of the fullRate server
	now  float64
	all  []*plainFlow
}

type plainFlow struct {
	id   uint64
	rate float64 // own, of the server
	left float64
}

// rates returns the rate of each flow: its own, or the level at which the rates fill the link.
func (p *plain) rates() []float64 {
	order := slices.Clone(p.all)
	slices.SortFunc(order, func(a, b *plainFlow) int {
		if a.rate < b.rate {
			return -1
		}
		return 1
	})
	level, free := math.Inf(1), 1.0
	for i, f := range order {
		if equal := free / float64(len(order)-i); f.rate >= equal {
			level = equal
			break
		}
		free -= f.rate
	}
	rates := make([]float64, len(p.all))
	for i, f := range p.all {
		rates[i] = min(f.rate, level)
	}
	return rates
}

// next returns when the next transfer is complete.
func (p *plain) next() float64 {
	at := math.Inf(1)
	for i, r := range p.rates() {
		at = min(at, p.now+max(0, p.all[i].left)/r)
	}
	return at
}

// advance moves the flows on to the time now.
func (p *plain) advance(now float64) {
	for i, r := range p.rates() {
		p.all[i].left -= r * (now - p.now)
	}
	p.now = now
}

// remove takes a flow off the link and returns the work that it has left.
func (p *plain) remove(id uint64) (left float64) {
	i := slices.IndexFunc(p.all, func(f *plainFlow) bool { return f.id == id })
	left = p.all[i].left
	p.all = slices.Delete(p.all, i, i+1)
	return left
}

// Whatever comes and goes, transfers are complete when the brute-force
// simulation says so, and as much is left of those that are stopped. In between
// the server is replaced by one that resumes all its transfers: nothing changes.
func TestShares_FluidSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone := rapid.Int64Range(1e5, 1e7).Draw(t, "alone")
		s := New(workAt(fullRate, alone), 0)
		p := &plain{need: float64(alone)}
		classes := rapid.SliceOfN(rapid.Int64Range(0, 40*alone), 1, 6).Draw(t, "own times")
		handles := map[uint64]int32{}
		owns := map[uint64]int64{}
		id := uint64(0)
		now := int64(0)
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 4+1e-6*want {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			due, ok := s.Due()
			if ok != (len(handles) > 0) {
				t.Fatalf("%d transfers, due: %v", len(handles), ok)
			}
			switch event := rapid.IntRange(0, 9).Draw(t, "event"); {
			case event < 5 || !ok: // one more
				at := now + rapid.Int64Range(0, 2*alone).Draw(t, "gap")
				if ok {
					at = min(at, due)
				}
				own := rapid.SampledFrom(classes).Draw(t, "own")
				if rapid.Bool().Draw(t, "of its own") {
					own = rapid.Int64Range(0, 40*alone).Draw(t, "own time")
				}
				now = at
				p.advance(float64(now))
				id++
				handles[id], owns[id] = s.Start(now, id, own), own
				p.all = append(p.all, &plainFlow{id: id, left: p.need, rate: min(1, p.need/max(1, float64(own)))})
			case event < 6: // one fewer
				list := make([]uint64, 0, len(handles))
				for x := range handles {
					list = append(list, x)
				}
				slices.Sort(list)
				x := rapid.SampledFrom(list).Draw(t, "stopped")
				now = rapid.Int64Range(now, due).Draw(t, "at")
				p.advance(float64(now))
				left := s.Stop(now, handles[x])
				near("left", left.Over(s.need)*p.need, max(0, p.remove(x)))
				delete(handles, x)
			case event < 7: // all begin again where they were
				now = rapid.Int64Range(now, due).Draw(t, "at")
				p.advance(float64(now))
				again := New(s.need, now)
				for x := uint64(1); x <= id; x++ {
					if h, ok := handles[x]; ok {
						handles[x] = again.Resume(now, x, owns[x], s.Remaining(now, h))
					}
				}
				if at, _ := again.Due(); at != due {
					t.Fatalf("resumed, the next is due at %d, it was %d", at, due)
				}
				s = again
			default: // the next is complete
				near("due", float64(due), p.next())
				now = due
				p.advance(float64(now))
				x, ok := s.Take(now)
				if !ok {
					t.Fatalf("nothing is complete at %d", now)
				}
				near("left of what is complete", 0, max(0, p.remove(x)))
				delete(handles, x)
			}
		}
	})
}

// An event costs about the same among a hundred transfers and a hundred
// thousand, with speeds that all differ.
func BenchmarkServer(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		for _, speeds := range []struct {
			name string
			own  func(i int) int64
		}{
			{"alike", func(int) int64 { return second }},
			{"apart", func(i int) int64 { return second/2 + int64(uint64(i)*0x9e3779b97f4a7c15%uint64(second)) }},
		} {
			b.Run(speeds.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				// The server serves about 0.9 n at their own speed.
				s := New(need(b, 1, 0.9*float64(n)), 0)
				for i := range n {
					s.Start(int64(i), uint64(i), speeds.own(i))
				}
				i := n
				for b.Loop() {
					at, _ := s.Due()
					s.Take(at)
					s.Start(at, uint64(i), speeds.own(i))
					i++
				}
			})
		}
	}
}
