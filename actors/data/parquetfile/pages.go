package parquetfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

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

	asked  int64  // where the library reads on
	stored []byte // bytes of the current page as the file has them
	page   []byte // and decompressed
	whole  []byte // behind a plain header
	rest   []byte // what the library has not read of that
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
	start           int       // of the values
}

// levels is one of a page's two parts before its values.
type levels struct {
	maximum  int // level; 0: the section is not there in pages of version 1
	encoding format.Encoding
	length   int // in pages of version 2
}

var streams = sync.Pool{New: func() any { return new(stream) }} // for their memory

// stream begins to read a chunk. Put it back into streams after use.
func (t *File) stream(group int, leaf *parquet.Column) (*stream, error) {
	c := &t.groups[group].Columns[leaf.Index()]
	s := streams.Get().(*stream)
	*s = stream{File: t, column: leaf, chunk: chunk{group, leaf.Index()}, meta: &c.MetaData, asked: 4, at: c.MetaData.DataPageOffset, stored: s.stored, page: s.page, whole: s.whole}
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

// ReadAt gives the library the bytes at the offset where it stopped: those of one page at
// most.
func (s *stream) ReadAt(p []byte, off int64) (n int, err error) {
	if off != s.asked {
		return 0, errors.New("damaged: a page needs a dictionary, and none came before it")
	}
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	s.asked += int64(n)
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
		b, err := s.decode(p)
		if len(b) > 0 && err == nil && p.encoding == format.DeltaBinaryPacked && s.unsigned32() {
			b, err = plainUint32(b, p.start)
			h.UncompressedPageSize = int32(len(b))
			h.DataPageHeader.V.Encoding, h.DataPageHeaderV2.V.Encoding = format.Plain, format.Plain
		}
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", p.at, err)
		}
		head, err := plainHeader(&h)
		s.whole = append(append(s.whole[:0], head...), b...)
		s.rest = s.whole
		return err
	}
	return io.EOF
}

// unsigned32 reports whether the values are unsigned integers of 32 bits.
func (s *stream) unsigned32() bool {
	e := &s.leaves[s.chunk.leaf]
	return e.Type.V == format.Int32 && fieldOf(e).unsigned
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

// decode reads a page and finds where in it the values begin. Its bytes are valid until the
// next one is decoded.
func (s *stream) decode(p *page) ([]byte, error) {
	if p.decoded == 0 {
		return nil, nil
	}
	stored, err := s.bytes(p.at, p.stored)
	if err != nil {
		return nil, err
	}
	if err := p.checksum(stored); err != nil {
		return nil, err
	}
	s.page = slices.Grow(s.page[:0], int(p.decoded))[:p.decoded]
	copy(s.page, stored[:p.levels])
	if err := decompress(p.codec, s.page[p.levels:], stored[p.levels:]); err != nil {
		return nil, err
	}
	p.start, err = s.checkValues(p, s.page)
	return s.page, err
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
	s.stored = slices.Grow(s.stored[:0], int(n))[:n]
	_, err := s.file.ReadAt(s.stored, at)
	return s.stored, err
}
