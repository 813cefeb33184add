package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/png" // FEMNIST's images as data hubs publish them
	"io"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"
)

// openParquet reads FEMNIST or own data, told apart by their columns.
func openParquet(path string, f io.ReaderAt, size int64, opt Options) (*grouped, error) {
	var sums errgroup.Group
	var sum [32]byte
	sums.Go(func() (err error) {
		sum, err = hashAll(io.NewSectionReader(f, 0, size))
		return err
	})
	s, err := readParquet(f, size, opt)
	if hashed := sums.Wait(); err == nil {
		err = hashed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.info.Digest = opt.digest("parquet", sum)
	return s, nil
}

// readParquet is openParquet on an open file. The Parquet library panics on
// some damaged input; that is the file's fault and becomes an error here.
func readParquet(f io.ReaderAt, size int64, opt Options) (s *grouped, err error) {
	defer damaged(&err)
	file, err := openTable(f, size)
	if err != nil {
		return nil, err
	}
	t := sheet{file: file, f: f, size: size}
	switch {
	case t.has("writer_id", "image", "character"):
		return t.femnist(opt)
	case t.has("client", "x", "y"):
		return t.own(opt)
	}
	var names []string
	for _, c := range file.Root().Columns() {
		names = append(names, c.Name())
	}
	return nil, fmt.Errorf("found columns %s; want writer_id, image, character (FEMNIST) or client, x, y (own data)", strings.Join(names, ", "))
}

// damaged turns a panic of the Parquet library into an error.
func damaged(err *error) {
	if p := recover(); p != nil {
		if fault, ok := p.(runtime.Error); ok && strings.Contains(fault.Error(), "nil pointer") {
			*err = errors.New("damaged Parquet file: a part that its footer names is absent")
			return
		}
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// sheet is a Parquet file that is read column by column.
type sheet struct {
	file *parquet.File
	f    io.ReaderAt
	size int64
}

func (t *sheet) has(names ...string) bool {
	for _, n := range names {
		if t.file.Root().Column(n) == nil {
			return false
		}
	}
	return true
}

// leaf finds the one leaf below a column; image and lists nest theirs, and an
// image's struct has a path beside its bytes.
func (t *sheet) leaf(name string) (*parquet.Column, error) {
	c := t.file.Root().Column(name)
	for !c.Leaf() {
		below := c.Columns()
		next := c.Column("bytes")
		if next == nil && len(below) == 1 {
			next = below[0]
		}
		if next == nil {
			return nil, fmt.Errorf("column %s: found a group of %d columns, want one column, a list, or an image with its bytes", name, len(below))
		}
		c = next
	}
	return c, nil
}

// maxRows bounds a set: samples are numbered by int32.
const maxRows = math.MaxInt32

// rows counts the rows and checks them against the size of the file: nothing
// real compresses a row of width bytes to less than a thousandth.
func (t *sheet) rows(width int) ([]int, error) {
	starts := []int{0}
	total := 0
	for _, g := range t.file.RowGroups() {
		n := g.NumRows()
		if n < 0 || n > maxRows || total+int(n) > maxRows {
			return nil, fmt.Errorf("damaged: %d rows in one group", n)
		}
		total += int(n)
		starts = append(starts, total)
	}
	if total == 0 {
		return nil, errors.New("no row; want at least one sample")
	}
	if int64(total) > t.size*expansion/int64(width) {
		return nil, fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", t.size, total, width)
	}
	return starts, nil
}

// each runs do for every row group on all processors.
func (t *sheet) each(do func(group int) error) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for g := range t.file.RowGroups() {
		workers.Go(func() (err error) {
			defer damaged(&err)
			return do(g)
		})
	}
	return workers.Wait()
}

// values calls f with the values of one column in one row group, in order.
// They are valid during the call only.
func (t *sheet) values(group int, c *parquet.Column, f func(v parquet.Value) error) error {
	if err := t.checkPages(group, c.Index()); err != nil {
		return fmt.Errorf("column %s, row group %d: %w", strings.Join(c.Path(), "."), group, err)
	}
	pages := t.file.RowGroups()[group].ColumnChunks()[c.Index()].Pages()
	defer pages.Close()
	row := 0
	fail := func(err error) error {
		return fmt.Errorf("column %s, row group %d, value %d: %w", strings.Join(c.Path(), "."), group, row, err)
	}
	var buffer [512]parquet.Value
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fail(err)
		}
		reader := page.Values()
		for {
			n, err := reader.ReadValues(buffer[:])
			for _, v := range buffer[:n] {
				if err := f(v); err != nil {
					parquet.Release(page)
					return fail(err)
				}
				row++
			}
			if err == io.EOF {
				break
			}
			if err == nil && n == 0 {
				err = io.ErrNoProgress
			}
			if err != nil {
				parquet.Release(page)
				return fail(err)
			}
		}
		parquet.Release(page)
	}
}

// column reads a column of one value per row to dst.
func column[T any](t *sheet, group int, c *parquet.Column, dst []T, value func(v parquet.Value, dst *T) error) error {
	i := 0
	err := t.values(group, c, func(v parquet.Value) error {
		if i == len(dst) {
			return fmt.Errorf("more than the row group's %d rows", len(dst))
		}
		i++
		if v.IsNull() {
			return errors.New("no value (null)")
		}
		return value(v, &dst[i-1])
	})
	if err == nil && i < len(dst) {
		err = fmt.Errorf("column %s, row group %d: %d values for %d rows", c.Name(), group, i, len(dst))
	}
	return err
}

// labels reads a column of integers in 0..classes-1.
func (t *sheet) labels(group int, c *parquet.Column, dst []int32, classes int) error {
	return column(t, group, c, dst, func(v parquet.Value, dst *int32) error {
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
func (t *sheet) clients(starts []int, c *parquet.Column) (names []string, of [][]int32, err error) {
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
		return column(t, g, c, p.row, func(v parquet.Value, dst *int32) error {
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
func natural(names []string, of [][]int32, seed uint64) *grouping {
	g := new(grouping)
	for c, name := range names {
		train, held := split(seed, c, of[c])
		g.add(name, train, held)
	}
	return g
}

// femnist reads writer_id, image (784 bytes, or PNG) and character.
func (t *sheet) femnist(opt Options) (*grouped, error) {
	var leaves [3]*parquet.Column
	for i, name := range []string{"writer_id", "image", "character"} {
		var err error
		if leaves[i], err = t.leaf(name); err != nil {
			return nil, err
		}
	}
	if kind := leaves[1].Type().Kind(); kind != parquet.ByteArray && kind != parquet.FixedLenByteArray {
		return nil, fmt.Errorf("column image: found %s, want 784 bytes or a PNG", leaves[1].Type())
	}
	starts, err := t.rows(pixels)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, leaves[0])
	if err != nil {
		return nil, err
	}
	total := starts[len(starts)-1]
	s := grouped{task: "femnist", labels: make([]int32, total), info: imageInfo}
	images := make([]byte, total*pixels)
	s.rows = &byteRows{width: pixels, bytes: images, value: inkOf}
	s.info.Name = "femnist (parquet)"
	err = t.each(func(g int) error {
		if err := t.labels(g, leaves[2], s.labels[starts[g]:starts[g+1]], classes); err != nil {
			return err
		}
		rows := make([][]byte, starts[g+1]-starts[g])
		for i := range rows {
			at := (starts[g] + i) * pixels
			rows[i] = images[at : at+pixels]
		}
		return column(t, g, leaves[1], rows, func(v parquet.Value, dst *[]byte) error {
			if b := v.Bytes(); len(b) == pixels {
				copy(*dst, b)
				return nil
			}
			return grey(*dst, v.Bytes())
		})
	})
	if err != nil {
		return nil, err
	}
	return natural(names, of, opt.Seed).set(s)
}

// grey decodes a 28x28 PNG to bytes, 255 for white.
func grey(dst, encoded []byte) error {
	config, format, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil || format != "png" {
		return fmt.Errorf("an image of %d bytes that is no PNG, want 784 raw bytes or a PNG", len(encoded))
	}
	if config.Width != side || config.Height != side {
		return fmt.Errorf("an image of %dx%d pixels, want %dx%d", config.Width, config.Height, side, side)
	}
	m, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	if g, ok := m.(*image.Gray); ok && g.Stride == side {
		copy(dst, g.Pix)
		return nil
	}
	for i := range dst {
		// Grey in any of PNG's forms has equal channels; the green one is it.
		_, green, _, _ := m.At(i%side, i/side).RGBA()
		dst[i] = uint8(green >> 8)
	}
	return nil
}

// own reads client, x and y.
func (t *sheet) own(opt Options) (*grouped, error) {
	var leaves [3]*parquet.Column
	for i, name := range []string{"client", "x", "y"} {
		var err error
		if leaves[i], err = t.leaf(name); err != nil {
			return nil, err
		}
	}
	starts, err := t.rows(1)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, leaves[0])
	if err != nil {
		return nil, err
	}
	total := starts[len(starts)-1]
	limit := opt.Classes
	if limit == 0 {
		limit = maxClasses
	}
	s := grouped{labels: make([]int32, total)}
	err = t.each(func(g int) error { return t.labels(g, leaves[2], s.labels[starts[g]:starts[g+1]], limit) })
	if err != nil {
		return nil, err
	}
	s.info = Info{Name: "own data (parquet)", Classes: opt.Classes}
	if s.info.Classes == 0 {
		s.info.Classes = int(slices.Max(s.labels)) + 1
		s.info.note("%d classes, taken from the labels", s.info.Classes)
	}
	switch x := leaves[1]; x.Type().Kind() {
	case parquet.FixedLenByteArray, parquet.ByteArray:
		s.rows, s.info.Features, err = t.byteRows(starts, x)
	case parquet.Float, parquet.Double, parquet.Int32, parquet.Int64:
		s.rows, s.info.Features, err = t.floatRows(starts, x)
	default:
		err = fmt.Errorf("column x: found %s, want a list of numbers or a fixed number of bytes", x.Type())
	}
	if err != nil {
		return nil, err
	}
	return natural(names, of, opt.Seed).set(s)
}

func (t *sheet) byteRows(starts []int, x *parquet.Column) (rows, int, error) {
	parts := make([][]byte, len(starts)-1)
	widths := make([]int, len(parts))
	err := t.each(func(g int) error {
		cells := make([]struct{}, starts[g+1]-starts[g])
		return column(t, g, x, cells, func(v parquet.Value, _ *struct{}) error {
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
	return &byteRows{width: width, bytes: slices.Concat(parts...), value: fractionOf}, width, err
}

func (t *sheet) floatRows(starts []int, x *parquet.Column) (rows, int, error) {
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
		err := t.values(g, x, func(v parquet.Value) error {
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
	return &floatRows{width: width, values: slices.Concat(parts...)}, width, err
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

// footerSize reads the length field at the end of a Parquet file.
func footerSize(f io.ReaderAt, size int64) (int64, error) {
	var tail [8]byte
	if size < 12 {
		return 0, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return 0, err
	}
	if string(tail[4:]) != "PAR1" {
		return 0, errors.New("truncated Parquet file: it does not end in PAR1")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if n > size-12 {
		return 0, fmt.Errorf("truncated Parquet file: %d bytes cannot hold its footer of %d", size, n)
	}
	return n, nil
}
