package parquetfile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/testkit/slow"
)

// The columns of those files by the number of the row.
var (
	writtenNumbers = map[string]func(i float64) float64{
		"y":        func(i float64) float64 { return float64(int(i) % 3) },
		"i8":       func(i float64) float64 { return i - 12 },
		"u8":       func(i float64) float64 { return float64(int(i) * 37 % 256) },
		"i16":      func(i float64) float64 { return i*100 - 300 },
		"u16":      func(i float64) float64 { return i * 2000 },
		"i32":      func(i float64) float64 { return i * 1000003 },
		"u32":      func(i float64) float64 { return 4294967295 - i },
		"i64":      func(i float64) float64 { return -i * 1e12 },
		"u64":      func(i float64) float64 { return 1<<63 + i },
		"f16":      func(i float64) float64 { return i / 8 },
		"f32":      func(i float64) float64 { return i / 8 },
		"f64":      func(i float64) float64 { return i / 3 },
		"nullable": func(i float64) float64 { return i / 3 },
		"flag":     func(i float64) float64 { return float64(int(i) % 2) },
		"dec9":     func(i float64) float64 { return i * 1.25 },
		"dec18":    func(i float64) float64 { return i * 1000.125 },
		"dec38":    func(i float64) float64 { return i * -1e20 },
		"same":     func(float64) float64 { return 7 },
		"struct.a": func(i float64) float64 { return i },
		"struct.b": func(i float64) float64 { return -i },
	}
	writtenTexts = map[string]func(i int) string{
		"client": func(i int) string { return fmt.Sprint("c", i%4) },
		"text":   func(i int) string { return fmt.Sprint("ä", i) },
		"enum":   func(i int) string { return fmt.Sprint("w", i%2) },
		"bin":    func(i int) string { return fmt.Sprint("b", i) },
		"fixed":  func(i int) string { return fmt.Sprint(i + 10) },
		"uuid":   func(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) },
		"u64":    func(i int) string { return strconv.FormatUint(1<<63+uint64(i), 10) },
		"u32":    func(i int) string { return fmt.Sprint(math.MaxUint32 - uint32(i)) },
		"i64":    func(i int) string { return fmt.Sprint(-int64(i) * 1e12) },
		"same":   func(int) string { return "7" },
	}
	writtenLists = map[string]func(i float32) []float32{
		"x":      func(i float32) []float32 { return []float32{i, i / 2, -i} },
		"nested": func(i float32) []float32 { return []float32{i, i + 1, i + 2} },
		"ragged": func(i float32) []float32 { return []float32{0, 1}[:int(i)%3] },
		"pair":   func(i float32) []float32 { return []float32{i, i + 1} },
	}
)

func TestWriters(t *testing.T) {
	for _, path := range datatest.Written(t, "testdata") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := federated.OpenSource(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.File.Close()
			one, err := Open(f.File, f.Size)
			if err != nil {
				t.Fatal(err)
			}
			checkWritten(t, Join(one))
		})
	}
}

func checkWritten(t *testing.T, s *Sheet) {
	if s.Rows != 24 {
		t.Fatalf("%d rows, want 24", s.Rows)
	}
	fields, err := s.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		number, text, list := writtenNumbers[f.Name], writtenTexts[f.Name], writtenLists[f.Name]
		switch {
		case f.Name == "map" || f.Name == "date" || f.Name == "time" || f.Name == "stamp":
			if f.Kind != KindOther {
				t.Errorf("%s: %s are no numbers and no text", f.Name, f.TypeName())
			}
		case f.Name == "holes":
			err := s.Each(Columns{"holes": func(_ int, v parquet.Value) error { _, err := f.Number(v); return err }})
			if err == nil {
				t.Errorf("holes: %v, want an error about the null in row 5", err)
			}
		case list != nil:
			checkLists(t, s, f, list)
		case number == nil && text == nil:
			t.Errorf("column %s: nothing is known of it here", f.Name)
		}
		if f.Name == "uuid" && f.Kind == KindBytes { // of writers that know no UUIDs
			text = nil
		}
		if number != nil {
			checkNumbers(t, s, f, number)
		}
		if text != nil {
			checkTexts(t, s, f, text)
		}
	}
}

func checkNumbers(t *testing.T, s *Sheet, f Field, want func(float64) float64) {
	wrong := 0
	err := s.Each(Columns{f.Name: func(row int, v parquet.Value) error {
		got, err := f.Number(v)
		if want := want(float64(row)); got != want {
			wrong++
			if wrong == 1 {
				t.Errorf("%s, row %d: %v, want %v", f.Name, row, got, want)
			}
		}
		return err
	}})
	if err != nil || f.Kind != KindNumber || f.elementLevel > 0 {
		t.Errorf("%s: %s, %v", f.Name, f.TypeName(), err)
	}
}

func checkTexts(t *testing.T, s *Sheet, f Field, want func(int) string) {
	err := s.Values(f.Name, OneValue, func(row int, v parquet.Value) error {
		got := f.Text(v)
		if n, ok := f.Integer(v); f.IsInteger && ok {
			got = strconv.FormatInt(n, 10)
		} else if f.IsInteger {
			got = strconv.FormatUint(uint64(n), 10)
		}
		if got != want(row) {
			return fmt.Errorf("row %d: %q, want %q", row, got, want(row))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func checkLists(t *testing.T, s *Sheet, f Field, want func(float32) []float32) {
	lists := make([][]float32, s.Rows)
	err := s.Values(f.Name, AnyValues, func(row int, v parquet.Value) error {
		if !f.IsElement(v) {
			return nil
		}
		x, err := f.Number(v)
		lists[row] = append(lists[row], float32(x))
		return err
	})
	for row, x := range lists {
		if !slices.Equal(x, want(float32(row))) {
			t.Fatalf("%s, row %d: %v, want %v", f.Name, row, x, want(float32(row)))
		}
	}
	if err != nil || f.elementLevel == 0 {
		t.Errorf("%s: %v", f.Name, err)
	}
}

// Bytes of every file changed at random: an error or other values, but no panic and
// no memory that the file cannot back.
func TestWriters_Mutated(t *testing.T) {
	slow.NotUnderRace(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, path := range datatest.Written(t, "testdata") {
		whole := datatest.Read(t, path)
		if len(whole) > 8000 {
			continue
		}
		for range 40 {
			b := slices.Clone(whole)
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] = []byte{0, 0x7f, 0x80, 0xff, byte(r.Uint32())}[r.IntN(5)]
			}
			datatest.Guard(t, len(b), func() {
				if one, err := Open(bytes.NewReader(b), int64(len(b))); err == nil {
					readAll(Join(one))
				}
			})
			if t.Failed() {
				t.Fatalf("%s, changed", path)
			}
		}
	}
}
