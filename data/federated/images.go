package federated

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // image.Decode reads it
	_ "image/jpeg" // and this
	"image/png"
	"regexp"
	"strings"
)

// imageKinds are the first bytes of image files. What is read through Go's image packages has no
// remedy.
var imageKinds = []struct{ prefix, name, remedy string }{
	{"\x89PNG\r\n\x1a\n", "PNG", ""},
	{"\xff\xd8\xff", "JPEG", ""},
	{"GIF87a", "GIF", ""},
	{"GIF89a", "GIF", ""},
	{"II*\x00", "TIFF", "want PNG"},
	{"MM\x00*", "TIFF", "want PNG"},
	{"\x00\x00\x00\x0cjP  \r\n", "JPEG 2000", "want PNG"},
	{"\x00\x00\x00\x0cJXL \r\n", "JPEG XL", "want PNG"},
	{"8BPS\x00\x01", "Photoshop", "want PNG"},
	{"qoif\x00\x00", "QOI", "want PNG"},
}

// fileKinds are the first bytes of files that are no images and hold no pixels behind each other, either.
var fileKinds = []struct{ prefix, name, what string }{
	{"\x93NUMPY", "NumPy", "a file of NumPy (.npy), header and all, which is not read here; want the array's " +
		"values as a list, or array.tobytes()"},
	{"PK\x03\x04", "ZIP", "a ZIP archive (.npz is one), which is not read here; want numbers or PNG"},
	{"%PDF-", "PDF", "a PDF document, which is not read here; want numbers or PNG"},
	{"<svg", "SVG", "an SVG drawing, which is not read here; want PNG"},
	{"<?xml", "XML", "a text in XML, which is not read here; want numbers or PNG"},
	{"\x89HDF\r\n\x1a\n", "HDF5", "an HDF5 file, which is not read here; want numbers or PNG"},
	{"\x28\xb5\x2f\xfd", "zstd", "bytes packed by zstd, which are not unpacked here; want them unpacked"},
	{"\x80\x02cnumpy", "pickle", pickled},
	{"\x80\x03cnumpy", "pickle", pickled},
	{"\x80\x02ctorch", "pickle", pickled},
	{"fLaC\x00\x00\x00\x22", "FLAC", "a sound (FLAC), which is not read here; want its values as a list"},
	{"OggS\x00\x02", "Ogg", "a sound (Ogg), which is not read here; want its values as a list"},
	{"ID3\x03\x00", "MP3", "a sound (MP3), which is not read here; want its values as a list"},
	{"ID3\x04\x00", "MP3", "a sound (MP3), which is not read here; want its values as a list"},
	{"\x1a\x45\xdf\xa3", "Matroska", "a film (Matroska), which is not read here; want numbers or PNG"},
}

// pickled says what bytes of Python's pickle are.
const pickled = "a pickle of Python, which is not read here; want the array's values as a list, or array.tobytes()"

// netpbm matches the header of an image of Netpbm: its sign, width and height, perhaps with a comment.
var netpbm = regexp.MustCompile(`^P[1-6]\s(?:#[^\n]*\n)?\d+\s+\d+\s`)

// isPickle reports whether b is a pickle of protocol 4 or 5: a frame with its length in eight bytes, and the
// sign of an end.
func isPickle(b []byte) bool {
	const header = 11
	if len(b) < header+1 || b[0] != 0x80 || b[1] < 4 || b[1] > 5 || b[2] != 0x95 {
		return false
	}
	frame := binary.LittleEndian.Uint64(b[3:])
	return frame <= uint64(len(b)-header) && b[len(b)-1] == '.'
}

// isGzip reports whether b begins with a header of gzip whose flags, kind of compression and system exist
// (RFC 1952, section 2.3).
func isGzip(b []byte) bool {
	const (
		// shortest is the length of a header and a trailer without any data between them.
		shortest      = 18
		deflate       = 8
		maxFlags      = 31
		unknownSystem = 255
	)
	if len(b) < shortest || b[0] != 0x1f || b[1] != 0x8b {
		return false
	}
	method := b[2]
	flags := b[3]
	if method != deflate || flags > maxFlags {
		return false
	}
	effort := b[8]
	system := b[9]
	return (effort == 0 || effort == 2 || effort == 4) && (system <= 13 || system == unknownSystem)
}

// isIcon reports whether b is an icon of Windows: a list of images, of which the first lies behind the list.
func isIcon(b []byte) bool {
	if len(b) < 22 || string(b[:4]) != "\x00\x00\x01\x00" {
		return false
	}
	count := uint32(binary.LittleEndian.Uint16(b[4:]))
	size := uint64(binary.LittleEndian.Uint32(b[14:]))
	offset := binary.LittleEndian.Uint32(b[18:])
	return count > 0 && offset == 6+16*count && uint64(offset)+size <= uint64(len(b))
}

// dicom is where a file of DICOM has its first bytes, behind a preamble of any content.
const dicom = 128

// ImageKind returns the name of the kind of image file that b holds, such as PNG; it is empty if b is no
// file of a kind that is known here. It is an error if b holds an image that cannot be read, or a file of
// another kind.
func ImageKind(b []byte) (name string, err error) {
	head := string(b[:min(len(b), 16)])
	for _, kind := range fileKinds {
		if strings.HasPrefix(head, kind.prefix) {
			return kind.name, errors.New(kind.what)
		}
	}
	if len(b) > dicom && bytes.HasPrefix(b[dicom:], []byte("DICM")) {
		return "DICOM", errors.New("an image of DICOM, which is not read here; want PNG, or lists of numbers")
	}
	for _, kind := range imageKinds {
		if !strings.HasPrefix(head, kind.prefix) {
			continue
		}
		if kind.remedy != "" {
			return kind.name, fmt.Errorf("a %s image, which is not read here; %s", kind.name, kind.remedy)
		}
		return kind.name, nil
	}
	if len(head) == 16 && head[:4] == "RIFF" && head[8:12] == "WEBP" {
		return "WebP", errors.New("a WebP image, which is not read here; want PNG")
	}
	if len(head) == 16 && head[:4] == "RIFF" && head[8:12] == "WAVE" {
		return "WAV", errors.New("a sound (WAV), header and all, which is not read here; want its values as a list")
	}
	// Files of the ISO base media format have their kind behind the length of their first part.
	if len(head) == 16 && head[4:8] == "ftyp" {
		return "HEIF", errors.New("an image of HEIF (HEIC, AVIF) or a film, which is not read here; want PNG")
	}
	switch {
	case strings.HasPrefix(head, "P") && netpbm.Match(b[:min(len(b), 128)]):
		return "Netpbm", errors.New("an image of Netpbm (PGM, PPM), which is not read here; want PNG")
	case isIcon(b):
		return "ICO", errors.New("an icon (ICO), which is not read here; want PNG")
	case isPickle(b):
		return "pickle", errors.New(pickled)
	case isGzip(b):
		return "gzip", errors.New("bytes packed by gzip, which are not unpacked here; want them unpacked")
	}
	// Pixels may begin with BM by chance, but hardly with their own length behind it.
	if len(head) == 16 && head[:2] == "BM" && binary.LittleEndian.Uint32(b[2:]) == uint32(len(b)) {
		return "BMP", errors.New("a BMP image, which is not read here; want PNG")
	}
	return "", nil
}

// ImageShape returns the numbers of channels, rows and columns of an image file: one channel if it is grey,
// with transparency or without, else three. It reads the header alone.
func ImageShape(encoded []byte) (shape [3]int, err error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return shape, fmt.Errorf("a damaged image: %w", err)
	}
	channels := 3
	if config.ColorModel == color.GrayModel || config.ColorModel == color.Gray16Model || isGreyWithAlpha(encoded) {
		channels = 1
	}
	return [3]int{channels, config.Height, config.Width}, nil
}

// Places in a PNG, whose header has a fixed length: PNG specification, 11.2.2.
const (
	pngBitDepth   = 24
	pngColourType = 25
	greyWithAlpha = 4
)

// isGreyWithAlpha reports whether a PNG has one channel and transparency, which Go's package reads as
// colours.
func isGreyWithAlpha(encoded []byte) bool {
	isPNG := bytes.HasPrefix(encoded, []byte(imageKinds[0].prefix))
	return isPNG && len(encoded) > pngColourType && encoded[pngColourType] == greyWithAlpha
}

// DecodePNG writes the pixels of a PNG with this height and width into dst: all red values, then all green
// and all blue ones, or one grey value for each pixel if dst has room for one channel. Values go from 0 to
// 255. Anything that is no PNG is refused by its header, before memory is allocated for pixels.
func DecodePNG(dst, encoded []byte, height, width int) error {
	if _, err := png.DecodeConfig(bytes.NewReader(encoded)); err != nil {
		return fmt.Errorf(
			"an image of %d bytes that is no PNG, want a PNG of %dx%d pixels",
			len(encoded),
			width,
			height,
		)
	}
	return DecodeImage(dst, encoded, height, width)
}

// DecodeImage decodes a PNG, JPEG or GIF of height x width pixels to dst, one byte for each value:
// all red ones, then all green and all blue ones, or one grey channel if dst has room for one.
// Transparency changes no colour. The header is checked before any memory is taken, and an image of
// another size is an error.
func DecodeImage(dst, encoded []byte, height, width int) error {
	config, kind, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("a damaged image of %d bytes: %w", len(encoded), err)
	}
	if config.Width != width || config.Height != height {
		return fmt.Errorf("an image of %dx%d pixels, want %dx%d", config.Width, config.Height, width, height)
	}
	if kind == "png" && len(encoded) > pngBitDepth && encoded[pngBitDepth] == 16 {
		return errors.New("a PNG of 16 bits a channel, of which 8 would be lost; want 8 bits, or lists of numbers")
	}
	m, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	plane := width * height
	// A grey image without gaps between its rows is copied as it is.
	if g, ok := m.(*image.Gray); ok && g.Stride == width && len(dst) == plane {
		copy(dst, g.Pix)
		return nil
	}
	for i := range plane {
		// NRGBA keeps the colours of transparent pixels.
		pixel := color.NRGBAModel.Convert(m.At(i%width, i/width)).(color.NRGBA)
		// A grey pixel has equal channels, in whatever form the PNG stores it.
		if len(dst) == plane {
			if pixel.R != pixel.G || pixel.G != pixel.B {
				return errors.New("an image with colours among grey ones, which have one channel (want grey, or " +
					"all with three)")
			}
			dst[i] = pixel.G
			continue
		}
		dst[i] = pixel.R
		dst[plane+i] = pixel.G
		dst[2*plane+i] = pixel.B
	}
	return nil
}
