package synthetic

import (
	"encoding/binary"

	"fedpace/actors/data/federated"
)

// Grouped makes all samples of all clients and keeps them in memory, client by client,
// the held-out ones behind them.
func (s *synthetic) Grouped() *federated.Grouped {
	g := &federated.Grouped{About: s.info, Starts: []int{0}}
	rows := s.rows()
	add := func(from *store, i int) {
		rows.add(from.record(i, s.record))
		g.Labels = append(g.Labels, int32(from.labels[i]))
	}
	for c := range s.n {
		from := s.open(c)
		for i := range from.labels {
			s.complete(from, c, i)
			g.Train = append(g.Train, int32(len(g.Labels)))
			add(from, i)
		}
		g.Names, g.Starts = append(g.Names, s.Client(c)), append(g.Starts, len(g.Train))
	}
	s.once.Do(s.makeHeldOut)
	for i := range s.held {
		g.Held = append(g.Held, int32(len(g.Labels)))
		add(s.heldOut, i)
	}
	g.Rows = rows.made()
	return g
}

// rows collects records for the store that fits them.
func (s *synthetic) rows() interface {
	add(record []byte)
	made() federated.Rows
} {
	if s.coding == nil {
		return &tweets{BagRows: federated.BagRows{Starts: []uint32{0}}}
	}
	return &coded{ByteRows: federated.ByteRows{Width: s.record, Coding: s.coding.Whole()}}
}

type coded struct{ federated.ByteRows }

func (r *coded) add(record []byte)    { r.Bytes = append(r.Bytes, record...) }
func (r *coded) made() federated.Rows { return &r.ByteRows }

type tweets struct{ federated.BagRows }

// add takes a record apart, as appendTweet does.
func (r *tweets) add(record []byte) {
	for i := range int(record[0]) {
		token := record[2+3*i:][:3]
		r.Word = append(r.Word, binary.LittleEndian.Uint16(token))
		r.Count = append(r.Count, uint16(token[2]))
	}
	r.Total, r.Starts = append(r.Total, uint16(record[1])), append(r.Starts, uint32(len(r.Word)))
}

func (r *tweets) made() federated.Rows { return &r.BagRows }
