package table

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/data/federated"
)

// vectors reads a column that holds all features of a row: a list of numbers, raw bytes, or an
// encoded image. All rows must have the same number of values, width.
type vectors struct {
	// shape is the shape of the images as channels, height and width; zeros mean that there is
	// none.
	shape [3]int
	// width is the number of values of a row; 0 means that it is not known yet.
	width int
	// bytes holds the values of all rows if they are bytes; otherwise values holds them.
	bytes []byte
	// values holds the values of all rows if they are numbers.
	values numbers
	// hole is the number that stands for a missing value.
	hole float64
	// vectorOf holds for each row that is complete the number of its vector: the vectors of the rows that
	// have values are stored one behind the other. -1 means that the row has none.
	vectorOf []int32
	// vectorCount is the number of vectors: those of complete rows that have values.
	vectorCount int
	// isListOpen says that the row behind the complete ones, of number len(vectorOf), has begun as a list, of
	// which more values may come.
	isListOpen bool
	// isBytes says that the rows are bytes or images, not lists of numbers.
	isBytes bool

	// channelsLast says that the values of a row are an image in the order of height, width and
	// channel.
	channelsLast bool

	// room returns how many rows of the given width in bytes are to come, as far as the size of the file allows; nil
	// means that nothing is known.
	room func(rowBytes int) int
	// losses is what rounding takes from each number of a row. It lacks the first row, at which nobody knows
	// yet how many numbers a row has. Of rows of several numbers it lacks those before the first large one,
	// from maxExactSingle on, because others, such as pixels, lose nothing that would matter.
	losses []roundingLoss
}

// reserve makes room for the given number of further rows, and for their values once their width is
// known. room is kept in the field of this name.
func (v *vectors) reserve(rows int, room func(rowBytes int) int) {
	v.vectorOf = slices.Grow(v.vectorOf, rows)
	v.room = room
	v.widen()
}

// widen allocates memory for the values of the rows to come, as many as the file can hold by its size. It
// does nothing as long as the width of a row or the size of the file is unknown.
func (v *vectors) widen() {
	switch {
	case v.room == nil || v.width == 0:
	case v.isBytes:
		v.bytes = slices.Grow(v.bytes, v.width*v.room(v.width))
	// In the file a number takes at least two bytes in a text, and more elsewhere.
	default:
		v.values.reserve(v.width * v.room(2*v.width))
	}
}

// take reads a cell: an image or raw bytes, a text of numbers, or one number of a list, whose others follow
// with the same row. It returns errMissing for a row without a value, for which no values are stored.
func (v *vectors) take(row int, c cell) error {
	words, err := c.words()
	if err != nil {
		return err
	}
	// The rows that are complete have an entry in v.vectorOf. The list of the row behind them may still be open.
	continuesList := v.isListOpen && row == len(v.vectorOf)
	if continuesList {
		return v.append(c, words)
	}
	if err := v.beginRow(row); err != nil {
		return err
	}
	switch {
	case c.kind == missingCell, c.kind == textCell && len(words) == 0:
		v.vectorOf = append(v.vectorOf, -1)
		return errMissing
	case c.kind == bytesCell:
		return v.image(c.bytes)
	case v.isBytes:
		return errNumberAfterBytes
	}
	// The list stays open, because the next cell of the same row belongs to it.
	v.isListOpen = true
	return v.append(c, words)
}

// takeRun takes a run of numbers: a part of one row's list, or rows of one number each.
func (v *vectors) takeRun(run *numberRun) error {
	if run.inOneRow {
		return v.takePart(run)
	}
	for i := range run.values {
		part := *run
		part.row = run.row + i
		part.values = run.values[i:][:1]
		if err := v.takePart(&part); err != nil {
			return err
		}
	}
	return nil
}

// takePart takes numbers of one row, as take does one by one. They continue the row's list if the calls before
// have begun it.
func (v *vectors) takePart(part *numberRun) error {
	continuesList := v.isListOpen && part.row == len(v.vectorOf)
	if !continuesList {
		if err := v.beginRow(part.row); err != nil {
			return err
		}
		if v.isBytes {
			return errNumberAfterBytes
		}
		v.isListOpen = true
	}
	firstIndex := v.values.len()
	v.values.appendRun(part)
	// Float32 loses nothing. In the first row the width is not known yet, and no loss is noted.
	if v.width > 0 && !part.isSingle {
		c := cell{kind: realCell}
		for i, x := range part.values {
			c.real = x
			v.addLoss(&c, x, firstIndex+i)
		}
	}
	return v.checkWidth()
}

// beginRow closes the list of the row before, if one is open, and checks that row is the next one. If it is not,
// the row has a value already, and its next value does not belong to a list of numbers: that is an error.
func (v *vectors) beginRow(row int) error {
	if err := v.close(); err != nil {
		return err
	}
	if row != len(v.vectorOf) {
		return errors.New("several values in a row; want one image, one text of numbers or one list of numbers")
	}
	return nil
}

// errNumberAfterBytes reports a number in a column whose rows before are bytes.
var errNumberAfterBytes = errors.New("a number after rows of bytes")

// checkWidth returns an error if the first row, whose width is not known yet, has too many numbers.
func (v *vectors) checkWidth() error {
	if v.values.len() > maxFeatures && v.width == 0 {
		return fmt.Errorf("a list of more than %d numbers", maxFeatures)
	}
	return nil
}

// append adds a part of a list to the values of the open row: the number in c or, if words is not
// empty, the numbers of these words. A missing number becomes hole, and errMissing is returned
// after all numbers are added.
func (v *vectors) append(c cell, words []string) (missing error) {
	// A cell that is no text counts as one number.
	for i := range max(1, len(words)) {
		if len(words) > 0 {
			c.text = words[i]
		}
		x, err := c.number()
		switch {
		case errors.Is(err, errMissing):
			// The row keeps its length, and the caller decides what happens to it.
			x = v.hole
			missing = err
		case err != nil:
			return err
		}
		v.values.append(x)
		if err == nil && v.width > 0 {
			v.addLoss(&c, x, v.values.len()-1)
		}
	}
	return cmp.Or(v.checkWidth(), missing)
}

// maxExactSingle bounds the whole numbers that float32 tells from their neighbours.
const maxExactSingle = 1 << 24

// addLoss notes what rounding takes from x, the number of c that stands at index i of v.values, in the losses of
// its place in the row. It does nothing for rows of several numbers until the first large one: see v.losses.
func (v *vectors) addLoss(c *cell, x float64, i int) {
	isWatched := v.losses != nil || v.width == 1 || math.Abs(x) >= maxExactSingle
	if !isWatched {
		return
	}
	if v.losses == nil {
		v.losses = make([]roundingLoss, v.width)
		for i := range v.losses {
			v.losses[i].precise = v.values.precise
		}
	}
	// The vectors before this row have v.width values each.
	indexInRow := i - v.vectorCount*v.width
	// A row that is too long fails when it is closed.
	if indexInRow < v.width {
		v.losses[indexInRow].add(c, x)
	}
}

// close completes the row whose list is open; without an open list it does nothing. The first list
// sets the width. It returns an error if a later list has another number of values.
func (v *vectors) close() error {
	if !v.isListOpen {
		return nil
	}
	v.isListOpen = false
	if v.width == 0 {
		v.width = v.values.len()
		v.widen()
	}
	// What lies behind the vectors of the rows before are the values of this row.
	if n := v.values.len() - v.vectorCount*v.width; n != v.width {
		return fmt.Errorf("row %d has %d numbers after rows of %d", len(v.vectorOf), n, v.width)
	}
	v.completeRow()
	return nil
}

// completeRow notes that the values of the present row are complete: they are the next vector.
func (v *vectors) completeRow() {
	v.vectorOf = append(v.vectorOf, int32(v.vectorCount))
	v.vectorCount++
}

// image adds a row whose value is b: raw bytes, or an image as PNG, JPEG or GIF, which is decoded
// to one byte for each value. Without a shape in the mapping, the first image sets the shape of
// all. It returns an error if a row has another number of values.
func (v *vectors) image(b []byte) error {
	kind, err := federated.ImageKind(b)
	if err != nil {
		return err
	}
	isImage := kind != ""
	if v.width == 0 {
		if err := v.setByteWidth(b, isImage); err != nil {
			return err
		}
	}
	switch {
	case !v.isBytes:
		return errors.New("bytes after rows of numbers")
	case isImage && v.shape[0] != 1 && v.shape[0] != 3:
		return fmt.Errorf("a %s after samples of %d bytes or with %d channels; want 1 or 3", kind, v.width, v.shape[0])
	// The image is decoded in place, behind the rows before.
	case isImage:
		start := len(v.bytes)
		v.bytes = federated.Grow(v.bytes, v.width)
		if err := federated.DecodeImage(v.bytes[start:], b, v.shape[1], v.shape[2]); err != nil {
			return err
		}
	case len(b) != v.width:
		if v.shape != [3]int{} {
			return fmt.Errorf(
				"%d bytes, want %d (an image of %d×%d×%d) or a PNG",
				len(b),
				v.width,
				v.shape[0],
				v.shape[1],
				v.shape[2],
			)
		}
		return fmt.Errorf("%d bytes after samples of %d", len(b), v.width)
	// Decoded images have their channels first already; raw bytes may not.
	case v.channelsLast:
		v.bytes = append(v.bytes, permuted(b, channelsFirst(v.shape))...)
	default:
		v.bytes = append(v.bytes, b...)
	}
	v.completeRow()
	return nil
}

// setByteWidth sets how many bytes each row has, by the first row, b: as many as the shape of the mapping has
// values or, without one, as the image has, or else as there are bytes.
func (v *vectors) setByteWidth(b []byte, isImage bool) error {
	if isImage && v.shape == [3]int{} {
		shape, err := imageShape(b)
		if err != nil {
			return err
		}
		v.shape = shape
	}
	v.width = v.shape[0] * v.shape[1] * v.shape[2]
	if v.width == 0 {
		v.width = len(b)
	}
	if v.width == 0 || v.width > maxFeatures {
		return fmt.Errorf("samples of %d bytes, want 1 to %d", v.width, maxFeatures)
	}
	v.isBytes = true
	v.widen()
	return nil
}

// checkLengths compares the lengths of a row's nested lists, the outermost first, with the shape.
// Each list must end where a channel, a row of pixels or a pixel ends: an image of
// channels×height×width may be a list of one, two or three levels.
func (v *vectors) checkLengths(lengths []int) error {
	shape := []int{v.shape[0], v.shape[1], v.shape[2]}
	order := "channel, height, width"
	remedy := "channels: last for height, width, channel"
	if v.channelsLast {
		shape = []int{v.shape[1], v.shape[2], v.shape[0]}
		order = "height, width, channel"
		remedy = "another shape, or no channels: last"
	}
	// listEnds has the numbers of values after which a list may end.
	listEnds := map[int]bool{1: true}
	size := 1
	for _, n := range slices.Backward(shape) {
		size *= n
		listEnds[size] = true
	}
	// size is the number of values in a list of the present level.
	size = 1
	for _, n := range slices.Backward(lengths) {
		size *= n
		if !listEnds[size] {
			return fmt.Errorf(
				"nested lists of %v values, and the shape wants %v (%s); want %s",
				lengths,
				shape,
				order,
				remedy,
			)
		}
	}
	return nil
}

// channelsFirst returns an order for permuted that brings the values of an image from height,
// width, channel to channel, height, width: for each position in the latter, the position in the
// former. shape has channels, height and width.
func channelsFirst(shape [3]int) []int {
	channels := shape[0]
	pixels := shape[1] * shape[2]
	order := make([]int, 0, channels*pixels)
	for channel := range channels {
		for pixel := range pixels {
			order = append(order, pixel*channels+channel)
		}
	}
	return order
}

// permuted returns the values in another order: position i of the result has the value at position
// order[i].
func permuted[T any](values []T, order []int) []T {
	list := make([]T, len(order))
	for i, place := range order {
		list[i] = values[place]
	}
	return list
}

// maxHoles is the largest number of values that may be filled in for rows without any, beyond eight
// times the others.
const maxHoles = 1 << 24

// spread moves the values of each row to the row's own position and fills rows without a value with
// v.hole. At least one row must have a value, so that v.width is known. It returns an error if so many
// rows lack a value that the fill would take much more memory than the data.
func (v *vectors) spread() error {
	missing := len(v.vectorOf) - v.vectorCount
	if missing > 8*v.vectorCount && missing > maxHoles/v.width {
		return fmt.Errorf("%d of %d rows have no value; want a file without them", missing, len(v.vectorOf))
	}
	if v.isBytes {
		v.bytes = spread(v.bytes, v.width, v.vectorOf, 0)
	} else {
		v.values.spread(v.width, v.vectorOf, v.hole)
	}
	return nil
}

// spread moves vectors of width values, which were read one behind the other, to the rows that they
// belong to. vectorOf has the number of each row's vector, or -1 for a row without one, which is
// filled with hole. The result has a vector for each row.
func spread[T any](values []T, width int, vectorOf []int32, hole T) []T {
	values = federated.Grow(values, len(vectorOf)*width-len(values))
	// No vector moves towards the beginning, so going backward overwrites none that is still needed.
	for row, vector := range slices.Backward(vectorOf) {
		target := values[row*width:][:width]
		if vector >= 0 {
			copy(target, values[int(vector)*width:])
			continue
		}
		for i := range target {
			target[i] = hole
		}
	}
	return values
}

// imageShape returns the channels, height and width of an encoded image, without decoding its
// pixels. It returns an error for an image of more than maxFeatures values.
func imageShape(encoded []byte) ([3]int, error) {
	shape, err := federated.ImageShape(encoded)
	if err != nil {
		return shape, err
	}
	height := shape[1]
	width := shape[2]
	if width == 0 || height > maxFeatures/width/shape[0] {
		return shape, fmt.Errorf("an image of %dx%d pixels is larger than %d values", width, height, maxFeatures)
	}
	return shape, nil
}
