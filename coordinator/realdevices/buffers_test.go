package realdevices

import (
	"slices"
	"testing"

	"fedpace/bus"
)

// A device sends its buffers as they are, and as differences where updates are compressed.
func TestDevices_Buffers(t *testing.T) {
	base := []float32{1, 2, 10, 20}
	for name, x := range map[string]struct {
		compression string
		values      []float32
	}{
		"whole":      {"", []float32{5, 6, 11, 18}},
		"compressed": {"sign", []float32{4, 4, 1, -2}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Devices{
				run:     Run{Params: 4, Trainable: 2, UpdateLength: 2, Spec: &bus.Spec{Compression: x.compression}},
				updates: map[uint64]*Answer{7: {Values: x.values}},
			}
			if got := d.Buffers(7, base); !slices.Equal(got, []float32{11, 18}) {
				t.Errorf("%v", got)
			}
		})
	}
}
