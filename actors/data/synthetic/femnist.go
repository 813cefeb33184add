package synthetic

import (
	"math/rand/v2"
	"sync"

	"fedpace/actors/data/federated"
	"fedpace/internal/keyed"
)

const (
	margin = 3                                // largest shift of a shape, in pixels
	canvas = federated.FEMNISTSide + 2*margin // side of a shape, so that shifts need no bounds
	step   = 2*margin + 1                     // shifts in one direction
	shapes = 4                                // ways to write a character
	papers = 64                               // backgrounds
)

// How strongly the parts of an image count, in 1/256 of the character's shape,
// chosen so that 784-200-200-62 learns over tens of rounds and not at once.
const (
	otherInk  = 160 // at most: a second character behind the first
	paperInk  = 112
	noiseInk  = 96
	threshold = 40 // what stays white
)

// handwriting is what all clients of the synthetic FEMNIST share: for every
// character some shapes, smooth random fields in -127..127; backgrounds; noise.
type handwriting struct {
	shape [federated.FEMNISTClasses][shapes][canvas * canvas]int8
	paper [papers][federated.FEMNISTPixels]int8
	noise noise
}

var writing = sync.OnceValue(func() *handwriting {
	w := new(handwriting)
	field := func(dst []int8, side, radius int, part, i, j uint64) {
		smooth(dst, keyed.Source(0, keyed.Synthetic, partTask, part, i, j), side, radius)
	}
	for k := range federated.FEMNISTClasses {
		var common, own [canvas * canvas]int8
		field(common[:], canvas, 3, 0, uint64(k), 0)
		for m := range shapes {
			field(own[:], canvas, 2, 1, uint64(k), uint64(m))
			for p := range common {
				w.shape[k][m][p] = int8((3*int(common[p]) + 2*int(own[p])) / 5)
			}
		}
	}
	for i := range papers {
		field(w.paper[i][:], federated.FEMNISTSide, 3, 2, uint64(i), 0)
	}
	w.noise.fill(keyed.Source(0, keyed.Synthetic, partTask, 3))
	return w
})

// noise is random numbers of mean 0.
type noise [1 << 14]int8

// fill takes means of four uniform numbers, which is near enough to normal.
func (n *noise) fill(source *rand.PCG) {
	for i := range n {
		u := source.Uint64()
		n[i] = int8((int(int8(u)) + int(int8(u>>8)) + int(int8(u>>16)) + int(int8(u>>24))) / 4)
	}
}

// smooth fills a square with a random field, blurred twice by a box of the
// given radius and stretched to -127..127. Only integers: the same everywhere.
func smooth(dst []int8, source *rand.PCG, side, radius int) {
	a := make([]int, side*side)
	b := make([]int, side*side)
	for i := range a {
		a[i] = int(int8(source.Uint64()))
	}
	for range 2 {
		for y := range side {
			for x := range side {
				sum := 0
				for v := max(0, y-radius); v <= min(side-1, y+radius); v++ {
					for u := max(0, x-radius); u <= min(side-1, x+radius); u++ {
						sum += a[v*side+u]
					}
				}
				b[y*side+x] = sum
			}
		}
		a, b = b, a
	}
	top := 1
	for _, v := range a {
		top = max(top, v, -v)
	}
	for i, v := range a {
		dst[i] = int8(127 * v / top)
	}
}

// shifted is row y of a shape on its canvas, seen from one of step*step places.
func shifted(shape []int8, side, y, place int) []int8 {
	return shape[(y+place/step)*(side+2*margin)+place%step:][:side]
}

var syntheticFEMNIST = recipe{
	clients: 3000,
	// Training samples of the paper's 3,000 writers at each twentieth.
	counts: []int{15, 104, 117, 124, 128, 131, 133, 136, 137, 139, 140, 142, 144, 145, 169, 211, 241, 262, 285, 308, 380},
	info:   federated.FEMNISTInfo,
	record: federated.FEMNISTPixels,
	make:   func(record []byte, of habits, label int, key uint64) { writing().draw(record, of, label, key) },
	coding: federated.Ink,
}

// draw makes one image: the character in one of its shapes, a little off
// centre, part of another character behind it, the paper and noise. A writer's
// habits are the shape of each character, the paper, and where on it to write.
func (w *handwriting) draw(record []byte, of habits, label int, key uint64) {
	source := rand.NewPCG(key, ^key)
	shape := &w.shape[label][of.choose(source, uint64(label), shapes)]
	place := of.choose(source, federated.FEMNISTClasses, step*step)
	paper := &w.paper[of.choose(source, federated.FEMNISTClasses+1, papers)]

	u := source.Uint64()
	other := &w.shape[keyed.Below(u, federated.FEMNISTClasses)][u%shapes]
	otherPlace := int(u >> 8 % (step * step))
	strength := int32(u >> 16 & 0xff * otherInk / 255)
	offset := int(u >> 32 % uint64(len(w.noise)-federated.FEMNISTPixels))

	for y := range federated.FEMNISTSide {
		a, b := shifted(shape[:], federated.FEMNISTSide, y, place), shifted(other[:], federated.FEMNISTSide, y, otherPlace)
		p := paper[y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		n := w.noise[offset+y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		row := record[y*federated.FEMNISTSide:][:federated.FEMNISTSide]
		for x := range row {
			ink := int32(a[x])<<8 + strength*int32(b[x]) + paperInk*int32(p[x]) + noiseInk*int32(n[x])
			row[x] = uint8(255 - min(max(ink>>6-threshold*4, 0), 255))
		}
	}
}
