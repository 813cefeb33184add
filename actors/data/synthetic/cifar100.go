package synthetic

import (
	"math/rand/v2"
	"sync"

	"fedpace/actors/data/federated"
	"fedpace/internal/keyed"
)

// The synthetic CIFAR-100: each fine class is a colour texture, most of which
// it shares with the other four of its coarse class.
const (
	textureCanvas = federated.CIFARSide + 2*margin
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
	noise   noise
}

var wilds = sync.OnceValue(func() *nature {
	w := new(nature)
	source := keyed.Source(0, keyed.Synthetic, partTask, 5)
	for k := range federated.CIFARCoarse {
		var common, own [textureCanvas * textureCanvas]int8
		for c := range 3 {
			smooth(common[:], source, textureCanvas, 2)
			for fine := 5 * k; fine < 5*k+5; fine++ {
				smooth(own[:], source, textureCanvas, 1)
				for p := range common {
					w.texture[fine][c][p] = int8((int(common[p]) + int(own[p])) / 2)
				}
			}
		}
	}
	for i := range w.scene {
		for c := range 3 {
			smooth(w.scene[i][c][:], source, federated.CIFARSide, 4)
		}
	}
	w.noise.fill(source)
	return w
})

var syntheticCIFAR100 = recipe{
	clients: 500,
	counts:  []int{100, 100},
	info:    federated.CIFARInfo,
	record:  federated.CIFARPixels,
	make:    func(record []byte, of habits, label int, key uint64) { wilds().draw(record, of, label, key) },
	coding:  federated.Colours,
}

// draw makes one image: the texture a little off centre before a scene, in
// noise, darker or lighter. A photographer's habits are the place, the scene and
// the light.
func (w *nature) draw(record []byte, of habits, label int, key uint64) {
	source := rand.NewPCG(key, ^key)
	place := of.choose(source, 0, step*step)
	scene := &w.scene[of.choose(source, 1, scenes)]
	light := int32(96 + of.choose(source, 2, 64))
	offset := int(keyed.Below(source.Uint64(), uint64(len(w.noise)-federated.CIFARPixels)))
	for c := range 3 {
		texture := &w.texture[label][c]
		for y := range federated.CIFARSide {
			a := shifted(texture[:], federated.CIFARSide, y, place)
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
