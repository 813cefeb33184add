package federated

import "encoding/json"

// MarshalJSON writes the description as one object.
func (d Stats) MarshalJSON() ([]byte, error) {
	type bar struct {
		From    int `json:"from"`
		To      int `json:"to"`
		Clients int `json:"clients"`
	}
	bars := make([]bar, len(d.Histogram))
	for i, b := range d.Histogram {
		bars[i] = bar(b)
	}
	var memory *int
	if d.Memory > 0 {
		memory = &d.Memory
	}
	return json.Marshal(struct {
		Set       string  `json:"set"`
		Synthetic bool    `json:"synthetic"`
		Note      string  `json:"note"`
		Clients   int     `json:"clients"`
		Samples   int     `json:"samples"`
		HeldOut   int     `json:"held_out"`
		Mean      float64 `json:"samples_per_client"`
		Quartiles [5]int  `json:"quartiles"` // the fewest, the quartiles, the most
		Histogram []bar   `json:"histogram"`
		Classes   int     `json:"classes"`
		Labels    []int   `json:"labels"` // training samples by class
		Skew      float64 `json:"label_skew"`
		Memory    *int    `json:"memory_bytes"` // null: made on demand
		Digest    string  `json:"digest"`
	}{
		d.Info.Name, d.Info.Synthetic, d.Info.Note, d.Clients, d.Samples, d.HeldOut, d.Mean, d.PerClient, bars,
		d.Info.Classes, d.Labels, d.Skew, memory, d.Info.Digest,
	})
}
