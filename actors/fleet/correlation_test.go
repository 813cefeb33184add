package fleet

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/keyed"
)

// uneven returns n clients' numbers of samples, of which no two are equal.
func uneven(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(keyed.Hash(5, keyed.Partition, uint64(i)) >> 12)
	}
	return values
}

// phones returns a fleet of two classes, with the correlation c to data, in which no two clients are equally fast.
func phones(t testing.TB, c Correlation, data []float64) *Fleet {
	t.Helper()
	config := Config{
		Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: Share{Uniform{Min: 0.1, Max: 0.9}, 2000}, Correlation: c,
		Fleet: []Class{
			{Name: "phone", Weight: 3, UploadMbps: Lognormal{Mean: 5, Sigma: 0.5}, SecondsPerStep: Lognormal{Mean: 0.1, Sigma: 1}},
			{Name: "board", Weight: 1, UploadMbps: Lognormal{Mean: 5, Sigma: 0.5}, SecondsPerStep: Uniform{Min: 0.2, Max: 0.3}},
		},
	}
	f, err := NewFleet(config, 3)
	if err == nil {
		err = f.Correlate(c, len(data), func(string) ([]float64, error) { return data, nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// spearmanOf returns Spearman's coefficient by its formula for values of which no two are equal,
// 1 - 6 sum d²/(n (n²-1)).
func spearmanOf(x, y []float64) float64 {
	place := func(v []float64) map[float64]float64 {
		sorted, places := slices.Sorted(slices.Values(v)), map[float64]float64{}
		for i, x := range sorted {
			places[x] = float64(i)
		}
		return places
	}
	a, b := place(x), place(y)
	n, sum := float64(len(x)), 0.0
	for i := range x {
		d := a[x[i]] - b[y[i]]
		sum += d * d
	}
	return 1 - 6*sum/(n*(n*n-1))
}

// Over 10,000 clients the rank correlation comes out at the stated one, to within 0.03:
// its standard deviation is about 1/sqrt(n), 0.01, at most. The devices are those of the
// fleet without it, every one of them and no other.
func TestCorrelation_SpeedFollowsData(t *testing.T) {
	const n = 10_000
	data := uneven(n)
	times := func(f *Fleet) (compute, all []float64) {
		for client := range n {
			d, err := f.Durations(client, 1, 10, SameBits(1e6), 0)
			if err != nil {
				t.Fatal(err)
			}
			compute = append(compute, float64(d.Compute))
			all = append(all, float64(d.Compute)+float64(d.Upload)/1e10+float64(f.Class(client)))
		}
		return compute, all
	}
	_, before := times(phones(t, Correlation{}, data))
	slices.Sort(before)
	for _, of := range []string{"compute", "upload"} {
		for _, want := range []float64{-1, -0.8, -0.3, 0.05, 0.5, 0.95, 1} {
			f := phones(t, Correlation{Speed: SpeedCorrelation{RankCorrelation{want, "samples"}, of}}, data)
			_, after := times(f)
			speed := make([]float64, n)
			for client := range speed {
				d, err := f.Durations(client, 1, 10, SameBits(1e6), 0)
				if err != nil {
					t.Fatal(err)
				}
				speed[client] = -float64(d.Compute)
				if of == "upload" {
					speed[client] = -float64(d.Upload)
				}
			}
			got := f.Correlations[0]
			if math.Abs(got.Achieved-want) > 0.03 || math.Abs(want) == 1 && math.Abs(got.Achieved-want) > 1e-12 {
				t.Errorf("%s: correlation %g, want %g", of, got.Achieved, want)
			}
			if byHand := spearmanOf(data, speed); math.Abs(byHand-got.Achieved) > 1e-6 { // durations are rounded
				t.Errorf("%s: correlation of the durations %g, said to be %g", of, byHand, got.Achieved)
			}
			if slices.Sort(after); !slices.Equal(before, after) {
				t.Errorf("%s, %g: the fleet has other devices", of, want)
			}
		}
	}
}

// Likewise clients' shares of the time, looked at 400 times a client.
func TestCorrelation_AvailabilityFollowsData(t *testing.T) {
	const n = 10_000
	data := uneven(n)
	f := phones(t, Correlation{Availability: RankCorrelation{-0.6, "labels"}}, data)
	if got := f.Correlations[0]; math.Abs(got.Achieved+0.6) > 0.03 || got.Quantity != "availability" || got.Property != "labels" {
		t.Errorf("%+v, want -0.6", got)
	}
	there, mean := make([]float64, n), 0.0
	for client := range there {
		there[client] = float64(client) * 1e-9 // no two are the same
		for i := range 400 {
			if f.Available(client, int64(i)*3000*second) {
				there[client]++
			}
		}
		mean += there[client] / (400 * n)
	}
	if got := spearmanOf(data, there); math.Abs(got+0.6) > 0.03 {
		t.Errorf("who is there correlates by %g, want -0.6", got)
	}
	if math.Abs(mean-0.5) > 0.01 {
		t.Errorf("clients are there for %g of the time, want 0.5", mean)
	}
}

// A host that knows no data plans for a client as soon as it is told whose device and
// availability the client has.
func TestCorrelation_PlansNeedNoData(t *testing.T) {
	data := uneven(500)
	f := phones(t, Correlation{Speed: SpeedCorrelation{RankCorrelation{0.7, "samples"}, "compute"}, Availability: RankCorrelation{0.4, "samples"}}, data)
	host := phones(t, Correlation{}, data)
	f.classes[0].dropout.WhenUnavailable, host.classes[0].dropout.WhenUnavailable = true, true
	others := 0
	for client := range data {
		at := int64(client) * 10 * second
		want, err := f.Plan(f.Client(client), 9, 100, SameBits(1e7), at)
		got, hostErr := host.Plan(f.Client(client), 9, 100, SameBits(1e7), at)
		if errors.Join(err, hostErr) != nil || got != want {
			t.Fatalf("client %d: %+v at the host, %v; want %+v, %v", client, got, hostErr, want, err)
		}
		if own, err := host.Plan(host.Client(client), 9, 100, SameBits(1e7), at); err != nil || own != want {
			others++
		}
	}
	if others < 400 {
		t.Errorf("%d of 500 clients have another's device", others)
	}
}

// A class's own availability, and the hours of its chargers, come with its devices: who
// has device 7 is there when client 7 would be without the correlation. The availability
// that all classes share does not.
func TestCorrelation_AvailabilityOfClass(t *testing.T) {
	const n = 300
	data := uneven(n)
	fleet := func(c Correlation) *Fleet {
		slow := Class{Name: "slow", SecondsPerStep: Uniform{Min: 1, Max: 2}, Watts: Watts{Compute: 1}, Battery: &Battery{Joules: 100, Floor: 0.5, ChargeWatts: 1, Charges: chargesAlways, Charging: Markov{30, 50}}}
		fast := slow
		fast.Name, fast.SecondsPerStep, fast.Availability = "fast", Uniform{Min: 0.1, Max: 0.2}, Share{Uniform{Min: 0.1, Max: 0.9}, 200}
		charged := *fast.Battery
		charged.Charging, charged.Charges = nil, "available"
		fast.Battery = &charged
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: Markov{20, 30}, Fleet: []Class{slow, fast}, Correlation: c}, 3)
		if err == nil {
			err = f.Correlate(c, n, func(string) ([]float64, error) { return data, nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	own, tied := fleet(Correlation{}), fleet(Correlation{Speed: SpeedCorrelation{RankCorrelation{0.7, "samples"}, "compute"}})
	classes := map[int]int{}
	for client := range n {
		who := tied.Client(client)
		presence := client
		if tied.Class(client) == 1 {
			presence = who.Device
		}
		if who.Presence != presence {
			t.Fatalf("client %d with device %d has the availability of %d, want %d", client, who.Device, who.Presence, presence)
		}
		if who.Device != client {
			classes[tied.Class(client)]++
		}
		for at := int64(0); at < 2000*second; at += 37 * second {
			of := func(f *Fleet, number int) bool {
				p, _ := f.presenceOf(client)
				return p.Present(f.seed, number, at)
			}
			if got, want := tied.Available(client, at), of(tied, presence); got != want {
				t.Fatalf("client %d is there at %d: %v, want %v", client, at, got, want)
			}
			if tied.Class(client) == 1 && tied.Available(client, at) != own.Available(who.Device, at) {
				t.Fatalf("client %d is not there as its device is at %d", client, at)
			}
			if got, want := tied.Ready(client, 3, at), own.Ready(who.Device, 3, at); got != want {
				t.Fatalf("the battery of client %d is ready at %d, that of its device at %d", client, got, want)
			}
		}
	}
	if classes[0] < 50 || classes[1] < 50 {
		t.Errorf("clients with another's device: %v", classes)
	}
}

// A third of the clients have one number of samples: the coefficient is nearer to 0.
func TestCorrelation_SpearmanOfTies(t *testing.T) {
	data := uneven(3000)
	for i := range 1000 {
		data[i] = 7
	}
	f := phones(t, Correlation{Speed: SpeedCorrelation{RankCorrelation{1, "samples"}, "compute"}}, data)
	if got := f.Correlations[0].Achieved; !(got > 0.9 && got < 0.999) {
		t.Errorf("correlation %g", got)
	}
}

func TestCorrelation_BadCorrelations(t *testing.T) {
	data := uneven(100)
	speed := Correlation{Speed: SpeedCorrelation{RankCorrelation{0.5, "samples"}, "compute"}}
	there := Correlation{Availability: RankCorrelation{0.5, "samples"}}
	fast := Class{Name: "fast", SecondsPerStep: Uniform{Min: 1, Max: 2}}
	for _, c := range []struct {
		c     Correlation
		fleet []Class
		data  []float64
		want  string
	}{
		{speed, nil, data, "correlation.speed: every client has the same speed"},
		{there, []Class{fast}, data, "correlation.availability: every client has the same availability, so there is nothing to correlate (use availability: share, or trace)"},
		{speed, []Class{fast}, make([]float64, 100), "correlation.speed.with: samples are the same for every client"},
		{there, []Class{{Name: "own", Availability: &Always{}}}, data, `correlation.availability: class "own" has an availability of its own`},
		{Correlation{Speed: SpeedCorrelation{RankCorrelation{1.5, "samples"}, "compute"}}, []Class{fast}, data, "correlation.speed.spearman: 1.5 is out of range (from -1 to 1)"},
		{speed, []Class{fast}, nil, "no data"},
	} {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Correlation: c.c, Fleet: c.fleet}, 1)
		if err == nil {
			err = f.Correlate(c.c, 100, func(string) ([]float64, error) {
				if c.data == nil {
					return nil, errors.New("no data")
				}
				return c.data, nil
			})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
