package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"unsafe"
)

// tone is how light a part of an image is at a pixel: -128..127, held from 0 on, so that
// eight of them are computed at once in two words.
type tone uint8

const zero = 128

// toneOf keeps a small number, negative or not, in a tone's byte.
func toneOf(v int) tone { return tone(v + zero) }

// value is the number that the tone keeps.
func (t tone) value() int { return int(t) - zero }

// lane is 1 in each of a word's four numbers of 16 bits.
const lane = 0x0001_0001_0001_0001

// tones are the first eight of a row, by lane: the even ones and the odd ones.
func tones(row []tone) (even, odd uint64) {
	v := binary.LittleEndian.Uint64(unsafe.Slice((*byte)(&row[0]), len(row)))
	return v & (lane * 0xff), v >> 8 & (lane * 0xff)
}

// clamp is min(max(v-least, 0), 255) by lane, of numbers below 2^15.
func clamp(v, floor uint64) uint64 {
	all := func(bits uint64) uint64 { return bits>>15&lane<<16 - bits>>15&lane } // where a lane's highest bit is set
	v += lane * (1<<15 - floor)
	v &= all(v) &^ (lane << 15)
	return (v | all(v+lane*(1<<15-256))) & (lane * 0xff)
}

// noise is random numbers of mean 0.
type noise [1 << 14]tone

// fill takes means of four uniform numbers, which is near enough to normal.
func (n *noise) fill(source *rand.PCG) {
	for i := range n {
		u := source.Uint64()
		n[i] = toneOf((int(int8(u)) + int(int8(u>>8)) + int(int8(u>>16)) + int(int8(u>>24))) / 4)
	}
}

// smooth fills a square with a random field, blurred twice by a box of the
// given radius and stretched to -127..127. Only integers: the same everywhere.
func smooth(dst []tone, source *rand.PCG, side, radius int) {
	a := make([]int, side*side)
	b := make([]int, side*side)
	for i := range a {
		a[i] = int(int8(source.Uint64()))
	}
	for pass := range 4 { // along rows and columns in turn
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
					sum += a[i*across+j*along]
				}
				b[i*across+k*along] = sum
			}
		}
		a, b = b, a
	}
	top := 1
	for _, v := range a {
		top = max(top, v, -v)
	}
	for i, v := range a {
		dst[i] = toneOf(127 * v / top)
	}
}

// shifted is row y of a shape on its canvas, seen from one of step*step places.
func shifted(shape []tone, side, y, place int) []tone {
	return shape[(y+place/step)*(side+2*margin)+place%step:][:side]
}
