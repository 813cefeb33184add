package parquetfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// readAhead is how much of a chunk is read at once.
const readAhead = 64 << 10

// stream is the column chunk of a row group as the library reads it: page after
// page, each with a header that was checked and with its bytes decompressed.
type stream struct {
	*File
	chunk
	column *parquet.Column
	meta   *format.ColumnMetaData

	at     int64 // where the next page lies in the file
	values int64 // values of the pages so far
	spent  int64 // bytes of them

	asked int64  // where the library reads on
	head  []byte // of the current page: the header's bytes that the library has not read,
	body  *page  // what follows it; nil: the library has it
	rest  []byte // or what is left of that where the library reads less at once

	start  int64 // where the window lies in the file
	window []byte
}

// page says where the bytes of a page lie and what becomes of them.
type page struct {
	at              int64
	stored, decoded int64 // lengths, levels included
	levels          int64 // bytes at the start that are not compressed
	codec           format.CompressionCodec
	crc             uint32          // 0: none
	encoding        format.Encoding // of its values; below 0: it is a dictionary
	values          int
	version2        bool
	sections        [2]levels // repetition and definition levels
}

// levels is one of a page's two parts before its values.
type levels struct {
	maximum  int // level; 0: the section is not there in pages of version 1
	encoding format.Encoding
	length   int // in pages of version 2
}

var streams = sync.Pool{New: func() any { return new(stream) }} // for their windows

// stream begins to read a chunk. Put it back into streams after use.
func (t *File) stream(group int, leaf *parquet.Column) (*stream, error) {
	c := &t.groups[group].Columns[leaf.Index()]
	s := streams.Get().(*stream)
	*s = stream{File: t, column: leaf, chunk: chunk{group, leaf.Index()}, meta: &c.MetaData, asked: 4, at: c.MetaData.DataPageOffset, window: s.window[:0]}
	if d := s.meta.DictionaryPageOffset; d > 0 && d < s.at {
		s.at = d
	}
	size := s.meta.TotalCompressedSize
	switch {
	case c.CryptoMetadata.Value != nil:
		return nil, errors.New("is encrypted; want a file that is not encrypted")
	case c.FilePath != "":
		return nil, fmt.Errorf("lies in another file, %q; want the files that hold the values", c.FilePath)
	case s.meta.NumValues == 0: // no page need be there
	case s.at < 4 || size < 0 || s.at > t.end || size > t.end-s.at:
		return nil, fmt.Errorf("damaged or truncated: %d bytes at %d in a file of %d", size, s.at, t.size)
	}
	return s, nil
}

// ReadAt gives the library the bytes at the offset where it stopped. It returns
// fewer than are asked for, at the end of a header, so that the library asks for
// a page's bytes next and they are decompressed to where it wants them.
func (s *stream) ReadAt(p []byte, off int64) (n int, err error) {
	if off != s.asked {
		return 0, errors.New("damaged: a page needs a dictionary, and none came before it")
	}
	defer func() { s.asked += int64(n) }()
	if len(s.head) == 0 && s.body == nil && len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	switch {
	case len(s.head) > 0:
		n = copy(p, s.head)
		s.head = s.head[n:]
	case s.body != nil && int64(len(p)) >= s.body.decoded:
		if _, err := s.decode(p); err != nil {
			return 0, err
		}
		n = int(s.body.decoded)
		s.body = nil
	default:
		if s.body != nil {
			s.rest = make([]byte, s.body.decoded)
			if _, err := s.decode(s.rest); err != nil {
				return 0, err
			}
			s.body = nil
		}
		n = copy(p, s.rest)
		s.rest = s.rest[n:]
	}
	return n, nil
}

// next goes to the next page that holds values.
func (s *stream) next() error {
	for s.values < s.meta.NumValues {
		var h format.PageHeader
		n, err := s.header(&h)
		if err != nil {
			return fmt.Errorf("page header at byte %d: %w", s.at, err)
		}
		p := &page{at: s.at + n, stored: int64(h.CompressedPageSize), decoded: int64(h.UncompressedPageSize),
			codec: s.meta.Codec, crc: uint32(h.CRC)}
		if err := s.check(&h, p); err != nil {
			return fmt.Errorf("page at byte %d: %w", p.at, err)
		}
		s.at = p.at + p.stored
		if h.Type != format.DictionaryPage {
			if p.values == 0 {
				continue
			}
			s.values += int64(p.values)
		}
		if p.decoded > 0 {
			s.body = p
		}
		if p.encoding == format.DeltaBinaryPacked && s.unsigned32() {
			if err := s.replaceDeltas(&h); err != nil {
				return err
			}
		}
		s.head, err = plainHeader(&h)
		return err
	}
	return io.EOF
}

// unsigned32 reports whether the values are unsigned integers of 32 bits.
func (s *stream) unsigned32() bool {
	e := &s.leaves[s.chunk.leaf]
	return e.Type.V == format.Int32 && fieldOf(e).unsigned
}

// replaceDeltas makes the current page one of plain values.
func (s *stream) replaceDeltas(h *format.PageHeader) error {
	p := s.body
	if p == nil {
		return nil
	}
	b := make([]byte, p.decoded)
	start, err := s.decode(b)
	if err != nil {
		return err
	}
	if s.rest, err = plainUint32(b, start); err != nil {
		return fmt.Errorf("page at byte %d: damaged: %w", p.at, err)
	}
	s.body = nil
	h.UncompressedPageSize = int32(len(s.rest))
	h.DataPageHeader.V.Encoding, h.DataPageHeaderV2.V.Encoding = format.Plain, format.Plain
	return nil
}

// check looks at what a header says of its page, and notes it.
func (s *stream) check(h *format.PageHeader, p *page) error {
	values := int64(0)
	p.encoding = -1
	p.sections[0].maximum, p.sections[1].maximum = s.column.MaxRepetitionLevel(), s.column.MaxDefinitionLevel()
	switch v1, v2 := &h.DataPageHeader, &h.DataPageHeaderV2; {
	case h.Type == format.DataPage && v1.Valid:
		values, p.encoding = int64(v1.V.NumValues), v1.V.Encoding
		p.sections[0].encoding, p.sections[1].encoding = v1.V.RepetitionLevelEncoding, v1.V.DefinitionLevelEncoding
	case h.Type == format.DataPageV2 && v2.Valid:
		values, p.encoding, p.version2 = int64(v2.V.NumValues), v2.V.Encoding, true
		p.sections[0].length, p.sections[1].length = int(v2.V.RepetitionLevelsByteLength), int(v2.V.DefinitionLevelsByteLength)
		p.levels = int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if min(v2.V.RepetitionLevelsByteLength, v2.V.DefinitionLevelsByteLength, v2.V.NumNulls, v2.V.NumRows) < 0 {
			return errors.New("damaged: a length below 0")
		}
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			p.codec = format.Uncompressed
		}
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		values = int64(h.DictionaryPageHeader.V.NumValues)
	case h.Type == format.IndexPage:
	default:
		return fmt.Errorf("damaged: a page of type %v without its header", h.Type)
	}
	switch {
	case min(values, p.stored, p.decoded) < 0 || p.levels > min(p.stored, p.decoded):
		return fmt.Errorf("damaged: %d values in %d bytes, %d of them levels, stored as %d", values, p.decoded, p.levels, p.stored)
	case p.stored > s.end-p.at:
		return fmt.Errorf("damaged or truncated: %d bytes stored, %d left", p.stored, s.end-p.at)
	case p.codec == format.Uncompressed && p.stored != p.decoded:
		return fmt.Errorf("damaged: %d bytes that are not compressed stored as %d", p.decoded, p.stored)
	case p.decoded > maxPage:
		return fmt.Errorf("a page of %d bytes, want at most %d", p.decoded, maxPage)
	}
	p.values = int(values)
	s.spent += p.decoded + 4*values
	return s.spend(s.chunk, s.spent)
}

// plainHeader is the header for the library: without statistics and checksum, of
// a page that is not compressed.
func plainHeader(h *format.PageHeader) ([]byte, error) {
	h.CompressedPageSize, h.CRC = h.UncompressedPageSize, 0
	h.DataPageHeader.V.Statistics = format.Statistics{}
	h.DataPageHeaderV2.V.Statistics = format.Statistics{}
	h.DataPageHeaderV2.V.IsCompressed = thrift.New(false)
	return thrift.Marshal(new(thrift.CompactProtocol), h)
}

// decode reads the current page into the start of dst, and returns where in it the
// values begin.
func (s *stream) decode(dst []byte) (start int, err error) {
	p := s.body
	dst = dst[:p.decoded]
	if p.codec == format.Uncompressed && p.decoded > readAhead {
		if _, err = s.file.ReadAt(dst, p.at); err == nil {
			err = p.checksum(dst)
		}
	} else {
		err = s.inflate(p, dst)
	}
	if err == nil {
		start, err = s.checkValues(p, dst)
	}
	if err != nil {
		return 0, fmt.Errorf("page at byte %d: %w", p.at, err)
	}
	return start, nil
}

func (s *stream) inflate(p *page, dst []byte) error {
	stored, err := s.bytes(p.at, p.stored)
	if err != nil {
		return err
	}
	if err := p.checksum(stored); err != nil {
		return err
	}
	copy(dst[:p.levels], stored)
	return decompress(p.codec, dst[p.levels:], stored[p.levels:])
}

func (p *page) checksum(stored []byte) error {
	if sum := crc32.ChecksumIEEE(stored); p.crc != 0 && p.crc != sum {
		return fmt.Errorf("damaged: its checksum is %08x, its header says %08x", sum, p.crc)
	}
	return nil
}

// header decodes the page header at s.at and returns its length. It is small but
// for statistics of long values.
func (s *stream) header(h *format.PageHeader) (int64, error) {
	for n := int64(1 << 10); ; n <<= 5 {
		left := s.end - s.at
		b, err := s.bytes(s.at, min(n, left))
		if err != nil {
			return 0, err
		}
		length, err := thriftLength(b)
		if err == nil {
			return int64(length), thrift.Unmarshal(new(thrift.CompactProtocol), b[:length], h)
		}
		if n >= 32<<20 || n >= left {
			return 0, err
		}
	}
}

// bytes is n bytes of the file, valid until the next call.
func (s *stream) bytes(at, n int64) ([]byte, error) {
	if from := at - s.start; from >= 0 && from+n <= int64(len(s.window)) {
		return s.window[from : from+n], nil
	}
	first := s.meta.DataPageOffset
	if d := s.meta.DictionaryPageOffset; d > 0 {
		first = min(first, d)
	}
	size := max(n, min(readAhead, first+s.meta.TotalCompressedSize-at))
	if int64(cap(s.window)) < size {
		s.window = make([]byte, size)
	}
	s.window, s.start = s.window[:size], at
	if _, err := s.file.ReadAt(s.window, at); err != nil {
		s.window = s.window[:0]
		return nil, err
	}
	return s.window[:n], nil
}
