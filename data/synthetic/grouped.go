package synthetic

import (
	"encoding/binary"

	"fedpace/data/federated"
)

// InMemory implements [federated.InMemory]: it makes all samples, client by client, and the held-out ones behind
// them. made is true.
func (s *synthetic) InMemory() (_ *federated.Grouped, made bool) {
	g := &federated.Grouped{About: s.info, Starts: []int{0}}
	// Without a coding the samples are tweets, kept as bags of words; all others are bytes.
	if s.coding == nil {
		g.Rows = &federated.BagRows{Starts: []uint32{0}}
	} else {
		g.Rows = &federated.ByteRows{
			Width:  s.recordBytes,
			Coding: &federated.Coding{Name: s.coding.Name, Planes: s.coding.Planes},
		}
	}
	for c := range s.clientCount {
		clientStore := s.open(c)
		for i := range clientStore.labels {
			s.complete(clientStore, c, i)
			g.Train = append(g.Train, s.addSample(g, clientStore, i))
		}
		g.Names = append(g.Names, s.Client(c))
		g.Starts = append(g.Starts, len(g.Train))
	}
	s.once.Do(s.makeHeldOut)
	for i := range s.heldOutCount {
		g.Held = append(g.Held, s.addSample(g, s.heldOut, i))
	}
	return g, true
}

// addSample adds sample i of a store to the set and returns its number there. The rows of the set are bags of words
// if the samples are tweets, and bytes otherwise.
func (s *synthetic) addSample(g *federated.Grouped, client *store, i int) int32 {
	record := client.record(i, s.recordBytes)
	switch rows := g.Rows.(type) {
	case *federated.BagRows:
		addTweet(rows, record)
	case *federated.ByteRows:
		rows.Bytes = append(rows.Bytes, record...)
	}
	g.Labels = append(g.Labels, int32(client.labels[i]))
	return int32(len(g.Labels) - 1)
}

// addTweet adds the tweet of a record, in the form of tweetRecord, to r.
func addTweet(r *federated.BagRows, record []byte) {
	distinct := int(record[0])
	total := uint16(record[1])
	for i := range distinct {
		token := tweetToken(record, i)
		r.Tokens = append(r.Tokens, binary.LittleEndian.Uint16(token))
		r.Counts = append(r.Counts, uint16(token[2]))
	}
	r.Totals = append(r.Totals, total)
	r.Starts = append(r.Starts, uint32(len(r.Tokens)))
}
