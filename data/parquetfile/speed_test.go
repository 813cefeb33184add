package parquetfile

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/internal/testkit/slow"
)

// wideFile is a file with a column for each feature.
func wideFile(t testing.TB, columns, rows int) []byte {
	group := parquet.Group{}
	for c := range columns {
		group[fmt.Sprintf("f%05d", c)] = parquet.Leaf(parquet.FloatType)
	}
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("wide", group), parquet.Compression(&parquet.Snappy), parquet.DataPageStatistics(false))
	row := make(parquet.Row, columns)
	for i := range rows {
		for c := range row {
			row[c] = parquet.FloatValue(float32(i*c%1009)).Level(0, 0, c)
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readWide(t testing.TB, file []byte, columnsWant int) []float32 {
	one, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := Join(one)
	fields, err := s.Fields()
	if err != nil || len(fields) != columnsWant {
		t.Fatalf("%d columns, %v", len(fields), err)
	}
	x, values := make([]float32, s.Rows*columnsWant), Columns{}
	for c, f := range fields {
		values[f.Name] = func(row int, v parquet.Value) error {
			number, err := f.Number(v)
			x[row*columnsWant+c] = float32(number)
			return err
		}
	}
	if err := s.Each(values); err != nil {
		t.Fatal(err)
	}
	return x
}

// A column a feature is as right with hundreds of columns as with one.
func TestWide(t *testing.T) {
	slow.NotUnderRace(t)
	const columns, rows = 300, 11
	for i, x := range readWide(t, wideFile(t, columns, rows), columns) {
		if want := float32(i / columns * (i % columns) % 1009); x != want {
			t.Fatalf("row %d, column %d: %v, want %v", i/columns, i%columns, x, want)
		}
	}
}

// BenchmarkWide reads 5,000 columns of 1,000 rows.
func BenchmarkWide(b *testing.B) {
	file := wideFile(b, 5000, 1000)
	for b.Loop() {
		readWide(b, file, 5000)
	}
}
