package federated

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
)

// DecodePNG turns a PNG of the given size to bytes, colour by colour, or 255 for
// white where dst has room for one. Its header is judged before any memory is
// taken.
func DecodePNG(dst, encoded []byte, height, width int) error {
	config, err := png.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("an image of %d bytes that is no PNG, want a PNG of %dx%d pixels", len(encoded), width, height)
	}
	if config.Width != width || config.Height != height {
		return fmt.Errorf("an image of %dx%d pixels, want %dx%d", config.Width, config.Height, width, height)
	}
	m, err := png.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	plane := width * height
	if g, ok := m.(*image.Gray); ok && g.Stride == width && len(dst) == plane {
		copy(dst, g.Pix)
		return nil
	}
	for i := range plane {
		r, g, b, _ := m.At(i%width, i/width).RGBA()
		if len(dst) == plane { // grey in any of PNG's forms has equal channels
			if r != g || g != b {
				return errors.New("an image with colours among grey ones, which have one channel (want grey, or all with three)")
			}
			dst[i] = uint8(g >> 8)
			continue
		}
		dst[i], dst[plane+i], dst[2*plane+i] = uint8(r>>8), uint8(g>>8), uint8(b>>8)
	}
	return nil
}
