package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
)

const (
	// margin is the largest shift of a shape, in pixels.
	margin = 3
	// canvas is the side of a shape in pixels, so large that shifts stay within it.
	canvas = federated.FEMNISTSide + 2*margin
	// shiftsPerAxis is the number of shifts of a shape in one direction, from -margin to margin pixels. A shape has
	// shiftsPerAxis * shiftsPerAxis shifts, which are numbered row by row.
	shiftsPerAxis = 2*margin + 1
	// shapes is the number of ways to write a character.
	shapes = 4
	// papers is the number of backgrounds.
	papers = 64
)

// How strongly the parts of an image count, in 1/256 of the character's shape,
// chosen so that 784-200-200-62 learns over tens of rounds and not at once.
const (
	// otherInk is the greatest strength of the second character, behind the first.
	otherInk = 160
	// paperInk is the strength of the background.
	paperInk = 112
	// noiseInk is the strength of the noise.
	noiseInk = 96
	// threshold is the ink below which a pixel stays white.
	threshold = 40
)

// handwriting is what all clients of the synthetic FEMNIST share: for every
// character some shapes, smooth random fields; backgrounds; noise.
type handwriting struct {
	shape [federated.FEMNISTClasses][shapes][canvas * canvas]tone
	paper [papers][federated.FEMNISTPixels]tone
	noise noise
}

// writing makes the handwriting at its first call. It is the same for every seed.
var writing = sync.OnceValue(func() *handwriting {
	w := new(handwriting)
	field := func(dst []tone, side, radius int, part, i, j uint64) {
		smooth(dst, keyed.Source(0, keyed.Synthetic, partTask, part, i, j), side, radius)
	}
	for k := range federated.FEMNISTClasses {
		var common, individual [canvas * canvas]tone
		field(common[:], canvas, 3, 0, uint64(k), 0)
		for m := range shapes {
			field(individual[:], canvas, 2, 1, uint64(k), uint64(m))
			for p := range common {
				w.shape[k][m][p] = toneOf((3*common[p].value() + 2*individual[p].value()) / 5)
			}
		}
	}
	for i := range papers {
		field(w.paper[i][:], federated.FEMNISTSide, 3, 2, uint64(i), 0)
	}
	w.noise.fill(keyed.Source(0, keyed.Synthetic, partTask, 3))
	return w
})

var syntheticFEMNIST = recipe{
	clients: 3000,
	// Training samples of the paper's 3,000 writers at each twentieth.
	counts: []int{
		15, 104, 117, 124, 128, 131, 133, 136, 137, 139, 140, 142, 144, 145, 169, 211, 241, 262, 285, 308,
		380,
	},
	info:   federated.FEMNISTInfo,
	make:   func(record []byte, client habits, label int, key uint64) { writing().draw(record, client, label, key) },
	coding: federated.Ink,

	recordBytes: federated.FEMNISTPixels,
}

// The features of an image that are habits of a client (see habits.choose). Below them, each number of a class
// stands for the shape in which the client writes that character.
const (
	shiftFeature = federated.FEMNISTClasses + iota
	paperFeature
)

// draw writes one image of the class label to record: the character in one of its shapes, a little off
// centre, another, weaker character behind it, the paper and noise. A client's habits are the shape of each
// character, the paper, and where on it to write. key decides all draws.
func (w *handwriting) draw(record []byte, client habits, label int, key uint64) {
	source := rand.NewPCG(key, ^key)
	shape := &w.shape[label][client.choose(source, uint64(label), shapes)]
	shift := client.choose(source, shiftFeature, shiftsPerAxis*shiftsPerAxis)
	paper := &w.paper[client.choose(source, paperFeature, papers)]

	// What is no habit comes from the bits of one random number. The class of the other character follows from its
	// highest bits, and the other values from lower ones.
	u := source.Uint64()
	otherShape := &w.shape[keyed.Below(u, federated.FEMNISTClasses)][u%shapes]
	otherShift := int((u >> 8) % (shiftsPerAxis * shiftsPerAxis))
	// strength is that of the other character, from 0 to otherInk.
	strength := (u >> 16 & 0xff) * otherInk / 255
	// offset is where the image's part of the noise begins.
	offset := int((u >> 32) % uint64(len(w.noise)-federated.FEMNISTPixels))

	for y := range federated.FEMNISTSide {
		shapeRow := shifted(shape[:], federated.FEMNISTSide, y, shift)
		otherRow := shifted(otherShape[:], federated.FEMNISTSide, y, otherShift)
		paperRow := paper[y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		noiseRow := w.noise[offset+y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		row := record[y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		for x := 0; x < len(row); x += 8 {
			// Pixels are drawn eight at a time; the last eight overlap those before.
			x := min(x, len(row)-8)
			// Each call returns the tones of the even and of the odd pixels.
			shape0, shape1 := tones(shapeRow[x:])
			other0, other1 := tones(otherRow[x:])
			paper0, paper1 := tones(paperRow[x:])
			noise0, noise1 := tones(noiseRow[x:])
			even := ink(shape0, other0, paper0, noise0, strength)
			odd := ink(shape1, other1, paper1, noise1, strength)
			// In the set white is 255 and black is 0.
			black := even | odd<<8
			binary.LittleEndian.PutUint64(row[x:], ^black)
		}
	}
}

// ink returns how black four pixels are, 0 to 255, in the lanes of a word: the weighted sum of the parts, less
// the threshold. shape, otherShape, paper and noise have the tones of these pixels in their lanes, and
// strength is the weight of otherShape. Weights are divided by 16 before the products, which changes no bit
// of the rounded sum and keeps all sums in 16 bits.
func ink(shape, otherShape, paper, noise, strength uint64) uint64 {
	v := strength*otherShape>>4&(lane*0x0fff) + paperInk/16*paper + noiseInk/16*noise
	v = v>>2&(lane*0x3fff) + 4*shape
	return clamp(v, 4*threshold+(8*strength+zero*(paperInk+noiseInk)/16)/4+4*zero)
}
