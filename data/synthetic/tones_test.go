package synthetic

import (
	"math/rand/v2"
	"testing"
)

// Eight pixels at once are what each is by itself, by the sum of its parts.
func TestPixels_ByLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	extremes := []int{-128, -127, -1, 0, 1, 127}
	draw := func() (row [8]tone) {
		for i := range row {
			row[i] = tone(r.Uint32())
			if r.IntN(2) == 0 {
				row[i] = toneOf(extremes[r.IntN(len(extremes))])
			}
		}
		return row
	}
	for range 100_000 {
		a, b, p, n := draw(), draw(), draw(), draw()
		strength, light := r.IntN(otherInk+1), 96+r.IntN(64)
		a0, a1 := tones(a[:])
		b0, b1 := tones(b[:])
		p0, p1 := tones(p[:])
		n0, n1 := tones(n[:])
		inks := [2]uint64{ink(a0, b0, p0, n0, uint64(strength)), ink(a1, b1, p1, n1, uint64(strength))}
		lights := [2]uint64{lit(a0, b0, n0, uint64(light)), lit(a1, b1, n1, uint64(light))}
		for i := range a {
			a, b, p, n := a[i].value(), b[i].value(), p[i].value(), n[i].value()
			got, want := int(inks[i%2]>>(16*(i/2))&0xffff), min(max((a<<8+strength*b+paperInk*p+noiseInk*n)>>6-threshold*4, 0), 255)
			if got != want {
				t.Fatalf("ink of %d, %d, %d, %d at strength %d is %d, want %d", a, b, p, n, strength, got, want)
			}
			got, want = int(lights[i%2]>>(16*(i/2))&0xffff), min(max(light+(a<<8+sceneLight*b+noiseLight*n)>>8, 0), 255)
			if got != want {
				t.Fatalf("light of %d, %d, %d at %d is %d, want %d", a, b, n, light, got, want)
			}
		}
	}
}
