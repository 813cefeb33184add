package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds on the bytes that the values of a file may take, by the size of the file.
const (
	// expansion is the largest number of bytes of values for each byte of a file, beyond slack: no real
	// file compresses better.
	expansion = 1000
	// slack is the number of bytes of values that a file of any size may have.
	slack = 16 << 20
)

// ValueBytes is the number of bytes that a value of any type is counted with at least.
const ValueBytes = 4

// Bounds of what one file may ask for before its values are charged.
const (
	// maxPage bounds a page in bytes; writers aim at 1 MB.
	maxPage = 256 << 20
	// maxFooter bounds the footer in bytes.
	maxFooter = 128 << 20
	// maxElements bounds the elements of the schema, which are columns and the groups around them.
	maxElements = 1 << 16
	// maxDepth bounds the nesting of groups in groups.
	maxDepth = 64
	// maxNames bounds the names of all columns in bytes, where each name includes those of its
	// groups.
	maxNames = 16 << 20
)

// File is one Parquet file, whose footer has been read and checked.
type File struct {
	// Name is the name of the file, for a set of several files.
	Name string
	// file is where the bytes come from, and size how many there are.
	file io.ReaderAt
	size int64
	// footerOffset is the place in the file at which the pages end and the footer begins.
	footerOffset int64
	// groups are the row groups as the footer describes them.
	groups []format.RowGroup

	// fields are the columns; one within a group has the name group.column.
	fields []Field
	// byName has the fields by their names.
	byName map[string]*Field
	// chunks has one entry for each leaf column, which can decode the pages of any row group from
	// a stream.
	chunks []parquet.ColumnChunk

	// metadata is what the writer has noted about the file, by keys of its own.
	metadata map[string]string

	// spent is how many bytes of values the pages that were read so far claim to hold.
	spent atomic.Int64
}

// Open reads the footer of the Parquet file f of size bytes and checks it. It returns an error if
// the file is truncated, encrypted or damaged, or if its schema exceeds the bounds. The file must
// stay open as long as the result is used; f is read from several goroutines.
func Open(f io.ReaderAt, size int64) (t *File, err error) {
	defer Damaged(&err)
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	// A file ends with the length of its footer in four bytes and PAR1.
	switch string(tail[4:]) {
	case "PAR1":
	case "PARE":
		return nil, errors.New("an encrypted Parquet file; want one that is not encrypted")
	default:
		return nil, errors.New("truncated Parquet file: it does not end in PAR1")
	}
	footerBytes := int64(binary.LittleEndian.Uint32(tail[:4]))
	// Before the footer lie four bytes with PAR1, behind it eight.
	if footerBytes > size-12 {
		return nil, fmt.Errorf("truncated Parquet file: %d bytes cannot hold its footer of %d", size, footerBytes)
	}
	if footerBytes > maxFooter {
		return nil, fmt.Errorf(
			"a footer of %d bytes, want at most %d (fewer columns or row groups)",
			footerBytes,
			maxFooter,
		)
	}
	footer := make([]byte, footerBytes)
	if _, err := f.ReadAt(footer, size-8-footerBytes); err != nil {
		return nil, err
	}
	var meta format.FileMetaData
	// Bytes may follow the metadata, because a signature may be there.
	if _, err := unmarshal(footer, &meta); err != nil {
		return nil, fmt.Errorf("damaged Parquet footer: %w", err)
	}
	t = &File{
		file:         f,
		size:         size,
		footerOffset: size - 8 - footerBytes,
		groups:       meta.RowGroups,
	}
	t.metadata = make(map[string]string, len(meta.KeyValueMetadata))
	for _, pair := range meta.KeyValueMetadata {
		t.metadata[pair.Key] = pair.Value
	}
	if err := t.openSchema(meta.Schema); err != nil {
		return nil, fmt.Errorf("schema of the Parquet file: %w", err)
	}
	// Each row group has a chunk for each leaf column.
	for g, group := range t.groups {
		if len(group.Columns) != len(t.chunks) {
			return nil, fmt.Errorf(
				"damaged Parquet file: row group %d has %d columns, the schema %d",
				g,
				len(group.Columns),
				len(t.chunks),
			)
		}
	}
	return t, nil
}

// Metadata returns what the writer has noted about the file under a key of its own, such as
// "huggingface"; "" if there is nothing.
func (t *File) Metadata(key string) string { return t.metadata[key] }

// openSchema makes the library's columns for this schema, without letting the library open the file itself: it opens
// an artificial one in memory, with the schema and one row group that has no pages. With these columns it decodes
// the pages of every row group from a stream, so that it sees only what was checked here. openSchema sets chunks,
// fields and byName.
func (t *File) openSchema(schema []format.SchemaElement) error {
	if err := checkSchema(schema); err != nil {
		return err
	}
	var group format.RowGroup
	for _, e := range schema {
		// Only leaves have a type; groups have none and no chunk.
		if e.Type.Valid {
			// The size is a bound that no stream reaches.
			column := format.ColumnMetaData{Type: e.Type.V, DataPageOffset: 4, TotalCompressedSize: 1 << 62}
			group.Columns = append(group.Columns, format.ColumnChunk{MetaData: column})
		}
	}
	footer, err := thrift.Marshal(
		&protocol,
		format.FileMetaData{Version: 1, Schema: schema, RowGroups: []format.RowGroup{group}},
	)
	if err != nil {
		return err
	}
	// The file consists of its marks and the footer alone.
	b := append([]byte("PAR1"), footer...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
	file, err := parquet.OpenFile(
		bytes.NewReader(b),
		int64(len(b)),
		parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true),
	)
	if err != nil {
		return err
	}
	t.chunks = file.RowGroups()[0].ColumnChunks()
	t.fields = newFields("", file.Root().Columns(), 0, newSchemaNames(schema))
	markGeometry(t.fields, t.Metadata("geo"))
	t.byName = map[string]*Field{}
	for i := range t.fields {
		name := t.fields[i].Name
		// A mapping could not tell two columns of one name apart.
		if t.byName[name] != nil {
			return fmt.Errorf("two columns are called %q; want one of each name", name)
		}
		t.byName[name] = &t.fields[i]
	}
	return nil
}

// checkSchema returns an error if a schema has too many elements, too long names or groups nested
// too deeply. The library and the names of columns nest as deeply as the schema does, so that a
// small file could ask for much memory.
func checkSchema(schema []format.SchemaElement) error {
	if len(schema) > maxElements {
		return fmt.Errorf("%d columns and groups, want at most %d", len(schema), maxElements)
	}
	// remaining is how many children of a group are to come, and name the length of its name with
	// those of the groups around it.
	type group struct{ remaining, name int }
	var around []group
	names := 0
	for _, e := range schema {
		innermost := len(around) - 1
		nameLength := len(e.Name)
		if innermost >= 0 {
			nameLength += around[innermost].name
			around[innermost].remaining--
		}
		names += nameLength
		if names > maxNames {
			return fmt.Errorf("names of columns of more than %d bytes", maxNames)
		}
		if n := int(e.NumChildren.V); n > 0 {
			around = append(around, group{n, nameLength})
		}
		if len(around) > maxDepth {
			return fmt.Errorf("groups in groups, more than %d deep", maxDepth)
		}
		// Groups whose children are all there end, inner ones first.
		for innermost = len(around) - 1; innermost >= 0 && around[innermost].remaining == 0; innermost-- {
			around = around[:innermost]
		}
	}
	return nil
}

// spend adds to the count of bytes that the values of all pages read so far take by their headers. It
// returns an error if the count exceeds what a file of this size can hold: no real data are compressed to
// less than a thousandth, so the headers are false.
func (t *File) spend(bytes int64) error {
	if spent := t.spent.Add(bytes); spent > t.size*expansion+slack {
		return fmt.Errorf("a file of %d bytes cannot hold %d bytes of values", t.size, spent)
	}
	return nil
}

// protocol is the encoding of Parquet's metadata, Thrift's compact protocol.
var protocol thrift.CompactProtocol

// unmarshal decodes the Thrift struct at the start of b to into and returns its length in bytes.
// The library allocates memory for lengths as it meets them, and recurses for nesting, so skip
// looks at both beforehand.
func unmarshal(b []byte, into any) (length int, err error) {
	r := protocol.NewReaderFromBytes(b)
	budget := int64(maxDecoded)
	if err := skip(r, thrift.STRUCT, 0, &budget); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("a length exceeds the bytes that are there")
		}
		return 0, err
	}
	return r.BytesRead(), thrift.Unmarshal(&protocol, b[:r.BytesRead()], into)
}

// maxDecoded bounds the memory of the lists of a struct, in bytes: empty structs of one byte each
// become hundreds of bytes when they are decoded.
const maxDecoded = 512 << 20

// skip reads a Thrift value of this kind without decoding it, to see that it is small enough to decode.
// depth is how deeply the value is nested, and budget the memory in bytes that lists may still take when
// they are decoded, which skip reduces. Kinds that Parquet's metadata does not have, such as a map, are an
// error.
func skip(r thrift.BytesReader, kind thrift.Type, depth int, budget *int64) (err error) {
	if depth > 32 {
		return errors.New("nested too deeply")
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
	case thrift.LIST:
		list, err := r.ReadList()
		// elementBytes estimates the memory of a decoded element: 16 for a string. The largest of the
		// other elements is format.ColumnChunk.
		elementBytes := int64(16)
		if list.Type == thrift.STRUCT {
			elementBytes = 512
		}
		for i := int32(0); err == nil && i < list.Size; i++ {
			*budget -= elementBytes
			if *budget < 0 {
				return errors.New("too many columns or row groups")
			}
			err = skip(r, list.Type, depth+1, budget)
		}
		return err
	case thrift.STRUCT:
		for err == nil {
			var field thrift.Field
			field, err = r.ReadField()
			if err != nil || field.Type == thrift.STOP {
				return err
			}
			// A boolean has its value in its type, so that no bytes follow.
			if field.Type != thrift.TRUE && field.Type != thrift.FALSE {
				err = skip(r, field.Type, depth+1, budget)
			}
		}
	default:
		err = fmt.Errorf("unknown type %d", kind)
	}
	return err
}
