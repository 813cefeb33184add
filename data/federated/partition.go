package federated

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"fedpace/internal/keyed"
)

// Partition is a way to deal samples to clients that the source does not have.
// The zero value keeps the source's own clients.
type Partition struct {
	// Kind is natural, iid, dirichlet, shards, pachinko or quantity.
	//
	//   - iid: every client gets an equal part of all samples, shuffled.
	//   - dirichlet: a client's labels follow proportions drawn from
	//     Dir(Alpha, ..., Alpha) over the labels that are left; clients are of
	//     equal size (as Hsu, Qi and Brown, 2019, who draw from Dir(alpha p)).
	//   - shards: samples sorted by label are cut into Shards pieces per
	//     client, which are dealt at random (McMahan et al., 2017).
	//   - pachinko: like dirichlet over two levels of labels, Dir(Alpha) over
	//     the coarse ones and Dir(Beta) over the fine ones of each (Reddi et
	//     al., 2021, appendix).
	//   - quantity: sizes follow Dir(Alpha), labels are alike everywhere.
	//
	// The others are those of Flower Datasets, with its meaning (partition_kinds.go).
	//
	//   - dirichlet_by_class: the samples of each label go to clients by Dir(Alpha); sizes differ.
	//   - inner_dirichlet: sizes follow Dir(Beta), and the labels of each client Dir(Alpha).
	//   - pathological: every client has Classes labels.
	//   - size: Sizes are the clients' numbers of samples.
	//   - linear, square, exponential: sizes grow with a client's number i as i, i^2 and e^i.
	//   - continuous: samples sorted by their target, blended with noise as Strictness says.
	//   - grouped_natural_id: Group natural clients are one.
	Kind string
	// Clients is the number of clients to deal to; 0 means as many as the source has.
	Clients int
	// Alpha is the concentration of the Dirichlet distribution. The smaller it is, the more
	// clients differ. 0 means 0.5, and 0.1 for pachinko.
	Alpha float64
	// Beta is the concentration over the fine labels of one coarse label, for pachinko, and that of the sizes,
	// for inner_dirichlet; 0 means 10.
	Beta float64
	// Shards is the number of pieces that each client gets, for shards alone; 0 means 2.
	Shards int
	// Min is the least number of samples that a client must have; 0 means 1.
	Min int

	// Classes is the number of labels of a client, for pathological alone; 0 means 2.
	Classes int
	// Sizes are numbers of samples with commas between them, for size alone.
	Sizes string
	// Group is the number of natural clients in a client, for grouped_natural_id alone; 0 means 10.
	Group int
	// Strictness is 1 for clients that are strictly ascending by target and 0 for noise, for
	// continuous alone; 0 means 1.
	Strictness float64
}

// PartitionKinds names the kinds of Partition.
var PartitionKinds = []string{
	"natural", "iid", "dirichlet", "shards", "pachinko", "quantity",
	dirichletByClass, innerDirichlet, pathological, sizesGiven, linearSizes, squareSizes, exponentialSizes, continuous,
	groupedNatural,
}

// Natural says that clients are the source's own.
func (p Partition) Natural() bool { return p.Kind == "" || p.Kind == "natural" }

// Identity names a partition in digests: two partitions have one identity only if they deal alike.
// It covers every field by construction, with the defaults filled in. The zero value is "natural",
// for which no field counts.
func (p Partition) Identity() string {
	if p == (Partition{}) || p == (Partition{Kind: "natural"}) {
		return "natural"
	}
	// A type without the method String prints every field; String leaves some out.
	type fields Partition
	completed, err := p.Complete()
	if err != nil {
		completed = p
	}
	hasMore := completed.Classes != 0 || completed.Sizes != "" || completed.Group != 0 || completed.Strictness != 0
	if hasMore {
		return fmt.Sprintf("%+v", fields(completed))
	}
	// Partitions without the newer fields keep the identity that they had before these existed.
	return fmt.Sprintf("%+v", struct {
		Kind        string
		Clients     int
		Alpha, Beta float64
		Shards, Min int
	}{
		completed.Kind,
		completed.Clients,
		completed.Alpha,
		completed.Beta,
		completed.Shards,
		completed.Min,
	})
}

// Complete returns the partition with the default in place of every parameter that is zero, except
// Clients, which only the source can tell. It fails if the kind is unknown or a parameter is out of
// its range.
func (p Partition) Complete() (Partition, error) {
	if !p.Natural() && !slices.Contains(PartitionKinds, p.Kind) {
		return p, fmt.Errorf("partition: %q is no kind, want one of %s", p.Kind, strings.Join(PartitionKinds, ", "))
	}
	if p.Alpha == 0 && p.Kind == "pachinko" {
		p.Alpha = 0.1
	}
	p.Alpha = cmp.Or(p.Alpha, 0.5)
	p.Beta = cmp.Or(p.Beta, 10)
	p.Shards = cmp.Or(p.Shards, 2)
	p.Min = cmp.Or(p.Min, 1)
	if err := p.checkKind(); err != nil {
		return p, err
	}
	// A label is drawn with a weight of alpha or beta plus the number of samples drawn of it (see urn.draw). Beyond
	// these bounds one of the two terms would be lost in the sum, or nearly.
	isInBounds := func(x float64) bool { return x >= 1e-6 && x <= 1e9 }
	if !isInBounds(p.Alpha) || !isInBounds(p.Beta) {
		return p, fmt.Errorf("partition: alpha %v and beta %v, want 1e-6 to 1e9", p.Alpha, p.Beta)
	}
	isNegative := p.Clients < 0 || p.Shards < 0 || p.Min < 0
	if isNegative || p.Shards > MaxSamples {
		return p, fmt.Errorf(
			"partition: %d clients, %d shards, at least %d samples: want no negative number",
			p.Clients,
			p.Shards,
			p.Min,
		)
	}
	return p, nil
}

// String describes the partition in words, with its parameters, for notes and reports. Parameters
// that are not set are shown with their defaults.
func (p Partition) String() string {
	// A partition that cannot be completed is described as far as it goes.
	p, _ = p.Complete()
	switch p.Kind {
	case "dirichlet":
		return fmt.Sprintf("Dirichlet(%g) over labels", p.Alpha)
	case "shards":
		return fmt.Sprintf("%d shards of sorted labels per client", p.Shards)
	case "pachinko":
		return fmt.Sprintf(
			"Pachinko allocation, Dirichlet(%g) over coarse and Dirichlet(%g) over fine labels",
			p.Alpha,
			p.Beta,
		)
	case "quantity":
		return fmt.Sprintf("sizes by Dirichlet(%g), labels alike", p.Alpha)
	case "iid":
		return "independent and identically distributed"
	}
	return cmp.Or(p.kindText(), "natural")
}

// Deal deals samples 0..len(labels)-1 to clients; every sample goes to exactly
// one client, but for a remainder of fewer than Clients (Clients*Shards)
// samples where clients are of equal size. coarse gives the coarse label of
// each fine one, for pachinko only. The result follows from its arguments
// alone: the draws use no logarithm and no power.
func (p Partition) Deal(labels, coarse []int32, seed uint64) ([][]int32, error) {
	return p.deal(labels, coarse, nil, seed)
}

// deal is [Partition.Deal] with the values by which the kind continuous sorts the samples; if values is nil,
// it sorts them by their labels.
func (p Partition) deal(labels, coarse []int32, values []float64, seed uint64) ([][]int32, error) {
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	n := len(labels)
	if p.Kind == sizesGiven {
		// The list has been checked, and gives the number of clients.
		list, _ := p.sizeList()
		p.Clients = len(list)
	}
	if err := p.checkDeal(n, coarse != nil); err != nil {
		return nil, err
	}
	// Every kind begins with one shuffle of all samples, drawn from the seed.
	random := partitionSource(seed)
	order := ascending(n)
	Shuffle(order, random)
	clients := make([][]int32, p.Clients)
	// smallest is the number of samples of the smallest client. Kinds that make all clients equally large
	// leave it as it is here.
	smallest := n / p.Clients
	switch p.Kind {
	case "iid":
		// Equal consecutive parts of the shuffled samples; the last index bounds the capacity, so
		// that no client can append into the next one's part.
		for c := range clients {
			start := c * n / p.Clients
			end := (c + 1) * n / p.Clients
			clients[c] = order[start:end:end]
		}
	case "shards":
		clients = p.dealShards(order, labels, random)
		smallest = n / (p.Clients * p.Shards) * p.Shards
	case "quantity":
		// Only the sizes are drawn: each client takes that many of the shuffled samples.
		sizes := p.drawSizes(n, random)
		for c, size := range sizes {
			clients[c] = order[:size:size]
			order = order[size:]
		}
		smallest = slices.Min(sizes)
	case "dirichlet", "pachinko":
		clients = p.dealLabels(order, labels, coarse, random)
	default:
		clients, err = p.dealKind(order, labels, values, random)
		if err != nil {
			return nil, err
		}
		smallest = len(slices.MinFunc(clients, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) }))
	}
	if smallest < p.Min {
		return nil, fmt.Errorf(
			"partition: the smallest of %d clients would have %d samples, want at least %d",
			p.Clients,
			smallest,
			p.Min,
		)
	}
	// Clients list their samples in ascending order, whatever the order of the draws.
	for _, c := range clients {
		slices.Sort(c)
	}
	return clients, nil
}

// checkDeal returns an error if n samples cannot be dealt as p says. hasCoarse says that their coarse labels
// are known, which the kind pachinko needs.
func (p *Partition) checkDeal(n int, hasCoarse bool) error {
	switch {
	case p.Natural():
		return fmt.Errorf("partition: natural clients are the source's own and cannot be dealt")
	case p.Clients < 1 || p.Clients > n:
		return fmt.Errorf("partition: %d clients of %d samples, want 1 to %d", p.Clients, n, n)
	case int64(p.Min)*int64(p.Clients) > int64(n):
		return fmt.Errorf(
			"partition: %d clients of at least %d samples need %d, there are %d",
			p.Clients,
			p.Min,
			p.Min*p.Clients,
			n,
		)
	case p.Kind == "shards" && int64(p.Shards)*int64(p.Clients) > int64(n):
		return fmt.Errorf(
			"partition: %d shards for each of %d clients need as many samples, there are %d",
			p.Shards,
			p.Clients,
			n,
		)
	case p.Kind == "pachinko" && !hasCoarse:
		return fmt.Errorf("partition: pachinko needs coarse labels, which this set does not have; want one of " +
			"iid, dirichlet, shards, quantity")
	}
	return nil
}

// dealShards deals the samples in order by the kind shards and returns those of each client: the samples are
// sorted by their labels and cut into pieces of equal size, of which each client takes Shards. random draws
// the pieces.
func (p *Partition) dealShards(order, labels []int32, random *rand.PCG) [][]int32 {
	// The sort is stable, so that samples of one label stay shuffled.
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(labels[a], labels[b]) })
	// Each client takes the next Shards pieces of a shuffled list of pieces.
	pieces := ascending(p.Clients * p.Shards)
	Shuffle(pieces, random)
	size := len(order) / len(pieces)
	clients := make([][]int32, p.Clients)
	for i, piece := range pieces {
		c := i / p.Shards
		clients[c] = append(clients[c], order[int(piece)*size:(int(piece)+1)*size]...)
	}
	return clients
}

// dealLabels deals the samples in order by the kinds dirichlet and pachinko and returns those of each client,
// which are equally many. For each sample of a client it draws a label from the client's proportions, and
// then the next sample of that label.
func (p *Partition) dealLabels(order, labels, coarse []int32, random *rand.PCG) [][]int32 {
	// pools has the samples of each label, in the shuffled order.
	pools := make([][]int32, slices.Max(labels)+1)
	for _, i := range order {
		pools[labels[i]] = append(pools[labels[i]], i)
	}
	tree := newTree(*p, pools, coarse)
	clients := make([][]int32, p.Clients)
	for c := range clients {
		tree.reset()
		for range len(order) / p.Clients {
			clients[c] = append(clients[c], tree.draw(random))
		}
	}
	return clients
}

// dealSet deals the training samples of the set s and returns the samples of each client, as
// numbers from 0 among the training samples. labels has the label of each, coarse the coarse label
// of each fine one. Only the kind grouped_natural_id needs the clients of s; all others deal the samples anew.
func (p Partition) dealSet(s *Grouped, labels, coarse []int32, seed uint64) ([][]int32, error) {
	if p.Kind != groupedNatural {
		return p.deal(labels, coarse, s.firstTargets(), seed)
	}
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	return p.dealGroups(s.Starts), nil
}

// needsNoLabels reports whether the kind deals samples without looking at their labels.
func (p Partition) needsNoLabels() bool {
	return slices.Contains([]string{
		"iid", "quantity", sizesGiven, linearSizes, squareSizes, exponentialSizes, continuous, groupedNatural,
	}, p.Kind)
}

// ascending returns the numbers 0, 1, ..., n-1.
func ascending(n int) []int32 {
	numbers := make([]int32, n)
	fillAscending(numbers)
	return numbers
}

// fillAscending sets the elements of numbers to 0, 1, 2 and so on.
func fillAscending(numbers []int32) {
	for i := range numbers {
		numbers[i] = int32(i)
	}
}

// Shuffle permutes s in place, every permutation being equally likely, by the algorithm of Fisher and
// Yates in Durstenfeld's form. The permutation follows from the state of random alone.
func Shuffle[T any](s []T, random *rand.PCG) {
	for i := len(s) - 1; i > 0; i-- {
		j := keyed.Below(random.Uint64(), uint64(i+1))
		s[i], s[j] = s[j], s[i]
	}
}

// drawSizes returns the number of samples of each client, n in all. Every client has Min samples first. The
// others are drawn by Pólya's urn, which is a multinomial with proportions from Dir(Alpha): sample i of
// them goes to a client at random with probability C a/(C a + i), where C is the number of clients and a is
// Alpha, and else to the client of an earlier one.
func (p Partition) drawSizes(n int, random *rand.PCG) []int {
	sizes := slices.Repeat([]int{p.Min}, p.Clients)
	// drawn lists the client of each sample beyond the minimum.
	drawn := make([]int32, 0, n-p.Min*p.Clients)
	newWeight := float64(float64(p.Clients) * p.Alpha)
	for i := range cap(drawn) {
		u := keyed.Float64(random.Uint64())
		c := int32(0)
		// The comparison is u < C a/(C a + i), multiplied out to avoid a division.
		if i == 0 || float64(u*(newWeight+float64(i))) < newWeight {
			c = int32(keyed.Below(random.Uint64(), uint64(p.Clients)))
		} else {
			c = drawn[keyed.Below(random.Uint64(), uint64(i))]
		}
		drawn = append(drawn, c)
		sizes[c]++
	}
	return sizes
}

// tree draws samples without replacement from labels in one or two levels.
// Each node is an urn: the next label is k with a weight of alpha and how often
// k came before, which is a draw from Dir(alpha) proportions. A label whose
// samples are used up leaves the urn; by the Dirichlet distribution's
// neutrality the others keep their relative proportions.
type tree struct {
	// pools holds the samples that are left, by fine label.
	pools [][]int32
	// root draws a coarse label, or a fine one where the tree has one level.
	root urn
	// below draws a fine label, by coarse label; nil where the tree has one level.
	below []urn
}

// urn draws labels by a Pólya urn: the more often a client has drawn a label, the likelier it
// draws it again. Over many draws that is Dir(alpha), without a division of real shares.
type urn struct {
	// alpha is the weight of a label before its first draw.
	alpha float64
	// labels are those that still have samples.
	labels []int32
	// counts are how often the present client has drawn each label, by its index in labels.
	counts []int32
}

// newTree makes the urns over the labels that have samples left in pools; reset must precede the
// first draw. With pachinko the tree has two levels: coarse labels with a weight of Alpha, and the
// fine labels of each coarse one with a weight of Beta. Other kinds have one level of fine labels,
// and ignore coarse.
func newTree(p Partition, pools [][]int32, coarse []int32) *tree {
	t := &tree{pools: pools, root: urn{alpha: p.Alpha}}
	for fine, pool := range pools {
		if len(pool) == 0 {
			continue
		}
		if p.Kind != "pachinko" {
			t.root.labels = append(t.root.labels, int32(fine))
			continue
		}
		// Pachinko: the fine label goes into the urn of its coarse label.
		coarseLabel := coarse[fine]
		for int(coarseLabel) >= len(t.below) {
			t.below = append(t.below, urn{alpha: p.Beta})
		}
		if len(t.below[coarseLabel].labels) == 0 {
			t.root.labels = append(t.root.labels, coarseLabel)
		}
		t.below[coarseLabel].labels = append(t.below[coarseLabel].labels, int32(fine))
	}
	return t
}

// reset sets the counts of all urns to 0, so that the next client draws proportions of its own. The
// samples that earlier clients drew stay used up.
func (t *tree) reset() {
	t.root.counts = make([]int32, len(t.root.labels))
	for k := range t.below {
		t.below[k].counts = make([]int32, len(t.below[k].labels))
	}
}

// draw removes one sample from its pool and returns its number. At least one sample must be left. A
// label without further samples leaves its urn, and a coarse label without fine ones leaves the
// root.
func (t *tree) draw(random *rand.PCG) int32 {
	rootPlace := t.root.draw(random)
	label := t.root.labels[rootPlace]
	node := &t.root
	place := rootPlace
	// With two levels, the first draw has chosen a coarse label only.
	if t.below != nil {
		node = &t.below[label]
		place = node.draw(random)
		label = node.labels[place]
	}
	pool := t.pools[label]
	sample := pool[len(pool)-1]
	t.pools[label] = pool[:len(pool)-1]
	// That was the last sample of the label.
	if len(pool) == 1 {
		node.remove(place)
		if node != &t.root && len(node.labels) == 0 {
			t.root.remove(rootPlace)
		}
	}
	return sample
}

// draw picks a label with a probability in proportion to alpha plus its count, adds one to its count
// and returns its index in labels. This is Pólya's urn: the labels drawn by a client are a sample from
// proportions that have a Dirichlet distribution with the parameter alpha.
func (u *urn) draw(random *rand.PCG) int {
	total := 0
	for _, n := range u.counts {
		total += int(n)
	}
	share := keyed.Float64(random.Uint64())
	totalWeight := float64(float64(len(u.labels))*u.alpha) + float64(total)
	remaining := float64(share * totalWeight)
	// The last place takes what rounding may leave over after the loop.
	place := len(u.labels) - 1
	for i, n := range u.counts {
		remaining -= u.alpha + float64(n)
		if remaining < 0 {
			place = i
			break
		}
	}
	u.counts[place]++
	return place
}

// remove takes a label whose samples are used up out of the urn.
func (u *urn) remove(place int) {
	u.labels = slices.Delete(u.labels, place, place+1)
	u.counts = slices.Delete(u.counts, place, place+1)
}

// Partitioned returns a set with the same samples, whose training samples are dealt to new clients
// as p says; the held-out samples stay as they are. Where p gives no number of clients, there are as many
// as before. coarse gives the coarse label of each fine one, for pachinko alone, and seed decides all random
// choices. It returns an error for text, whose windows overlap, for samples that arrive over time, and where
// p needs labels and there are none.
func (s *Grouped) Partitioned(p Partition, coarse []int32, seed uint64) (*Grouped, error) {
	p.Clients = cmp.Or(p.Clients, len(s.Names))
	labels := make([]int32, len(s.Train))
	switch {
	case s.Labels != nil:
		for i, sample := range s.Train {
			labels[i] = s.Labels[sample]
		}
	case !p.needsNoLabels():
		return nil, fmt.Errorf(
			"partition %s: the samples have no labels but numbers as targets; want iid, quantity, continuous or sizes",
			p.Kind,
		)
	}
	if rows, ok := s.Rows.(*TextRows); ok {
		return nil, fmt.Errorf(
			"partition %s: windows of %d tokens overlap and belong to their text; want natural",
			p.Kind,
			rows.Window,
		)
	}
	clients, err := p.dealSet(s, labels, coarse, seed)
	if err != nil {
		return nil, err
	}
	if s.Times != nil {
		return nil, errors.New("samples that arrive over time are not dealt to made clients (set data.client)")
	}
	// The names of the clients begin with the kind of the partition.
	g := Grouping{Held: s.Held}
	var noneHeldOut []int32
	smallest := math.MaxInt
	largest := 0
	dealt := 0
	for c, assigned := range clients {
		// Deal numbers the training samples from 0; the set numbers all of its samples.
		for i, place := range assigned {
			assigned[i] = s.Train[place]
		}
		// The held-out samples belong to no new client.
		g.Add(fmt.Sprintf("%s-%d", p.Kind, c), assigned, noneHeldOut)
		smallest = min(smallest, len(assigned))
		largest = max(largest, len(assigned))
		dealt = dealt + len(assigned)
	}
	next := Grouped{
		Task:    s.Task,
		About:   s.About,
		Labels:  s.Labels,
		Targets: s.Targets,
		Rows:    s.Rows,
	}
	next.About.Synthetic = true
	// The samples may have belonged to no client before.
	next.About.Undealt = false
	next.About.AddNote(
		"real samples in a made grouping: %v, %d clients of %d to %d samples",
		p,
		len(clients),
		smallest,
		largest,
	)
	if undealt := len(s.Train) - dealt; undealt > 0 {
		next.About.AddNote("%d samples left over", undealt)
	}
	return g.Set(next)
}
