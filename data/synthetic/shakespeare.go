package synthetic

import (
	"bytes"
	"math/rand/v2"
	"sync"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
)

const (
	// lexiconWords is the number of words of the language.
	lexiconWords = 600
	// moods is the number of moods, and moodWords the number of words that each prefers.
	moods     = 120
	moodWords = 24
)

// stage is what all clients of the synthetic Shakespeare share: a made language and moods.
type stage struct {
	// lexicon has the words.
	lexicon [lexiconWords][]byte
	// common is a table of words to draw from uniformly, which repeats frequent words.
	common []uint16
	// mood has the words that each mood prefers.
	mood [moods][moodWords]uint16
}

// theatre makes the stage at its first call. It is the same for every seed.
var theatre = sync.OnceValue(func() *stage {
	s := new(stage)
	source := keyed.Source(0, keyed.Synthetic, partTask, 6)
	pick := func(letters string) byte { return letters[keyed.Below(source.Uint64(), uint64(len(letters)))] }
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

var syntheticShakespeare = recipe{
	clients: 660,
	// Training windows of the paper's roles at each twentieth; the last is
	// lowered so that straight lines keep the mean.
	counts: []int{
		721, 811, 942, 1053, 1182, 1383, 1604, 1766, 2129, 2510, 3051, 3617, 4482, 5289, 6174, 7264, 8989,
		10706, 12774, 17819, 29000,
	},
	info:   federated.ShakespeareInfo,
	write:  func(text []uint8, source *rand.PCG, client habits) { theatre().write(text, source, client) },
	coding: federated.Tokens,

	recordBytes: federated.ShakespeareWindow,
}

// write fills dst with sentences, each character as its place in the vocabulary. Each sentence has a mood:
// the client's usual one with the probability client.share/256, else any. source gives all random numbers. One
// number of 64 bits may decide several things, each by bits of its own.
func (s *stage) write(dst []uint8, source *rand.PCG, client habits) {
	var sentence []byte
	for position := 0; position < len(dst); {
		// The top 8 bits decide whether the mood is the usual one, and the others choose another.
		u := source.Uint64()
		mood := keyed.Below(u<<8, moods)
		if u>>56 < client.share {
			mood = keyed.Below(client.key, moods)
		}
		sentence = sentence[:0]
		// A sentence has 3 to 11 words.
		words := 3 + keyed.Below(source.Uint64(), 9)
		for i := range words {
			// The top bits choose the word, and low bits decide about the mood and the comma.
			u := source.Uint64()
			word := s.common[keyed.Below(u, uint64(len(s.common)))]
			// Three words of eight belong to the mood.
			if u&7 < 3 {
				word = s.mood[mood][keyed.Below(u<<16, moodWords)]
			}
			sentence = append(sentence, s.lexicon[word]...)
			// One word of sixteen is followed by a comma, unless it is the last.
			if u>>8&15 == 0 && i+1 < words {
				sentence = append(sentence, ',')
			}
			sentence = append(sentence, ' ')
		}
		// The mark at the end takes the place of the last blank. Half of the sentences end in a full stop.
		const endMarks = "...!?;"
		mark := endMarks[source.Uint64()%6]
		sentence = append(sentence[:len(sentence)-1], mark, ' ')
		copy(sentence, bytes.ToUpper(sentence[:1]))
		for _, c := range sentence {
			if position < len(dst) {
				dst[position] = federated.ShakespeareIndex[c]
				position++
			}
		}
	}
}
