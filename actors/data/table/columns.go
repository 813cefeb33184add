package table

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/internal/source"
)

// names takes a column whose values name something: clients or classes.
type nameColumn struct {
	federated.Names
	of    []int32 // by row; -1: missing
	known bool    // the list is given, and another name is an error
}

func (n *nameColumn) take(_ int, c cell) error {
	name := c.name()
	if name == "" {
		n.of = append(n.of, -1)
		return errMissing
	}
	before := len(n.List)
	i := n.Number(name)
	if i == before && n.known {
		return fmt.Errorf("%.40q is none of the classes %s", name, shortList(n.List[:before]))
	}
	n.of = append(n.of, int32(i))
	return nil
}

// maxClassName bounds the name of a class, which messages and reports hold.
const maxClassName = 256

// classNames takes a column of labels.
type classNames struct {
	nameColumn
	plain int // labels are whole numbers below it; 0: of any kind
}

func newClassNames(t *Table, classes int) *classNames {
	c := new(classNames)
	for _, name := range t.Classes {
		c.Number(name)
	}
	c.known = t.Classes != nil
	if t.plain {
		c.plain = cmp.Or(classes, federated.MaxClasses)
	}
	return c
}

func (l *classNames) take(row int, c cell) error {
	if l.plain > 0 && (c.kind != wholeCell || c.whole < 0 || c.whole >= int64(l.plain)) {
		return fmt.Errorf("label %.40v is outside the %d classes, want 0 to %d", c.name(), l.plain, l.plain-1)
	}
	before := len(l.List)
	if err := l.nameColumn.take(row, c); err != nil || len(l.List) == before {
		return err
	}
	switch name := l.List[before]; {
	case before == federated.MaxClasses:
		return fmt.Errorf("more than %d different labels; want target for numbers to predict", federated.MaxClasses)
	case len(name) > maxClassName || !utf8.ValidString(name):
		return fmt.Errorf("label %.40q is no name of a class (at most %d bytes of UTF-8)", name, maxClassName)
	}
	return nil
}

// labels are the classes of the rows. Whole numbers from 0 are classes as they are,
// and named is nil; otherwise the names are sorted, numbers by their value. -1 stays.
func (l *classNames) labels(classes int) (labels []int32, count int, named []string, err error) {
	numbers, whole := l.wholeNumbers()
	to := make([]int32, len(l.List))
	switch {
	case l.known:
		return l.of, len(l.List), l.List, nil
	case whole && slices.Min(numbers) >= 0 && slices.Max(numbers) < federated.MaxClasses:
		count = cmp.Or(classes, int(slices.Max(numbers))+1)
		if most := slices.Max(numbers); most >= int64(count) {
			return nil, 0, nil, fmt.Errorf("label %d is outside the %d classes, want 0 to %d", most, count, count-1)
		}
		for i, n := range numbers {
			to[i] = int32(n)
		}
	default:
		if classes != 0 && classes != len(l.List) {
			return nil, 0, nil, fmt.Errorf("%d different labels (%s), want %d classes", len(l.List), shortList(l.List), classes)
		}
		order := make([]int, len(l.List))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			if whole {
				return cmp.Compare(numbers[a], numbers[b])
			}
			return cmp.Compare(l.List[a], l.List[b])
		})
		for class, i := range order {
			to[i] = int32(class)
			named = append(named, l.List[i])
		}
		count = len(named)
	}
	labels = make([]int32, len(l.of))
	for row, i := range l.of {
		if labels[row] = -1; i >= 0 {
			labels[row] = to[i]
		}
	}
	return labels, count, named, nil
}

// wholeNumbers are the labels as such, if all are.
func (l *classNames) wholeNumbers() ([]int64, bool) {
	numbers := make([]int64, len(l.List))
	for i, name := range l.List {
		n, err := strconv.ParseInt(strings.TrimSuffix(name, ".0"), 10, 64)
		if err != nil {
			return nil, false
		}
		numbers[i] = n
	}
	return numbers, len(numbers) > 0
}

// parts takes the column that says which rows are held out.
type parts struct{ held []bool }

func (p *parts) take(_ int, c cell) error {
	switch word := strings.ToLower(c.name()); word {
	case "train", "training", "0", "false":
		p.held = append(p.held, false)
	case "test", "testing", "val", "valid", "validation", "held out", "held-out", "held_out", "1", "true":
		p.held = append(p.held, true)
	case "":
		p.held = append(p.held, false)
		return errMissing
	default:
		return fmt.Errorf("%.40q is no part; want train or test, or 0 for training and 1 for held out", word)
	}
	return nil
}

// matrix takes columns of numbers, one value of each for a row.
type matrix struct {
	width  int
	values []float32
	mu     sync.Mutex
}

// reserve makes room for rows, so that columns may come at the same time.
func (m *matrix) reserve(rows int) {
	if more := rows*m.width - len(m.values); more > 0 {
		m.values = federated.Grow(m.values, more)
	}
}

func (m *matrix) column(at int, missing float32) taker {
	return func(row int, c cell) error {
		i := row*m.width + at
		if i >= len(m.values) { // of CSV, whose rows come one by one
			m.reserve(row + 1)
		}
		x, err := c.number()
		if err != nil {
			x = missing
		}
		m.values[i] = x
		return err
	}
}

// vectors takes one column that has all values of a row: a list of numbers, bytes,
// or an image.
type vectors struct {
	shape  [3]int // zeros: not known yet
	width  int    // values of a row; 0: not known yet
	bytes  []byte
	values []float32
	rows   int // complete ones
	empty  int // rows without a value before the first with one
	row    int // the row of values that is not complete
	open   bool
	isText bool // rows are of bytes
}

func (v *vectors) take(row int, c cell) error {
	if v.open && row != v.row {
		if err := v.close(); err != nil {
			return err
		}
	}
	switch {
	case c.kind == missingCell, c.kind == textCell && len(c.words()) == 0:
		return v.skip(row)
	case c.kind == bytesCell:
		return v.image(c.bytes)
	case v.isText:
		return fmt.Errorf("a number after rows of bytes")
	case c.kind != textCell:
		return v.append(row, c.number)
	}
	for _, word := range c.words() {
		if err := v.append(row, func() (float32, error) { return parseNumber(word) }); err != nil {
			return err
		}
	}
	return nil
}

func (v *vectors) append(row int, number func() (float32, error)) error {
	v.open, v.row = true, row
	x, err := number()
	v.values = append(v.values, x)
	if len(v.values) > maxFeatures && v.width == 0 {
		return fmt.Errorf("a list of more than %d numbers", maxFeatures)
	}
	return err
}

// close completes a row of numbers.
func (v *vectors) close() error {
	if !v.open {
		return nil
	}
	v.open = false
	if v.width == 0 {
		v.width = len(v.values)
		v.values = append(make([]float32, v.empty*v.width), v.values...)
		v.rows = v.empty
	}
	if n := len(v.values) - v.rows*v.width; n != v.width {
		return fmt.Errorf("row %d has %d numbers after rows of %d", v.row, n, v.width)
	}
	v.rows++
	return nil
}

// skip notes a row without values.
func (v *vectors) skip(int) error {
	if v.width == 0 {
		v.empty++
		return errMissing
	}
	v.rows++
	if v.isText {
		v.bytes = append(v.bytes, make([]byte, v.width)...)
	} else {
		v.values = append(v.values, make([]float32, v.width)...)
	}
	return errMissing
}

// image takes bytes, or a PNG, which has its shape from the first one if none is
// given.
func (v *vectors) image(b []byte) error {
	isPNG := bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n"))
	if v.width == 0 {
		if len(v.values) > 0 {
			return fmt.Errorf("bytes after rows of numbers")
		}
		if isPNG && v.shape == [3]int{} {
			shape, err := shapeOf(b)
			if err != nil {
				return err
			}
			v.shape = shape
		}
		if v.width = v.shape[0] * v.shape[1] * v.shape[2]; v.width == 0 {
			v.width = len(b)
		}
		if v.width == 0 || v.width > maxFeatures {
			return fmt.Errorf("samples of %d bytes, want 1 to %d", v.width, maxFeatures)
		}
		v.isText, v.rows, v.bytes = true, v.empty, make([]byte, v.empty*v.width)
	}
	switch {
	case !v.isText:
		return fmt.Errorf("bytes after rows of numbers")
	case isPNG && v.shape[0] != 1 && v.shape[0] != 3:
		return fmt.Errorf("a PNG after samples of %d bytes or with %d channels; want 1 or 3", v.width, v.shape[0])
	case isPNG:
		at := len(v.bytes)
		v.bytes = federated.Grow(v.bytes, v.width)
		if err := source.DecodePNG(v.bytes[at:], b, v.shape[1], v.shape[2]); err != nil {
			return err
		}
	case len(b) != v.width:
		if v.shape != [3]int{} {
			return fmt.Errorf("%d bytes, want %d (an image of %d×%d×%d) or a PNG", len(b), v.width, v.shape[0], v.shape[1], v.shape[2])
		}
		return fmt.Errorf("%d bytes after samples of %d", len(b), v.width)
	default:
		v.bytes = append(v.bytes, b...)
	}
	v.rows++
	return nil
}

// shapeOf is the shape of a PNG: one channel if it is grey, else three.
func shapeOf(encoded []byte) ([3]int, error) {
	c, err := png.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return [3]int{}, fmt.Errorf("a damaged PNG: %w", err)
	}
	channels := 3
	if c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model {
		channels = 1
	}
	if c.Height > maxFeatures/c.Width/channels {
		return [3]int{}, fmt.Errorf("an image of %dx%d pixels is larger than %d values", c.Width, c.Height, maxFeatures)
	}
	return [3]int{channels, c.Height, c.Width}, nil
}

// texts takes a column of texts.
type texts struct {
	all  []byte
	ends []int
}

func (t *texts) take(_ int, c cell) error {
	t.all = append(append(t.all, c.bytes...), c.text...)
	t.ends = append(t.ends, len(t.all))
	if len(t.all) > federated.MaxSamples {
		return fmt.Errorf("more than %d bytes of text", federated.MaxSamples)
	}
	if c.kind == missingCell {
		return errMissing
	}
	return nil
}

func (t *texts) row(i int32) []byte {
	from := 0
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.all[from:t.ends[i]]
}
