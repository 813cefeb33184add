package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"fedpace/actors/data/federated"
)

// joined is one file with the row groups of several, as tools that merge files
// without decoding them make it.
func joined(t *testing.T, files ...[]byte) []byte {
	all := []byte("PAR1")
	var meta format.FileMetaData
	for _, file := range files {
		f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		m := f.Metadata()
		moved := int64(len(all))
		for _, g := range m.RowGroups {
			for i := range g.Columns {
				c := &g.Columns[i].MetaData
				c.DataPageOffset += moved
				if c.DictionaryPageOffset > 0 {
					c.DictionaryPageOffset += moved
				}
				g.Columns[i].ColumnIndexOffset, g.Columns[i].OffsetIndexOffset = 0, 0
			}
			meta.RowGroups = append(meta.RowGroups, g)
		}
		meta.Version, meta.Schema, meta.NumRows = m.Version, m.Schema, meta.NumRows+m.NumRows
		all = append(all, file...)
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, footer...)
	return append(binary.LittleEndian.AppendUint32(all, uint32(len(footer))), "PAR1"...)
}

// Row groups with compressions of their own, one of them without a row, are one
// set. The pages that are not compressed are larger than what is read ahead.
func TestRowGroupsDiffer(t *testing.T) {
	images := rawImages([]string{"a", "b"}, 100)
	file := joined(t,
		sheetOf(t, images[:50], parquet.Compression(&parquet.Snappy)),
		sheetOf(t, []rawImage{}),
		sheetOf(t, images[50:60], parquet.Compression(&parquet.Lz4Raw), parquet.DataPageVersion(2)),
		sheetOf(t, images[60:]))
	one, err := openTable(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := newSheet(one)
	if len(s.groups) < 3 || s.rows != 200 {
		t.Fatalf("%d row groups with %d rows", len(s.groups), s.rows)
	}
	err = s.each(columns{"image": func(row int, v parquet.Value) error {
		if !bytes.Equal(v.Bytes(), images[row].Image[:]) {
			return fmt.Errorf("row %d differs", row)
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
	set := mustOpen(t, put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if set.Clients() != 2 || set.Samples(0) != 80 {
		t.Errorf("%d clients, the first with %d samples", set.Clients(), set.Samples(0))
	}
}

// What compresses to almost nothing is still read: lists of equal numbers, where a
// page of a few bytes holds thousands of values.
func TestConstantLists(t *testing.T) {
	type row struct {
		Client string    `parquet:"client,dict"`
		X      []float32 `parquet:"x,list,dict"`
		Y      int32     `parquet:"y,dict"`
	}
	var rows []row
	for i := range 1000 {
		rows = append(rows, row{fmt.Sprint(i % 10), make([]float32, 784), int32(i % 2)})
	}
	file := sheetOf(t, rows, parquet.Compression(&parquet.Zstd))
	if len(file) > 4*784*1000/100 {
		t.Fatalf("%d bytes, want a file of which the values are more than a hundred times its size", len(file))
	}
	s := mustOpen(t, put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if s.Clients() != 10 || s.Info().Features != 784 {
		t.Errorf("%d clients, %d features", s.Clients(), s.Info().Features)
	}
}

// A page whose bytes do not match its checksum is refused.
func TestChecksum(t *testing.T) {
	whole := readFile(t, "testdata/parquet/clickhouse-zstd.parquet")
	one, err := openTable(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := one.leaf("f64")
	if err != nil {
		t.Fatal(err)
	}
	m := one.groups[0].Columns[leaf.Index()].MetaData
	broken := slices.Clone(whole)
	broken[m.DictionaryPageOffset+m.TotalCompressedSize-1] ^= 1
	one, err = openTable(bytes.NewReader(broken), int64(len(broken)))
	if err != nil {
		t.Fatal(err)
	}
	err = newSheet(one).each(columns{"f64": func(int, parquet.Value) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "column f64, row group 0: page at byte ") || !strings.Contains(err.Error(), "damaged: its checksum is ") {
		t.Error(err)
	}
}

// What a file cannot be read for is said in so many words.
func TestParquetRefused(t *testing.T) {
	type row struct {
		Client string  `parquet:"client"`
		X      []int64 `parquet:"x,list"`
		Y      int64   `parquet:"y,timestamp"`
	}
	stamps := sheetOf(t, []row{{"a", []int64{1}, 0}, {"a", []int64{1}, 1}})
	encrypted := slices.Concat(stamps[:len(stamps)-4], []byte("PARE"))
	for want, file := range map[string][]byte{
		"column y holds timestamps; want numbers, text or bytes": stamps,
		"an encrypted Parquet file":                              encrypted,
	} {
		_, err := Open(put(t, t.TempDir(), "x.parquet", file), federated.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A run that is longer than the page is refused before it takes any memory.
func TestLongRun(t *testing.T) {
	whole := readFile(t, "testdata/parquet/duckdb-v2-uncompressed.parquet")
	levels := []byte{72<<1&0x7f | 0x80, 72 << 1 >> 7, 3} // of x: one run, 72 values of level 3
	if bytes.Count(whole, levels) != 1 {
		t.Fatalf("%d runs like that of x", bytes.Count(whole, levels))
	}
	file := bytes.Replace(whole, levels, []byte{0xfe, 0x7f, 3}, 1)
	_, err := Open(put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if err == nil || !strings.Contains(err.Error(), "damaged: its runs hold more values than its header says") {
		t.Error(err)
	}
}
