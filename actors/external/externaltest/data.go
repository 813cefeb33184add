package externaltest

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/edsrzf/mmap-go"

	"fedpace/actors/external"
	"fedpace/data/federated"
	"fedpace/learn"
)

// samples reads the samples that lie in files.
type samples struct {
	about *external.Data
	open  map[string]mmap.MMap
}

// bytes returns the bytes of an array in a file that the process has inherited. The file is mapped
// into memory at its first use.
func (s *samples) bytes(a *external.Array) []byte {
	content := s.open[a.Path]
	if content == nil {
		f, err := os.Open(a.Path)
		check(err)
		content, err = mmap.Map(f, mmap.RDONLY, 0)
		check(err)
		check(f.Close())
		s.open[a.Path] = content
	}
	n := map[string]int{"uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "float32": 4}[a.Type]
	for _, size := range a.Shape {
		n *= size
	}
	return content[a.Offset:][:n]
}

// number returns element i of an array a of integers, whatever their size. An array of another type
// is a mistake of the test.
func (s *samples) number(a *external.Array, i int) int {
	b := s.bytes(a)
	switch a.Type {
	case "uint8":
		return int(b[i])
	case "uint16":
		return int(binary.LittleEndian.Uint16(b[2*i:]))
	case "uint32":
		return int(binary.LittleEndian.Uint32(b[4*i:]))
	case "int32":
		return int(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
	panic(fmt.Sprintf("an array of %s", a.Type))
}

// floats are a row of an array of numbers.
func (s *samples) floats(a *external.Array, row int) []float32 {
	values := make([]float32, a.Shape[1])
	_, err := binary.Decode(s.bytes(a)[4*row*len(values):], binary.LittleEndian, values)
	check(err)
	return values
}

// append appends the sample of the given row to the batch, with its label or targets, as the kind
// of samples says where it lies.
func (s *samples) append(b *learn.Batch, row int) {
	of := &s.about.Samples
	// Each kind has its own arrays, see docs/trainers.md.
	switch of.Kind {
	case "bytes":
		width := of.Array.Shape[1]
		own := s.bytes(of.Array)[row*width:][of.Skip:width]
		part := len(own) / len(of.Planes)
		for i, x := range own {
			b.X = append(b.X, of.Planes[i/part][x])
		}
	case "floats":
		b.X = append(b.X, s.floats(of.Array, row)...)
	case "tokens":
		width := of.Array.Shape[1]
		b.Tokens = append(b.Tokens, s.bytes(of.Array)[row*width:][of.Skip:width]...)
	case "windows":
		b.Tokens = append(b.Tokens, s.bytes(of.Text)[s.number(of.Starts, row):][:s.about.Features]...)
	case "bags":
		from, to := s.number(of.Starts, row), s.number(of.Starts, row+1)
		index, value := federated.AppendBag(b, to-from)
		for i := range index {
			index[i] = int32(s.number(of.Word, from+i))
			value[i] = float32(s.number(of.Count, from+i)) / float32(s.number(of.Total, row))
		}
	default:
		panic("samples of kind " + of.Kind)
	}
	if s.about.Values != nil {
		b.Targets = append(b.Targets, s.floats(s.about.Values, row)...)
	} else {
		b.Labels = append(b.Labels, int32(s.number(s.about.Labels, row)))
	}
	b.N++
}
