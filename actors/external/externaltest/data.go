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

// floats returns a row of an array of 32-bit floats.
func (s *samples) floats(a *external.Array, row int) []float32 {
	values := make([]float32, a.Shape[1])
	_, err := binary.Decode(s.bytes(a)[4*row*len(values):], binary.LittleEndian, values)
	check(err)
	return values
}

// append appends the sample of the given row to the batch, with its label or targets. The kind of the
// samples decides which arrays they lie in, see docs/trainers.md.
func (s *samples) append(b *learn.Batch, row int) {
	layout := &s.about.Samples
	switch layout.Kind {
	case "bytes":
		width := layout.Array.Shape[1]
		pixels := s.bytes(layout.Array)[row*width:][layout.Skip:width]
		planeLength := len(pixels) / len(layout.Planes)
		for i, x := range pixels {
			b.X = append(b.X, layout.Planes[i/planeLength][x])
		}
	case "floats":
		b.X = append(b.X, s.floats(layout.Array, row)...)
	case "tokens":
		width := layout.Array.Shape[1]
		b.Tokens = append(b.Tokens, s.bytes(layout.Array)[row*width:][layout.Skip:width]...)
	case "windows":
		b.Tokens = append(b.Tokens, s.bytes(layout.Text)[s.number(layout.Starts, row):][:s.about.Features]...)
	case "bags":
		start := s.number(layout.Starts, row)
		end := s.number(layout.Starts, row+1)
		index, value := federated.AppendBag(b, end-start)
		for i := range index {
			index[i] = int32(s.number(layout.Word, start+i))
			value[i] = float32(s.number(layout.Count, start+i)) / float32(s.number(layout.Total, row))
		}
	default:
		panic("samples of kind " + layout.Kind)
	}
	if s.about.Values != nil {
		b.Targets = append(b.Targets, s.floats(s.about.Values, row)...)
	} else {
		b.Labels = append(b.Labels, int32(s.number(s.about.Labels, row)))
	}
	b.N++
}
