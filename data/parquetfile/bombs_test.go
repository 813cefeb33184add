package parquetfile

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"fedpace/internal/testkit/slow"
)

// Small files that ask for much: each ends in a clear error, having taken less than a
// gigabyte in all.
func TestBombs(t *testing.T) {
	slow.NotUnderRace(t)
	for _, c := range []struct {
		name, want string
		file       func(t *testing.T) []byte
	}{
		{"one long string", "cannot hold", longString},
		{"a schema 20,000 deep", "groups in groups, more than 64 deep", func(t *testing.T) []byte { return nested(t, 20_000) }},
		{"a schema 200,000 deep", "columns and groups, want at most", func(t *testing.T) []byte { return nested(t, 200_000) }},
		{"a megabyte's name of a group", "names of columns of more than", func(t *testing.T) []byte {
			return schemaOf(t, strings.Repeat("n", 1<<20), 10_000, 1)
		}},
		{"a million columns", "too many columns or row groups", func(t *testing.T) []byte { return schemaOf(t, "g", 1_000_000, 1) }},
		{"a hundred thousand columns", "100002 columns and groups, want at most 65536", func(t *testing.T) []byte { return schemaOf(t, "g", 100_000, 1) }},
		{"a million row groups", "too many columns or row groups", func(t *testing.T) []byte { return schemaOf(t, "g", 1, 1_000_000) }},
		{"as many columns as may be", "two columns are called", func(t *testing.T) []byte { return schemaOf(t, "g", 65_000, 8) }},
		{"as many row groups as may be", "column x, row group 0: is absent", func(t *testing.T) []byte { return schemaOf(t, "g", 1, 500_000) }},
		{"five million empty columns", "too many columns or row groups", func(*testing.T) []byte {
			b := append([]byte{0x29, 0xfc, 0xc0, 0x96, 0xb1, 0x02}, make([]byte, 5_000_000)...) // the list of field 2
			return behind([]byte("PAR1"), append(b, 0))
		}},
		{"a footer of 200 MB", "a footer of 209715200 bytes, want at most", func(*testing.T) []byte {
			return behind([]byte("PAR1"), make([]byte, 200<<20))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.file(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := keepAll(file)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes of file, %d MB taken: %.200v", len(file), took>>20, err)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
				t.Errorf("%.400v, want %q", err, c.want)
			}
			if took > 1<<30 {
				t.Errorf("%d bytes taken for a file of %d", took, len(file))
			}
		})
	}
}

// keepAll keeps a copy of every value of the column x, as a reader of texts does.
func keepAll(file []byte) (err error) {
	defer Damaged(&err)
	one, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	var kept [][]byte
	return Join(one).Values("x", AnyValues, func(_ int, v parquet.Value) error {
		kept = append(kept, bytes.Clone(v.Bytes()))
		return nil
	})
}

// longString is a file whose dictionary has one string of 4 MB, to which 100,000 rows refer.
func longString(t *testing.T) []byte {
	value := append([]byte{0, 0, 0x40, 0}, make([]byte, 4<<20)...)
	h := hostile{of: format.ByteArray, encoding: format.RLEDictionary, codec: format.Zstd, values: 100_000,
		page: []byte{1, 0xc0, 0x9a, 0x0c, 0}, dictionary: value} // one run of zeros
	return h.file(t)
}

// nested is a file of one column in groups in groups.
func nested(t *testing.T, depth int) []byte {
	m := format.FileMetaData{Version: 1}
	for range depth {
		m.Schema = append(m.Schema, format.SchemaElement{Name: "g", NumChildren: thrift.New[int32](1)})
	}
	m.Schema = append(m.Schema, format.SchemaElement{Name: "x", Type: thrift.New(format.Int32)})
	return footerOf(t, m)
}

// schemaOf is a file of a group with columns, and so many row groups.
func schemaOf(t *testing.T, group string, columns, groups int) []byte {
	m := format.FileMetaData{Version: 1, RowGroups: make([]format.RowGroup, groups), Schema: []format.SchemaElement{
		{Name: "schema", NumChildren: thrift.New[int32](1)},
		{Name: group, NumChildren: thrift.New(int32(columns)), RepetitionType: thrift.New(format.Required)},
	}}
	for range columns {
		m.Schema = append(m.Schema, format.SchemaElement{Name: "x", Type: thrift.New(format.Int32), RepetitionType: thrift.New(format.Required)})
	}
	for g := range m.RowGroups {
		m.RowGroups[g].Columns = make([]format.ColumnChunk, columns)
	}
	return footerOf(t, m)
}

func footerOf(t *testing.T, m format.FileMetaData) []byte {
	t.Helper()
	footer, err := thrift.Marshal(&protocol, m)
	if err != nil {
		t.Fatal(err)
	}
	return behind([]byte("PAR1"), footer)
}
