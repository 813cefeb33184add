package data

import (
	"testing"

	"fedpace/actors/data/federated"
)

// BenchmarkFEMNIST reads the paper's 3,000 writers, 638,562 images, from Parquet.
func BenchmarkFEMNIST(b *testing.B) {
	path := real(b, "femnist/femnist.parquet")
	for b.Loop() {
		s, err := Open(path, federated.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
