package federated

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fedpace/internal/keyed"
	"fedpace/learn"
)

// Grouped is a Set of samples in memory: a store of samples, and lists that say which of them are whose
// and which are held out. Lists are never changed once the set is made, so that its methods may be
// called at the same time.
type Grouped struct {
	// Task is the name of the task that the set belongs to; empty for custom data.
	Task string
	// About describes the set: its name, its shape and its schema.
	About Info
	// Names are the names of the clients as the source has them.
	Names []string
	// Starts has one entry more than clients: client c trains on Train[Starts[c]:Starts[c+1]].
	Starts []int
	// Train lists the training samples of all clients, as numbers in Rows.
	Train []int32
	// Held lists the held-out samples of all clients, as numbers in Rows.
	Held []int32
	// Labels is the class of each sample; nil means that samples have targets.
	Labels []int32
	// Targets has About.Targets numbers for each sample; nil means that samples have labels.
	Targets []float32
	// Times is the time of each sample, as its source has it; nil means that all are there from the
	// beginning.
	Times []float64
	// Rows stores the inputs of all samples.
	Rows Rows
}

// Grouping collects the clients of a set in the order of their numbers. Client c trains on the samples
// Train[Starts[c]:Starts[c+1]], and the held-out samples of all clients are pooled in Held, in the order
// of the clients. Samples are numbers in the store of the set.
type Grouping struct {
	// Names are the names of the clients.
	Names []string
	// Starts has the place in Train at which the samples of each client begin.
	Starts []int
	// Train has the training samples of all clients, one client after the other.
	Train []int32
	// Held has the held-out samples of all clients.
	Held []int32
	// ExcludedClients is the number of clients that were left out for want of a training sample.
	ExcludedClients int
	// ExcludedHeldOut is the number of their samples, all of which would be held out.
	ExcludedHeldOut int
	// ShortClients counts the clients that were left out because they have too few samples for two parts, and
	// shortSamples their samples.
	ShortClients, shortSamples int

	// HeldOutOnly says that the set keeps no client, but the held-out samples of all.
	HeldOutOnly bool
	// MarksHeldOut says that the source itself tells which samples are held out, by a column or the names of
	// files. Otherwise each client's samples are split at random.
	MarksHeldOut bool
	// heldOutOnlyClients is the number of clients that have held-out samples and no training sample, and
	// heldOutOnlySamples the number of their samples, which stay in Held.
	heldOutOnlySamples, heldOutOnlyClients int
}

// Add appends a client with the numbers of its training and held-out samples. A client without a training
// sample is left out, and so are its held-out samples, unless the source itself has marked them as held out
// (MarksHeldOut). With HeldOutOnly no client is added, and all held-out samples are.
func (g *Grouping) Add(name string, train, held []int32) {
	if len(train) == 0 && !g.HeldOutOnly {
		if !g.MarksHeldOut || len(held) == 0 {
			g.ExcludedClients++
			g.ExcludedHeldOut += len(held)
			return
		}
		g.heldOutOnlyClients++
		g.heldOutOnlySamples += len(held)
	}
	g.Held = append(g.Held, held...)
	if len(train) == 0 || g.HeldOutOnly {
		return
	}
	g.Names = append(g.Names, name)
	g.Starts = append(g.Starts, len(g.Train))
	g.Train = append(g.Train, train...)
}

// AddSplit appends a client with the parts into which its samples were split; samples is their number. A client
// of whose samples neither part has one is left out, as one with too few.
func (g *Grouping) AddSplit(name string, samples int, train, held []int32) {
	if samples > 0 && len(train) == 0 && len(held) == 0 {
		g.ShortClients++
		g.shortSamples += samples
		return
	}
	g.Add(name, train, held)
}

// Set completes s, which has the store and the labels of all samples, with the clients of the
// grouping and notes on what was left out. It returns an error if no client can train, or if no
// sample is held out.
func (g *Grouping) Set(s Grouped) (*Grouped, error) {
	// A set of held-out samples alone (HeldOutOnly) needs no clients.
	switch {
	case len(g.Names) == 0 && g.ShortClients > 0:
		return nil, fmt.Errorf(
			"no client has enough samples for two parts, of %d samples of %d clients",
			g.shortSamples,
			g.ShortClients,
		)
	case len(g.Names) == 0 && !g.HeldOutOnly:
		return nil, fmt.Errorf("no client has a sample to train on, of %d samples", len(g.Held)+g.ExcludedHeldOut)
	case len(g.Held) == 0 && g.MarksHeldOut:
		return nil, fmt.Errorf(
			"no sample is held out for validation beside %d to train on; want rows that are marked as test",
			len(g.Train),
		)
	case len(g.Held) == 0:
		return nil, errors.New("no sample is held out for validation; want a client with at least 2 samples")
	}
	s.Names = g.Names
	// The last entry ends the samples of the last client.
	s.Starts = append(g.Starts, len(g.Train))
	s.Train = g.Train
	s.Held = g.Held
	if g.ExcludedClients > 0 {
		s.About.AddNote(
			"%d clients without a training sample left out, with %d samples",
			g.ExcludedClients,
			g.ExcludedHeldOut,
		)
	}
	if g.ShortClients > 0 {
		s.About.AddNote(
			"%d clients with too few samples for two parts left out, with %d samples",
			g.ShortClients,
			g.shortSamples,
		)
	}
	if s.sharesNoClass() {
		s.About.AddWarning(
			"no held-out sample has a class that a training sample has, so training cannot raise validation accuracy",
		)
	}
	s.About.HeldOutClients = g.heldOutOnlyClients
	if g.heldOutOnlyClients > 0 {
		s.About.AddNote(
			"%d of %d held-out samples are of %d clients without a training sample, who take no part",
			g.heldOutOnlySamples,
			len(g.Held),
			g.heldOutOnlyClients,
		)
	}
	return &s, nil
}

// sharesNoClass reports whether no held-out sample has a class that a training sample has, so that no model
// can learn to classify one of them. It is false for a set without training samples, which is for devices
// alone, and for one without classes.
func (s *Grouped) sharesNoClass() bool {
	if s.Labels == nil || len(s.Train) == 0 {
		return false
	}
	isTrained := make([]bool, s.About.Classes)
	for _, i := range s.Train {
		isTrained[s.Labels[i]] = true
	}
	return !slices.ContainsFunc(s.Held, func(i int32) bool { return isTrained[s.Labels[i]] })
}

// Names numbers names in the order of their first appearance.
type Names struct {
	// List has the names in the order of their numbers.
	List []string
	// number has the number of each name; nil without any name.
	number map[string]int
}

// Number returns the number of a name, counted from 0 in the order in which names are first seen. A
// new name is added to List.
func (n *Names) Number(name string) int {
	i, ok := n.number[name]
	if !ok {
		if n.number == nil {
			n.number = make(map[string]int)
		}
		i = len(n.List)
		// The clone keeps a name that is a part of a long text from holding the text in memory.
		name = strings.Clone(name)
		n.number[name] = i
		n.List = append(n.List, name)
	}
	return i
}

// Split divides a client's n samples at random into int(0.8 n) training samples and the held-out rest
// (paper/NOTES, "Data"). seed and client decide the choice. Both parts are in ascending order.
func Split(seed uint64, client int, samples []int32) (train, held []int32) {
	held = slices.Clone(samples)
	Shuffle(held, keyed.Source(seed, keyed.Split, uint64(client)))
	trainCount := 4 * len(samples) / 5
	train = held[:trainCount:trainCount]
	held = held[trainCount:]
	slices.Sort(train)
	slices.Sort(held)
	return train, held
}

// TaskName returns the task that the set belongs to; empty for custom data.
func (s *Grouped) TaskName() string { return s.Task }

// Info describes the set.
func (s *Grouped) Info() Info { return s.About }

// Clients returns the number of clients.
func (s *Grouped) Clients() int { return len(s.Names) }

// Client returns the name of client c.
func (s *Grouped) Client(c int) string { return s.Names[c] }

// Samples returns the number of training samples of client c.
func (s *Grouped) Samples(c int) int { return s.Starts[c+1] - s.Starts[c] }

// HeldOut returns the number of samples that are held out, of all clients together.
func (s *Grouped) HeldOut() int { return len(s.Held) }

// Close does nothing: the set holds no file.
func (s *Grouped) Close() error { return nil }

// Batch appends training samples of client c to dst. samples are numbers within the client,
// from 0.
func (s *Grouped) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := CheckSamples(s, c, samples); err != nil {
		return err
	}
	clientSamples := s.Train[s.Starts[c]:]
	s.append(dst, len(samples), func(k int) int { return int(clientSamples[samples[k]]) })
	return nil
}

// HeldOutBatch appends n held-out samples to dst, from the one with number first on. Held-out
// samples are in the order of the clients. A range that does not exist is an error.
func (s *Grouped) HeldOutBatch(dst *learn.Batch, first, n int) error {
	if err := CheckHeldOut(s, first, n); err != nil {
		return err
	}
	s.append(dst, n, func(k int) int { return int(s.Held[first+k]) })
	return nil
}

// prefetchDistance is how many samples ahead of their turn the bytes of a sample, which may
// lie anywhere in much memory, are asked for: some hundred nanoseconds.
const prefetchDistance = 4

// append adds n samples to dst; sample gives the number of the k-th in the set. Samples that
// lie far apart in memory are prefetched, because a minibatch jumps through them.
func (s *Grouped) append(dst *learn.Batch, n int, sample func(k int) int) {
	// prefetched is nil for a store whose samples are not prefetched.
	prefetched, _ := s.Rows.(interface{ sampleBytes(i int) []byte })
	for k := range n {
		if prefetched != nil && k+prefetchDistance < n {
			learn.Prefetch(prefetched.sampleBytes(sample(k + prefetchDistance)))
		}
		i := sample(k)
		s.Rows.Append(dst, i)
		if s.Labels != nil {
			dst.Labels = append(dst.Labels, s.Labels[i])
		} else {
			// Scaled targets are divided by their deviation, so that 1 is worth one deviation.
			dst.Units = s.About.TargetDeviation
			width := s.About.Targets
			dst.Targets = append(dst.Targets, s.Targets[i*width:][:width]...)
		}
	}
	dst.N += n
}

// Memory returns how many bytes the set takes, without names.
func (s *Grouped) Memory() int {
	return 4*(len(s.Train)+len(s.Held)+len(s.Labels)+len(s.Targets)) + 8*len(s.Starts) + s.Rows.Memory()
}
