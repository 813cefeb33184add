package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	_ "fedpace/internal/testkit/testseed"
)

// labelsOf makes n samples of each of k labels, five fine labels below each
// coarse one.
func labelsOf(k, n int) (labels, coarse []int32) {
	for l := range k {
		coarse = append(coarse, int32(l/5))
		for range n {
			labels = append(labels, int32(l))
		}
	}
	return labels, coarse
}

func skew(labels []int32, clients [][]int32, classes int) float64 {
	all := make([]int, classes)
	for _, l := range labels {
		all[l]++
	}
	var sum float64
	for _, c := range clients {
		own := make(map[int32]int)
		for _, i := range c {
			own[labels[i]]++
		}
		sum += federated.Divergence(own, len(c), all, len(labels))
	}
	return sum / float64(len(clients))
}

// Whatever the partition, no sample goes to two clients, nobody is below the
// minimum, and only a remainder is left over.
func TestDeal_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels, coarse := labelsOf(rapid.IntRange(1, 12).Draw(t, "labels"), rapid.IntRange(1, 20).Draw(t, "each"))
		p := federated.Partition{
			Kind:    rapid.SampledFrom([]string{"iid", "dirichlet", "shards", "pachinko", "quantity"}).Draw(t, "kind"),
			Clients: rapid.IntRange(1, len(labels)).Draw(t, "clients"),
			Alpha:   rapid.SampledFrom([]float64{1e-6, 0.1, 1, 1e9}).Draw(t, "alpha"),
			Shards:  rapid.IntRange(1, 4).Draw(t, "shards"),
			Min:     rapid.IntRange(1, 3).Draw(t, "min"),
		}
		clients, err := p.Deal(labels, coarse, 1)
		if err != nil {
			if len(labels) >= p.Clients*max(p.Min, p.Shards)*2 {
				t.Fatalf("%+v of %d samples: %v", p, len(labels), err)
			}
			return
		}
		seen := make([]bool, len(labels))
		dealt := 0
		for _, c := range clients {
			if len(c) < p.Min {
				t.Fatalf("%+v: a client of %d samples", p, len(c))
			}
			for _, i := range c {
				if seen[i] {
					t.Fatalf("%+v: sample %d is dealt twice", p, i)
				}
				seen[i] = true
				dealt++
			}
		}
		left := len(labels) - dealt
		switch p.Kind {
		case "iid", "quantity":
			if left != 0 {
				t.Fatalf("%+v: %d samples left over", p, left)
			}
		case "shards":
			if left >= p.Clients*p.Shards {
				t.Fatalf("%+v: %d samples left over", p, left)
			}
		default:
			if left >= p.Clients {
				t.Fatalf("%+v: %d samples left over", p, left)
			}
		}
		again, err := p.Deal(labels, coarse, 1)
		if err != nil || !slices.EqualFunc(clients, again, slices.Equal) {
			t.Fatalf("%+v: no function of its arguments (%v)", p, err)
		}
	})
}

// Label skew of the partitions of CIFAR-100's shape, against what is known of
// each: none for IID, two labels or three for two shards, falling with alpha.
func TestDeal_Skew(t *testing.T) {
	labels, coarse := labelsOf(100, 100)
	deal := func(p federated.Partition) [][]int32 {
		p.Clients = 100
		clients, err := p.Deal(labels, coarse, 3)
		if err != nil {
			t.Fatal(err)
		}
		return clients
	}
	of := func(p federated.Partition) float64 { return skew(labels, deal(p), 100) }
	iid := of(federated.Partition{Kind: "iid"})
	flat, steep := of(federated.Partition{Kind: "dirichlet", Alpha: 1000}), of(federated.Partition{Kind: "dirichlet", Alpha: 0.01})
	pachinko := of(federated.Partition{Kind: "pachinko"})
	shards := of(federated.Partition{Kind: "shards"})
	if math.Abs(iid-flat) > 0.03 || !(flat < pachinko && pachinko < steep && iid < 0.3) {
		t.Errorf("skew iid %.3f, dirichlet(1000) %.3f, pachinko %.3f, dirichlet(0.01) %.3f", iid, flat, pachinko, steep)
	}
	if steep < 0.8 || shards < 0.8 {
		t.Errorf("skew dirichlet(0.01) %.3f, shards %.3f", steep, shards)
	}
	for c, own := range deal(federated.Partition{Kind: "shards"}) {
		kinds := make(map[int32]bool)
		for _, i := range own {
			kinds[labels[i]] = true
		}
		if len(kinds) > 2 { // shards of 50 never straddle labels of 100
			t.Errorf("client %d has %d labels from 2 shards", c, len(kinds))
		}
	}
	// Pachinko: few coarse labels, and within one the fine labels are mixed.
	var up, fine float64
	for _, own := range deal(federated.Partition{Kind: "pachinko"}) {
		ups, fines := make(map[int32]bool), make(map[int32]bool)
		for _, i := range own {
			ups[coarse[labels[i]]], fines[labels[i]] = true, true
		}
		up += float64(len(ups)) / 100
		fine += float64(len(fines)) / 100
	}
	if up > 9 || fine/up < 2.5 {
		t.Errorf("%.1f coarse labels per client, %.1f fine ones below each", up, fine/up)
	}
	sizes := func(alpha float64) int {
		most := 0
		for _, own := range deal(federated.Partition{Kind: "quantity", Alpha: alpha}) {
			most = max(most, len(own))
		}
		return most
	}
	if even, uneven := sizes(1e6), sizes(0.1); even > 150 || uneven < 500 {
		t.Errorf("largest client of mean 100: %d at alpha 1e6, %d at 0.1", even, uneven)
	}
}

// With a single level an urn must follow Dir(alpha): for alpha = 1 and two
// labels the count of one label among n draws is uniform on 0..n.
func TestDeal_Dirichlet(t *testing.T) {
	labels, _ := labelsOf(2, 10_000)
	clients, err := federated.Partition{Kind: "dirichlet", Alpha: 1, Clients: 2000}.Deal(labels, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	var count [11]int
	for _, c := range clients[:1000] { // before any label runs low
		ones := 0
		for _, i := range c {
			ones += int(labels[i])
		}
		count[ones]++
	}
	for ones, n := range count {
		if math.Abs(float64(n)-1000.0/11) > 4*math.Sqrt(1000.0/11) {
			t.Errorf("%d clients of 1000 have %d of 10 ones, want about %d", n, ones, 1000/11)
		}
	}
}

func TestDeal_Errors(t *testing.T) {
	labels, coarse := labelsOf(10, 10)
	for _, c := range []struct {
		p    federated.Partition
		want string
	}{
		{federated.Partition{Kind: "dirichlett", Clients: 2}, `partition: "dirichlett" is no kind, want one of natural, iid, dirichlet, shards, pachinko, quantity`},
		{federated.Partition{Kind: "natural", Clients: 2}, "natural clients are the source's own"},
		{federated.Partition{Kind: "iid"}, "0 clients of 100 samples, want 1 to 100"},
		{federated.Partition{Kind: "iid", Clients: 101}, "101 clients of 100 samples, want 1 to 100"},
		{federated.Partition{Kind: "iid", Clients: 60, Min: 2}, "60 clients of at least 2 samples need 120, there are 100"},
		{federated.Partition{Kind: "shards", Clients: 60}, "2 shards for each of 60 clients need as many samples, there are 100"},
		{federated.Partition{Kind: "dirichlet", Clients: 2, Alpha: -1}, "alpha -1 and beta 10, want 1e-6 to 1e9"},
		{federated.Partition{Kind: "dirichlet", Clients: 2, Alpha: math.NaN()}, "alpha NaN"},
	} {
		if _, err := c.p.Deal(labels, coarse, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %v", c.p, err, c.want)
		}
	}
	if _, err := (federated.Partition{Kind: "pachinko", Clients: 2}).Deal(labels, nil, 1); err == nil || !strings.Contains(err.Error(), "needs coarse labels") {
		t.Error(err)
	}
}

// A partition of any set is called synthetic, and says what it made.
func TestDeal_Opened(t *testing.T) {
	path := datatest.Put(t, t.TempDir(), "set.parquet", datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 50)))
	plain := mustOpen(t, path, federated.Options{})
	s := mustOpen(t, path, federated.Options{Partition: federated.Partition{Kind: "iid", Clients: 8}})
	if s.Clients() != 8 || s.Client(0) != "iid-0" || s.Samples(0) != 10 || trainingSamples(s) != trainingSamples(plain) {
		t.Errorf("%d clients, first %s with %d samples", s.Clients(), s.Client(0), s.Samples(0))
	}
	info := s.Info()
	if !info.Synthetic || !strings.Contains(info.Note, "real samples in a made grouping: independent and identically distributed, 8 clients of 10 to 10 samples") {
		t.Errorf("%+v", info)
	}
	if info.Digest == plain.Info().Digest || plain.Info().Synthetic {
		t.Error("the partition is not in the digest, or the natural set is called synthetic")
	}
	if !datatest.Same(datatest.HeldOut(t, s, 0, s.HeldOut()), datatest.HeldOut(t, plain, 0, plain.HeldOut())) {
		t.Error("a partition changes the held-out samples")
	}
	if _, err := Open(path, federated.Options{Partition: federated.Partition{Kind: "pachinko", Clients: 2}}); err == nil || !strings.Contains(err.Error(), "needs coarse labels") {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	path := datatest.Put(t, t.TempDir(), "set.parquet", datatest.Parquet(t, append(datatest.RawImages([]string{"a"}, 50), datatest.RawImages([]string{"b"}, 10)...)))
	d, err := federated.Describe(t.Context(), mustOpen(t, path, federated.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if d.Clients != 2 || d.Samples != 48 || d.HeldOut != 12 || d.PerClient != [5]int{8, 8, 8, 8, 40} || d.Mean != 24 {
		t.Errorf("%+v", d)
	}
	sum := 0
	for _, bar := range d.Histogram {
		sum += bar.Clients
	}
	if sum != 2 || len(d.Histogram) > 12 || d.Histogram[0] != (federated.Bar{Low: 5, High: 9, Clients: 1}) {
		t.Errorf("histogram %v", d.Histogram)
	}
	for _, want := range []string{"femnist (parquet)", "clients    2", "48 for training, 12 held out", "label skew 0."} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("no %q in\n%s", want, d)
		}
	}
	// Clients that share no label and halve the samples are 1 - H(...) apart:
	// p = (1, 0), q = (1/2, 1/2) gives 0.3113 bits.
	if got := federated.Divergence(map[int32]int{0: 5}, 5, []int{5, 5}, 10); math.Abs(got-0.31127812) > 1e-8 {
		t.Errorf("divergence %v", got)
	}
	made, err := synthetic.New("sent140", 100, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := federated.Describe(t.Context(), made); err != nil || !strings.Contains(fmt.Sprint(d), "SYNTHETIC: made samples, heterogeneity 1") {
		t.Errorf("%v %v", d, err)
	}
}
