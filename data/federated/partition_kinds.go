package federated

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// The kinds of partition that have the names and the meaning of Flower Datasets' partitioners.
const (
	dirichletByClass = "dirichlet_by_class"
	innerDirichlet   = "inner_dirichlet"
	pathological     = "pathological"
	sizesGiven       = "size"
	linearSizes      = "linear"
	squareSizes      = "square"
	exponentialSizes = "exponential"
	continuous       = "continuous"
	groupedNatural   = "grouped_natural_id"
)

// maxAttempts bounds how often dirichlet_by_class is drawn until every client has Min samples.
const maxAttempts = 100

// checkKind fills in the defaults of the parameters that kinds named as in Flower Datasets have,
// and returns an error for values outside their ranges.
func (p *Partition) checkKind() error {
	switch p.Kind {
	case pathological:
		p.Classes = cmp.Or(p.Classes, 2)
	case continuous:
		p.Strictness = cmp.Or(p.Strictness, 1)
	case groupedNatural:
		p.Group = cmp.Or(p.Group, 10)
	case sizesGiven:
		if _, err := p.sizeList(); err != nil {
			return err
		}
	}
	if p.Classes < 0 || p.Group < 0 {
		return fmt.Errorf("partition: %d classes, groups of %d: want no negative number", p.Classes, p.Group)
	}
	// The negation refuses NaN, too.
	if !(p.Strictness >= 0 && p.Strictness <= 1) {
		return fmt.Errorf("partition: a strictness of %v, want 0 to 1", p.Strictness)
	}
	return nil
}

// sizeList returns the numbers in Sizes, a text such as 100,50,25: how many samples each client
// gets. It returns an error unless each is 1 or more.
func (p *Partition) sizeList() (sizes []int, err error) {
	for _, text := range strings.Split(p.Sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("partition: sizes %q, want numbers of samples as 100,50,25", p.Sizes)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// kindText describes a partition of one of these kinds in words; it is empty for any other kind.
func (p *Partition) kindText() string {
	switch p.Kind {
	case dirichletByClass:
		return fmt.Sprintf("each label over clients by Dirichlet(%g)", p.Alpha)
	case innerDirichlet:
		return fmt.Sprintf("sizes by Dirichlet(%g), labels of each client by Dirichlet(%g)", p.Beta, p.Alpha)
	case pathological:
		return fmt.Sprintf("%d labels per client", p.Classes)
	case sizesGiven:
		return "sizes " + p.Sizes
	case linearSizes, squareSizes, exponentialSizes:
		return p.Kind + " sizes"
	case continuous:
		return fmt.Sprintf("by ascending target, with strictness %g", p.Strictness)
	case groupedNatural:
		return fmt.Sprintf("groups of %d natural clients", p.Group)
	}
	return ""
}

// dealKind deals the samples by one of these kinds and returns those of each client. order has the
// numbers of the samples, shuffled, and labels the label of each sample. values are what the kind
// continuous sorts by; nil stands for the labels.
func (p *Partition) dealKind(order []int32, labels []int32, values []float64, random *rand.PCG) ([][]int32, error) {
	switch p.Kind {
	case dirichletByClass:
		return p.dealByClass(order, labels, random)
	case innerDirichlet:
		// The sizes are drawn with Beta, the labels with Alpha.
		withBeta := *p
		withBeta.Alpha = p.Beta
		return p.dealInner(order, labels, withBeta.drawSizes(len(order), random), random), nil
	case pathological:
		return p.dealPathological(order, labels, random)
	case sizesGiven:
		sizes, err := p.sizeList()
		if err != nil {
			return nil, err
		}
		return cutSizes(order, sizes)
	case linearSizes, squareSizes, exponentialSizes:
		return cutSizes(order, p.growingSizes(len(order)))
	case continuous:
		return p.dealByValue(order, labels, values, random), nil
	}
	return nil, fmt.Errorf("partition: %s needs the clients of the source", p.Kind)
}

// dealByClass deals the samples of each label by Pólya's urn over the clients: a sample goes to client
// c with a weight of alpha plus the number of samples of this label that c has already. That is a
// multinomial with proportions from Dir(alpha) for each label, so that sizes differ. It draws again
// until each client has Min samples, and gives up after maxAttempts. order has the indices of the samples in the
// order in which they are dealt, and labels[i] is the label of sample i. The result has the indices for each client.
func (p *Partition) dealByClass(order, labels []int32, random *rand.PCG) ([][]int32, error) {
	smallest := 0
	for range maxAttempts {
		clients := make([][]int32, p.Clients)
		urns := map[int32]*urn{}
		for _, i := range order {
			// Each label has an urn in which the clients are the labels.
			u := urns[labels[i]]
			if u == nil {
				u = &urn{alpha: p.Alpha, labels: ascending(p.Clients), counts: make([]int32, p.Clients)}
				urns[labels[i]] = u
			}
			c := u.draw(random)
			clients[c] = append(clients[c], i)
		}
		smallest = len(slices.MinFunc(clients, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) }))
		if smallest >= p.Min {
			return clients, nil
		}
	}
	return nil, fmt.Errorf(
		"partition: in %d draws some client always had too few samples, of late %d of %d (raise alpha, or lower "+
			"clients or min-samples)",
		maxAttempts,
		smallest,
		p.Min,
	)
}

// dealInner deals sizes[c] samples to each client c, with labels from an urn of its own: the
// proportions of its labels are drawn from Dir(Alpha), as far as samples of these labels are left.
func (p *Partition) dealInner(order, labels []int32, sizes []int, random *rand.PCG) [][]int32 {
	pools := make([][]int32, slices.Max(labels)+1)
	for _, i := range order {
		pools[labels[i]] = append(pools[labels[i]], i)
	}
	t := newTree(*p, pools, nil)
	clients := make([][]int32, len(sizes))
	for c, size := range sizes {
		// Each client draws proportions of its own, from the samples that are left.
		t.reset()
		for range size {
			clients[c] = append(clients[c], t.draw(random))
		}
	}
	return clients
}

// dealPathological gives each client the same number of labels, Classes, in turn from a shuffled round
// of all labels, and deals the samples of a label evenly to the clients that have it (McMahan et
// al. 2017 call such a split pathological). Labels that no client has are left over.
func (p *Partition) dealPathological(order, labels []int32, random *rand.PCG) ([][]int32, error) {
	present := slices.Compact(slices.Sorted(slices.Values(labels)))
	if p.Classes > len(present) {
		return nil, fmt.Errorf("partition: %d classes a client, and there are %d", p.Classes, len(present))
	}
	Shuffle(present, random)
	// holders has the clients that have each label.
	holders := map[int32][]int{}
	for c := range p.Clients {
		for k := range p.Classes {
			// Clients take their labels in turn, so that all labels are held equally often, or
			// nearly so.
			label := present[(c*p.Classes+k)%len(present)]
			holders[label] = append(holders[label], c)
		}
	}
	clients := make([][]int32, p.Clients)
	// dealt counts the samples of each label that are dealt already.
	dealt := map[int32]int{}
	for _, i := range order {
		label := labels[i]
		list := holders[label]
		// No client has this label.
		if len(list) == 0 {
			continue
		}
		c := list[dealt[label]%len(list)]
		dealt[label]++
		clients[c] = append(clients[c], i)
	}
	return clients, nil
}

// growingSizes divides n samples among the clients, and returns the size of each. Sizes grow with the
// client's number i, counted from 1: in proportion to i, i squared or e to the i, by the kind. What rounding
// leaves over goes to the last client.
func (p *Partition) growingSizes(n int) []int {
	weights := make([]float64, p.Clients)
	total := 0.0
	for i := range weights {
		number := float64(i + 1)
		weight := number
		switch p.Kind {
		case squareSizes:
			weight = number * number
		case exponentialSizes:
			// The weight of the last client is 1, so that none overflows.
			weight = portable.Exp(number - float64(p.Clients))
		}
		weights[i] = weight
		total += weight
	}
	sizes := make([]int, p.Clients)
	dealt := 0
	for i, w := range weights {
		sizes[i] = int(math.Floor(float64(n) * (w / total)))
		dealt += sizes[i]
	}
	sizes[p.Clients-1] += n - dealt
	return sizes
}

// cutSizes cuts the samples in order into parts of the given sizes, one for each client. Samples
// beyond the sum of the sizes are left over; too few samples are an error.
func cutSizes(order []int32, sizes []int) ([][]int32, error) {
	clients := make([][]int32, len(sizes))
	for c, size := range sizes {
		if size > len(order) {
			return nil, fmt.Errorf("partition: the sizes add up to more samples than there are")
		}
		clients[c] = order[:size:size]
		order = order[size:]
	}
	return clients, nil
}

// dealByValue sorts the samples by a blend of their value and noise, both with deviation 1, and cuts
// them into equal parts. With a strictness of 1 the first client has the lowest values; with 0 all
// clients are alike. Without values, the labels are the values.
func (p *Partition) dealByValue(order, labels []int32, values []float64, random *rand.PCG) [][]int32 {
	if values == nil {
		values = make([]float64, len(labels))
		for i, label := range labels {
			values[i] = float64(label)
		}
	}
	mean, deviation := meanAndDeviation(values)
	keys := make([]float64, len(values))
	for _, i := range order {
		// The noise is the same on every machine.
		noise := portable.Normal(random.Uint64())
		scaled := 0.0
		if deviation > 0 {
			scaled = (values[i] - mean) / deviation
		}
		keys[i] = float64(p.Strictness*scaled) + float64((1-p.Strictness)*noise)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
	clients := make([][]int32, p.Clients)
	for c := range clients {
		// The sizes of the parts differ by one at most.
		from := c * len(order) / p.Clients
		to := (c + 1) * len(order) / p.Clients
		clients[c] = order[from:to:to]
	}
	return clients
}

// meanAndDeviation returns the mean of values and their standard deviation, with the number of
// values as the divisor.
func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		deviation += float64((v - mean) * (v - mean))
	}
	return mean, math.Sqrt(deviation / float64(len(values)))
}

// dealGroups joins Group natural clients at a time, in their order, into one; the last group may be smaller. It
// returns the samples of each group, as numbers among the training samples. starts are those of Grouped: natural
// client c has the training samples from starts[c] to starts[c+1]-1.
func (p *Partition) dealGroups(starts []int) (clients [][]int32) {
	natural := len(starts) - 1
	for first := 0; first < natural; first += p.Group {
		end := min(first+p.Group, natural)
		// ascending returns the numbers from 0 on.
		upToEnd := ascending(starts[end])
		clients = append(clients, upToEnd[starts[first]:])
	}
	return clients
}

// firstTargets returns the first target of each training sample, by which the kind continuous sorts;
// nil if the samples have labels. s.Targets has the targets of each sample side by side.
func (s *Grouped) firstTargets() []float64 {
	if s.Targets == nil {
		return nil
	}
	values := make([]float64, len(s.Train))
	for i, sample := range s.Train {
		values[i] = float64(s.Targets[int(sample)*s.About.Targets])
	}
	return values
}

// partitionSource returns the source of all random numbers of a partition.
func partitionSource(seed uint64) *rand.PCG { return keyed.Source(seed, keyed.Partition) }
