package external

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"

	"fedpace/data/federated"
	"fedpace/internal/child"
	"fedpace/internal/vector"
	"fedpace/learn"
)

// Data describes samples in files, as the greeting passes them to a process.
type Data struct {
	// Input is the kind of samples: dense, sparse or tokens.
	Input string `json:"input"`
	// Features is the number of values or tokens of a sample, or of words in the vocabulary of a
	// bag.
	Features int `json:"features"`
	// Classes is the number of classes, 0 if samples have targets.
	Classes int `json:"classes"`
	// Targets is the number of values to be predicted, 0 if samples have a label.
	Targets int `json:"targets"`
	// Vocabulary is the number of different tokens, 0 for other samples.
	Vocabulary int `json:"vocabulary"`
	// Image holds channels, height and width of images. It is zero for other samples.
	Image [3]int `json:"image"`
	// Clients is the number of clients.
	Clients int `json:"clients"`
	// Rows is the number of all samples.
	Rows int `json:"rows"`
	// Labels holds the class of each row, and Values its targets; one of the two is nil.
	Labels *Array `json:"labels"`
	Values *Array `json:"values"`
	// Samples says where the samples themselves lie.
	Samples Samples `json:"samples"`
}

// Array is an array of numbers in a file, row by row.
type Array struct {
	// Path names the file by its descriptor in the process, such as /dev/fd/6.
	Path string `json:"path"`
	// Offset is where the array begins in the file, in bytes.
	Offset int64 `json:"offset"`
	// Type is the type of an element, such as float32, in little-endian order.
	Type string `json:"type"`
	// Shape holds the sizes, the outermost dimension first.
	Shape []int `json:"shape"`
}

// Samples is where samples lie (docs/trainers.md). Kind decides which of the other fields are set.
type Samples struct {
	// Kind is bytes, floats, tokens, windows or bags.
	Kind   string          `json:"kind"`
	Array  *Array          `json:"array,omitempty"`
	Skip   int             `json:"skip"`
	Planes []*[256]float32 `json:"planes,omitempty"`
	Text   *Array          `json:"text,omitempty"`
	Starts *Array          `json:"starts,omitempty"`
	Word   *Array          `json:"word,omitempty"`
	Count  *Array          `json:"count,omitempty"`
	Total  *Array          `json:"total,omitempty"`
}

// Shared is a data set whose samples processes can read. Nil is the set of a process that brings
// its own.
type Shared struct {
	about Data
	set   federated.Numbered
	// open are the files that processes inherit, from descriptor firstFile on.
	open []*os.File
	// temporary is the first of them, which was made here. writer writes to it.
	temporary *os.File
	writer    *bufio.Writer
	// written is the number of bytes in the temporary file.
	written int
}

// firstFile is the descriptor of the first file of samples in a process.
const firstFile = 6

// Share lays a set's samples out for other processes. What lies in a prepared file is read there;
// everything else is written to a temporary file without a name. It is an error if the set is not
// in memory. Close it after use.
func Share(set federated.Set) (_ *Shared, err error) {
	info := set.Info()
	in, ok := set.(federated.InMemory)
	if !ok {
		return nil, fmt.Errorf("trainer: %s is a %T, which cannot be handed to another process", info.Name, set)
	}
	// If isCopy is true, the samples in g were copied for this call and have no other user.
	g, isCopy := in.InMemory()
	s := &Shared{set: g}
	s.temporary, err = child.TemporaryFile()
	if err != nil {
		return nil, err
	}
	s.open = []*os.File{s.temporary}
	s.writer = bufio.NewWriterSize(s.temporary, 1<<20)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// The process learns the format of the samples from the greeting.
	s.about = Data{
		Input:      [...]string{learn.Dense: "dense", learn.Sparse: "sparse", learn.Tokens: "tokens"}[info.Input],
		Features:   info.Features,
		Classes:    info.Classes,
		Targets:    info.Targets,
		Vocabulary: info.Vocabulary,
		Image:      info.Image,
		Clients:    set.Clients(),
	}
	err = s.writeSamples(g)
	if isCopy {
		// The samples are in the file now, so their memory can be freed.
		g.Rows = nil
		g.Labels = nil
		g.Targets = nil
	}
	return s, err
}

// Close closes the temporary file, which the system removes when no process has it open any more.
// Nil and a second call are fine.
func (s *Shared) Close() error {
	if s == nil || s.temporary == nil {
		return nil
	}
	temporary := s.temporary
	s.temporary = nil
	return temporary.Close()
}

// writeSamples writes the labels or targets and the samples of g, and describes in s.about where they
// lie. It is an error if the samples are of a kind that cannot be handed over.
func (s *Shared) writeSamples(g *federated.Grouped) error {
	if n := g.About.Targets; n > 0 {
		s.about.Rows = len(g.Targets) / n
		s.about.Values = put(s, g.Targets, s.about.Rows, n)
	} else if len(g.Labels) > 0 {
		s.about.Rows = len(g.Labels)
		s.about.Labels = put(s, g.Labels, s.about.Rows)
	}
	rows := g.Rows
	// Packed images are handed over as plain bytes.
	if ink, ok := rows.(*federated.InkRows); ok {
		rows = ink.Unpacked()
	}
	samples := &s.about.Samples
	// Each kind of storage has its own arrays, which the process reads by their names.
	switch r := rows.(type) {
	case *federated.ByteRows:
		s.byteRows(r)
	case *federated.FloatRows:
		samples.Kind = "floats"
		samples.Array = put(s, r.Values, len(r.Values)/r.Width, r.Width)
	case *federated.TextRows:
		samples.Kind = "windows"
		samples.Text = put(s, r.Text, len(r.Text))
		samples.Starts = put(s, r.Starts, len(r.Starts))
	case *federated.BagRows:
		samples.Kind = "bags"
		samples.Starts = put(s, r.Starts, len(r.Starts))
		samples.Word = put(s, r.Tokens, len(r.Tokens))
		samples.Count = put(s, r.Counts, len(r.Counts))
		samples.Total = put(s, r.Totals, len(r.Totals))
	default:
		return fmt.Errorf(
			"trainer: the samples of %s are %T, which cannot be handed to another process",
			g.About.Name,
			r,
		)
	}
	// The writer keeps the first error of everything that was written.
	if err := s.writer.Flush(); err != nil {
		return fmt.Errorf("trainer: a temporary file for the samples: %w", err)
	}
	return nil
}

// byteRows describes rows of bytes: images, whose bytes stand for numbers (Planes has a table of them for each plane of
// an image), or tokens. The process skips the first Skip bytes of a row. Rows of a prepared file are read there by the
// process; others are written to the temporary file.
func (s *Shared) byteRows(r *federated.ByteRows) {
	samples := &s.about.Samples
	samples.Kind = "bytes"
	samples.Skip = r.Coding.Skip
	samples.Planes = r.Coding.Planes
	if len(samples.Planes) == 0 {
		samples.Kind = "tokens"
	}
	count := len(r.Bytes) / r.Width
	if r.File == nil {
		samples.Array = put(s, r.Bytes, count, r.Width)
		return
	}
	samples.Array = s.inFile(r.File, r.Offset, "uint8", count, r.Width)
}

// inFile describes an array in an open file f, which processes inherit under a number: offset is
// where it begins, in bytes, kind is the type of its elements, and shape holds its sizes. A file
// that is used several times is inherited once.
func (s *Shared) inFile(f *os.File, offset int64, kind string, shape ...int) *Array {
	i := slices.Index(s.open, f)
	if i < 0 {
		i = len(s.open)
		s.open = append(s.open, f)
	}
	return &Array{
		Path:   fmt.Sprintf("/dev/fd/%d", firstFile+i),
		Offset: offset,
		Type:   kind,
		Shape:  shape,
	}
}

// put appends numbers to the temporary file at an aligned offset, and describes them as an array with
// the sizes of shape. It ignores errors, as the writer returns its first one from Flush.
func put[T vector.Number](s *Shared, list []T, shape ...int) *Array {
	offset := child.Align(s.written)
	s.writer.Write(make([]byte, offset-s.written))
	s.writer.Write(vector.Bytes(list))
	s.written = offset + len(list)*vector.Size[T]()
	return s.inFile(s.temporary, int64(offset), fmt.Sprintf("%T", *new(T)), shape...)
}
