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
		"\x93NUMPY\x01\x00" + rest:                                      "NumPy",
		"PK\x03\x04" + rest:                                             "ZIP",
		"%PDF-1.7" + rest:                                               "PDF",
		"<svg xmlns=\"\">" + rest:                                       "SVG",
		"<?xml version=\"1.0\"?>" + rest:                                "XML",
		strings.Repeat("\x00", 128) + "DICM" + rest:                     "DICOM",
		"RIFF\x24\x00\x00\x00WAVEfmt " + rest:                           "WAV",
		"RIFF\x24\x00\x00\x00WEBPVP8 " + rest:                           "WebP",
		"\x00\x00\x00\x18ftypheic" + rest:                               "HEIF",
		"\x00\x00\x00\x1cftypavif" + rest:                               "HEIF",
		"\x00\x00\x00\x0cJXL \r\n\x87\n" + rest:                         "JPEG XL",
		"8BPS\x00\x01" + rest:                                           "Photoshop",
		"qoif\x00\x00\x00\x10" + rest:                                   "QOI",
		"\x89HDF\r\n\x1a\n" + rest:                                      "HDF5",
		"\x28\xb5\x2f\xfd" + rest:                                       "zstd",
		"\x80\x02cnumpy.core" + rest:                                    "pickle",
		"\x80\x04\x95\x28" + strings.Repeat("\x00", 7) + rest[1:] + ".": "pickle",
		"\x80\x05\x95\x28" + strings.Repeat("\x00", 7) + rest:           "",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + rest:               "gzip",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x01\x03" + rest:               "",
		"fLaC\x00\x00\x00\x22" + rest:                                   "FLAC",
		"OggS\x00\x02" + rest:                                           "Ogg",
		"ID3\x04\x00" + rest:                                            "MP3",
		"\x1a\x45\xdf\xa3" + rest:                                       "Matroska",
		"P6\n4 4\n255\n" + rest:                                         "Netpbm",
		"P5\n# made by hand\n28 28\n255\n" + rest:                       "Netpbm",
		"P5\x00\x04 4 " + rest:                                          "",
		"\x00\x00\x01\x00\x01\x00\x04\x04\x00\x00\x01\x00\x20\x00\x10\x00\x00\x00\x16\x00\x00\x00" + rest: "ICO",
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
