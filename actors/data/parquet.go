package data

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/png" // images as data hubs publish them
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
)

// tabular is what readSheets reads, in the words of its errors.
const tabular = "writer_id, image, character (FEMNIST); img, fine_label, coarse_label (CIFAR-100); character_id, x, y (Shakespeare); sentiment, user, text (Sentiment140); or client, x, y (own data)"

// openParquet reads a file or a folder of Parquet, told apart by its columns.
func openParquet(path string, opt federated.Options) (s *federated.Grouped, err error) {
	defer func() {
		if err != nil && !strings.HasPrefix(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	defer damaged(&err)
	train, test, closeAll, err := openSheets(path)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if s, err = readSheets(train, test, opt); err != nil {
		return nil, err
	}
	sums, err := newSheet(slices.Concat(train.tables, test.tables)...).sums()
	if err != nil {
		return nil, err
	}
	s.About.Digest = opt.Digest("parquet "+s.About.Name, sums...)
	return s, nil
}

// readSheets makes the set of what columns there are. The Parquet library
// panics on some damaged input; that is the file's fault and an error here.
func readSheets(t, test *sheet, opt federated.Options) (s *federated.Grouped, err error) {
	defer damaged(&err)
	if t.has("img", "fine_label", "coarse_label") {
		return cifarSheets(t, test, opt)
	}
	if len(test.tables) > 0 {
		return nil, errors.New("found test files beside the training files, which are read for CIFAR-100 only; want the training files alone, which are split by client")
	}
	switch {
	case t.has("writer_id", "image", "character"):
		return t.femnist(opt)
	case t.has("character_id", "x", "y"):
		return t.shakespeare()
	case t.has("sentiment", "user", "text"):
		return t.sent140(opt)
	case t.has("client", "x", "y"):
		return t.own(opt)
	}
	var names []string
	for _, c := range t.tables[0].file.Root().Columns() {
		names = append(names, c.Name())
	}
	return nil, fmt.Errorf("found columns %s; want %s", strings.Join(names, ", "), tabular)
}

// labels reads a column of integers in 0..classes-1.
func (t *sheet) labels(group int, name string, dst []int32, classes int) error {
	return column(t, group, name, dst, func(v parquet.Value, dst *int32) error {
		l, ok := integer(v)
		if !ok || l < 0 || l >= int64(classes) {
			return fmt.Errorf("label %.40v is outside the %d classes, want 0 to %d", v, classes, classes-1)
		}
		*dst = int32(l)
		return nil
	})
}

func integer(v parquet.Value) (int64, bool) {
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	case parquet.Int32:
		return int64(v.Int32()), true
	case parquet.Int64:
		return v.Int64(), true
	}
	return 0, false
}

// clients reads a column of names, strings or integers, and groups the rows by
// them, in order of first appearance.
func (t *sheet) clients(starts []int, name string) (names []string, of [][]int32, err error) {
	// Each row group numbers its own names; the groups are joined in order.
	type part struct {
		names []string
		row   []int32
	}
	parts := make([]part, len(starts)-1)
	err = t.each(func(g int) error {
		p := &parts[g]
		p.row = make([]int32, starts[g+1]-starts[g])
		number := make(map[string]int32)
		last, at := []byte(nil), int32(-1)
		return column(t, g, name, p.row, func(v parquet.Value, dst *int32) error {
			name := v.Bytes()
			if kind := v.Kind(); kind == parquet.Int32 || kind == parquet.Int64 {
				name = fmt.Append(nil, v)
			} else if kind != parquet.ByteArray && kind != parquet.FixedLenByteArray {
				return fmt.Errorf("client %.40v, want a string or an integer", v)
			}
			if at >= 0 && bytes.Equal(name, last) {
				*dst = at
				return nil
			}
			n, ok := number[string(name)]
			if !ok {
				n = int32(len(p.names))
				p.names = append(p.names, string(name))
				number[p.names[n]] = n
			}
			last, at = append(last[:0], name...), n
			*dst = n
			return nil
		})
	})
	if err != nil {
		return nil, nil, err
	}
	number := make(map[string]int)
	for g, p := range parts {
		here := make([]int, len(p.names))
		for i, name := range p.names {
			n, ok := number[name]
			if !ok {
				n = len(names)
				number[name] = n
				names = append(names, name)
				of = append(of, nil)
			}
			here[i] = n
		}
		for i, n := range p.row {
			of[here[n]] = append(of[here[n]], int32(starts[g]+i))
		}
	}
	return names, of, nil
}

// natural makes a client of every name.
func natural(names []string, of [][]int32, seed uint64) *federated.Grouping {
	g := new(federated.Grouping)
	for c, name := range names {
		train, held := federated.Split(seed, c, of[c])
		g.Add(name, train, held)
	}
	return g
}

// femnist reads writer_id, image (784 bytes, or PNG) and character.
func (t *sheet) femnist(opt federated.Options) (*federated.Grouped, error) {
	starts, err := t.rows(federated.FEMNISTPixels)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, "writer_id")
	if err != nil {
		return nil, err
	}
	total := starts[len(starts)-1]
	s := federated.Grouped{Task: "femnist", Labels: make([]int32, total), About: federated.FEMNISTInfo}
	images := make([]byte, total*federated.FEMNISTPixels)
	s.Rows = &federated.ByteRows{Width: federated.FEMNISTPixels, Bytes: images, Value: federated.Inverted}
	s.About.Name = "femnist (parquet)"
	err = t.each(func(g int) error {
		if err := t.labels(g, "character", s.Labels[starts[g]:starts[g+1]], federated.FEMNISTClasses); err != nil {
			return err
		}
		rows := make([][]byte, starts[g+1]-starts[g])
		for i := range rows {
			at := (starts[g] + i) * federated.FEMNISTPixels
			rows[i] = images[at : at+federated.FEMNISTPixels]
		}
		return column(t, g, "image", rows, func(v parquet.Value, dst *[]byte) error {
			b, err := content(v)
			if len(b) == federated.FEMNISTPixels {
				copy(*dst, b)
				return nil
			}
			if err == nil {
				err = grey(*dst, b)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return natural(names, of, opt.Seed).Set(s)
}

// content is a value's bytes.
func content(v parquet.Value) ([]byte, error) {
	if k := v.Kind(); k != parquet.ByteArray && k != parquet.FixedLenByteArray {
		return nil, fmt.Errorf("found %.40v, want bytes or a string", v)
	}
	return v.Bytes(), nil
}

// picture decodes a PNG of the given side; its header is judged before any
// memory is taken.
func picture(encoded []byte, want int) (image.Image, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil || format != "png" {
		return nil, fmt.Errorf("an image of %d bytes that is no PNG, want a PNG of %dx%d pixels", len(encoded), want, want)
	}
	if config.Width != want || config.Height != want {
		return nil, fmt.Errorf("an image of %dx%d pixels, want %dx%d", config.Width, config.Height, want, want)
	}
	m, _, err := image.Decode(bytes.NewReader(encoded))
	return m, err
}

// grey decodes a 28x28 PNG to bytes, 255 for white.
func grey(dst, encoded []byte) error {
	m, err := picture(encoded, federated.FEMNISTSide)
	if err != nil {
		return err
	}
	if g, ok := m.(*image.Gray); ok && g.Stride == federated.FEMNISTSide {
		copy(dst, g.Pix)
		return nil
	}
	for i := range dst {
		// Grey in any of PNG's forms has equal channels; the green one is it.
		_, green, _, _ := m.At(i%federated.FEMNISTSide, i/federated.FEMNISTSide).RGBA()
		dst[i] = uint8(green >> 8)
	}
	return nil
}

// own reads client, x and y.
func (t *sheet) own(opt federated.Options) (*federated.Grouped, error) {
	starts, err := t.rows(1)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, "client")
	if err != nil {
		return nil, err
	}
	total := starts[len(starts)-1]
	limit := opt.Classes
	if limit == 0 {
		limit = federated.MaxClasses
	}
	s := federated.Grouped{Labels: make([]int32, total)}
	err = t.each(func(g int) error { return t.labels(g, "y", s.Labels[starts[g]:starts[g+1]], limit) })
	if err != nil {
		return nil, err
	}
	s.About = federated.Info{Name: "own data (parquet)", Classes: opt.Classes}
	if s.About.Classes == 0 {
		s.About.Classes = int(slices.Max(s.Labels)) + 1
		s.About.AddNote("%d classes, taken from the labels", s.About.Classes)
	}
	x, err := t.tables[0].leaf("x")
	if err != nil {
		return nil, fmt.Errorf("column x: %w", err)
	}
	switch x.Type().Kind() {
	case parquet.FixedLenByteArray, parquet.ByteArray:
		s.Rows, s.About.Features, err = t.byteRows(starts)
	case parquet.Float, parquet.Double, parquet.Int32, parquet.Int64:
		s.Rows, s.About.Features, err = t.floatRows(starts)
	default:
		err = fmt.Errorf("column x: found %s, want a list of numbers or a fixed number of bytes", x.Type())
	}
	if err != nil {
		return nil, err
	}
	return natural(names, of, opt.Seed).Set(s)
}

func (t *sheet) byteRows(starts []int) (federated.Rows, int, error) {
	parts := make([][]byte, len(starts)-1)
	widths := make([]int, len(parts))
	err := t.each(func(g int) error {
		cells := make([]struct{}, starts[g+1]-starts[g])
		return column(t, g, "x", cells, func(v parquet.Value, _ *struct{}) error {
			b := v.Bytes()
			if widths[g] == 0 {
				widths[g] = len(b)
			}
			if len(b) == 0 || len(b) != widths[g] {
				return fmt.Errorf("%d bytes after samples of %d", len(b), widths[g])
			}
			parts[g] = append(parts[g], b...)
			return nil
		})
	})
	if err != nil {
		return nil, 0, err
	}
	width, err := oneWidth(widths)
	return &federated.ByteRows{Width: width, Bytes: slices.Concat(parts...), Value: federated.Fraction}, width, err
}

func (t *sheet) floatRows(starts []int) (federated.Rows, int, error) {
	parts := make([][]float32, len(starts)-1)
	widths := make([]int, len(parts))
	err := t.each(func(g int) error {
		n, at := 0, 0 // rows so far, numbers of the last of them
		done := func() error {
			if n == 1 {
				widths[g] = at
			}
			if n > 0 && (at == 0 || at != widths[g]) {
				return fmt.Errorf("row %d has %d numbers after rows of %d", n-1, at, widths[g])
			}
			return nil
		}
		err := t.values(g, "x", func(v parquet.Value) error {
			if v.RepetitionLevel() == 0 {
				if err := done(); err != nil {
					return err
				}
				n++
				at = 0
			}
			number, err := float(v)
			if err != nil {
				return err
			}
			parts[g] = append(parts[g], number)
			at++
			return nil
		})
		if err == nil {
			err = done()
		}
		if want := starts[g+1] - starts[g]; err == nil && n != want {
			err = fmt.Errorf("column x, row group %d: %d rows, want %d", g, n, want)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	width, err := oneWidth(widths)
	return &federated.FloatRows{Width: width, Values: slices.Concat(parts...)}, width, err
}

func float(v parquet.Value) (float32, error) {
	var x float64
	switch {
	case v.IsNull():
		return 0, errors.New("column x: no number (null)")
	case v.Kind() == parquet.Float:
		x = float64(v.Float())
	case v.Kind() == parquet.Double:
		x = v.Double()
	default:
		i, _ := integer(v)
		x = float64(i)
	}
	y := float32(x)
	if math.IsNaN(x) || math.IsInf(float64(y), 0) {
		return 0, fmt.Errorf("column x: %v is no finite float32", x)
	}
	return y, nil
}

// oneWidth joins the widths of the row groups, 0 for an empty one.
func oneWidth(widths []int) (int, error) {
	width := 0
	for g, w := range widths {
		if width == 0 {
			width = w
		}
		if w != 0 && w != width {
			return 0, fmt.Errorf("column x, row group %d: %d numbers a row after rows of %d", g, w, width)
		}
	}
	return width, nil
}

func init() {
	Readers.Register("parquet", "a Parquet file or a folder of them ("+tabular+")", Parquet{})
}

// Parquet reads Parquet files by their columns.
type Parquet struct{}

// Recognises implements [Reader].
func (Parquet) Recognises(s *Source) Match {
	switch {
	case s.Folder && len(parquetFiles(s.Path)) > 0, strings.HasPrefix(s.Head, "PAR1"):
		return ByContent
	case !s.Folder && strings.HasSuffix(s.Name(), ".parquet"):
		return ByName
	}
	return NoMatch
}

// Open implements [Reader].
func (Parquet) Open(s *Source, o federated.Options) (federated.Set, error) {
	return openParquet(s.Path, o)
}
