package synthetic

import (
	"math/rand/v2"
	"sync"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// The synthetic CIFAR-100: each fine class is a colour texture, most of which
// it shares with the other four of its coarse class.
const (
	textureMargin = 3
	textureCanvas = federated.CIFARSide + 2*textureMargin
	scenes        = 32 // backgrounds
	// How strongly the parts of an image count, in 1/256 of the class's texture.
	sceneLight = 144
	noiseLight = 128
)

// nature is what all clients of the synthetic CIFAR-100 share: smooth random
// fields in -127..127, by colour.
type nature struct {
	texture [federated.CIFARClasses][3][textureCanvas * textureCanvas]int8
	scene   [scenes][3][federated.CIFARPlane]int8
	noise   [1 << 14]int8
}

var wilds = sync.OnceValue(func() *nature {
	w := new(nature)
	var source rand.PCG
	keyed.Reseed(&source, 0, keyed.Synthetic, partTask, 5)
	for k := range federated.CIFARCoarse {
		var common, own [textureCanvas * textureCanvas]int8
		for c := range 3 {
			smooth(common[:], &source, textureCanvas, 2)
			for fine := 5 * k; fine < 5*k+5; fine++ {
				smooth(own[:], &source, textureCanvas, 1)
				for p := range common {
					w.texture[fine][c][p] = int8((int(common[p]) + int(own[p])) / 2)
				}
			}
		}
	}
	for i := range w.scene {
		for c := range 3 {
			smooth(w.scene[i][c][:], &source, federated.CIFARSide, 4)
		}
	}
	for i := range w.noise {
		w.noise[i] = bell(source.Uint64())
	}
	return w
})

// photographer is a client of the synthetic CIFAR-100: where it goes, and how
// it frames what it finds.
type photographer struct {
	*nature
	shift uint64
	habit uint64
}

func syntheticCIFAR100() (recipe, decoder) {
	w := wilds()
	r := recipe{
		task:     "cifar100",
		clients:  500,
		counts:   []int{100, 100},
		input:    learn.Dense,
		features: federated.CIFARPixels,
		classes:  federated.CIFARClasses,
		record:   federated.CIFARPixels,
		client: func(seed, client uint64, shift int) maker {
			return &photographer{w, uint64(shift), keyed.Hash(seed, keyed.Synthetic, client, partHabits)}
		},
	}
	return r, appendColours
}

func appendColours(dst *learn.Batch, record []byte) {
	for c, value := range federated.CIFARValue {
		federated.AppendLookup(dst, record[c*federated.CIFARPlane:(c+1)*federated.CIFARPlane], value)
	}
}

// make draws one image: the texture a little off centre before a scene, in
// noise, darker or lighter.
func (w *photographer) make(record []byte, label int, key uint64) {
	var source rand.PCG
	source.Seed(key, ^key)
	choose := func(part uint64, n uint64) int {
		u := source.Uint64()
		if u>>56 < w.shift {
			return int(keyed.Below(keyed.Hash(w.habit, keyed.Synthetic, part), n))
		}
		return int(keyed.Below(u<<8, n))
	}
	const step = 2*textureMargin + 1
	place := choose(0, step*step)
	scene := &w.scene[choose(1, scenes)]
	light := int32(96 + choose(2, 64))
	offset := int(keyed.Below(source.Uint64(), uint64(len(w.noise)-federated.CIFARPixels)))
	for c := range 3 {
		texture := &w.texture[label][c]
		for y := range federated.CIFARSide {
			from := (y+place/step)*textureCanvas + place%step
			a := texture[from : from+federated.CIFARSide]
			b := scene[c][y*federated.CIFARSide:][:federated.CIFARSide]
			n := w.noise[offset+c*federated.CIFARPlane+y*federated.CIFARSide:][:federated.CIFARSide]
			row := record[c*federated.CIFARPlane+y*federated.CIFARSide:][:federated.CIFARSide]
			for x := range row {
				v := int32(a[x])<<8 + sceneLight*int32(b[x]) + noiseLight*int32(n[x])
				row[x] = uint8(min(max(light+v>>8, 0), 255))
			}
		}
	}
}
