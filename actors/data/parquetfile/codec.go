package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	switch codec {
	case format.Uncompressed:
		copy(dst, src) // their lengths are equal
		return nil
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
		return filled("Snappy block", n, len(dst), err)
	case format.Gzip:
		return gunzip(dst, src)
	case format.Brotli:
		return fill("Brotli stream", dst, brotli.NewReader(bytes.NewReader(src)))
	case format.Zstd:
		d, err := zstandard()
		if err != nil {
			return err
		}
		b, err := d.DecodeAll(src, dst[:0:len(dst)])
		return filled("Zstandard frame", len(b), len(dst), err)
	case format.Lz4Raw:
		n, err := lz4.UncompressBlock(src, dst)
		return filled("LZ4 block", n, len(dst), err)
	case format.Lz4:
		return oldLZ4(dst, src)
	}
	return fmt.Errorf("compressed with %v; want none, Snappy, gzip, Brotli, Zstandard or LZ4", codec)
}

func filled(what string, n, want int, err error) error {
	if err != nil {
		return fmt.Errorf("damaged %s: %w", what, err)
	}
	if n != want {
		return fmt.Errorf("damaged %s: %d bytes, want %d", what, n, want)
	}
	return nil
}

// fill reads dst from r, which ends then.
func fill(what string, dst []byte, r io.Reader) error {
	n, err := io.ReadFull(r, dst)
	if err == nil {
		var more [1]byte
		if _, err = io.ReadFull(r, more[:]); err == nil {
			return fmt.Errorf("damaged %s: more than %d bytes", what, len(dst))
		}
		if err == io.EOF {
			err = nil
		}
	}
	return filled(what, n, len(dst), err)
}

// zstandard decodes frames, on any number of goroutines.
var zstandard = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

func gunzip(dst, src []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return fmt.Errorf("damaged gzip member: %w", err)
	}
	return fill("gzip member", dst, z)
}

// oldLZ4 decodes what files before LZ4_RAW call LZ4. Hadoop and arrow-rs write blocks, each
// with its decoded and its stored length; others wrote a block as in LZ4_RAW. See Apache
// Parquet, Compression.md, "LZ4".
func oldLZ4(dst, src []byte) error {
	if hadoopLZ4(dst, src) == nil {
		return nil
	}
	n, err := lz4.UncompressBlock(src, dst)
	return filled("LZ4 block", n, len(dst), err)
}

func hadoopLZ4(dst, src []byte) error {
	wrong := errors.New("no blocks of Hadoop")
	for len(src) >= 4 {
		decoded := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if decoded > int64(len(dst)) {
			return wrong
		}
		for block := dst[:decoded]; len(block) > 0; {
			if len(src) < 4 {
				return wrong
			}
			stored := int64(binary.BigEndian.Uint32(src))
			src = src[4:]
			if stored > int64(len(src)) {
				return wrong
			}
			n, err := lz4.UncompressBlock(src[:stored], block)
			if err != nil || n == 0 {
				return wrong
			}
			block, src = block[n:], src[stored:]
		}
		dst = dst[decoded:]
	}
	if len(dst) > 0 || len(src) > 0 {
		return wrong
	}
	return nil
}
