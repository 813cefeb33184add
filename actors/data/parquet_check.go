package data

import (
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
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	if string(tail[4:]) != "PAR1" {
		return nil, errors.New("truncated Parquet file: it does not end in PAR1")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if n > size-12 {
		return nil, fmt.Errorf("truncated Parquet file: %d bytes cannot hold its footer of %d", size, n)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	if _, err := thriftLength(footer); err != nil {
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
	return &table{File: file}, nil
}

// checkPages walks the page headers of one column chunk.
func (t *table) checkPages(group, column int) error {
	meta := t.Metadata().RowGroups[group].Columns[column].MetaData
	at := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	left := meta.TotalCompressedSize
	if at < 4 || left < 0 || at > t.Size() || left > t.Size()-at {
		return fmt.Errorf("damaged or truncated: %d bytes at %d in a file of %d", left, at, t.Size())
	}
	for end := at + left; at < end; {
		var header format.PageHeader
		n, err := pageHeader(io.NewSectionReader(t, at, end-at), &header)
		if err != nil {
			return fmt.Errorf("page header at byte %d: %w", at, err)
		}
		at += n
		stored, decoded := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
		values := int64(max(header.DataPageHeader.V.NumValues, header.DataPageHeaderV2.V.NumValues, header.DictionaryPageHeader.V.NumValues))
		switch {
		case stored < 0 || decoded < 0 || stored > end-at:
			err = fmt.Errorf("damaged or truncated: %d bytes stored, %d left", stored, end-at)
		case decoded > maxPage || decoded > stored*expansion+64:
			err = fmt.Errorf("%d stored bytes cannot be %d", stored, decoded)
		case values > max(maxPage, t.Size()) || values > t.Metadata().NumRows*4+decoded*8+64:
			err = fmt.Errorf("%d values in %d bytes", values, decoded)
		default:
			err = t.checkCodec(meta.Codec, at, stored, decoded)
		}
		if err != nil {
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
	n, err := t.ReadAt(head[:min(stored, int64(len(head)))], at)
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
		n, err := thriftLength(b)
		if err == nil {
			return int64(n), thrift.Unmarshal(new(thrift.CompactProtocol), b[:n], header)
		}
		if window >= 1<<20 || window >= r.Size() {
			return 0, err
		}
	}
}

// thriftLength is the length of the struct at the start of b, all of whose
// lengths fit the bytes that follow them.
func thriftLength(b []byte) (int, error) {
	r := new(thrift.CompactProtocol).NewReaderFromBytes(b)
	err := skip(r, thrift.STRUCT, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("a length exceeds the bytes that are there")
	}
	return r.BytesRead(), err
}

// skip reads a value and keeps nothing.
func skip(r thrift.BytesReader, kind thrift.Type, depth int) (err error) {
	if depth > 32 {
		return errors.New("nested too deeply")
	}
	items := func(n int32, kinds ...thrift.Type) error {
		for i := range int(n) * len(kinds) {
			if err := skip(r, kinds[i%len(kinds)], depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes()
	case thrift.LIST, thrift.SET:
		list, err := r.ReadList()
		if err != nil {
			return err
		}
		return items(list.Size, list.Type)
	case thrift.MAP:
		m, err := r.ReadMap()
		if err != nil {
			return err
		}
		return items(m.Size, m.Key, m.Value)
	case thrift.STRUCT:
		for {
			field, err := r.ReadField()
			if err != nil || field.Type == thrift.STOP {
				return err
			}
			if field.Type == thrift.TRUE || field.Type == thrift.FALSE { // is its own value
				continue
			}
			if err := items(1, field.Type); err != nil {
				return err
			}
		}
	default:
		err = fmt.Errorf("unknown type %d", kind)
	}
	return err
}
