package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"fedpace/data/datatest"
	"fedpace/internal/testkit/slow"
)

// hostile is a file of one column x with a page, as it is given and so many times, behind a
// dictionary of one value.
type hostile struct {
	of         format.Type
	repetition format.FieldRepetitionType
	encoding   format.Encoding
	values     int32 // that each page says it holds
	page       []byte
	codec      format.CompressionCodec
	times      int
	claims     int32  // how many bytes a page has, if not its own
	dictionary []byte // nil: of four zeros
}

func (h hostile) file(t *testing.T) []byte {
	if h.dictionary == nil {
		h.dictionary = make([]byte, 4)
	}
	file := []byte("PAR1")
	put := func(header format.PageHeader, content []byte) {
		packed, err := parquet.LookupCompressionCodec(h.codec).Encode(nil, content)
		if err != nil {
			t.Fatal(err)
		}
		header.CompressedPageSize, header.UncompressedPageSize = int32(len(packed)), int32(len(content))
		if header.Type == format.DataPage && h.claims > 0 {
			header.UncompressedPageSize = h.claims
		}
		head, err := thrift.Marshal(&protocol, header)
		if err != nil {
			t.Fatal(err)
		}
		file = slices.Concat(file, head, packed)
	}
	put(format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1})}, h.dictionary)
	data, rows := int64(len(file)), int64(0)
	for range max(1, h.times) {
		put(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: h.values, Encoding: h.encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		})}, h.page)
		rows += int64(h.values)
	}
	chunk := format.ColumnChunk{MetaData: format.ColumnMetaData{
		Type: h.of, Codec: h.codec, NumValues: rows, DictionaryPageOffset: 4, DataPageOffset: data, TotalCompressedSize: int64(len(file)) - 4,
	}}
	footer, err := thrift.Marshal(&protocol, format.FileMetaData{
		Version: 1, NumRows: rows,
		Schema: []format.SchemaElement{
			{Name: "schema", NumChildren: thrift.New[int32](1)}, {Name: "x", Type: thrift.New(h.of), RepetitionType: thrift.New(h.repetition)},
		},
		RowGroups: []format.RowGroup{{Columns: []format.ColumnChunk{chunk}, NumRows: rows}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return behind(file, footer)
}

// behind is a file with a footer.
func behind(file, footer []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(slices.Concat(file, footer), uint32(len(footer))), "PAR1"...)
}

// Lengths in the footer are compared with what follows them, and it is not nested without
// end.
func TestFooters(t *testing.T) {
	list := []byte{0x15, 0x00, 0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x02} // a schema of 2^29 elements
	nested := bytes.Repeat([]byte{0xfc}, 1<<20)                          // a field that nothing knows, of a struct of a struct ...
	for want, footer := range map[string][]byte{
		"a length exceeds the bytes that are there": list,
		"nested too deeply":                         nested,
	} {
		file := behind([]byte("PAR1"), footer)
		datatest.Guard(t, len(file), func() {
			if _, err := Open(bytes.NewReader(file), int64(len(file))); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// Counts within a page are compared with its header's before they are believed: each of
// these pages would take gigabytes.
func TestCounts(t *testing.T) {
	slow.NotUnderRace(t)
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x08, 0} // a run of 2^30 zeros
	lengthOf := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	packed := func(values []int32) []byte {
		b, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, values)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	many := []byte{0x80, 0x01, 0x04, 0x80, 0x80, 0x80, 0x80, 0x04, 0} // 2^30 deltas in blocks of 128 of 4 parts
	thousand := make([]int32, 1000)
	whole := slices.Repeat([]int32{1 << 20}, 1000) // each string repeats the megabyte of the first
	whole[0] = 0
	first := slices.Clone(thousand)
	first[0] = 1 << 20
	page := func(of format.Type, repetition format.FieldRepetitionType, encoding format.Encoding, values int32, content []byte) hostile {
		return hostile{of: of, repetition: repetition, encoding: encoding, values: values, page: content}
	}
	noise := make([]byte, 2<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // which never fails
	for _, c := range []struct {
		name string
		hostile
		want string // "": that there are too many
	}{
		{"levels", page(format.Int32, format.Optional, format.Plain, 1, slices.Concat(lengthOf(long), make([]byte, 4))), ""},
		{"levels in many runs", page(format.Int32, format.Optional, format.Plain, 1, lengthOf(bytes.Repeat([]byte{0xfe, 0xff, 0x3f, 0}, 1000))), ""},
		{"places in a dictionary", page(format.Int32, format.Required, format.RLEDictionary, 1, append([]byte{1}, long...)), ""},
		{"packed places", page(format.Int32, format.Required, format.RLEDictionary, 1, []byte{0, 0x81, 0x80, 0x80, 0x80, 0x04}), ""},
		{"booleans", page(format.Boolean, format.Required, format.RLE, 1, lengthOf(long)), ""},
		{"integers as booleans are", page(format.Int32, format.Required, format.RLE, 1, lengthOf(long)), "coded as RLE, which is for booleans"},
		{"deltas", page(format.Int32, format.Required, format.DeltaBinaryPacked, 1, many), ""},
		{"deltas of lengths", page(format.ByteArray, format.Required, format.DeltaLengthByteArray, 1, many), ""},
		{"deltas of prefixes", page(format.ByteArray, format.Required, format.DeltaByteArray, 1, many), ""},
		{"deltas of suffixes", page(format.ByteArray, format.Required, format.DeltaByteArray, 1000, append(packed(thousand), many...)), ""},
		{"prefixes", page(format.ByteArray, format.Required, format.DeltaByteArray, 1000, slices.Concat(packed(whole), packed(first), make([]byte, 1<<20))),
			"strings of 1048576000 bytes in a page, want at most 268435456"},
		{"zeros", hostile{of: format.Int32, page: make([]byte, 4<<20), values: 1 << 20, codec: format.Zstd, times: 20}, "bytes cannot hold"},
		{"a large page", hostile{of: format.Int32, page: noise, values: 1, codec: format.Zstd, claims: 1 << 30}, "a page of 1073741824 bytes, want at most 268435456"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.file(t)
			datatest.Guard(t, len(file), func() {
				one, err := Open(bytes.NewReader(file), int64(len(file)))
				if err != nil {
					t.Fatal(err)
				}
				err = func() (err error) {
					defer Damaged(&err)
					return Join(one).Values("x", AnyValues, func(int, parquet.Value) error { return nil })
				}()
				if c.want == "" && !errors.Is(err, errCount) || err == nil || !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
			})
		})
	}
}
