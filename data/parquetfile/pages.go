package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// stream is one column chunk of a row group in the form in which the library reads it: page after
// page, each with a header that was checked and with decompressed bytes.
type stream struct {
	*File
	// field is the column that the chunk belongs to.
	field *Field
	// meta is what the footer says of the chunk.
	meta *format.ColumnMetaData

	// offset is where the next page begins in the file.
	offset int64
	// valuesRead is the number of values of all pages so far, nulls included.
	valuesRead int64

	// storedBuffer holds the bytes of the current page as they are in the file.
	storedBuffer []byte
	// pageBuffer holds the bytes of the current page after decompression.
	pageBuffer []byte
	// pending is what the library has not read yet of the current page, behind a header that says
	// it is not compressed.
	pending bytes.Buffer

	// numbersOfPage holds the values of the current page, in a column of numbers.
	numbersOfPage []float64
	// dictionary is the one of the current chunk, as soon as numbers were looked up in it, and
	// numbersOfDictionary are its values. isDictionaryExact says that each of these is exactly a float64.
	dictionary          parquet.Dictionary
	numbersOfDictionary []float64
	isDictionaryExact   bool
}

// page says where the bytes of a page lie in the file and how they are coded.
type page struct {
	// offset is where the bytes of the page begin in the file, behind its header.
	offset int64
	// storedBytes and decodedBytes are the lengths of the page before and after decompression, levels included.
	storedBytes, decodedBytes int64
	// plainLevelBytes is the number of bytes at the start of the page that are never compressed: the levels of a page
	// of version 2.
	plainLevelBytes int64
	// codec is the compression of the bytes behind the levels.
	codec format.CompressionCodec
	// crc is the checksum of the page; 0 means that it has none.
	crc uint32
	// encoding is the encoding of the values; a negative one means that the page holds none.
	encoding format.Encoding
	// values is the number of values, nulls included.
	values int
	// isVersion2 says that the page has the format of version 2, whose levels are not compressed.
	isVersion2 bool
	// levelBytes are the sizes in bytes of the repetition and of the definition levels, in pages of version 2.
	levelBytes [2]int
}

// streams keeps streams that are not in use, so that the next one has their memory.
var streams = sync.Pool{New: func() any { return new(stream) }}

// stream returns a stream of the pages of column f in the row group with this number. It returns an
// error if the chunk lies outside the file. The caller puts the stream back into streams after use.
func (t *File) stream(group int, f *Field) (*stream, error) {
	c := &t.groups[group].Columns[f.leaf.Index()].MetaData
	s := streams.Get().(*stream)
	s.pending.Reset()
	// The buffers of the stream before are reused, everything else is new.
	*s = stream{
		File:         t,
		field:        f,
		meta:         c,
		offset:       c.DataPageOffset,
		storedBuffer: s.storedBuffer,
		pageBuffer:   s.pageBuffer,
		pending:      s.pending,

		numbersOfPage:       s.numbersOfPage,
		numbersOfDictionary: s.numbersOfDictionary,
	}
	// A dictionary lies before the pages of values, and is read first.
	if d := c.DictionaryPageOffset; d > 0 && d < s.offset {
		s.offset = d
	}
	// The chunk must lie between the mark of four bytes at the file's beginning and the footer.
	size := c.TotalCompressedSize
	beginsInside := s.offset >= 4 && s.offset <= t.footerOffset
	endsInside := size >= 0 && size <= t.footerOffset-s.offset
	if c.NumValues > 0 && !(beginsInside && endsInside) {
		return nil, fmt.Errorf("damaged or truncated: %d bytes at %d in a file of %d", size, s.offset, t.size)
	}
	return s, nil
}

// ReadAt reads bytes for the library, which reads a file from front to back: it gets the bytes
// behind those that it has read last, wherever it asks. Each call returns bytes of one page at
// most.
func (s *stream) ReadAt(p []byte, _ int64) (n int, err error) {
	if s.pending.Len() == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	return s.pending.Read(p)
}

// next reads the next page, a dictionary or one of values, and leaves its header and bytes in
// pending. It returns io.EOF once the pages had as many values as the chunk has by the footer.
func (s *stream) next() error {
	if s.valuesRead >= s.meta.NumValues {
		return io.EOF
	}
	h, p, err := s.nextHeader()
	if err != nil {
		return err
	}
	// The stream ends by this count of the column's values. Those of a dictionary are no values of the column.
	s.valuesRead += int64(valuesIn(h, p))
	b, err := s.decode(p)
	if err != nil {
		return fmt.Errorf("page at byte %d: %w", p.offset, err)
	}
	// The page is unpacked here, so the library gets the header of one that is not compressed.
	h.UncompressedPageSize = int32(len(b))
	h.CompressedPageSize = int32(len(b))
	h.CRC = 0
	h.DataPageHeaderV2.V.IsCompressed = thrift.New(false)
	h.DataPageHeader.V.Encoding = p.encoding
	h.DataPageHeaderV2.V.Encoding = p.encoding
	head, err := thrift.Marshal(&protocol, h)
	s.pending.Write(head)
	s.pending.Write(b)
	return err
}

// valuesIn returns the number of values of the column that the page with header h holds; a
// dictionary holds none.
func valuesIn(h *format.PageHeader, p *page) int {
	if h.Type == format.DictionaryPage {
		return 0
	}
	return p.values
}

// nextHeader reads the header of the next page with values, or of the dictionary, and moves the
// offset behind that page. Pages without a value are skipped: PyArrow writes some between lists,
// without levels, and the library fails on them.
func (s *stream) nextHeader() (*format.PageHeader, *page, error) {
	for {
		h := new(format.PageHeader)
		n, err := s.header(h)
		if err != nil {
			return nil, nil, fmt.Errorf("page header at byte %d: %w", s.offset, err)
		}
		// An encoding below 0 means a dictionary, until check finds another.
		p := &page{
			offset:       s.offset + n,
			storedBytes:  int64(h.CompressedPageSize),
			decodedBytes: int64(h.UncompressedPageSize),
			codec:        s.meta.Codec,
			crc:          uint32(h.CRC),
			encoding:     -1,
		}
		if err := s.check(h, p); err != nil {
			return nil, nil, fmt.Errorf("page at byte %d: %w", p.offset, err)
		}
		s.offset = p.offset + p.storedBytes
		if h.Type == format.DictionaryPage || p.values > 0 {
			return h, p, nil
		}
	}
}

// check copies what the reading of a page needs from its header h to p, whose lengths the caller has set. It returns
// an error for lengths that the file cannot back. The bytes and values that the header claims are charged to the
// file ([File.spend]), which bounds what one file may ask for.
func (s *stream) check(h *format.PageHeader, p *page) error {
	values := int64(0)
	v1 := &h.DataPageHeader
	v2 := &h.DataPageHeaderV2
	switch {
	case h.Type == format.DataPage && v1.Valid:
		values = int64(v1.V.NumValues)
		p.encoding = v1.V.Encoding
	// Only pages of version 2 have their levels outside the compression.
	case h.Type == format.DataPageV2 && v2.Valid:
		values = int64(v2.V.NumValues)
		p.encoding = v2.V.Encoding
		p.isVersion2 = true
		p.levelBytes = [2]int{int(v2.V.RepetitionLevelsByteLength), int(v2.V.DefinitionLevelsByteLength)}
		if min(p.levelBytes[0], p.levelBytes[1]) < 0 {
			return errors.New("damaged: a length below 0")
		}
		// In version 2 the header says how long the levels are, which lie before the compressed values.
		p.plainLevelBytes = int64(p.levelBytes[0]) + int64(p.levelBytes[1])
		// A page of version 2 may go without compression, whatever the codec of its column.
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			p.codec = format.Uncompressed
		}
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		values = int64(h.DictionaryPageHeader.V.NumValues)
	default:
		return fmt.Errorf("damaged: a page of type %v, or without its header", h.Type)
	}
	// Lengths are checked before any memory is taken for them.
	switch {
	case min(values, p.storedBytes, p.decodedBytes) < 0 || p.plainLevelBytes > min(p.storedBytes, p.decodedBytes):
		return fmt.Errorf(
			"damaged: %d values in %d bytes, %d of them levels, stored as %d",
			values,
			p.decodedBytes,
			p.plainLevelBytes,
			p.storedBytes,
		)
	case p.storedBytes > s.footerOffset-p.offset:
		return fmt.Errorf("damaged or truncated: %d bytes stored, %d left", p.storedBytes, s.footerOffset-p.offset)
	case p.decodedBytes > maxPage:
		return fmt.Errorf("a page of %d bytes, want at most %d", p.decodedBytes, maxPage)
	}
	p.values = int(values)
	return s.spend(p.decodedBytes + ValueBytes*values)
}

// decode reads the page that p describes, compares its checksum if it has one, decompresses it and
// checks its values. The bytes that it returns are valid until the next page is decoded.
func (s *stream) decode(p *page) ([]byte, error) {
	// A page of nulls may have no bytes at all.
	if p.decodedBytes == 0 {
		return nil, nil
	}
	stored, err := s.bytes(p.offset, p.storedBytes)
	if err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(stored); p.crc != 0 && p.crc != sum {
		return nil, fmt.Errorf("damaged: its checksum is %08x, its header says %08x", sum, p.crc)
	}
	s.pageBuffer = slices.Grow(s.pageBuffer[:0], int(p.decodedBytes))[:p.decodedBytes]
	// The levels of a page of version 2 are never compressed; they are copied as they are.
	copy(s.pageBuffer, stored[:p.plainLevelBytes])
	if err := decompress(p.codec, s.pageBuffer[p.plainLevelBytes:], stored[p.plainLevelBytes:]); err != nil {
		return nil, err
	}
	return s.checkValues(p, s.pageBuffer)
}

// header decodes the page header at s.offset to h and returns its length in bytes. A header is
// small unless it has statistics of long values.
func (s *stream) header(h *format.PageHeader) (int64, error) {
	// The length of a header is not known beforehand: each attempt that fails reads 32 times as much.
	for n := int64(1 << 10); ; n <<= 5 {
		remaining := s.footerOffset - s.offset
		b, err := s.bytes(s.offset, min(n, remaining))
		if err != nil {
			return 0, err
		}
		length, err := unmarshal(b, h)
		if err == nil || n >= 32<<20 || n >= remaining {
			return int64(length), err
		}
	}
}

// bytes reads n bytes of the file from offset on. They are valid until the next call, which reuses their
// memory.
func (s *stream) bytes(offset, n int64) ([]byte, error) {
	s.storedBuffer = slices.Grow(s.storedBuffer[:0], int(n))[:n]
	_, err := s.file.ReadAt(s.storedBuffer, offset)
	return s.storedBuffer, err
}

// decompress fills dst with the bytes that src holds in compressed form. It returns an error unless
// src holds exactly as many. It allocates nothing for lengths that src claims.
func decompress(codec format.CompressionCodec, dst, src []byte) error {
	// A page of nulls alone has no bytes.
	if len(dst) == 0 && len(src) == 0 {
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

// expand decompresses src to dst with the given codec and returns the number of bytes that src
// holds; if they are more than dst takes, some codecs return len(dst) + 1 however many they are. dst
// is complete only if the number is its length; otherwise its content is undefined.
func expand(codec format.CompressionCodec, dst, src []byte) (n int, err error) {
	switch codec {
	case format.Uncompressed:
		copy(dst, src)
		return len(src), nil
	case format.Snappy:
		// Snappy would allocate another slice if dst were too short.
		n, err = snappy.DecodedLen(src)
		if err == nil && n == len(dst) {
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
		// The capacity of dst bounds what is decoded (WithDecodeAllCapLimit).
		b, err := d.DecodeAll(src, dst[:0:len(dst)])
		return len(b), err
	case format.Lz4:
		if hadoopLZ4(dst, src) {
			return len(dst), nil
		}
		// Other writers store one block, as in LZ4_RAW.
		fallthrough
	case format.Lz4Raw:
		return lz4.UncompressBlock(src, dst)
	}
	return 0, errors.New("is not read here; want none, Snappy, gzip, Brotli, Zstandard or LZ4")
}

// fill reads dst from r, and one byte more, to see whether r ends there. The result is the number of bytes
// that were read: the length of dst if r holds exactly as many, and one more if r continues.
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

// zstandard returns the decoder of Zstandard frames, which any number of goroutines may use at the
// same time.
var zstandard = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

// hadoopLZ4 decompresses src to dst and reports whether src had the form in which Hadoop and
// arrow-rs write the codec LZ4: blocks that begin with their decoded length, and in each block
// parts that begin with their stored length. See Apache Parquet, Compression.md, "LZ4".
func hadoopLZ4(dst, src []byte) bool {
	// length reads a length of four bytes; where there is none, the result is larger than any
	// block.
	length := func() int {
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
		// A block may consist of several parts.
		for block := dst[:decoded]; len(block) > 0; {
			stored := length()
			if stored > len(src) {
				return false
			}
			n, err := lz4.UncompressBlock(src[:stored], block)
			if err != nil || n == 0 {
				return false
			}
			block = block[n:]
			src = src[stored:]
		}
		dst = dst[decoded:]
	}
	return len(dst) == 0
}
