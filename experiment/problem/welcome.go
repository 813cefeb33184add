package problem

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"fedpace/actors/data/federated"
	"fedpace/bus"
)

// Welcome is what devices are told of the data: what a run makes them of, or what their
// own must mean.
func (p *Data) Welcome() (*bus.Welcome, error) {
	c := &p.Config
	w := &bus.Welcome{Task: string(c.Task), Heterogeneity: c.Synthetic.Heterogeneity, DataSeed: c.DataSeed()}
	if p.Set == nil {
		return w, nil
	}
	s := p.Set.Info().Schema
	if s.Labels != nil || s.Columns != nil || s.Mean != nil || s.Alphabet != nil {
		w.Schema = &bus.Schema{Labels: s.Labels, Columns: s.Columns, Mean: s.Mean, Deviation: s.Deviation, Alphabet: s.Alphabet}
		if n := proto.Size(w.Schema); n > bus.MaxSchema {
			return nil, fmt.Errorf("data: the names of the classes and features of %s take %d bytes, and devices are told at most %d (set devices.names to [])", c.Data, n, bus.MaxSchema)
		}
	}
	if c.Data.Reader != nil && federated.Readers.NameOf(c.Data.Reader) == "table" {
		var err error
		if w.Mapping, err = federated.Readers.Encode(c.Data.Reader); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	return w, nil
}
