package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

const (
	feelings   = 600 // tokens that tell something about the label, per label
	topics     = 200
	topicWords = 40
	shortest   = 6 // tokens of a tweet
	longest    = 20

	tweetRecord = 2 + 3*longest
)

// What a token of a tweet is, in 1/256; the rest are common words.
const (
	feelingShare = 64  // tells the label ...
	honest       = 208 // ... in this share, and else the other one
	topicShare   = 72
)

// language is what all clients of the synthetic Sent140 share. Each table is
// drawn from uniformly, and repeats a token as often as it is frequent.
type language struct {
	common  []uint16
	feeling [2][]uint16
	topic   [topics][topicWords]uint16
}

var tongue = sync.OnceValue(func() *language {
	l := new(language)
	var source rand.PCG
	keyed.Reseed(&source, 0, keyed.Synthetic, partTask, 4)
	words := make([]uint16, federated.Sent140Words)
	for i := range words {
		words[i] = uint16(i)
	}
	l.common = zipf(words)
	for i := federated.Sent140Words - 1; i > 0; i-- {
		j := keyed.Below(source.Uint64(), uint64(i+1))
		words[i], words[j] = words[j], words[i]
	}
	for label := range l.feeling {
		l.feeling[label] = zipf(words[label*feelings : (label+1)*feelings])
	}
	for t := range l.topic {
		for i := range l.topic[t] {
			l.topic[t][i] = words[keyed.Below(source.Uint64(), federated.Sent140Words)]
		}
	}
	return l
})

// zipf repeats word r in proportion to 1/(r+10), the most frequent ones a few
// hundred times, the rarest at least once.
func zipf(words []uint16) []uint16 {
	var table []uint16
	for r, w := range words {
		for range max(1, 2*federated.Sent140Words/(r+10)) {
			table = append(table, w)
		}
	}
	return table
}

// author is a client of the synthetic Sent140. Its habit is a topic for each
// label: what it writes about tells how it feels, for this author only.
type author struct {
	*language
	shift uint64
	habit uint64
}

func syntheticSent140() (recipe, decoder) {
	l := tongue()
	r := recipe{
		task:    "sent140",
		clients: 21_876,
		// Training samples of users with at least 10 tweets at each twentieth.
		counts:   []int{8, 8, 8, 8, 9, 9, 9, 10, 10, 11, 11, 12, 13, 14, 15, 16, 18, 20, 24, 33, 90},
		input:    learn.Sparse,
		features: federated.Sent140Words,
		classes:  2,
		record:   tweetRecord,
		client: func(seed, client uint64, shift int) maker {
			return &author{l, uint64(shift), keyed.Hash(seed, keyed.Synthetic, client, partHabits)}
		},
	}
	return r, appendTweet
}

// make writes one tweet: the number of distinct tokens, of all tokens, then
// each token (two bytes, ascending) with its count.
func (a *author) make(record []byte, label int, key uint64) {
	var source rand.PCG
	source.Seed(key, ^key)
	u := source.Uint64()
	topic := int(keyed.Below(u<<8, topics))
	if u>>56 < a.shift {
		topic = int(keyed.Below(keyed.Hash(a.habit, keyed.Synthetic, uint64(label)), topics))
	}
	var tokens [longest]uint16
	n := shortest + int(keyed.Below(source.Uint64(), longest-shortest+1))
	for i := range n {
		u := source.Uint64()
		kind, from := u&0xff, u&^0xffff
		switch {
		case kind < feelingShare:
			told := label
			if u>>8&0xff >= honest {
				told = 1 - label
			}
			tokens[i] = a.feeling[told][keyed.Below(from, uint64(len(a.feeling[told])))]
		case kind < feelingShare+topicShare:
			tokens[i] = a.topic[topic][keyed.Below(from, topicWords)]
		default:
			tokens[i] = a.common[keyed.Below(from, uint64(len(a.common)))]
		}
	}
	slices.Sort(tokens[:n])
	distinct := 0
	at := record[2:]
	for i := 0; i < n; {
		j := i
		for j < n && tokens[j] == tokens[i] {
			j++
		}
		binary.LittleEndian.PutUint16(at, tokens[i])
		at[2] = uint8(j - i)
		at = at[3:]
		distinct++
		i = j
	}
	record[0], record[1] = uint8(distinct), uint8(n)
}

// appendTweet appends a tweet as counts divided by their sum.
func appendTweet(dst *learn.Batch, record []byte) {
	total := float32(record[1])
	if len(dst.RowStart) == 0 {
		dst.RowStart = append(dst.RowStart, 0)
	}
	at, distinct := len(dst.Index), int(record[0])
	dst.Index, dst.Value = federated.Grow(dst.Index, distinct), federated.Grow(dst.Value, distinct)
	index, value := dst.Index[at:], dst.Value[at:][:distinct]
	for i := range index {
		token := record[2+3*i:][:3]
		index[i] = int32(binary.LittleEndian.Uint16(token))
		value[i] = float32(token[2]) / total
	}
	dst.RowStart = append(dst.RowStart, int32(len(dst.Index)))
}
