package fleet

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/internal/testkit/realdata"
)

// naive returns the nanoseconds of a transfer that begins at a position of a link trace, second by second, straight
// from the meaning of a trace.
func naive(kbps []uint32, bits, position int64) int64 {
	need := uint64(bits) * 1_000_000 // millionths of a bit: kilobits a second times nanoseconds
	passed := int64(0)
	for {
		at := (position + passed) % (int64(len(kbps)) * second)
		rate, left := uint64(kbps[at/second]), second-at%second
		if room := rate * uint64(left); room < need {
			need -= room
			passed += left
			continue
		}
		if need > 0 {
			passed += int64((need + rate - 1) / rate)
		}
		return passed
	}
}

func TestLinks_TransfersIntegrateCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kbps := rapid.SliceOfN(rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32Range(0, 5), rapid.Uint32Range(0, 60_000)), 1, 12).Draw(t, "kbps")
		if slices.Max(kbps) == 0 {
			kbps[0] = 1
		}
		c := capacity{kbps: kbps}
		c.computeSums()
		length := int64(len(kbps)) * second
		position := rapid.OneOf(rapid.Int64Range(0, length-1), rapid.Map(rapid.Int64Range(0, int64(len(kbps)-1)), func(s int64) int64 { return s * second })).Draw(t, "position")
		a := rapid.OneOf(rapid.Int64Range(0, 300_000), rapid.Map(rapid.Int64Range(0, 300), func(k int64) int64 { return k * 1000 })).Draw(t, "bits")
		got := c.transfer(a, position)
		if want := naive(kbps, a, position); got != want {
			t.Fatalf("%d bits from %d over %v: %d ns, want %d", a, position, kbps, got, want)
		}
		b := rapid.Int64Range(0, 10_000).Draw(t, "more bits")
		both := c.transfer(a+b, position)
		if both < got {
			t.Fatalf("%d bits take %d ns, %d take %d", a, got, a+b, both)
		}
		// The rest from where the first part ended: each part is rounded up once,
		// so together they can only end later; by a nanosecond of capacity unless
		// that nanosecond was the last before dead seconds.
		parts := got + c.transfer(b, (position+got)%length)
		if parts < both {
			t.Fatalf("%d and %d bits take %d ns, together %d", a, b, parts, both)
		}
		// One turn later is the same place.
		if again := c.transfer(a, (position+length)%length); again != got {
			t.Fatalf("%d ns, one turn later %d", got, again)
		}
	})
}

func TestLinks_TransfersByHand(t *testing.T) {
	c := capacity{kbps: []uint32{1000, 0, 2000}} // 1, 0 and 2 Mbit/s: 3 Mbit a turn
	c.computeSums()
	for _, x := range []struct{ bits, position, want int64 }{
		{0, 0, 0},
		{1_000_000, 0, second},
		{1_000_001, 0, 2*second + 500},
		{1, second, second + 500},
		{3_000_000, 0, 3 * second},
		{3_000_001, 0, 3*second + 1000},
		{2_500_000, 2*second + second/2, 2*second + 3*second/4},
		{30_000_000_000, 0, 30_000 * second},
		{-1, 0, -1},
		{9e18, 0, -1}, // over three years
	} {
		if got := c.transfer(x.bits, x.position); got != x.want {
			t.Errorf("%d bits from %d ns: %d ns, want %d", x.bits, x.position, got, x.want)
		}
	}
}

// A plan's phases follow each other on the trace.
func TestLinks_TaskOnLinkTrace(t *testing.T) {
	l := made(t, 300)
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.5}, Fleet: []Class{{Name: "car", Links: l}}}, 9)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for client := range 200 {
		_, h := f.class(client)
		trace, start := f.classes[0].links.locate(h, 0)
		used[trace.name]++
		for _, at := range []int64{0, 1, 123_456_789_012, maxTime} {
			d, err := f.Durations(client, 1, 7, SameBits(6_710_000), at)
			if err != nil {
				t.Fatal(err)
			}
			position := (start + at%trace.length()) % trace.length()
			down := naive(trace.download.kbps, 6_710_000, position)
			up := naive(trace.upload.kbps, 6_710_000, (position+down+3_500_000_000)%trace.length())
			if want := (Durations{down, 3_500_000_000, up}); d != want {
				t.Fatalf("client %d at %d: %+v, want %+v", client, at, d, want)
			}
		}
	}
	if len(used) != 2 || used["a"] < 60 || used["b"] < 60 {
		t.Errorf("200 clients use the traces so often: %v", used)
	}
}

// realFile opens a real file of measured devices, or skips the test where the file is not installed.
func realFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(realdata.Path(t, "devices/"+name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLinks_RealLinks(t *testing.T) {
	l, err := (&Links{}).read(realFile(t, "cellular_links.csv"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"ATT-LTE-driving": 786, "ATT-LTE-driving-2016": 120, "TMobile-LTE-short": 139,
		"TMobile-UMTS-driving": 928, "Verizon-EVDO-driving": 1062, "Verizon-LTE-short": 140,
	}
	if len(l) != len(want) {
		t.Errorf("traces %v", l.names())
	}
	for i := range l {
		trace := &l[i]
		if trace.seconds != want[trace.name] {
			t.Errorf("%s has %d seconds, want %d", trace.name, trace.seconds, want[trace.name])
		}
		for s := range trace.seconds {
			position := trace.wrap(int64(s)*second + int64(s)*999_983)
			for _, c := range []*capacity{&trace.download, &trace.upload} {
				if got, want := c.transfer(6_710_000, position), naive(c.kbps, 6_710_000, position); got != want {
					t.Fatalf("%s from second %d: %d ns, want %d", trace.name, s, got, want)
				}
			}
		}
	}
	if first := l[slices.Index(l.names(), "ATT-LTE-driving")]; first.download.kbps[0] != 2635 || first.upload.kbps[1] != 987 {
		t.Errorf("first capacities are %d and %d kbit/s", first.download.kbps[0], first.upload.kbps[1])
	}
	some, err := l.choose([]string{"Verizon-LTE-short"})
	if err != nil || !slices.Equal(some.names(), []string{"Verizon-LTE-short"}) {
		t.Errorf("selected %v, %v", some, err)
	}
	if _, err := l.choose([]string{"Verizon"}); err == nil || !strings.Contains(err.Error(), `no link trace "Verizon", want one of ATT-LTE-driving, `) {
		t.Errorf("selecting an unknown trace: %v", err)
	}
}

const linksHeader = "trace,second,download_mbps,upload_mbps\n"

func TestLinks_BadLinks(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty, want the columns trace,second,download_mbps,upload_mbps"},
		{"a,b\n", `line 1 is "a,b", want the columns trace`},
		{linksHeader, "link traces: no row after the columns"},
		{linksHeader + "a,0,1\n", "line 2"},
		{linksHeader + "a,0,1,1\na,2,1,1\n", `line 3: second is "2", want 1`},
		{linksHeader + "a,0,1,1\nb,0,1,1\na,1,1,1\n", `line 4: trace "a" goes on after another one (it started in line 2)`},
		{linksHeader + "a,0,-1,1\n", "line 2: download_mbps is -1, want 0 to 10000"},
		{linksHeader + "a,0,1,fast\n", `line 2: upload_mbps is "fast", want a number`},
		{linksHeader + "a,0,1,1_000\n", `line 2: upload_mbps is "1_000", want a number`},
		{linksHeader + "a,0,NaN,1\n", "download_mbps is NaN"},
		{linksHeader + "a,0,10000.001,1\n", "want 0 to 10000"},
		{linksHeader + "a,0,0,1\n", `trace "a": no second has any capacity`},
		{linksHeader + ",0,1,1\n", "trace is 0 bytes long"},
		{linksHeader + "\"a,0,1,1\n", "line"},
	} {
		if _, err := (&Links{}).read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// Whatever is read can be used, and agrees with the naive integrator.
func FuzzReadLinks(f *testing.F) {
	f.Add(linksHeader+"a,0,2.635,0.048\na,1,6.281,0.987\nb,0,1,1\n", int64(1000))
	f.Add(linksHeader+"\"a \"\"b\",0,1e-3,10000\n", int64(1))
	f.Add("trace,second\n", int64(0))
	f.Fuzz(func(t *testing.T, text string, bits int64) {
		l, err := (&Links{}).read(strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "link traces: ") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		bits &= 1<<20 - 1
		for i := range l {
			if c := &l[i].download; len(c.kbps) < 100 {
				if got, want := c.transfer(bits, 0), naive(c.kbps, bits, 0); got != want {
					t.Fatalf("%d bits over %v: %d ns, want %d", bits, c.kbps, got, want)
				}
			}
		}
	})
}
