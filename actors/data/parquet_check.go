package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet library allocates what length fields say. What is checked here,
// before it sees them, is that the file can back every one of them.

// expansion is the largest ratio of decoded to stored bytes that is believed.
const expansion = 1000

// maxPage bounds one page of a column; writers aim at 1 MB.
const maxPage = 256 << 20

// openTable opens a Parquet file whose footer is sound.
func openTable(f io.ReaderAt, size int64) (t *table, err error) {
	defer damaged(&err)
	n, err := footerSize(f, size)
	if err != nil {
		return nil, err
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	if err := checkCompact(footer); err != nil {
		return nil, fmt.Errorf("damaged Parquet footer: %w", err)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	columns := len(file.Root().Columns())
	for g, group := range file.Metadata().RowGroups {
		if len(group.Columns) < columns {
			return nil, fmt.Errorf("damaged Parquet file: row group %d has %d columns", g, len(group.Columns))
		}
	}
	return &table{file: file, f: f, size: size}, nil
}

// checkPages walks the page headers of one column chunk.
func (t *table) checkPages(group, column int) error {
	meta := t.file.Metadata().RowGroups[group].Columns[column].MetaData
	at := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	left := meta.TotalCompressedSize
	if at < 4 || left < 0 || at > t.size || left > t.size-at {
		return fmt.Errorf("damaged or truncated: %d bytes at %d in a file of %d", left, at, t.size)
	}
	for end := at + left; at < end; {
		var header format.PageHeader
		n, err := pageHeader(io.NewSectionReader(t.f, at, end-at), &header)
		if err != nil {
			return fmt.Errorf("page header at byte %d: %w", at, err)
		}
		at += n
		stored, decoded := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
		var values int64
		switch {
		case header.DataPageHeader.Valid:
			values = int64(header.DataPageHeader.V.NumValues)
		case header.DataPageHeaderV2.Valid:
			values = int64(header.DataPageHeaderV2.V.NumValues)
		case header.DictionaryPageHeader.Valid:
			values = int64(header.DictionaryPageHeader.V.NumValues)
		}
		switch {
		case stored < 0 || decoded < 0 || values < 0 || stored > end-at:
			return fmt.Errorf("page at byte %d: damaged or truncated: %d bytes stored, %d left", at, stored, end-at)
		case decoded > maxPage || decoded > stored*expansion+64:
			return fmt.Errorf("page at byte %d: %d stored bytes cannot be %d", at, stored, decoded)
		case values > max(maxPage, t.size) || values > t.file.Metadata().NumRows*4+decoded*8+64:
			return fmt.Errorf("page at byte %d: %d values in %d bytes", at, values, decoded)
		}
		if err := t.checkCodec(meta.Codec, at, stored, decoded); err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at += stored
	}
	return nil
}

// checkCodec compares the length that compressed bytes give of themselves.
func (t *table) checkCodec(codec format.CompressionCodec, at, stored, decoded int64) error {
	if stored == 0 {
		return nil
	}
	var head [zstd.HeaderMaxSize]byte
	n, err := t.f.ReadAt(head[:min(stored, int64(len(head)))], at)
	if err != nil && err != io.EOF {
		return err
	}
	switch codec {
	case format.Uncompressed, format.Gzip, format.Brotli:
	case format.Snappy:
		if n, err := snappy.DecodedLen(head[:n]); err != nil || int64(n) > decoded {
			return errors.New("damaged Snappy block")
		}
	case format.Zstd:
		var h zstd.Header
		if err := h.Decode(head[:n]); err != nil {
			return fmt.Errorf("damaged Zstandard frame: %w", err)
		}
		if h.HasFCS && h.FrameContentSize > uint64(decoded) || h.WindowSize > maxPage {
			return errors.New("damaged Zstandard frame")
		}
	default:
		return fmt.Errorf("compressed with %v; want none, Snappy, gzip, Brotli or Zstandard", codec)
	}
	return nil
}

// pageHeader decodes the header at the start of r and returns its length.
func pageHeader(r *io.SectionReader, header *format.PageHeader) (int64, error) {
	for window := int64(1 << 12); ; window <<= 8 { // 4 KiB, in rare cases 1 MiB
		b := make([]byte, min(window, r.Size()))
		if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
			return 0, err
		}
		n, err := compactStruct(b, 0)
		if err == nil {
			return int64(n), thrift.Unmarshal(new(thrift.CompactProtocol), bytes.Clone(b[:n]), header)
		}
		if window >= 1<<20 || window >= r.Size() {
			return 0, err
		}
	}
}

var errCompact = errors.New("a length exceeds the bytes that are there")

// checkCompact tests that Thrift's compact encoding is whole: every length
// fits the bytes that follow it.
func checkCompact(b []byte) error {
	_, err := compactStruct(b, 0)
	return err
}

// compactStruct returns the length of the struct at the start of b.
func compactStruct(b []byte, depth int) (int, error) {
	if depth > 32 {
		return 0, errors.New("nested too deeply")
	}
	at := 0
	for {
		if at == len(b) {
			return 0, errCompact
		}
		field := b[at]
		at++
		if field == 0 {
			return at, nil
		}
		if field>>4 == 0 { // the field's number follows
			_, n := binary.Varint(b[at:])
			if n <= 0 {
				return 0, errCompact
			}
			at += n
		}
		kind := field & 0xf
		if kind == 1 || kind == 2 { // a boolean is its own value
			continue
		}
		n, err := compactValue(b[at:], kind, depth)
		if err != nil {
			return 0, err
		}
		at += n
	}
}

// compactValue returns the length of a value of the given type.
func compactValue(b []byte, kind byte, depth int) (int, error) {
	fixed := func(n int) (int, error) {
		if n > len(b) {
			return 0, errCompact
		}
		return n, nil
	}
	switch kind {
	case 1, 2, 3: // a boolean in a list, a byte
		return fixed(1)
	case 4, 5, 6: // integers
		if _, n := binary.Uvarint(b); n > 0 {
			return n, nil
		}
		return 0, errCompact
	case 7: // double
		return fixed(8)
	case 8: // bytes
		l, n := binary.Uvarint(b)
		if n <= 0 || l > uint64(len(b)-n) {
			return 0, errCompact
		}
		return n + int(l), nil
	case 9, 10: // list, set
		if len(b) == 0 {
			return 0, errCompact
		}
		l, at := uint64(b[0]>>4), 1
		if l == 15 {
			var n int
			if l, n = binary.Uvarint(b[1:]); n <= 0 {
				return 0, errCompact
			}
			at += n
		}
		if l > uint64(len(b)-at) {
			return 0, errCompact
		}
		for range l {
			n, err := compactValue(b[at:], b[0]&0xf, depth+1)
			if err != nil {
				return 0, err
			}
			at += n
		}
		return at, nil
	case 11: // map
		l, at := binary.Uvarint(b)
		if at <= 0 || l > uint64(len(b)-at) {
			return 0, errCompact
		}
		if l == 0 {
			return at, nil
		}
		if at == len(b) {
			return 0, errCompact
		}
		kinds := b[at]
		at++
		for range 2 * l {
			n, err := compactValue(b[at:], kinds>>4, depth+1)
			if err != nil {
				return 0, err
			}
			at += n
			kinds = kinds<<4 | kinds>>4
		}
		return at, nil
	case 12:
		return compactStruct(b, depth+1)
	}
	return 0, fmt.Errorf("unknown type %d", kind)
}
