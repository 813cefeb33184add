package federated

import (
	"strings"
	"testing"
)

// A file that is no image has a header, which would be read as pixels. Pixels that begin by chance like a file
// are none.
func TestImageKind_OtherFiles(t *testing.T) {
	rest := strings.Repeat("0", 40)
	for content, want := range map[string]string{
		"\x93NUMPY\x01\x00" + rest:                  "NumPy",
		"PK\x03\x04" + rest:                         "ZIP",
		"%PDF-1.7" + rest:                           "PDF",
		"<svg xmlns=\"\">" + rest:                   "SVG",
		"<?xml version=\"1.0\"?>" + rest:            "XML",
		strings.Repeat("\x00", 128) + "DICM" + rest: "DICOM",
		"RIFF\x24\x00\x00\x00WAVEfmt " + rest:       "WAV",
		"RIFF\x24\x00\x00\x00WEBPVP8 " + rest:       "WebP",
		"\x00\x00\x00\x18ftypheic" + rest:           "HEIF",
		"\x00\x00\x00\x1cftypavif" + rest:           "HEIF",
		"\x00\x00\x00\x0cJXL \r\n\x87\n" + rest:     "JPEG XL",
		"8BPS\x00\x01" + rest:                       "Photoshop",
		"qoif\x00\x00\x00\x10" + rest:               "QOI",
		"\x00\x00\x01\x00" + rest:                   "",
		"BM\x00\x00\x00\x00\x00\x00\x00\x00" + rest: "",
		strings.Repeat("\x00", 128) + "DIC" + rest:  "",
		"RIFF\x24\x00\x00\x00" + rest:               "",
		strings.Repeat("\xff", 3) + "\x93NUMPY\x01": "",
	} {
		name, err := ImageKind([]byte(content))
		if name != want || (err != nil) != (want != "") {
			t.Errorf("%.20q is %q, %v; want %q", content, name, err, want)
		}
	}
}
