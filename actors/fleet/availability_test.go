package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// present returns a fleet whose clients have the availability a.
func present(t testing.TB, a Availability) *Fleet {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: a}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stays returns the path of a file of recorded stays with a period of 100 s: a client whose stay crosses the
// period's end, one that is always there, one for a second, and one with several stays.
func stays(t testing.TB) string {
	return file(t, sessionsHeader+"a,0,10\na,90,100\nb,0,40\nb,40,100\nc,98,99\nd,20,30\nd,30,35\nd,50,51\ne,60,100\n")
}

// anyAvailability draws an availability. recorded is the path of a file of stays.
func anyAvailability(t *rapid.T, recorded string) Availability {
	return rapid.SampledFrom([]Availability{
		nil,
		Always{},
		Bernoulli{Probability: 0.3, PeriodSeconds: 10},
		Bernoulli{Probability: 1, PeriodSeconds: 10},
		Markov{OnSeconds: 20, OffSeconds: 5},
		Share{Share: Uniform{Min: 0.1, Max: 0.9}, CycleSeconds: 25},
		Daily{FromHour: 22.5, ToHour: 6, JitterHours: 1.5, Probability: 0.8, StartHour: 13},
		Daily{FromHour: 1, ToHour: 22, JitterHours: 1.4, Probability: 1, Zones: []Zone{{-5, 2}, {5.5, 1}}},
		Daily{FromHour: 8, ToHour: 9, Probability: 0.5},
		Markov{OnSeconds: 0.01, OffSeconds: 5000},
		Markov{OnSeconds: 1e5, OffSeconds: 1},
		Share{Share: Uniform{Min: 1e-6, Max: 0.1}, CycleSeconds: 300},
		Trace{Sessions: recorded},
		Trace{Sessions: recorded, Spread: true},
	}).Draw(t, "availability")
}

// Nothing changes before NextChange, and something does at it; the times are
// pure functions.
func TestAvailability_ConstantUpToNextChange(t *testing.T) {
	recorded := stays(t)
	rapid.Check(t, func(t *rapid.T) {
		a := anyAvailability(t, recorded)
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: a}, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		client := rapid.IntRange(0, min(1<<40, math.MaxInt)).Draw(t, "client")
		at := rapid.OneOf(rapid.Int64Range(0, 3*day), rapid.Int64Range(0, maxTime)).Draw(t, "t")
		now, next := f.Available(client, at), f.NextChange(client, at)
		if next <= at {
			t.Fatalf("%s: the next change after %d is %d", a, at, next)
		}
		upTo := min(next, at+30*day)
		for _, x := range []int64{at, upTo - 1, at + (upTo-at)/2, rapid.Int64Range(at, upTo-1).Draw(t, "x")} {
			if f.Available(client, x) != now {
				t.Fatalf("%s: %v at %d, but not at %d, before the change at %d", a, now, at, x, next)
			}
			if n := f.NextChange(client, x); n != next {
				t.Fatalf("%s: the next change after %d is %d, after %d it is %d", a, at, next, x, n)
			}
		}
		if next != Never && f.Available(client, next) == now {
			t.Fatalf("%s: nothing changes at %d", a, next)
		}
	})
}

// The share of clients available, at several times, and its independence
// between neighbouring clients.
func TestAvailability_ShareAvailable(t *testing.T) {
	const n = 100_000
	recorded := stays(t)
	for _, c := range []struct {
		a    Availability
		want float64
	}{
		{Bernoulli{Probability: 0.3, PeriodSeconds: 600}, 0.3},
		{Markov{OnSeconds: 600, OffSeconds: 1400}, 0.3},
		{Share{Share: Uniform{Min: 0.1, Max: 0.5}, CycleSeconds: 2000}, 0.3},
		// 8 hours of 24 on 9 days of 10, zones all around the world.
		{Daily{FromHour: 22, ToHour: 6, JitterHours: 1, Probability: 0.9}, 0.3},
		{Trace{Sessions: recorded, Spread: true}, (0.2 + 1 + 0.01 + 0.16 + 0.4) / 5},
	} {
		f := present(t, c.a)
		for _, at := range []int64{0, 100 * hour, 12345678 * second} {
			there, both := 0.0, 0.0
			for client := range n {
				if f.Available(client, at) {
					there++
					if f.Available(client+5, at) {
						both++
					}
				}
			}
			sd := math.Sqrt(c.want * (1 - c.want) / n)
			if math.Abs(there/n-c.want) > 5*sd {
				t.Errorf("%s at %d: %g available, want %g ± %g", c.a, at, there/n, c.want, 5*sd)
			}
			if _, ok := c.a.(Trace); ok {
				continue // clients 5 apart have one trace
			}
			p := c.want * c.want
			if sd := math.Sqrt(p * (1 - p) / n); math.Abs(both/n-p) > 6*sd {
				t.Errorf("%s at %d: clients 5 apart are both there in %g of the cases, want %g", c.a, at, both/n, p)
			}
		}
	}
}

// Periods are independent draws.
func TestAvailability_BernoulliPeriodsAreIndependent(t *testing.T) {
	const n, p = 200_000, 0.4
	f := present(t, Bernoulli{Probability: p, PeriodSeconds: 60})
	both := 0.0
	for i := range n {
		if f.Available(3, int64(i)*60*second) && f.Available(3, int64(i+1)*60*second) {
			both++
		}
	}
	// Neighbouring pairs share a period: the variance of their mean is
	// (q(1-q) + 2(p³-q²))/n with q = p².
	const q = p * p
	if z := (both/n - q) / math.Sqrt((q*(1-q)+2*(p*q-q*q))/n); math.Abs(z) > 5 {
		t.Errorf("there in two periods running with %g, want %g (%.1f sd)", both/n, float64(q), z)
	}
}

// Local hours, worked out by hand: from 22 h to 6 h at UTC-5 (3 h to 11 h UTC),
// the run starting at 12 h UTC.
func TestAvailability_DailyHours(t *testing.T) {
	f := present(t, Daily{FromHour: 22, ToHour: 6, Probability: 1, StartHour: 12, Zones: []Zone{{Hours: -5}}})
	for _, c := range []struct {
		hours float64 // of virtual time
		there bool
		next  float64
	}{
		{0, false, 15}, {14.99, false, 15}, {15, true, 23}, {22.99, true, 23}, {23, false, 39}, {39, true, 47}, {24*300 + 15, true, 24*300 + 23},
	} {
		at := hours(c.hours)
		if got := f.Available(7, at); got != c.there {
			t.Errorf("at %g h: available %v", c.hours, got)
		}
		if got := f.NextChange(7, at); got != hours(c.next) {
			t.Errorf("after %g h: changes at %g h, want %g", c.hours, float64(got)/float64(hour), c.next)
		}
	}
	if got := f.NextAny(1000, 0); got != hours(15) {
		t.Errorf("somebody is there from %d on, want %d", got, hours(15))
	}
}

// Zones have their shares, and a day's ends move by up to the jitter, evenly.
func TestAvailability_DailyZonesAndJitter(t *testing.T) {
	const n = 100_000
	f := present(t, Daily{FromHour: 12, ToHour: 16, JitterHours: 1, Probability: 1, Zones: []Zone{{-6, 1}, {6, 3}}})
	var opens []float64
	east := 0.0
	for client := range n {
		at := f.NextChange(client, 0) // 6 h UTC in the east, 18 h in the west
		if at < 12*hour {
			east++
			opens = append(opens, float64(at)/float64(hour)-6)
		}
		closes := f.NextChange(client, at)
		if length := float64(closes-at) / float64(hour); length < 2 || length > 6 {
			t.Fatalf("client %d is there for %g hours", client, length)
		}
	}
	if z := (east/n - 0.75) / math.Sqrt(0.75*0.25/n); math.Abs(z) > 5 {
		t.Errorf("%g of the clients live in the east, want 0.75", east/n)
	}
	if d := distance(opens, func(x float64) float64 { return min(max((x+1)/2, 0), 1) }, nil); d > critical(len(opens)) {
		t.Errorf("jitter: distance %g to the uniform law", d)
	}
}

func TestAvailability_RecordedSessions(t *testing.T) {
	f := present(t, Trace{Sessions: stays(t)})
	for client, c := range []struct{ on, changes []int64 }{
		{[]int64{0, 9, 90, 99, 100, 109, 190}, []int64{10, 90, 110, 190}},
		{[]int64{0, 40, 99, 100, 1000}, nil},
		{[]int64{98, 198}, []int64{98, 99, 198}},
		{[]int64{20, 30, 34, 50, 120, 150}, []int64{20, 35, 50, 51, 120}},
		{[]int64{60, 99, 160}, []int64{60, 100, 160, 200}},
	} {
		for _, client := range []int{client, client + 5, client + 5000} {
			at := int64(0)
			for _, want := range c.changes {
				at = f.NextChange(client, at)
				if at != want*second {
					t.Errorf("client %d changes at %d ns, want %d s", client, at, want)
				}
			}
			if c.changes == nil && f.NextChange(client, 0) != Never {
				t.Errorf("client %d changes at %d", client, f.NextChange(client, 0))
			}
			for _, s := range c.on {
				if !f.Available(client, s*second) {
					t.Errorf("client %d is not there at %d s", client, s)
				}
			}
			for _, s := range []int64{35, 49, 51, 59, 135} {
				if f.Available(client, s*second) != (client%5 == 1) {
					t.Errorf("client %d at %d s: there is %v", client, s, f.Available(client, s*second))
				}
			}
		}
	}
}

// Sessions of any shape against a look through the list.
func TestAvailability_RecordedSessionsAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sessions []session
		end := int64(0)
		text := sessionsHeader
		for _, gap := range rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 8).Draw(t, "gaps") {
			from := end + gap
			end = from + rapid.Int64Range(1, 3).Draw(t, "length")
			sessions = append(sessions, session{from, end})
			text += fmt.Sprintf("a,%de-9,%de-9\n", from, end)
		}
		period := max(end, 1) + rapid.Int64Range(0, 2).Draw(t, "rest")
		trace, err := readSessions(strings.NewReader(text), nil, float64(period)/second)
		if err != nil {
			t.Fatal(err)
		}
		r := &replay{sessions: trace}
		there := func(at int64) bool {
			return slices.ContainsFunc(sessions, func(s session) bool { return at%period >= s.start && at%period < s.end })
		}
		for at := range 3 * period {
			if r.Present(1, 0, at) != there(at) {
				t.Fatalf("%v of %d: at %d there is %v", sessions, period, at, r.Present(1, 0, at))
			}
			next := at + 1
			for next < at+2*period && there(next) == there(at) {
				next++
			}
			if next == at+2*period {
				next = Never
			}
			if got := r.Change(1, 0, at); got != next {
				t.Fatalf("%v of %d: after %d changes at %d, want %d", sessions, period, at, got, next)
			}
		}
	})
}

// Where stays are a millionth of the time, one search finds the first of 50 clients that comes back:
// it is available then, and none is before. A search for a single client gives up long before that.
func TestNextAny_FindsShortStays(t *testing.T) {
	const clients = 50
	f := present(t, Markov{OnSeconds: 0.001, OffSeconds: 1000})
	next := f.NextAny(clients, 0)
	available := func(client int) bool { return f.Available(client, next) }
	if next == Never || !slices.ContainsFunc(numbers(clients), available) {
		t.Fatalf("nobody is available at %d ns", next)
	}
	for client := range clients {
		if end := f.NextChange(client, 0); end < next && f.Available(client, end) {
			t.Errorf("client %d is available at %d ns already, before %d ns", client, end, next)
		}
	}
}

// A search that would take too long ends at a time up to which nobody is available, so that the
// caller can heed an interruption before it goes on from there.
func TestNextAny_IsBounded(t *testing.T) {
	const clients = 1000
	f := present(t, Bernoulli{Probability: 1e-12, PeriodSeconds: 0.001})
	next := f.NextAny(clients, 5)
	if next <= 5 || next > 10*second {
		t.Errorf("%d clients are searched up to %d ns", clients, next)
	}
	for client := range clients {
		if f.Available(client, next) {
			t.Errorf("client %d is available, which would be a rare chance", client)
		}
	}
}

// Stays of a hundred-millionth of the time are found at once, not one search after the other: the first
// stay of any of 1,000 clients is 1e5 s away in the mean, and 1e6 s with a probability of e^-10.
func TestNextAny_StepsToStay(t *testing.T) {
	const clients = 1000
	for _, a := range []Availability{
		Markov{OnSeconds: 0.001, OffSeconds: 1e8},
		Share{Share: Constant{Value: 1e-11}, CycleSeconds: 1e8},
	} {
		f := present(t, a)
		at := int64(5)
		for range 100 {
			next := f.NextAny(clients, at)
			if !slices.ContainsFunc(numbers(clients), func(c int) bool { return f.Available(c, next) }) {
				t.Fatalf("%s: nobody is available at %d ns, after %d", a, next, at)
			}
			at = f.NextAnyChange(clients, next)
		}
		if mean := float64(at) / 100 / second; mean < 0.6e5 || mean > 1.5e5 {
			t.Errorf("%s: a stay each %g s", a, mean)
		}
	}
}

// numbers returns the numbers from 0 to n-1.
func numbers(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// NextAny against each client's own changes.
func TestAvailability_NextAny(t *testing.T) {
	recorded := stays(t)
	rapid.Check(t, func(t *rapid.T) {
		a := anyAvailability(t, recorded)
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: a}, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		clients := rapid.IntRange(1, 6).Draw(t, "clients")
		at := rapid.Int64Range(0, 3*day).Draw(t, "t")
		want := int64(Never)
		for client := range clients {
			if f.Available(client, at) {
				want = at
			} else {
				want = min(want, f.NextChange(client, at))
			}
		}
		got := f.NextAny(clients, at)
		if got != want {
			t.Fatalf("%s: somebody is there at %d, want %d", a, got, want)
		}
		if got != Never && !slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5}[:clients], func(c int) bool { return f.Available(c, got) }) {
			t.Fatalf("%s: nobody is there at %d", a, got)
		}
	})
	if f := present(t, nil); f.NextAny(0, 5) != Never || f.NextAny(1, 5) != 5 {
		t.Error("always: nobody of nobody, or anybody at once")
	}
}

// A change that is too far away is not searched for ever, and nothing is said
// that does not hold.
func TestAvailability_FarChanges(t *testing.T) {
	for _, a := range []Availability{
		Bernoulli{Probability: 1e-12, PeriodSeconds: 1},
		Markov{OnSeconds: 1e-3, OffSeconds: 1e7},
		Daily{FromHour: 8, ToHour: 9, Probability: 1e-12},
	} {
		f := present(t, a)
		at := int64(0)
		for range 3 {
			next := f.NextChange(1, at)
			if next <= at || f.Available(1, next-1) != f.Available(1, at) {
				t.Errorf("%s: at %d the next change is %d", a, at, next)
			}
			at = next
		}
	}
	f := present(t, Bernoulli{Probability: 1e-12, PeriodSeconds: maxSeconds})
	if got := f.NextChange(1, 0); got != Never {
		t.Errorf("a change in centuries: %d", got)
	}
	f = present(t, Markov{OnSeconds: maxSeconds, OffSeconds: maxSeconds})
	for at := int64(0); at != Never; {
		next := f.NextChange(1, at)
		if next <= at {
			t.Fatalf("after %d comes %d", at, next)
		}
		at = next
	}
}

func TestAvailability_BadAvailability(t *testing.T) {
	for _, c := range []struct {
		a    Availability
		want string
	}{
		{Bernoulli{PeriodSeconds: 1}, "probability: 0 is out of range (more than 0 and at most 1)"},
		{Bernoulli{Probability: 1.5, PeriodSeconds: 1}, "probability: 1.5"},
		{Bernoulli{Probability: 0.5}, "period_seconds: 0 is out of range (from 0.001 to"},
		{Markov{OnSeconds: -1, OffSeconds: 1}, "on_seconds: -1"},
		{Markov{OnSeconds: 1, OffSeconds: math.NaN()}, "off_seconds: NaN"},
		{Daily{FromHour: 25, ToHour: 3, Probability: 1}, "from_hour: 25 is out of range (from 0 to 24 hours)"},
		{Daily{FromHour: 8, ToHour: 9, JitterHours: 0.5, Probability: 1}, "jitter_hours: 0.5 with 1 hours from from_hour to to_hour (those more than 1 and less than 23)"},
		{Daily{FromHour: 8, ToHour: 8, Probability: 1}, "jitter_hours: 0 with 24 hours"},
		{Daily{FromHour: 8, ToHour: 9, Probability: 1, Zones: []Zone{{15, 1}}}, "zones[0].hours: 15 is out of range (from -14 to 14 hours)"},
		{Daily{FromHour: 8, ToHour: 9, Probability: 1, Zones: []Zone{{1, 1}, {2, 0}}}, "zones[1].weight: is not set"},
		{Share{CycleSeconds: 9}, "share: is not set"},
		{Share{Share: Uniform{Min: 0, Max: 1}, CycleSeconds: 9}, "share: uniform(max 1) goes from 0 to 0.9999999999999999 (above 0 and at most 1"},
		{Share{Share: Constant{Value: 1.5}, CycleSeconds: 9}, "share: 1.5 goes from 1.5 to 1.5"},
		{Trace{}, "sessions: is empty"},
		{Trace{Sessions: "nowhere.csv"}, "sessions: open nowhere.csv"},
	} {
		_, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: c.a}, 1)
		if err == nil || !strings.Contains(err.Error(), "availability."+c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.a, err, c.want)
		}
	}
}

const sessionsHeader = "trace,from_second,to_second\n"

func TestAvailability_ReadSessions(t *testing.T) {
	s, err := readSessions(strings.NewReader(sessionsHeader+"a,0,1.5\na,2,3\nb,1e-9,4\n"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{sessions: s}
	if s.period != 4*second || len(s.traces) != 2 || !r.Present(1, 0, 0) || r.Present(1, 0, 3*second/2) || r.Present(1, 1, 0) || !r.Present(1, 1, 1) {
		t.Errorf("read %+v", s)
	}
	for _, c := range []struct {
		text   string
		period float64
		want   string
	}{
		{"", 0, "the file is empty"},
		{sessionsHeader, 0, "sessions: no row after the columns"},
		{sessionsHeader + "a,1,1\n", 0, "no session is longer than 0 s"},
		{sessionsHeader + "a,2,1\n", 0, "line 2: a session from 2 to 1 s"},
		{sessionsHeader + "a,1,3\na,2,4\n", 0, "line 3: a session from 2 to 4 s"},
		{sessionsHeader + "a,1,3\nb,2,4\na,5,6\n", 0, `line 4: trace "a" goes on`},
		{sessionsHeader + "a,-1,3\n", 0, "line 2: from_second is -1"},
		{sessionsHeader + "a,1,x\n", 0, `line 2: to_second is "x"`},
	} {
		if _, err := readSessions(strings.NewReader(c.text), nil, c.period); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func FuzzReadSessions(f *testing.F) {
	f.Add(sessionsHeader+"a,0,1.5\na,2,3\nb,1e-9,4\n", 0.0)
	f.Add(sessionsHeader+"\"a\",0,100\n", 100.0)
	f.Fuzz(func(t *testing.T, text string, period float64) {
		if period > maxSeconds { // refused as an option
			return
		}
		s, err := readSessions(strings.NewReader(text), nil, period)
		if err != nil {
			return
		}
		for client := range min(len(s.traces), 10) {
			r := &replay{sessions: s}
			for at, i := int64(0), 0; i < 20 && at != Never; i++ {
				next := r.Change(1, client, at)
				if next <= at || next != Never && (r.Present(1, client, next) == r.Present(1, client, at) || r.Present(1, client, next-1) != r.Present(1, client, at)) {
					t.Fatalf("trace %d changes at %d, then at %d", client, at, next)
				}
				at = next
			}
		}
	})
}

// Every model says what it is.
func TestAvailability_InWords(t *testing.T) {
	for _, c := range []struct {
		a    Availability
		want string
	}{
		{Always{}, "always"},
		{Bernoulli{Probability: 0.3, PeriodSeconds: 60}, "bernoulli (probability 0.3, anew every 60 s)"},
		{Markov{OnSeconds: 30, OffSeconds: 70}, "markov (on for 30 s, off for 70 s in the mean: 0.3 available)"},
		{Share{Share: Constant{Value: 0.3}, CycleSeconds: 100}, "share (0.3 of the time, a stay and an absence in 100 s)"},
		{Daily{FromHour: 22, ToHour: 6, JitterHours: 1, Probability: 0.9}, "daily (22 h to 6 h local time, jitter 1 h, on 0.9 of the days, 24 time zones)"},
		{Trace{Sessions: "s.csv", Spread: true}, "trace(sessions s.csv, spread true)"},
	} {
		if got := Availabilities.Text(c.a); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What a seed means: a change here changes every recorded run.
func TestAvailability_IsDeterministic(t *testing.T) {
	sum := uint64(0)
	for _, a := range models3() {
		f := present(t, a)
		for client := range 500 {
			at := int64(client) * 1_234_567_891_011
			sum = sum*31 + uint64(f.NextChange(client, at))
			if f.Available(client, at) {
				sum++
			}
		}
	}
	if want := uint64(0x685cafb6f5632a40); sum != want {
		t.Errorf("availability sums to %#x, want %#x", sum, want)
	}
}
