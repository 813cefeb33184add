package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"unsafe"
)

// tone is how light a part of an image is at a pixel, -128 to 127, plus zero. Without a sign, eight tones can
// be computed with at once, in the lanes of two words.
type tone uint8

// zero is the tone of the number 0.
const zero = 128

// toneOf returns the tone of a number from -128 to 127.
func toneOf(v int) tone { return tone(v + zero) }

// value returns the number of which t is the tone.
func (t tone) value() int { return int(t) - zero }

// lane has a 1 in each lane of a word. A word has four lanes, numbers of 16 bits.
const lane = 0x0001_0001_0001_0001

// tones returns the first eight tones of a row in the lanes of two words: numbers 0, 2, 4 and 6, and numbers
// 1, 3, 5 and 7.
func tones(row []tone) (even, odd uint64) {
	v := binary.LittleEndian.Uint64(unsafe.Slice((*byte)(&row[0]), len(row)))
	return v & (lane * 0xff), v >> 8 & (lane * 0xff)
}

// clamp returns min(max(v-floor, 0), 255) for each of the four numbers in v, which are below 2^15. Each is in
// a lane of 16 bits of the word, so all four are computed at once: no sum below exceeds 16 bits, so none
// carries into the next lane. lane*x has the number x in each lane.
func clamp(v, floor uint64) uint64 {
	// maskOf sets all bits of each lane whose highest bit is set, and clears the other lanes.
	maskOf := func(v uint64) uint64 {
		highest := v >> 15 & lane
		return highest<<16 - highest
	}
	// The sum is v - floor, with the highest bit of the lane set unless that is negative.
	v += lane * (1<<15 - floor)
	// Negative lanes become 0, and the highest bit of the others is cleared.
	v &= maskOf(v) &^ (lane << 15)
	// Lanes of 256 and more become 255.
	tooLarge := maskOf(v + lane*(1<<15-256))
	return (v | tooLarge) & (lane * 0xff)
}

// noise is a table of random numbers of mean 0, of which each image takes a part.
type noise [1 << 14]tone

// fill sets each number to the mean of four uniform ones from -128 to 127, whose distribution is nearly normal.
func (n *noise) fill(source *rand.PCG) {
	for i := range n {
		// The four numbers are the lower bytes of one draw.
		u := source.Uint64()
		sum := int(int8(u)) + int(int8(u>>8)) + int(int8(u>>16)) + int(int8(u>>24))
		n[i] = toneOf(sum / 4)
	}
}

// smooth fills a square of side × side tones with a random field: random numbers, blurred twice by a box of
// the given radius and scaled to -127..127. It computes in integers, so that the field is the same everywhere.
func smooth(dst []tone, source *rand.PCG, side, radius int) {
	field := make([]int, side*side)
	blurred := make([]int, side*side)
	for i := range field {
		field[i] = int(int8(source.Uint64()))
	}
	// A pass blurs along the rows or, in turn, along the columns.
	for pass := range 4 {
		// along is the distance in memory of neighbours on a line that is blurred, across that of two lines.
		along := 1
		across := side
		if pass%2 > 0 {
			along = side
			across = 1
		}
		for i := range side {
			for k := range side {
				sum := 0
				for j := max(0, k-radius); j <= min(side-1, k+radius); j++ {
					sum += field[i*across+j*along]
				}
				blurred[i*across+k*along] = sum
			}
		}
		field, blurred = blurred, field
	}
	largest := 1
	for _, v := range field {
		largest = max(largest, v, -v)
	}
	for i, v := range field {
		dst[i] = toneOf(127 * v / largest)
	}
}

// shifted returns row y of an image of side × side pixels that is cut from the canvas of a shape, whose side is
// longer by 2·margin. shift is the number of the cut, from 0 to shiftsPerAxis² - 1.
func shifted(canvas []tone, side, y, shift int) []tone {
	firstRow := shift / shiftsPerAxis
	firstColumn := shift % shiftsPerAxis
	return canvas[(firstRow+y)*(side+2*margin)+firstColumn:][:side]
}
