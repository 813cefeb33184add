package federated

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/learn"
)

// Stats is what a set is like, in numbers.
type Stats struct {
	// Info describes the set.
	Info Info `json:"-"`
	// Clients is the number of clients.
	Clients int `json:"clients"`
	// Samples is the number of training samples of all clients.
	Samples int `json:"samples"`
	// HeldOut is the number of held-out samples.
	HeldOut int `json:"held_out"`
	// Mean is the mean number of training samples of a client.
	Mean float64 `json:"samples_per_client"`
	// PerClient is the distribution of training samples over clients: the fewest, the three
	// quartiles and the most.
	PerClient [5]int `json:"quartiles"`
	// Histogram counts clients by their number of training samples.
	Histogram []Bar `json:"histogram"`
	// First describes the first training sample of the first client in words.
	First string `json:"first_row"`
	// Labels is the number of training samples of each class; empty for a set with targets.
	Labels []int `json:"labels"`
	// Targets has the least, the quartiles and the most of each target over the
	// training samples.
	Targets [][5]float32 `json:"targets,omitempty"`
	// Skew is the mean over clients of the Jensen-Shannon divergence, in bits,
	// between a client's labels and all clients': 0 where they are alike, 1
	// where they share none.
	Skew float64 `json:"label_skew"`
	// Memory is what the samples take, in bytes; 0 where they are made on demand.
	Memory int `json:"-"`
}

// Bar is one bar of a histogram: how many clients have From to To samples.
type Bar struct {
	// Low is the smallest number of samples that counts in this bar.
	Low int `json:"from"`
	// High is the largest number of samples that counts in this bar.
	High int `json:"to"`
	// Clients is the number of clients with Low to High samples.
	Clients int `json:"clients"`
}

// MarshalJSON encodes the description as one object, in which the parts of Info that matter stand
// beside the numbers. The size in memory is null for a set whose samples are made on demand.
func (d Stats) MarshalJSON() ([]byte, error) {
	// A type of its own has no method MarshalJSON, which would call itself.
	type numbers Stats
	// A set whose samples are made on demand has no size in memory, which is null.
	var memory *int
	if d.Memory > 0 {
		memory = &d.Memory
	}
	return json.Marshal(struct {
		Set       string `json:"set"`
		Synthetic bool   `json:"synthetic"`
		Note      string `json:"note"`
		numbers
		Features int      `json:"features"`
		Classes  int      `json:"classes"`
		Names    []string `json:"class_names,omitempty"`
		Targets  []string `json:"target_names,omitempty"`
		Memory   *int     `json:"memory_bytes"`
		Digest   string   `json:"digest"`
	}{
		Set:       d.Info.Name,
		Synthetic: d.Info.Synthetic,
		Note:      d.Info.Note,
		numbers:   numbers(d),
		Features:  d.Info.Features,
		Classes:   d.Info.Classes,
		Names:     d.Info.Labels,
		Targets:   d.Info.Predicted,
		Memory:    memory,
		Digest:    d.Info.Digest,
	})
}

// Describe reads and checks all training samples of the set s and returns a description of them. It
// stops with an error when ctx ends: a set whose samples are made on demand takes long if it is
// large.
func Describe(ctx context.Context, s Set) (Stats, error) {
	d := Stats{Info: s.Info(), Clients: s.Clients(), HeldOut: s.HeldOut()}
	d.Labels = make([]int, d.Info.Classes)
	if m, ok := s.(interface{ Memory() int }); ok {
		d.Memory = m.Memory()
	}
	sizes := make([]int, d.Clients)
	// Maps take less memory than arrays here, because most clients have few labels.
	labelCounts := make([]map[int32]int, d.Clients)
	var batch learn.Batch
	// All targets are kept, because quartiles need them in order.
	targets := make([][]float32, d.Info.Targets)
	for c := range d.Clients {
		sizes[c] = s.Samples(c)
		d.Samples += sizes[c]
		labelCounts[c] = make(map[int32]int)
		err := Visit(s, c, &batch, func() {
			// The first sample of the set stands as an example.
			if d.First == "" {
				d.First = d.Info.describeFirst(&batch)
			}
			for _, l := range batch.Labels {
				labelCounts[c][l]++
			}
			for i, x := range batch.Targets {
				j := i % len(targets)
				targets[j] = append(targets[j], float32(d.Info.shownTarget(float64(x), j)))
			}
		})
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return d, err
		}
		for l, n := range labelCounts[c] {
			d.Labels[l] += n
		}
	}
	for c, labels := range labelCounts {
		// The skew is the mean over the clients.
		d.Skew += Divergence(labels, sizes[c], d.Labels, d.Samples) / float64(d.Clients)
	}
	for _, values := range targets {
		slices.Sort(values)
		d.Targets = append(d.Targets, quartiles(values))
	}
	slices.Sort(sizes)
	d.PerClient = quartiles(sizes)
	d.Mean = float64(d.Samples) / float64(d.Clients)
	d.Histogram = histogram(sizes)
	return d, nil
}

// shownTarget returns the value y of target j for people. If targets are scaled, it is in the unit from
// before that, rounded to six digits, as more were lost in float32.
func (i *Info) shownTarget(y float64, j int) float64 {
	if i.TargetMean == nil {
		return y
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(i.Unscaled(y, j), 'g', 6, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return rounded
}

// quartiles returns the least value, the three quartiles and the largest one of values, which must
// be in ascending order and not empty.
func quartiles[T any](values []T) (q [5]T) {
	for i := range q {
		q[i] = values[i*(len(values)-1)/4]
	}
	return q
}

// Labels returns how many training samples of each label a client of the set s has, and checks the
// samples. batch is only used as memory. A set with targets has no labels, which is an error.
func Labels(s Set, client int, batch *learn.Batch) (map[int32]int, error) {
	if info := s.Info(); info.Targets > 0 {
		return nil, fmt.Errorf("data: %s: its samples have no labels but %d targets", info.Name, info.Targets)
	}
	counts := make(map[int32]int)
	return counts, Visit(s, client, batch, func() {
		for _, l := range batch.Labels {
			counts[l]++
		}
	})
}

// describeFirst describes the first sample of a batch for people: its first values, or its tokens or words, and its
// label or targets. Values are in the unit from before they were scaled.
func (i *Info) describeFirst(b *learn.Batch) string {
	x := slices.Clone(b.X[:min(shownNames, len(b.X), i.Features)])
	for j := range min(len(x), len(i.Mean)) {
		x[j] = float32(float64(float64(x[j])*i.Deviation[j]) + i.Mean[j])
	}
	text := fmt.Sprintf("%.6g", x)
	switch i.Input {
	case learn.Tokens:
		text = fmt.Sprint("tokens ", b.Tokens[:min(shownNames, i.Features)])
	case learn.Sparse:
		text = fmt.Sprint("words ", b.Index[:min(shownNames, b.RowStart[1])])
	}
	if i.Targets > 0 {
		targets := slices.Clone(b.Targets[:i.Targets])
		for j, y := range targets {
			targets[j] = float32(i.shownTarget(float64(y), j))
		}
		return fmt.Sprintf("%s -> %.6g", text, targets)
	}
	return fmt.Sprintf("%s -> %.40q", text, i.Label(int(b.Labels[0])))
}

// Visit reads all training samples of a client of the set s in batches, checks them, and calls look
// after each batch was read into batch.
func Visit(s Set, client int, batch *learn.Batch, look func()) error {
	info := s.Info()
	// 256 samples at a time keep the batch small.
	for samples := range slices.Chunk(ascending(s.Samples(client)), 256) {
		batch.Reset()
		if err := s.Batch(batch, client, samples); err != nil {
			return err
		}
		if err := info.Check(batch, len(samples)); err != nil {
			return fmt.Errorf("data: %s: client %d: %w", info.Name, client, err)
		}
		look()
	}
	return nil
}

// Entropy returns the entropy of labels with these counts, in bits. It is rounded to nine places, so that it
// depends neither on the order of the labels nor on the machine's logarithm.
func Entropy(counts map[int32]int) float64 {
	n := 0
	for _, count := range counts {
		n += count
	}
	sum := 0.0
	for _, count := range slices.Sorted(maps.Values(counts)) {
		p := float64(count) / float64(n)
		sum -= float64(p * math.Log2(p))
	}
	return math.Round(sum*1e9) / 1e9
}

// Divergence returns the Jensen-Shannon divergence of a client's distribution of labels from that of all
// clients, in bits to nine places, with half the weight on each: 0 if they are equal, 1 if no label is in
// both. counts are the client's numbers of samples by label, n in all; allCounts are those of all clients,
// allSamples together.
func Divergence(counts map[int32]int, n int, allCounts []int, allSamples int) float64 {
	// term is p log2(p / ((p+q)/2)) / 2.
	term := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log2(2*p/(p+q)) / 2
	}
	var sum float64
	for label, count := range allCounts {
		p := float64(counts[int32(label)]) / float64(n)
		q := float64(count) / float64(allSamples)
		sum += term(p, q) + term(q, p)
	}
	return math.Round(max(0, sum)*1e9) / 1e9
}

// histogram returns at most 12 bars of equal, round widths (1, 2, 5, 10 and so on) over sizes, the
// numbers of samples of the clients in ascending order.
func histogram(sizes []int) []Bar {
	low := sizes[0]
	high := sizes[len(sizes)-1]
	width := 1
	// The width grows from 1 to 2, 5, 10, 20 and so on until few enough bars are left.
	for i := 1; high/width-low/width >= 12; i++ {
		width = []int{1, 2, 5}[i%3] * int(math.Pow10(i/3))
	}
	bars := make([]Bar, high/width-low/width+1)
	for i := range bars {
		barStart := (low/width + i) * width
		bars[i] = Bar{Low: barStart, High: barStart + width - 1}
	}
	for _, n := range sizes {
		bars[n/width-low/width].Clients++
	}
	return bars
}

// String returns the description as a text of several lines for people, which ends with a line
// break. The longest bar of the histogram has 40 signs.
func (d Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "set        %s", d.Info.Name)
	if d.Info.Synthetic {
		b.WriteString(", SYNTHETIC")
	}
	if d.Info.Note != "" {
		fmt.Fprintf(&b, ": %s", d.Info.Note)
	}
	// Rows without a column of clients belong to nobody yet.
	if d.Info.Undealt {
		b.WriteString("\nclients    none: the rows are nobody's until fedpace data partition deals them\n")
	} else {
		fmt.Fprintf(&b, "\nclients    %d\n", d.Clients)
	}
	fmt.Fprintf(&b, "samples    %d for training, %d held out\n", d.Samples, d.HeldOut)
	fewest := d.PerClient[0]
	most := d.PerClient[4]
	fmt.Fprintf(&b, "per client %d to %d, mean %.2f, quartiles %d, %d, %d\n",
		fewest, most, d.Mean, d.PerClient[1], d.PerClient[2], d.PerClient[3])
	tallest := 1
	for _, bar := range d.Histogram {
		tallest = max(tallest, bar.Clients)
	}
	for _, bar := range d.Histogram {
		label := fmt.Sprintf("%d-%d", bar.Low, bar.High)
		if bar.Low == bar.High {
			label = fmt.Sprint(bar.Low)
		}
		fmt.Fprintf(&b, "%20s %7d %s\n", label, bar.Clients, strings.Repeat("#", (bar.Clients*40+tallest-1)/tallest))
	}
	fmt.Fprintf(&b, "features   %d\nfirst row  %s\n", d.Info.Features, d.First)
	d.describeLabels(&b)
	// A set whose samples are made on demand has no size.
	if d.Memory > 0 {
		fmt.Fprintf(&b, "memory     %.1f MB\n", float64(d.Memory)/1e6)
	} else {
		b.WriteString("memory     made on demand\n")
	}
	fmt.Fprintf(&b, "digest     %s\n", d.Info.Digest)
	return b.String()
}

// shownClasses is how many classes with names are listed.
const shownClasses = 20

// describeLabels writes to b the classes with their numbers of training samples, at most
// shownClasses of them, or the targets with their quartiles.
func (d *Stats) describeLabels(b *strings.Builder) {
	for i, q := range d.Targets {
		fmt.Fprintf(
			b,
			"target %-3.20s %g to %g, quartiles %g, %g, %g\n",
			d.Info.Schema.Target(i),
			q[0],
			q[4],
			q[1],
			q[2],
			q[3],
		)
		if d.Info.TargetMean != nil {
			fmt.Fprintf(
				b,
				"           a model learns it less %g, divided by %g\n",
				d.Info.TargetMean[i],
				d.Info.TargetDeviation[i],
			)
		}
	}
	if len(d.Labels) == 0 {
		return
	}
	present := len(slices.DeleteFunc(slices.Clone(d.Labels), func(n int) bool { return n == 0 }))
	fmt.Fprintf(
		b,
		"classes    %d, %d of them with training samples; from %d to %d samples each\n",
		d.Info.Classes,
		present,
		slices.Min(d.Labels),
		slices.Max(d.Labels),
	)
	for class, name := range d.Info.Schema.Labels[:min(shownClasses, len(d.Info.Schema.Labels))] {
		fmt.Fprintf(b, "%20.20q %7d\n", name, d.Labels[class])
	}
	if more := len(d.Info.Schema.Labels) - shownClasses; more > 0 {
		fmt.Fprintf(b, "%20s %7d more\n", "and", more)
	}
	fmt.Fprintf(b, "label skew %.4f (mean Jensen-Shannon divergence in bits, 0 alike to 1 disjoint)\n", d.Skew)
}

// FitBatch returns a size of minibatches that suits clients with these numbers of samples: 32, halved until it
// is at most a quarter of the median of samples, and 32 without clients.
func FitBatch(samples []int) int {
	batch := 32
	if len(samples) == 0 {
		return batch
	}
	sorted := slices.Sorted(slices.Values(samples))
	median := sorted[len(sorted)/2]
	for batch > 1 && 4*batch > median {
		batch /= 2
	}
	return batch
}

// MedianEpoch returns how many minibatches of the size that FitBatch chooses for s are one pass over the
// samples of the client with the median number of samples.
func MedianEpoch(s Set) int {
	samples := make([]int, s.Clients())
	for c := range samples {
		samples[c] = s.Samples(c)
	}
	slices.Sort(samples)
	batch := FitBatch(samples)
	return (samples[len(samples)/2] + batch - 1) / batch
}
