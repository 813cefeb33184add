package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A Parquet file is read in two parts. The Parquet library knows the schema and
// turns the bytes of a page to values. What the library would believe without a
// look is done here: the footer, the headers of pages, their checksums and their
// compression. No length is used that the bytes of the file do not back.

// expansion is the largest ratio of a file's values to its size that is
// believed, beyond slack bytes.
const (
	expansion = 1000
	slack     = 16 << 20
)

// maxPage bounds one page of a column; writers aim at 1 MB.
const maxPage = 256 << 20

// File is one Parquet file.
type File struct {
	Name   string // where a set has several
	file   io.ReaderAt
	size   int64
	end    int64 // of the pages: where the footer begins
	groups []format.RowGroup

	root    *parquet.Column
	columns map[string]*parquet.Column // by name, those below a column by their path with dots
	leaves  []format.SchemaElement     // what the schema says of the leaf columns,
	chunks  []parquet.ColumnChunk      // and their chunks, which take any row group's pages from a stream

	lock  sync.Mutex
	spent int64           // bytes of values that the file's chunks have been believed to hold,
	by    map[chunk]int64 // and of each
}

type chunk struct{ group, leaf int }

// Open opens a Parquet file whose footer is sound.
func Open(f io.ReaderAt, size int64) (t *File, err error) {
	defer Damaged(&err)
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	switch string(tail[4:]) {
	case "PAR1":
	case "PARE":
		return nil, errors.New("an encrypted Parquet file; want one that is not encrypted")
	default:
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
	length, err := thriftLength(footer) // a signature may follow
	if err != nil {
		return nil, fmt.Errorf("damaged Parquet footer: %w", err)
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer[:length], &meta); err != nil {
		return nil, fmt.Errorf("damaged Parquet footer: %w", err)
	}
	t = &File{file: f, size: size, end: size - 8 - n, groups: meta.RowGroups, by: map[chunk]int64{}}
	if err := t.openSchema(meta.Schema); err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	for g, group := range t.groups {
		if len(group.Columns) != len(t.chunks) {
			return nil, fmt.Errorf("damaged Parquet file: row group %d has %d columns, the schema %d", g, len(group.Columns), len(t.chunks))
		}
	}
	return t, nil
}

// openSchema gives the library a file with this schema and one row group of
// uncompressed columns without pages. The pages of every row group are read with
// these columns, from a stream.
func (t *File) openSchema(schema []format.SchemaElement) error {
	var group format.RowGroup
	for _, e := range schema {
		if e.Type.Valid {
			column := format.ColumnMetaData{Type: e.Type.V, DataPageOffset: 4, TotalCompressedSize: 1 << 62}
			group.Columns = append(group.Columns, format.ColumnChunk{MetaData: column})
			t.leaves = append(t.leaves, e)
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol),
		format.FileMetaData{Version: 1, Schema: schema, RowGroups: []format.RowGroup{group}})
	if err != nil {
		return err
	}
	b := append([]byte("PAR1"), footer...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
	file, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	t.root, t.chunks = file.Root(), file.RowGroups()[0].ColumnChunks()
	t.columns = make(map[string]*parquet.Column, len(t.chunks))
	t.index(t.root, "")
	return nil
}

// index names the columns below c. The first of two of one name has it.
func (t *File) index(c *parquet.Column, prefix string) {
	for _, below := range c.Columns() {
		name := prefix + below.Name()
		if _, taken := t.columns[name]; !taken {
			t.columns[name] = below
		}
	}
	for _, below := range c.Columns() {
		t.index(below, prefix+below.Name()+".")
	}
}

// leaf finds the one leaf below a column; image and lists nest theirs, and an
// image's struct has a path beside its bytes.
func (t *File) leaf(name string) (*parquet.Column, error) {
	c := t.columns[name]
	if c == nil {
		return nil, errors.New("is absent")
	}
	for !c.Leaf() {
		below := c.Columns()
		next := c.Column("bytes")
		if next == nil && len(below) == 1 {
			next = below[0]
		}
		if next == nil {
			return nil, fmt.Errorf("found a group of %d columns, want one column, a list, or an image with its bytes", len(below))
		}
		c = next
	}
	return c, nil
}

// spend counts the bytes of values that a chunk holds so far. Nothing real
// compresses to less than a thousandth.
func (t *File) spend(c chunk, bytes int64) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	if more := bytes - t.by[c]; more > 0 {
		t.by[c] = bytes
		t.spent += more
	}
	if t.spent > t.size*expansion+slack {
		return fmt.Errorf("a file of %d bytes cannot hold %d bytes of values", t.size, t.spent)
	}
	return nil
}
