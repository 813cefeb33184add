package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
)

const (
	// feelings is the number of tokens, for each label, that tell something about the label.
	feelings = 600
	// topics is the number of topics of all clients together.
	topics = 200
	// topicWords is the number of tokens of a topic.
	topicWords = 40
	// shortest is the least number of tokens of a tweet.
	shortest = 6
	// longest is the greatest number of tokens of a tweet.
	longest = 20

	// tweetRecord is the size of a tweet's record in bytes. Byte 0 is the number of distinct tokens, and byte 1 that
	// of all tokens. From byte 2 on, each distinct token has three bytes: its number in two, the lower one first, and
	// how often it occurs. Tokens ascend, and the rest of the record is not used.
	tweetRecord = 2 + 3*longest
)

// tweetToken returns the three bytes of distinct token i of a tweet's record.
func tweetToken(record []byte, i int) []byte { return record[2+3*i:][:3] }

// What a token of a tweet is, in 1/256; the rest are common words.
const (
	// feelingShare is the share of tokens that express a label.
	feelingShare = 64
	// honest is the share of those that express the tweet's own label; the rest express the other.
	honest = 208
	// topicShare is the share of tokens of the tweet's topic.
	topicShare = 72
)

// language is what all clients of the synthetic Sent140 share. Each table is
// drawn from uniformly, and repeats a token as often as it is frequent.
type language struct {
	// common is the table of all tokens.
	common []uint16
	// feeling is the table of the tokens that express each label.
	feeling [2][]uint16
	// topic is the table of each topic.
	topic [topics][topicWords]uint16
}

// tongue makes the language at its first call. It is the same for every seed.
var tongue = sync.OnceValue(func() *language {
	l := new(language)
	source := keyed.Source(0, keyed.Synthetic, partTask, 4)
	words := make([]uint16, federated.Sent140Words)
	for i := range words {
		words[i] = uint16(i)
	}
	l.common = zipf(words)
	federated.Shuffle(words, source)
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

// zipf returns a list in which each word is repeated in proportion to 1/(rank+10), where rank is its index
// in words: the first words a few hundred times, the last once. Words that are drawn from the list, each
// entry equally likely, are as unequally frequent as those of a natural text (Zipf's law).
func zipf(words []uint16) []uint16 {
	var list []uint16
	for rank, word := range words {
		for range max(1, 2*federated.Sent140Words/(rank+10)) {
			list = append(list, word)
		}
	}
	return list
}

var syntheticSent140 = recipe{
	clients: 21_876,
	// Training samples of users with at least 10 tweets at each twentieth.
	counts: []int{8, 8, 8, 8, 9, 9, 9, 10, 10, 11, 11, 12, 13, 14, 15, 16, 18, 20, 24, 33, 90},
	info:   federated.Sent140Info,
	make:   func(record []byte, client habits, label int, key uint64) { tongue().write(record, client, label, key) },

	recordBytes: tweetRecord,
}

// write writes one tweet with this label to record, in the form of tweetRecord. A client's habit is a topic for
// each label, so that the topic shows the label, but for this client only. key decides all draws.
func (l *language) write(record []byte, client habits, label int, key uint64) {
	source := rand.NewPCG(key, ^key)
	topic := client.choose(source, uint64(label), topics)
	var tokens [longest]uint16
	n := shortest + int(keyed.Below(source.Uint64(), longest-shortest+1))
	for i := range n {
		u := source.Uint64()
		// Disjoint bits of one draw choose what the token is (8), which label it expresses if it expresses one (8),
		// and the word (48).
		kind := u & 0xff
		word := u &^ 0xffff
		switch {
		case kind < feelingShare:
			expressed := label
			if u>>8&0xff >= honest {
				expressed = 1 - label
			}
			tokens[i] = l.feeling[expressed][keyed.Below(word, uint64(len(l.feeling[expressed])))]
		case kind < feelingShare+topicShare:
			tokens[i] = l.topic[topic][keyed.Below(word, topicWords)]
		default:
			tokens[i] = l.common[keyed.Below(word, uint64(len(l.common)))]
		}
	}
	slices.Sort(tokens[:n])
	// Equal tokens are neighbours now and share one entry of the record.
	distinct := 0
	for i, token := range tokens[:n] {
		if i == 0 || token != tokens[i-1] {
			entry := tweetToken(record, distinct)
			binary.LittleEndian.PutUint16(entry, token)
			entry[2] = 0
			distinct++
		}
		tweetToken(record, distinct-1)[2]++
	}
	record[0] = uint8(distinct)
	record[1] = uint8(n)
}

// appendTweet appends the tweet of a record, in the form of tweetRecord, to dst: as a bag of words, in which the
// value of a token is its share of all tokens of the tweet.
func appendTweet(dst *learn.Batch, record []byte) {
	index, value := federated.AppendBag(dst, int(record[0]))
	for i := range index {
		token := tweetToken(record, i)
		index[i] = int32(binary.LittleEndian.Uint16(token))
		value[i] = float32(token[2]) / float32(record[1])
	}
}
