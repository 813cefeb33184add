package parquetfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
)

// Row groups with compressions of their own, one of them without a row, are one
// set. The pages that are not compressed are larger than what is read ahead.
func TestRowGroups_Differ(t *testing.T) {
	images := datatest.RawImages([]string{"a", "b"}, 100)
	file := datatest.JoinParquet(t,
		datatest.Parquet(t, images[:50], parquet.Compression(&parquet.Snappy)),
		datatest.Parquet(t, []datatest.RawImage{}),
		datatest.Parquet(t, images[50:60], parquet.Compression(&parquet.Lz4Raw), parquet.DataPageVersion(2)),
		datatest.Parquet(t, images[60:]))
	one, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := Join(one)
	if len(s.groups) < 3 || s.Rows != 200 {
		t.Fatalf("%d row groups with %d rows", len(s.groups), s.Rows)
	}
	err = s.Each(Columns{"image": func(row int, v parquet.Value) error {
		if !bytes.Equal(v.Bytes(), images[row].Image[:]) {
			return fmt.Errorf("row %d differs", row)
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

// A page whose bytes do not match its checksum is refused.
func TestChecksum(t *testing.T) {
	whole := datatest.Read(t, "testdata/clickhouse-zstd.parquet")
	one, err := Open(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	m := one.groups[0].Columns[one.byName["f64"].leaf.Index()].MetaData
	broken := slices.Clone(whole)
	broken[m.DictionaryPageOffset+m.TotalCompressedSize-1] ^= 1
	one, err = Open(bytes.NewReader(broken), int64(len(broken)))
	if err != nil {
		t.Fatal(err)
	}
	err = Join(one).Each(Columns{"f64": func(int, parquet.Value) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "column f64, row group 0: page at byte ") || !strings.Contains(err.Error(), "damaged: its checksum is ") {
		t.Error(err)
	}
}
