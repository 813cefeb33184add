package synthetic

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

const textTask = "shakespeare"

// textCounts are the training windows of the paper's 660 roles at each
// twentieth; the last is lowered so that straight lines keep the mean.
var textCounts = []int{721, 811, 942, 1053, 1182, 1383, 1604, 1766, 2129, 2510, 3051, 3617, 4482, 5289, 6174, 7264, 8989, 10706, 12774, 17819, 29000}

const (
	lexiconWords = 600
	moods        = 120 // each a few words that go together
	moodWords    = 24
	heldOutGap   = 17 // between held-out windows of a client
)

// stage is what all clients of the synthetic Shakespeare share: words of a made
// language, how often each comes, and moods that prefer some of them.
type stage struct {
	lexicon [lexiconWords][]byte
	common  []uint16
	mood    [moods][moodWords]uint16
}

var theatre = sync.OnceValue(func() *stage {
	s := new(stage)
	var source rand.PCG
	keyed.Reseed(&source, 0, keyed.Synthetic, partTask, 6)
	pick := func(from string) byte { return from[keyed.Below(source.Uint64(), uint64(len(from)))] }
	words := make([]uint16, lexiconWords)
	for i := range s.lexicon {
		words[i] = uint16(i)
		var w []byte
		for range 1 + keyed.Below(source.Uint64(), 3) {
			w = append(w, pick("bcdfghlmnprstvwttssrrnnlldd"), pick("aeiouaeioe"))
		}
		if source.Uint64()&1 == 0 {
			w = append(w, pick("dnrstxy"))
		}
		s.lexicon[i] = w
	}
	s.common = zipf(words)
	for m := range s.mood {
		for i := range s.mood[m] {
			s.mood[m][i] = words[keyed.Below(source.Uint64(), lexiconWords)]
		}
	}
	return s
})

// write fills dst with sentences as vocabulary indices. Each sentence has a
// mood, which in the share shift/256 is the speaker's own.
func (s *stage) write(dst []uint8, source *rand.PCG, habit uint64, shift uint64) {
	var sentence []byte
	for at := 0; at < len(dst); {
		u := source.Uint64()
		mood := keyed.Below(u<<8, moods)
		if u>>56 < shift {
			mood = keyed.Below(habit, moods)
		}
		sentence = sentence[:0]
		words := 3 + keyed.Below(source.Uint64(), 9)
		for i := range words {
			u := source.Uint64()
			word := s.common[keyed.Below(u, uint64(len(s.common)))]
			if u&7 < 3 {
				word = s.mood[mood][keyed.Below(u<<16, moodWords)]
			}
			sentence = append(sentence, s.lexicon[word]...)
			if u>>8&15 == 0 && i+1 < words {
				sentence = append(sentence, ',')
			}
			sentence = append(sentence, ' ')
		}
		sentence = append(sentence[:len(sentence)-1], "...!?;"[source.Uint64()%6], ' ')
		copy(sentence, bytes.ToUpper(sentence[:1]))
		for _, c := range sentence {
			if at < len(dst) {
				dst[at] = federated.ShakespeareIndex[c]
				at++
			}
		}
	}
}

// syntheticText is the Set of made texts, one per client, in which windows
// overlap as in the real set.
type syntheticText struct {
	info  federated.Info
	n     int
	seed  uint64
	shift uint64
	stage *stage

	cache cache
	once  sync.Once
	held  []uint8 // a text per client, or per some of them, one after the other
	count int
}

func newSyntheticText(clients int, seed uint64, h float64, shift int, digest string) *syntheticText {
	if clients == 0 {
		clients = 660
	}
	s := &syntheticText{info: federated.ShakespeareInfo, n: clients, seed: seed, shift: uint64(shift), stage: theatre()}
	s.info.Name = textTask + " (synthetic)"
	s.info.Synthetic = true
	s.info.Digest = digest
	s.info.AddNote("made samples, heterogeneity %g", h)
	s.count = min(maxHeldOut, clients*textCounts[0]/4)
	s.cache.limit = cacheBytes
	s.cache.make = func(c int) *cached {
		e := &cached{records: make([]byte, s.Samples(c)+federated.ShakespeareWindow)}
		s.write(e.records, c, partSample)
		return e
	}
	return s
}

func (s *syntheticText) write(dst []uint8, c int, part uint64) {
	var source rand.PCG
	keyed.Reseed(&source, s.seed, keyed.Synthetic, uint64(c), part)
	s.stage.write(dst, &source, keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partHabits), s.shift)
}

func (s *syntheticText) TaskName() string { return textTask }

// Info describes the set.
func (s *syntheticText) Info() federated.Info { return s.info }

// Clients is the number of clients.
func (s *syntheticText) Clients() int { return s.n }

// Client names client c.
func (s *syntheticText) Client(c int) string { return fmt.Sprintf("synthetic-%d", c) }

// Samples is the number of training windows of client c.
func (s *syntheticText) Samples(c int) int { return drawCount(textCounts, s.seed, c) }

// Batch appends windows of client c's text.
func (s *syntheticText) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= s.n {
		return fmt.Errorf("data: %s: client %d of %d", s.info.Name, c, s.n)
	}
	text := s.cache.get(c).records
	for _, i := range samples {
		if i < 0 || int(i) >= len(text)-federated.ShakespeareWindow {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.info.Name, i, c, len(text)-federated.ShakespeareWindow)
		}
		federated.AppendWindow(dst, text[i:])
	}
	return nil
}

// HeldOut is the number of held-out windows.
func (s *syntheticText) HeldOut() int { return s.count }

// HeldOutBatch appends held-out windows; they are spread evenly over clients.
func (s *syntheticText) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.count-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.info.Name, from, from+n, s.count)
	}
	s.once.Do(s.makeHeldOut)
	for i := from; i < from+n; i++ {
		federated.AppendWindow(dst, s.held[i*(federated.ShakespeareWindow+1):])
	}
	return nil
}

func (s *syntheticText) makeHeldOut() {
	s.held = make([]uint8, 0, s.count*(federated.ShakespeareWindow+1))
	var text []uint8
	for from := 0; from < s.count; {
		c := from * s.n / s.count
		to := from + 1
		for to < s.count && to*s.n/s.count == c {
			to++
		}
		text = federated.Grow(text[:0], federated.ShakespeareWindow+1+heldOutGap*(to-from))
		s.write(text, c, partHeldOut)
		for i := range to - from {
			s.held = append(s.held, text[i*heldOutGap:][:federated.ShakespeareWindow+1]...)
		}
		from = to
	}
}

// Close releases nothing.
func (s *syntheticText) Close() error { return nil }
