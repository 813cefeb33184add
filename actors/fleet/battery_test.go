package fleet

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// charged returns a fleet of one class with a battery of 1,000 J, of which clients use no more than 800, and which
// change may change. A task of 10 steps and 80 Mbit takes 4 + 10 + 16 s.
func charged(t testing.TB, a Availability, change func(*Battery)) *Fleet {
	b := Battery{Joules: 1000, Floor: 0.2, ChargeWatts: 5, Charges: "always"}
	change(&b)
	f, err := NewFleet(Config{
		Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}, Availability: a,
		Fleet: []Class{{Name: "phone", Watts: Watts{Download: 1, Compute: 4, Upload: 1.5}, Battery: &b}},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Charging by hand: a battery that holds 100 J at 10 s is at its floor of 200 J when it
// has been charged with 5 W for 20 s, and full after 180 s.
func TestBattery_BatteriesAreCharged(t *testing.T) {
	recorded := stays(t) // d, client 3, is there from 20 to 35 and from 50 to 51 s of 100
	for _, c := range []struct {
		name    string
		change  func(*Battery)
		ready   int64 // from 100 J at 10 s, in seconds
		at      int64
		charged float64 // by then
	}{
		{"always", func(*Battery) {}, 30, 50, 300},
		{"to the end", func(*Battery) {}, 30, 1000, 1000},
		{"never", func(b *Battery) { b.ChargeWatts = 0 }, Never, 1000, 100},
		// 75 J by 35 s and 5 by 51 s; from 120 s on the next 20.
		{"while available", func(b *Battery) { b.Charges = "available" }, 124, 121, 185},
		{"while away", func(b *Battery) { b.Charges = "away" }, 35 + 10, 60, 100 + 5*(10+15+9)},
	} {
		f := charged(t, Trace{Sessions: recorded}, c.change)
		want := c.ready
		if want != Never {
			want *= second
		}
		if got := f.Ready(3, 100, 10*second); got != want {
			t.Errorf("%s: ready at %d, want %d", c.name, got, want)
		}
		if got := f.Charged(3, 100, 10*second, c.at*second); math.Abs(got-c.charged) > 1e-9 {
			t.Errorf("%s: %g J at %d s, want %g", c.name, got, c.at, c.charged)
		}
	}
	f := charged(t, nil, func(b *Battery) { b.Charging = &Daily{FromHour: 22, ToHour: 6, Probability: 1, Zones: []Zone{{0, 1}}} })
	if got := f.Ready(3, 100, 12*hour); got != 22*hour+20*second {
		t.Errorf("charged at night: ready at %d", got)
	}
	if got := f.Ready(3, 200, 7); got != 7 {
		t.Errorf("a client with enough waits until %d", got)
	}
	if got := f.Charged(3, 1e9, 0, 5); got != 1000 {
		t.Errorf("a battery of 1000 J holds %g", got)
	}
}

// Tasks by hand: 4 s at 1 W, 10 s at 4 W and 16 s at 1.5 W are 4 + 40 + 24 J.
func TestBattery_EmptyEndsTasks(t *testing.T) {
	f := charged(t, nil, func(*Battery) {})
	for _, c := range []struct {
		joules float64
		phase  Phase
		after  int64
	}{
		{3, InDownload, 3 * second},
		{4, InCompute, 4 * second},
		{30, InCompute, 10_500_000_000},
		{44, InUpload, 14 * second},
		{50, InUpload, 18 * second},
		{68, NoPhase, 0},
		{1000, NoPhase, 0},
	} {
		who := f.Client(7)
		who.Joules = c.joules
		p, err := f.Plan(who, 1, 10, SameBits(80_000_000), 0)
		if err != nil || p.Dropout != c.phase || p.After != c.after {
			t.Errorf("%g J: %+v, %v, want to end in phase %d after %d ns", c.joules, p, err, c.phase, c.after)
		}
		ends := p.Total()
		if c.phase != NoPhase {
			ends = p.After
		}
		if got := f.Spent(7, p.Durations, ends); math.Abs(got-min(c.joules, 68)) > 1e-6 {
			t.Errorf("%g J: a task that ends after %d ns takes %g", c.joules, ends, got)
		}
	}
	if p, err := f.Plan(f.Client(7), 1, 10, SameBits(80_000_000), 0); err != nil || p.Dropout != NoPhase {
		t.Errorf("a client on the mains: %+v, %v", p, err)
	}
}

// What is charged does not depend on who looks when, a client is ready no later than
// its battery holds the floor, and no plan takes more than there is.
func TestBattery_BatteriesAreConsistent(t *testing.T) {
	recorded := stays(t)
	rapid.Check(t, func(t *rapid.T) {
		a := anyAvailability(t, recorded)
		f, err := NewFleet(Config{
			Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.01}, Availability: a,
			Fleet: []Class{{
				Name: "phone", Watts: Watts{Download: 1, Compute: 4, Upload: 1.5},
				Battery: &Battery{Joules: 500, Floor: 0.3, ChargeWatts: rapid.Float64Range(0.1, 100).Draw(t, "watts"), Charges: rapid.SampledFrom([]string{"always", "available"}).Draw(t, "charges")},
			}},
		}, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		client, at := rapid.IntRange(0, 1000).Draw(t, "client"), rapid.Int64Range(0, 3*day).Draw(t, "at")
		held := rapid.Float64Range(0, 500).Draw(t, "joules")
		ready := f.Ready(client, held, at)
		if ready < at || ready < Never && f.Charged(client, held, at, ready) < max(held, 150)-1e-6 {
			t.Fatalf("%g J at %d: ready at %d with %g J", held, at, ready, f.Charged(client, held, at, ready))
		}
		between := at + rapid.Int64Range(0, day).Draw(t, "between")
		later := between + rapid.Int64Range(0, day).Draw(t, "later")
		once, twice := f.Charged(client, held, at, later), f.Charged(client, f.Charged(client, held, at, between), between, later)
		if once < held || once > 500 || math.Abs(once-twice) > 1e-6 {
			t.Fatalf("%g J at %d are %g at %d, and %g for one who looked at %d", held, at, once, later, twice, between)
		}
		who := f.Client(client)
		who.Joules = max(held, 1e-3)
		p, err := f.Plan(who, 3, rapid.IntRange(0, 40_000).Draw(t, "steps"), SameBits(80_000_000), at)
		if err != nil {
			t.Fatal(err)
		}
		ends := p.Total()
		if p.Dropout != NoPhase {
			ends = p.After
		}
		if spent := f.Spent(client, p.Durations, ends); spent > who.Joules+1e-6 || p.Dropout != NoPhase && spent < who.Joules-1e-6 {
			t.Fatalf("of %g J a task takes %g: %+v", who.Joules, spent, p)
		}
	})
}

// Clients start with a charge of their own, and a class without a battery has none.
func TestBattery_StartCharges(t *testing.T) {
	f, err := NewFleet(Config{
		Network: Network{DownloadMbps: 20, UploadMbps: 5},
		Fleet: []Class{
			{Name: "phone", Weight: 3, Watts: Watts{Compute: 4}, Battery: &Battery{Joules: 200, Start: Uniform{Min: 0.5, Max: 1}, Floor: 0.1, Charges: "always"}},
			{Name: "board", Weight: 1, Watts: Watts{Compute: 6}},
		},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var starts []float64
	for client := range 20_000 {
		held := f.Start(client)
		if f.Class(client) == 1 {
			if held != Mains || f.Spent(client, Durations{0, 5, 0}, 5) != 0 || f.Ready(client, 0, 9) != 9 {
				t.Fatalf("client %d of a class without a battery holds %g J", client, held)
			}
			continue
		}
		starts = append(starts, held)
	}
	if d := distance(starts, func(x float64) float64 { return (x - 100) / 100 }, nil); d > critical(len(starts)) {
		t.Errorf("the charges at the start are %g from uniform", d)
	}
	if !f.Batteries() || f.Constant() || f.Soonest(SameBits(1e6)) != 0 {
		t.Error("batteries that end no task")
	}
}

func TestBattery_BadBatteries(t *testing.T) {
	good := Battery{Joules: 100, Floor: 0.2, Charges: "always"}
	for _, c := range []struct {
		change func(*Class)
		want   string
	}{
		{func(k *Class) { k.Watts = Watts{} }, "fleet[0].battery: the class gives no watts"},
		{func(k *Class) { k.Battery.Joules = 0 }, "fleet[0].battery.joules: 0 is out of range"},
		{func(k *Class) { k.Battery.Floor = 0 }, "fleet[0].battery.floor: 0 is out of range"},
		{func(k *Class) { k.Battery.Start = Constant{Value: 2} }, "fleet[0].battery.start: 2 comes up to 2 (at most 1"},
		{func(k *Class) { k.Battery.Charges = "sometimes" }, `fleet[0].battery.charges: "sometimes" is not one of always, available, away`},
		{func(k *Class) { k.Battery.Charges = "away" }, "fleet[0].battery.charges: is away, and clients of the class are always available"},
		{func(k *Class) { k.Battery.Charges, k.Battery.Charging = "available", Markov{1, 1} }, `fleet[0].battery.charging: charges is "available", too`},
		{func(k *Class) { k.Battery.Charges, k.Availability = "away", Markov{1, 1} }, "fleet[0].battery.charge_watts: is 0, so that nothing charges"},
		{func(k *Class) { k.Battery.Charging = Markov{1, 1} }, "fleet[0].battery.charge_watts: is 0, so that nothing charges"},
		{func(k *Class) { k.Battery.Charging = Markov{-1, 1} }, "fleet[0].battery.charging.on_seconds: -1 is out of range"},
	} {
		b := good
		k := Class{Name: "phone", Watts: Watts{Compute: 1}, Battery: &b}
		c.change(&k)
		_, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{k}}, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
