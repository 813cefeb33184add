package fairshare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// filling is progressive filling written out, in float64: all rates grow together, and those
// that cross a full link, or have their own speed, stay. Rates are found anew at every event.
type filling struct {
	sites        int
	server, site float64 // capacities; +Inf: no limit
	now          float64
	all          []*filled
}

type filled struct {
	id        uint64
	site      int
	own, left float64
}

// rates returns the max-min fair rates: all rates grow together until a link is full, which fixes the rates of its
// flows.
func (p *filling) rates() []float64 {
	rates, fixed := make([]float64, len(p.all)), make([]bool, len(p.all))
	for slices.Contains(fixed, false) {
		// How far can all that are not fixed grow until a link is full?
		grow := math.Inf(1)
		room := func(capacity float64, of func(i int) bool) {
			growing := 0
			for i := range p.all {
				if of(i) {
					capacity -= rates[i]
					if !fixed[i] {
						growing++
					}
				}
			}
			if growing > 0 {
				grow = min(grow, max(0, capacity)/float64(growing))
			}
		}
		full := func(capacity float64, of func(i int) bool) {
			sum := 0.
			for i := range p.all {
				if of(i) {
					sum += rates[i]
				}
			}
			for i := range p.all {
				if of(i) && sum >= capacity*(1-1e-13) {
					fixed[i] = true
				}
			}
		}
		links := func(check func(capacity float64, of func(i int) bool)) {
			check(p.server, func(int) bool { return true })
			for s := range p.sites {
				check(p.site, func(i int) bool { return p.all[i].site == s })
			}
			for c := range p.all {
				check(p.all[c].own, func(i int) bool { return i == c })
			}
		}
		links(room)
		for i := range rates {
			if !fixed[i] {
				rates[i] += grow
			}
		}
		links(full)
	}
	return rates
}

// next returns when the next transfer is complete.
func (p *filling) next() float64 {
	at := math.Inf(1)
	for i, r := range p.rates() {
		at = min(at, p.now+max(0, p.all[i].left)/r)
	}
	return at
}

// advance moves the flows on to the time now.
func (p *filling) advance(now float64) {
	for i, r := range p.rates() {
		p.all[i].left -= r * (now - p.now)
	}
	p.now = now
}

// remove takes a flow off the links and returns the work that it has left.
func (p *filling) remove(id uint64) (left float64) {
	i := slices.IndexFunc(p.all, func(f *filled) bool { return f.id == id })
	left = p.all[i].left
	p.all = slices.Delete(p.all, i, i+1)
	return left
}

// Whatever comes and goes in a tree, transfers are complete when progressive filling says so,
// to 1e-9 of the time and a nanosecond an event, and as much is left of those that are
// stopped. In between the tree is replaced by one that resumes all its transfers: nothing
// changes.
func TestTree_ProgressiveFilling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const least, most = int64(1e9), int64(1e11) // ns that one transfer takes a link
		sites := rapid.IntRange(1, 5).Draw(t, "sites")
		server, site := Work{}, Work{}
		p := &filling{sites: sites, server: math.Inf(1), site: math.Inf(1)}
		limits := rapid.IntRange(1, 3).Draw(t, "limits: 1 sites, 2 server, 3 both")
		if limits&1 != 0 {
			ns := rapid.Int64Range(least, most).Draw(t, "alone on a site's link")
			site, p.site = workAt(fullRate, ns), 1/float64(ns)
		}
		if limits&2 != 0 {
			ns := rapid.Int64Range(least, most/10).Draw(t, "alone on the server")
			server, p.server = workAt(fullRate, ns), 1/float64(ns)
		}
		tree := NewTree(server, site, sites)
		owns := rapid.SliceOfN(rapid.Int64Range(least/10, 10*most), 1, 6).Draw(t, "own times")
		type under struct {
			handle uint64
			client int
			own    int64
		}
		all := map[uint64]*under{}
		id, now, events := uint64(0), int64(0), 0
		near := func(what string, got, want, of float64) {
			if math.Abs(got-want) > 1e-9*of+float64(events)*of/max(1, float64(now)) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		to := func(at int64) { now = at; p.advance(float64(at)) }
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			events++
			due, ok := tree.Due()
			if ok != (len(all) > 0) {
				t.Fatalf("%d transfers, due: %v", len(all), ok)
			}
			switch event := rapid.IntRange(0, 9).Draw(t, "event"); {
			case event < 5 || !ok: // one more
				at := now + rapid.Int64Range(0, most).Draw(t, "gap")
				if ok {
					at = min(at, due)
				}
				to(at)
				u := &under{client: rapid.IntRange(0, 19).Draw(t, "client"), own: rapid.SampledFrom(owns).Draw(t, "own")}
				if rapid.Bool().Draw(t, "of its own") {
					u.own = rapid.Int64Range(0, 10*most).Draw(t, "own time")
				}
				id++
				u.handle = tree.Start(now, id, u.client, u.own)
				all[id] = u
				p.all = append(p.all, &filled{id: id, site: u.client % sites, left: 1, own: 1 / max(1e-3, float64(u.own))})
			case event < 6: // one fewer
				x := rapid.Uint64Range(1, id).Draw(t, "stopped")
				if all[x] == nil {
					continue
				}
				to(rapid.Int64Range(now, due).Draw(t, "at"))
				near("left", tree.Stop(now, all[x].handle).Over(tree.Need()), max(0, p.remove(x)), 1)
				delete(all, x)
			case event < 7: // all begin again where they were
				to(rapid.Int64Range(now, due).Draw(t, "at"))
				again := NewTree(server, site, sites)
				for x := uint64(1); x <= id; x++ {
					if u := all[x]; u != nil {
						u.handle = again.Resume(now, x, u.client, u.own, tree.Remaining(now, u.handle))
					}
				}
				if at, _ := again.Due(); at != due {
					t.Fatalf("resumed, the next is due at %d, it was %d", at, due)
				}
				tree = again
			default: // the next is complete
				near("due", float64(due), p.next(), float64(due))
				to(due)
				x, ok := tree.Take(now)
				if !ok {
					t.Fatalf("nothing is complete at %d", now)
				}
				near("left of what is complete", 0, max(0, p.remove(x)), 1)
				delete(all, x)
			}
		}
	})
}

// Three clients behind a site of 10 Mbit/s and one behind another, 10 Mbit each, a server of
// 12 Mbit/s: the three have 10/3 each, the fourth the rest of the server, 2; no: all grow
// together to 3 each, when the server is full. Once the fourth has stopped, the site holds the
// others back.
func TestTree_ByHand(t *testing.T) {
	tree := NewTree(need(t, 10, 12), need(t, 10, 10), 2)
	for id, client := range []int{0, 2, 4} {
		tree.Start(0, uint64(id+1), client, second/100)
	}
	fourth := tree.Start(0, 4, 1, second/100)
	if at, _ := tree.Due(); at != 3333333334 {
		t.Errorf("due at %d, want after 10/3 s", at)
	}
	if left := tree.Stop(second, fourth).Over(tree.Need()); math.Abs(left-0.7) > 1e-15 {
		t.Errorf("left of the fourth: %v, want 7 of 10 Mbit", left)
	}
	if at, _ := tree.Due(); at != second+2100000000 { // 7 Mbit at 10/3
		t.Errorf("due at %d, want 2.1 s later", at)
	}
	if NewTree(Work{}, Work{}, 3) != nil {
		t.Error("a tree without limits")
	}
}
