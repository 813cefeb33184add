package federated_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "fedpace/data/federated"
)

// labelled is a list of n labels, each of so many samples in turn.
func labelled(classes, each int) []int32 {
	labels := make([]int32, classes*each)
	for i := range labels {
		labels[i] = int32(i % classes)
	}
	return labels
}

// Every kind of Flower Datasets deals no sample twice, and gives the same clients for the same seed.
func TestPartition_FlowerKinds(t *testing.T) {
	labels := labelled(10, 100)
	for _, c := range []struct {
		p Partition
		// sizes are those that are known beforehand, and left is the number of samples left over.
		sizes []int
		left  int
	}{
		{p: Partition{Kind: "dirichlet_by_class", Clients: 8, Alpha: 0.5}},
		{p: Partition{Kind: "inner_dirichlet", Clients: 8, Alpha: 0.5, Beta: 2}},
		{p: Partition{Kind: "pathological", Clients: 8, Classes: 3}},
		{p: Partition{Kind: "size", Sizes: "500, 300,100"}, sizes: []int{500, 300, 100}, left: 100},
		// Shares of 1 to 4 in tenths; 1, 4, 9, 16 in thirtieths; e^i by their sum.
		{p: Partition{Kind: "linear", Clients: 4}, sizes: []int{100, 200, 300, 400}},
		{p: Partition{Kind: "square", Clients: 4}, sizes: []int{33, 133, 300, 534}},
		{p: Partition{Kind: "exponential", Clients: 3}, sizes: []int{90, 244, 666}},
		{p: Partition{Kind: "continuous", Clients: 4}, sizes: []int{250, 250, 250, 250}},
	} {
		t.Run(c.p.Kind, func(t *testing.T) {
			clients, err := c.p.Deal(labels, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			var all, sizes []int
			for _, list := range clients {
				sizes = append(sizes, len(list))
				for _, i := range list {
					all = append(all, int(i))
				}
			}
			slices.Sort(all)
			if len(slices.Compact(slices.Clone(all))) != len(all) || len(all) != len(labels)-c.left {
				t.Errorf("%d samples are dealt, of them %d different", len(all), len(slices.Compact(all)))
			}
			if c.sizes != nil && !slices.Equal(sizes, c.sizes) {
				t.Errorf("sizes %v, want %v", sizes, c.sizes)
			}
			again, _ := c.p.Deal(labels, nil, 1)
			if fmt.Sprint(again) != fmt.Sprint(clients) {
				t.Error("the same seed deals otherwise")
			}
		})
	}
}

// labelsOfClient counts the labels of a client.
func labelsOfClient(labels, samples []int32, classes int) []int {
	count := make([]int, classes)
	for _, i := range samples {
		count[labels[i]]++
	}
	return count
}

// A pathological client has exactly its number of labels, and every label has a client where the
// labels of all clients go round.
func TestPartition_PathologicalLabels(t *testing.T) {
	labels := labelled(10, 60)
	clients, err := Partition{Kind: "pathological", Clients: 10, Classes: 3}.Deal(labels, nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	dealt := 0
	for c, samples := range clients {
		found := 0
		for _, n := range labelsOfClient(labels, samples, 10) {
			if n > 0 {
				found++
			}
		}
		if found != 3 {
			t.Errorf("client %d has %d labels, want 3", c, found)
		}
		dealt += len(samples)
	}
	if dealt != len(labels) {
		t.Errorf("%d of %d samples are dealt", dealt, len(labels))
	}
}

// With each label over the clients by Dir(alpha), the variance of a client's share of a label is that
// of a Dirichlet distribution, (1/C)(1-1/C)/(C alpha + 1), and the multinomial's besides.
func TestPartition_DirichletByClassVariance(t *testing.T) {
	const clients, each, classes = 5, 400, 60
	labels := labelled(classes, each)
	for _, alpha := range []float64{0.3, 3} {
		dealt, err := Partition{Kind: "dirichlet_by_class", Clients: clients, Alpha: alpha}.Deal(labels, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, samples := range dealt {
			for _, n := range labelsOfClient(labels, samples, classes) {
				d := float64(n)/each - 1.0/clients
				sum += d * d
			}
		}
		got := sum / (clients * classes)
		mean := 1.0 / clients
		spread := mean * (1 - mean) / (clients*alpha + 1)
		want := spread + (mean*(1-mean)-spread)/each
		if math.Abs(got/want-1) > 0.25 {
			t.Errorf("alpha %g: variance %.5f, want about %.5f", alpha, got, want)
		}
	}
}

// By target the first client has the lowest values with strictness 1, and all are alike near 0.
func TestPartition_Continuous(t *testing.T) {
	labels := labelled(100, 10)
	means := func(strictness float64) (list []float64) {
		clients, err := Partition{Kind: "continuous", Clients: 4, Strictness: strictness}.Deal(labels, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, samples := range clients {
			sum := 0.0
			for _, i := range samples {
				sum += float64(labels[i])
			}
			list = append(list, sum/float64(len(samples)))
		}
		return list
	}
	if got := means(1); !slices.Equal(got, []float64{12, 37, 62, 87}) {
		t.Errorf("strict: means %v", got)
	}
	if got := means(0.01); slices.Max(got)-slices.Min(got) > 12 {
		t.Errorf("loose: means %v", got)
	}
}

// What cannot be dealt is refused in words.
func TestPartition_FlowerKindsRefused(t *testing.T) {
	labels := labelled(3, 10)
	for want, p := range map[string]Partition{
		"4 classes a client, and there are 3": {Kind: "pathological", Clients: 2, Classes: 4},
		"add up to more samples":              {Kind: "size", Sizes: "20,20"},
		"want numbers of samples":             {Kind: "size"},
		"too few samples":                     {Kind: "dirichlet_by_class", Clients: 29, Alpha: 1e-6},
		"a strictness of 2":                   {Kind: "continuous", Clients: 2, Strictness: 2},
	} {
		if _, err := p.Deal(labels, nil, 1); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

// Two natural clients at a time become one, and the last is alone. A negative group is refused.
func TestPartitioned_GroupedNatural(t *testing.T) {
	s := &Grouped{
		Names:  []string{"a", "b", "c"},
		Starts: []int{0, 2, 3, 5},
		Train:  []int32{5, 4, 3, 2, 1},
		Held:   []int32{0},
		Labels: make([]int32, 6),
		Rows:   &ByteRows{Width: 1, Bytes: make([]byte, 6), Coding: Fraction},
	}
	s.About.Classes = 1
	grouped, err := s.Partitioned(Partition{Kind: "grouped_natural_id", Group: 2}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(grouped.Starts, []int{0, 3, 5}) || !slices.Equal(grouped.Train, s.Train) {
		t.Errorf("clients begin at %v of %v", grouped.Starts, grouped.Train)
	}
	_, err = s.Partitioned(Partition{Kind: "grouped_natural_id", Group: -1}, nil, 1)
	if !strings.Contains(fmt.Sprint(err), "want no negative number") {
		t.Errorf("groups of -1: %v", err)
	}
}
