package synthetic

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
)

// heldOutGap is the distance of the windows of a text that are held out.
const heldOutGap = 17

// maxHeldOut is the size of a synthetic set's validation part: enough for a
// standard error of half a percent, small enough to evaluate often.
const maxHeldOut = 10_000

// recipe is a task's way to make samples. A sample is made as a record of
// fixed size in integer arithmetic, so that it has the same bits everywhere.
type recipe struct {
	// clients is the number of clients in the paper, which is the default.
	clients int
	// counts are quantiles, ascending and equally spaced, of the number of a client's training
	// samples: the first is the smallest client's, the last the largest one's.
	counts []int
	// info describes the set before its name, digest and notes are known.
	info federated.Info
	// recordBytes is the size of a record in bytes.
	recordBytes int
	// make makes the record of one sample. It depends on its arguments only and
	// may be called concurrently.
	make func(record []byte, client habits, label int, key uint64)
	// write, in place of make, writes a whole text of records that overlap: each
	// begins a byte after the one before, and its label is the byte after it.
	write func(text []byte, source *rand.PCG, client habits)
	// coding turns the bytes of a record into inputs; nil means that a record is a tweet.
	coding *federated.Coding
}

// habits says how a client's samples resemble each other. Each feature that varies between samples has the
// client's usual value with the probability share/256.
type habits struct {
	// share is 0 to 255; 0 means that the client has no habits.
	share uint64
	// key decides the usual values of the client.
	key uint64
}

// choose draws a value from 0 to n-1 for one feature of a sample. With probability share/256 it returns the
// client's habit, a value that depends on the client's key and the feature alone. Otherwise the value is
// uniform. feature is the feature's number, by which a task tells its features apart.
func (h habits) choose(source *rand.PCG, feature, n uint64) int {
	// The top 8 bits decide between the two, and the others choose the value.
	u := source.Uint64()
	if u>>56 < h.share {
		return int(keyed.Below(keyed.Hash(h.key, keyed.Synthetic, feature), n))
	}
	return int(keyed.Below(u<<8, n))
}

// recipes by task.
var recipes = map[string]recipe{
	"cifar100":    syntheticCIFAR100,
	"femnist":     syntheticFEMNIST,
	"sent140":     syntheticSent140,
	"shakespeare": syntheticShakespeare,
}

// The parts of a Synthetic key.
const (
	partCount   = iota // (client): how many samples
	partLabels         // (client): the labels in order
	partHabits         // (client): what its samples share
	partSample         // (client, sample)
	partTask           // what all clients share, whatever the seed
	partHeldOut        // (client): labels of held-out samples
)

// New makes a federated set for a task (femnist, sent140, cifar100,
// shakespeare) with the given number of clients, 0 for the paper's (3,000,
// 21,876, 500 and 660). Samples per client
// follow a spread like the real sets'. The tasks quadratic and logistic give
// [DefaultQuadratics] and [DefaultMixtures], with 50 clients if clients is 0.
//
// heterogeneity sets how far clients differ. At 0 samples are independent
// and identically distributed. Above, the labels of a client follow a
// Dirichlet distribution with every parameter 1/heterogeneity, and the share
// h/(1+h) of what varies between samples becomes a habit of the client
// instead: the same label looks different from client to client.
//
// A client is made when its samples are first asked for; only a bounded number
// of clients stays in memory. The same arguments give the same bits on every
// machine. The caller, who has them from a configuration or a [bus.Welcome], has
// checked their ranges.
func New(task string, clients int, seed uint64, heterogeneity float64) (federated.Set, error) {
	switch task {
	case quadraticTask:
		q := DefaultQuadratics
		q.Clients = clients
		q.Seed = seed
		q.Heterogeneity = heterogeneity
		return q.Set()
	case logisticTask:
		m := DefaultMixtures
		m.Clients = clients
		m.Seed = seed
		m.Heterogeneity = heterogeneity
		return m.Set()
	}
	taskRecipe, ok := recipes[task]
	if !ok {
		return nil, fmt.Errorf("data: no synthetic set for task %q, want one of %s", task, strings.Join(Tasks(), ", "))
	}
	s := &synthetic{
		recipe: taskRecipe,
		seed:   seed,

		heterogeneity: heterogeneity,
		habitShare:    uint64(256 * (heterogeneity / (1 + heterogeneity))),
	}
	s.clientCount = cmp.Or(clients, s.clients)
	s.info.Name = task + " (synthetic)"
	s.info.Synthetic = true
	s.info.Digest = fmt.Sprintf(
		"%x",
		sha256.Sum256(fmt.Appendf(
			nil,
			"fedpace synthetic 1\n%s\n%d\n%d\n%016x\n",
			task,
			clients,
			seed,
			math.Float64bits(heterogeneity),
		)),
	)
	s.info.AddNote("made samples, heterogeneity %g", heterogeneity)
	// A fifth of the samples against four fifths for training, as in the real
	// sets, taken at the smallest client (counts[0]) so that each has as many.
	s.heldOutCount = min(maxHeldOut, s.clientCount*max(1, s.counts[0]/4))
	// Not every client needs a held-out window of a text (which write makes as a whole), so only the total is rounded.
	if s.write != nil {
		s.heldOutCount = min(maxHeldOut, s.clientCount*s.counts[0]/4)
	}
	s.cache = cache{make: s.open, limit: cacheBytes, entries: make(map[int]*list.Element)}
	return s, nil
}

// Tasks names the tasks that New makes sets for.
func Tasks() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(recipes)), quadraticTask, logisticTask)))
}

// synthetic is the Set of a recipe, made client by client.
type synthetic struct {
	recipe
	// clientCount is the number of clients.
	clientCount int
	// seed determines all draws, together with the numbers of client and sample.
	seed uint64
	// heterogeneity, from 0 on, is how far clients differ; at 0 samples are independent and identically distributed.
	heterogeneity float64
	// habitShare is the probability of a habit in 1/256, rounded down from 256 h/(1+h) for the heterogeneity h.
	habitShare uint64
	// heldOutCount is the number of held-out samples of all clients together.
	heldOutCount int
	// cache holds the clients used last.
	cache cache

	// once makes heldOut at the first call for a held-out sample.
	once sync.Once
	// heldOut holds the held-out samples in the order of the clients; nil until they are made.
	heldOut *store
}

// Info describes the set.
func (s *synthetic) Info() federated.Info { return s.info }

// Clients returns the number of clients.
func (s *synthetic) Clients() int { return s.clientCount }

// Client returns the name of client c.
func (s *synthetic) Client(c int) string { return fmt.Sprintf("synthetic-%d", c) }

// HeldOut returns the number of samples that are held out.
func (s *synthetic) HeldOut() int { return s.heldOutCount }

// Close does nothing: the set holds no file.
func (s *synthetic) Close() error { return nil }

// Samples draws the client's number of samples from the recipe's quantiles,
// joined by straight lines.
func (s *synthetic) Samples(c int) int {
	h := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partCount)
	// place is a fixed-point number: an interval of quantiles, and 16 bits of the way through it.
	place := keyed.Below(h, uint64(len(s.counts)-1)<<16)
	low := s.counts[place>>16]
	high := s.counts[place>>16+1]
	return low + (high-low)*int(place&0xffff)>>16
}

// habits returns the habits of client c, by which its samples are drawn.
func (s *synthetic) habits(c int) habits {
	return habits{s.habitShare, keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partHabits)}
}

// Batch appends training samples of client c to dst. Samples are made when they are first
// asked for and kept in the cache while there is room.
func (s *synthetic) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := federated.CheckSamples(s, c, samples); err != nil {
		return err
	}
	clientStore := s.cache.get(c)
	clientStore.mu.Lock()
	defer clientStore.mu.Unlock()
	for _, i := range samples {
		s.complete(clientStore, c, int(i))
		s.append(dst, clientStore, int(i))
	}
	return nil
}

// complete makes the record of sample i of client c, in the client's store samples, unless it has been made. The
// caller holds the mutex of samples. Of a task with text it makes nothing: its recipe has no function make, and open
// has written the client's whole text.
func (s *synthetic) complete(samples *store, c, i int) {
	if s.make == nil || samples.made[i] {
		return
	}
	key := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partSample, uint64(i))
	s.make(samples.record(i, s.recordBytes), s.habits(c), int(samples.labels[i]), key)
	samples.made[i] = true
}

// append adds sample number i of the store, which must have been made, and its label to dst.
func (s *synthetic) append(dst *learn.Batch, samples *store, i int) {
	// A record without a coding is a tweet.
	if s.coding == nil {
		appendTweet(dst, samples.record(i, s.recordBytes))
	} else {
		s.coding.Append(dst, samples.record(i, s.recordBytes))
	}
	dst.Labels = append(dst.Labels, int32(samples.labels[i]))
	dst.N++
}

// open returns the store of client c. The whole text of a task with text, whose recipe has a function
// write, is written at once. For others only the labels are drawn: the function complete makes each
// record at its first use.
func (s *synthetic) open(c int) *store {
	n := s.Samples(c)
	if s.write != nil {
		return s.text(n, c, partSample)
	}
	e := s.empty(n)
	e.made = make([]bool, n)
	// There are no labels of held-out samples to draw.
	s.drawLabels(e.labels, nil, c)
	return e
}

// empty returns a store with room for n labels and n records side by side, all of them 0.
func (s *synthetic) empty(n int) *store {
	return &store{labels: make([]uint8, n), records: make([]byte, n*s.recordBytes), step: s.recordBytes}
}

// text writes a text of client c that holds n overlapping records. part is partSample for training
// and partHeldOut for held-out samples, whose texts differ. The label of a record is the byte after it.
func (s *synthetic) text(n, c int, part uint64) *store {
	text := make([]byte, n+s.recordBytes)
	s.write(text, keyed.Source(s.seed, keyed.Synthetic, uint64(c), part), s.habits(c))
	return &store{labels: text[s.recordBytes:], records: text, step: 1}
}

// drawLabels fills train with the training labels of client c, and held with labels of held-out samples that
// follow the same proportions. Each training label is drawn by Pólya's urn of those before it (see polya). Each
// held-out label is drawn from the urn of all training labels, and is not added to it.
func (s *synthetic) drawLabels(train, held []uint8, c int) {
	draw := func(urn []uint8, i int, part uint64) uint8 {
		key := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), part, uint64(i))
		return polya(urn, s.info.Classes, s.heterogeneity, key)
	}
	for i := range train {
		train[i] = draw(train[:i], i, partLabels)
	}
	for i := range held {
		held[i] = draw(train, i, partHeldOut)
	}
}

// polya draws a label by Pólya's urn, which holds the n labels drawn before: a
// uniform one of the k classes with probability k/(k + h n), and else a copy of
// one in the urn. So the proportions of labels follow Dirichlet(1/h), where h is the
// heterogeneity (at 0 all labels are uniform), without a logarithm or a power, whose
// last bits differ between machines. key decides the draw.
func polya[T uint8 | int32](urn []T, classes int, h float64, key uint64) T {
	k := float64(classes)
	n := uint64(len(urn))
	u := keyed.Float64(key)
	choice := keyed.Hash(key, keyed.Synthetic)
	// The comparison is u >= k/(k + h n), multiplied out to avoid a division.
	urnWeight := float64(h * float64(n))
	isCopied := float64(u*(k+urnWeight)) >= k
	if isCopied && n > 0 {
		return urn[keyed.Below(choice, n)]
	}
	return T(keyed.Below(choice, uint64(classes)))
}

// HeldOutBatch appends held-out samples first to first+n−1 to dst. All are made at the first
// call.
func (s *synthetic) HeldOutBatch(dst *learn.Batch, first, n int) error {
	if err := federated.CheckHeldOut(s, first, n); err != nil {
		return err
	}
	s.once.Do(s.makeHeldOut)
	for i := first; i < first+n; i++ {
		s.append(dst, s.heldOut, i)
	}
	return nil
}

// makeHeldOut makes all s.heldOutCount held-out samples: they are few, and every evaluation reads all of them. They
// are divided about equally among the clients, and each follows its client's own distribution. The samples of a
// task with text (s.write) are windows of a text that the client writes; those of other tasks are made one by
// one, each for a label.
func (s *synthetic) makeHeldOut() {
	s.heldOut = s.empty(s.heldOutCount)
	// Each pass makes the held-out samples of one client.
	for first := 0; first < s.heldOutCount; {
		// Held-out samples first to end-1 are those of client c.
		c := first * s.clientCount / s.heldOutCount
		end := first + 1
		for end < s.heldOutCount && end*s.clientCount/s.heldOutCount == c {
			end++
		}
		if s.write != nil {
			// Windows heldOutGap bytes apart are copied out of one text.
			text := s.text(heldOutGap*(end-first), c, partHeldOut)
			for i := first; i < end; i++ {
				window := heldOutGap * (i - first)
				copy(s.heldOut.record(i, s.recordBytes), text.record(window, s.recordBytes))
				s.heldOut.labels[i] = text.labels[window]
			}
		} else {
			// Held-out labels are drawn from the urn of the client's training labels (see drawLabels), which are not
			// kept and thus drawn again.
			train := make([]uint8, s.Samples(c))
			s.drawLabels(train, s.heldOut.labels[first:end], c)
			for i := first; i < end; i++ {
				key := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partHeldOut, uint64(i-first), partSample)
				s.make(s.heldOut.record(i, s.recordBytes), s.habits(c), int(s.heldOut.labels[i]), key)
			}
		}
		first = end
	}
}

// cacheBytes bounds the made samples that a synthetic set keeps: some hundred
// clients, more than are trained at once on any machine.
const cacheBytes = 64 << 20

// store is one client's labels and records; records are made one by one.
type store struct {
	// client is the number of the client.
	client int
	// labels are the classes of the samples.
	labels []uint8

	// mu guards made and records.
	mu sync.Mutex
	// made says which records exist; nil where all of them are written at once.
	made []bool
	// records holds the bytes of all records.
	records []byte
	// step is the distance from one record to the next in bytes; 1 in a text.
	step int
}

// record returns the size bytes of sample i, which share the memory of the store.
func (e *store) record(i, size int) []byte { return e.records[i*e.step:][:size] }

// size returns how many bytes of memory the store takes.
func (e *store) size() int { return len(e.records) + len(e.labels) + len(e.made) }

// cache keeps the clients used last, up to limit bytes (and always one). An
// entry that is dropped while in use stays whole for its user.
type cache struct {
	// make opens the store of a client that is absent.
	make func(client int) *store
	// limit bounds the size of all stores together, in bytes.
	limit int

	// recent leads to clients in training without the lock, which workers would
	// otherwise meet at with every minibatch. It holds only what entries does.
	// A client's place is its number modulo the length.
	recent [64]atomic.Pointer[store]

	// mu guards the fields below it.
	mu sync.Mutex
	// entries finds the element of order that holds a client's store.
	entries map[int]*list.Element
	// order lists the stores (*store), the one used last first.
	order list.List
	// bytes is the size of all stores in order.
	bytes int
}

// get returns a client's store, which it makes when it is absent. A client that is found in its slot of recent costs
// no lock. Otherwise get moves its store to the front of the list, drops stores at the end of the list until
// the rest fits into the limit, and has the slot lead to the store from now on.
func (c *cache) get(client int) *store {
	slot := &c.recent[client%len(c.recent)]
	if e := slot.Load(); e != nil && e.client == client {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[client]
	if !ok {
		e := c.make(client)
		e.client = client
		element = c.order.PushFront(e)
		c.entries[client] = element
		c.bytes += e.size()
	}
	c.order.MoveToFront(element)
	// The least recently used stores go. The one just asked for is at the front and stays.
	for c.bytes > c.limit && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*store)
		delete(c.entries, last.client)
		c.recent[last.client%len(c.recent)].CompareAndSwap(last, nil)
		c.bytes -= last.size()
	}
	slot.Store(element.Value.(*store))
	return element.Value.(*store)
}
