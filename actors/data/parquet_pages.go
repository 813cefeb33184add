package data

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
	*table
	chunk
	meta *format.ColumnMetaData

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
	crc             uint32 // 0: none
}

var streams = sync.Pool{New: func() any { return new(stream) }} // for their windows

// stream begins to read a chunk. Put it back into streams after use.
func (t *table) stream(group int, leaf *parquet.Column) (*stream, error) {
	c := &t.groups[group].Columns[leaf.Index()]
	s := streams.Get().(*stream)
	*s = stream{table: t, chunk: chunk{group, leaf.Index()}, meta: &c.MetaData, asked: 4, at: c.MetaData.DataPageOffset, window: s.window[:0]}
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
		n, err = int(s.body.decoded), s.decode(p)
		s.body = nil
	case s.body != nil:
		s.rest = make([]byte, s.body.decoded)
		err = s.decode(s.rest)
		s.body = nil
		fallthrough
	default:
		n = copy(p, s.rest)
		s.rest = s.rest[n:]
	}
	return n, err
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
		values, err := s.check(&h, p)
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", p.at, err)
		}
		s.at = p.at + p.stored
		if values == 0 && h.Type != format.DictionaryPage || h.Type == format.IndexPage {
			continue
		}
		if h.Type != format.DictionaryPage {
			s.values += values
		}
		s.head, err = plainHeader(&h)
		if p.decoded > 0 {
			s.body = p
		}
		return err
	}
	return io.EOF
}

// check looks at what a header says of its page, and returns the number of its
// values.
func (s *stream) check(h *format.PageHeader, p *page) (values int64, err error) {
	switch v1, v2 := &h.DataPageHeader, &h.DataPageHeaderV2; {
	case h.Type == format.DataPage && v1.Valid:
		values = int64(v1.V.NumValues)
	case h.Type == format.DataPageV2 && v2.Valid:
		values = int64(v2.V.NumValues)
		p.levels = int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if min(v2.V.RepetitionLevelsByteLength, v2.V.DefinitionLevelsByteLength, v2.V.NumNulls, v2.V.NumRows) < 0 {
			return 0, errors.New("damaged: a length below 0")
		}
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			p.codec = format.Uncompressed
		}
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		values = int64(h.DictionaryPageHeader.V.NumValues)
	case h.Type == format.IndexPage:
	default:
		return 0, fmt.Errorf("damaged: a page of type %v without its header", h.Type)
	}
	switch {
	case min(values, p.stored, p.decoded) < 0 || p.levels > min(p.stored, p.decoded):
		return 0, fmt.Errorf("damaged: %d values in %d bytes, %d of them levels, stored as %d", values, p.decoded, p.levels, p.stored)
	case p.stored > s.end-p.at:
		return 0, fmt.Errorf("damaged or truncated: %d bytes stored, %d left", p.stored, s.end-p.at)
	case p.codec == format.Uncompressed && p.stored != p.decoded:
		return 0, fmt.Errorf("damaged: %d bytes that are not compressed stored as %d", p.decoded, p.stored)
	case p.decoded > maxPage:
		return 0, fmt.Errorf("a page of %d bytes, want at most %d", p.decoded, maxPage)
	}
	s.spent += p.decoded + 4*values
	return values, s.spend(s.chunk, s.spent)
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

// decode reads the current page into the start of dst.
func (s *stream) decode(dst []byte) error {
	p := s.body
	dst = dst[:p.decoded]
	if p.codec == format.Uncompressed && p.decoded > readAhead {
		_, err := s.file.ReadAt(dst, p.at)
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", p.at, err)
		}
		return p.checksum(dst)
	}
	stored, err := s.bytes(p.at, p.stored)
	if err == nil {
		err = p.checksum(stored)
	}
	if err == nil {
		copy(dst[:p.levels], stored)
		err = decompress(p.codec, dst[p.levels:], stored[p.levels:])
	}
	if err != nil {
		return fmt.Errorf("page at byte %d: %w", p.at, err)
	}
	return nil
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
