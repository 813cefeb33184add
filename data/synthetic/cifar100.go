package synthetic

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
)

// The synthetic CIFAR-100: each fine class is a colour texture, most of which
// it shares with the other four of its coarse class.
const (
	// textureCanvas is the side of a texture in pixels, so large that shifts stay within it.
	textureCanvas = federated.CIFARSide + 2*margin
	// scenes is the number of backgrounds.
	scenes = 32
	// sceneLight and noiseLight are how strongly the background and the noise count, in 1/256 of the class's
	// texture.
	sceneLight = 144
	noiseLight = 128
)

// nature is what all clients of the synthetic CIFAR-100 share: a texture for each class, the backgrounds and
// the noise. Textures and backgrounds are smooth random fields, one for each colour.
type nature struct {
	texture [federated.CIFARClasses][3][textureCanvas * textureCanvas]tone
	scene   [scenes][3][federated.CIFARPlane]tone
	noise   noise
}

// wilds makes the nature at its first call. It is the same for every seed.
var wilds = sync.OnceValue(func() *nature {
	w := new(nature)
	source := keyed.Source(0, keyed.Synthetic, partTask, 5)
	for k := range federated.CIFARCoarse {
		var common, individual [textureCanvas * textureCanvas]tone
		for c := range 3 {
			smooth(common[:], source, textureCanvas, 2)
			for fine := 5 * k; fine < 5*k+5; fine++ {
				smooth(individual[:], source, textureCanvas, 1)
				for p := range common {
					w.texture[fine][c][p] = toneOf((common[p].value() + individual[p].value()) / 2)
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
	make:    func(record []byte, client habits, label int, key uint64) { wilds().draw(record, client, label, key) },
	coding:  federated.Colours,

	recordBytes: federated.CIFARPixels,
}

// draw writes one image of the class label to record: the class's texture, a little off centre, before a
// scene, with noise, darker or lighter. A client's habits are the shift of the texture, the scene and
// the light. key decides all draws.
func (w *nature) draw(record []byte, client habits, label int, key uint64) {
	source := rand.NewPCG(key, ^key)
	// The three features that are habits of a client have the numbers 0 to 2.
	shift := client.choose(source, 0, shiftsPerAxis*shiftsPerAxis)
	scene := &w.scene[client.choose(source, 1, scenes)]
	// light is how light a pixel of mean tone is, 96 to 159 of 255.
	light := uint64(96 + client.choose(source, 2, 64))
	// offset is where the image's part of the noise begins.
	offset := int(keyed.Below(source.Uint64(), uint64(len(w.noise)-federated.CIFARPixels)))
	for c := range 3 {
		texture := &w.texture[label][c]
		for y := range federated.CIFARSide {
			textureRow := shifted(texture[:], federated.CIFARSide, y, shift)
			sceneRow := scene[c][y*federated.CIFARSide:][:federated.CIFARSide]
			noiseRow := w.noise[offset+c*federated.CIFARPlane+y*federated.CIFARSide:][:federated.CIFARSide]
			row := record[c*federated.CIFARPlane+y*federated.CIFARSide:][:federated.CIFARSide]
			for x := 0; x < len(row); x += 8 {
				// Eight pixels are computed at once: those in even places, then those in odd ones.
				texture0, texture1 := tones(textureRow[x:])
				scene0, scene1 := tones(sceneRow[x:])
				noise0, noise1 := tones(noiseRow[x:])
				even := lit(texture0, scene0, noise0, light)
				odd := lit(texture1, scene1, noise1, light)
				binary.LittleEndian.PutUint64(row[x:], even|odd<<8)
			}
		}
	}
}

// lit returns how light four pixels are, 0 to 255, in the lanes of a word: light plus the weighted sum of the
// three parts. texture, scene and noise have the tones of these pixels in their lanes. As in ink, weights are
// divided by 16 before the products, which keeps all sums in 16 bits.
func lit(texture, scene, noise, light uint64) uint64 {
	v := (sceneLight/16*scene+noiseLight/16*noise)>>4&(lane*0x0fff) + texture
	return clamp(v, zero*(sceneLight+noiseLight)/256+zero-light)
}
