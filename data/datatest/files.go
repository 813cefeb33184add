package datatest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"fedpace/data/federated"
)

// Put writes a file called name below the folder dir, with the folders that it needs, and returns its path.
func Put(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Gzip returns the content compressed by gzip.
func Gzip(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Parquet returns a Parquet file of the rows, whose columns are the fields of T.
func Parquet[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// JoinParquet makes one file with the row groups of several, as tools that merge files
// without decoding them make it.
func JoinParquet(t testing.TB, files ...[]byte) []byte {
	all := []byte("PAR1")
	var meta format.FileMetaData
	for _, file := range files {
		f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		added := f.Metadata()
		// The whole file is appended, so its offsets grow by what comes before it.
		shift := int64(len(all))
		for _, group := range added.RowGroups {
			for i := range group.Columns {
				column := &group.Columns[i].MetaData
				column.DataPageOffset += shift
				if column.DictionaryPageOffset > 0 {
					column.DictionaryPageOffset += shift
				}
				// An offset of 0 means that there is no such index.
				group.Columns[i].ColumnIndexOffset = 0
				group.Columns[i].OffsetIndexOffset = 0
			}
			meta.RowGroups = append(meta.RowGroups, group)
		}
		meta.Version = added.Version
		meta.Schema = added.Schema
		meta.NumRows += added.NumRows
		all = append(all, file...)
	}
	return withFooter(t, all, meta)
}

// ClaimRows returns a Parquet file like file, whose footer says falsely that its first row group has this
// many rows.
func ClaimRows(t testing.TB, file []byte, rows int64) []byte {
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	meta := *f.Metadata()
	meta.RowGroups[0].NumRows = rows
	return withFooter(t, file, meta)
}

// withFooter returns a Parquet file with meta as its footer. file is what comes before the footer; a file
// that has one already gets a second one behind it, which alone counts.
func withFooter(t testing.TB, file []byte, meta format.FileMetaData) []byte {
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// Written lists Parquet files of many writers: those of package parquetfile in a
// folder, which its README.md describes, and all that FEDPACE_PARQUET names, a folder with the rest
// of what testdata/writers writes.
func Written(t testing.TB, folder string) (files []string) {
	files = federated.Files(folder, ".parquet")
	if len(files) < 30 {
		t.Fatalf("%d files in %s", len(files), folder)
	}
	if more := os.Getenv("FEDPACE_PARQUET"); more != "" {
		files = append(files, federated.Files(more, ".parquet")...)
	}
	return files
}

// Read returns the content of the file at path.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// RawImage is an image of FEMNIST as Parquet.
type RawImage struct {
	Writer    string    `parquet:"writer_id,dict"`
	Image     [784]byte `parquet:"image"`
	Character int32     `parquet:"character"`
}

// RawImages makes n images of each writer: image i is all bytes i.
func RawImages(writers []string, n int) (rows []RawImage) {
	for _, w := range writers {
		for i := range n {
			r := RawImage{Writer: w, Character: int32(i % federated.FEMNISTClasses)}
			for p := range r.Image {
				r.Image[p] = byte(i)
			}
			rows = append(rows, r)
		}
	}
	return rows
}
