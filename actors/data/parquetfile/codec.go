package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// decompress fills dst with what src holds. It neither takes memory that lengths
// within src claim, nor accepts more or fewer bytes.
func decompress(codec format.CompressionCodec, dst, src []byte) error {
	if len(dst) == 0 && len(src) == 0 { // of a page of nulls alone
		return nil
	}
	n, err := expand(codec, dst, src)
	if err != nil {
		return fmt.Errorf("codec %v: %w", codec, err)
	}
	if n != len(dst) {
		return fmt.Errorf("codec %v: damaged: %d bytes, want %d", codec, n, len(dst))
	}
	return nil
}

// expand returns how many bytes src holds. Those are in dst if it has their length.
func expand(codec format.CompressionCodec, dst, src []byte) (n int, err error) {
	switch codec {
	case format.Uncompressed:
		copy(dst, src)
		return len(src), nil
	case format.Snappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
		return n, err
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return 0, err
		}
		return fill(dst, z)
	case format.Brotli:
		return fill(dst, brotli.NewReader(bytes.NewReader(src)))
	case format.Zstd:
		d, err := zstandard()
		if err != nil {
			return 0, err
		}
		b, err := d.DecodeAll(src, dst[:0:len(dst)])
		return len(b), err
	case format.Lz4:
		if hadoopLZ4(dst, src) {
			return len(dst), nil
		}
		fallthrough // other writers have a block as in LZ4_RAW
	case format.Lz4Raw:
		return lz4.UncompressBlock(src, dst)
	}
	return 0, errors.New("is not read here; want none, Snappy, gzip, Brotli, Zstandard or LZ4")
}

// fill reads dst from r, and a byte more to see that it ends there.
func fill(dst []byte, r io.Reader) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	more, err := io.ReadFull(r, make([]byte, 1))
	if err == io.EOF {
		err = nil
	}
	return n + more, err
}

// zstandard decodes frames, on any number of goroutines.
var zstandard = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

// hadoopLZ4 decodes blocks as Hadoop and arrow-rs write them under the codec LZ4, each
// with its decoded length and then parts with their stored length. See Apache Parquet,
// Compression.md, "LZ4".
func hadoopLZ4(dst, src []byte) bool {
	length := func() int { // too much where there is none
		if len(src) < 4 {
			return math.MaxInt32
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		return int(min(n, math.MaxInt32))
	}
	for len(src) > 0 {
		decoded := length()
		if decoded > len(dst) {
			return false
		}
		for block := dst[:decoded]; len(block) > 0; {
			stored := length()
			if stored > len(src) {
				return false
			}
			n, err := lz4.UncompressBlock(src[:stored], block)
			if err != nil || n == 0 {
				return false
			}
			block, src = block[n:], src[stored:]
		}
		dst = dst[decoded:]
	}
	return len(dst) == 0
}
