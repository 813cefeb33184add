package parquetfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// packed is what each codec makes of plain bytes.
func packed(t *testing.T, plain []byte) map[string][]byte {
	block := make([]byte, lz4.CompressBlockBound(len(plain)))
	n, err := lz4.CompressBlock(plain, block, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	block = block[:n]
	hadoop := binary.BigEndian.AppendUint32(nil, uint32(len(plain)))
	hadoop = append(binary.BigEndian.AppendUint32(hadoop, uint32(n)), block...)
	all := map[string][]byte{"LZ4 block": block, "LZ4 of Hadoop": hadoop,
		"LZ4 of Hadoop, twice": slices.Concat(hadoop, hadoop)}
	for _, c := range []format.CompressionCodec{format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw} {
		b, err := parquet.LookupCompressionCodec(c).Encode(nil, plain)
		if err != nil {
			t.Fatal(err)
		}
		all[c.String()] = b
	}
	return all
}

// Every codec gives back what was stored, and refuses a length that is not that,
// without writing beyond it.
func TestDecompress(t *testing.T) {
	plain := bytes.Repeat([]byte("abcdefgh"), 1000)
	for name, src := range packed(t, plain) {
		codec, want := format.Lz4, plain
		for _, c := range []format.CompressionCodec{format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw} {
			if name == c.String() {
				codec = c
			}
		}
		if name == "LZ4 of Hadoop, twice" {
			want = slices.Concat(plain, plain)
		}
		room := bytes.Repeat([]byte{0xaa}, len(want)+64)
		if err := decompress(codec, room[:len(want)], src); err != nil || !bytes.Equal(room[:len(want)], want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, n := range []int{0, 1, len(want) - 1, len(want) + 1} {
			copy(room, bytes.Repeat([]byte{0xaa}, len(room)))
			if err := decompress(codec, room[:n], src); err == nil {
				t.Errorf("%s: no error for %d bytes in the place of %d", name, n, len(want))
			}
			if !bytes.Equal(room[n:], bytes.Repeat([]byte{0xaa}, len(room)-n)) {
				t.Errorf("%s: wrote beyond %d bytes", name, n)
			}
		}
		if err := decompress(codec, room[:len(want)], src[:len(src)/2]); err == nil {
			t.Errorf("%s: no error for half of it", name)
		}
	}
	// A frame of LZ4, which no writer of Parquet makes, is no form of the codec.
	var frame bytes.Buffer
	w := lz4.NewWriter(&frame)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := decompress(format.Lz4, make([]byte, len(plain)), frame.Bytes()); err == nil {
		t.Error("a frame of LZ4 is read")
	}
	if err := decompress(format.LZO, make([]byte, 1), []byte{1}); err == nil || err.Error() != "codec LZO: is not read here; want none, Snappy, gzip, Brotli, Zstandard or LZ4" {
		t.Error(err)
	}
}

// The numbers of IEEE 754-2019, table 3.5, and of its examples.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{0: 0, 1: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14), 0x3555: 0.333251953125,
		0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1)} {
		if got := half(bits); got != want {
			t.Errorf("%04x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) {
		t.Error("7e00 is no NaN")
	}
}
