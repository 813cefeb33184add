package parquetfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// TestDecimal_IsRoundedOnce has decimals of 64 bits that float64 cannot hold as integers: to round the
// integer and then the quotient is one unit off. The right values are strconv's of the decimal text.
func TestDecimal_IsRoundedOnce(t *testing.T) {
	field := Field{Kind: KindNumber, scale: 3}
	for text, unscaled := range map[string]int64{
		"162548268351108.473":   162548268351108473,
		"-162548268351108.473":  -162548268351108473,
		"9223372036854775.807":  math.MaxInt64,
		"-9223372036854775.808": math.MinInt64,
		"9007199254740.993":     1<<53 + 1,
		"0.001":                 1,
	} {
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := field.Number(parquet.Int64Value(unscaled)); got != want || err != nil {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

// TestPages_WithoutValues has a data page without a value between two others, as PyArrow writes them in
// columns of lists with small pages.
func TestPages_WithoutValues(t *testing.T) {
	plain := func(values ...int64) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		return b
	}
	for _, version2 := range []bool{false, true} {
		column := encodedColumn{kind: format.Int64, nullable: true, version2: version2, encoding: format.Plain}
		pages := [][]byte{plain(), plain(1, 2), plain(), plain(3)}
		present := [][]bool{{}, {true, true}, {}, {true}}
		got := columnValues(t, column.file(t, pages, present))
		if len(got) != 3 {
			t.Errorf("version 2 is %t: %v, want 3 values", version2, got)
		}
	}
}

// TestPadding_IsNoString has pages of strings with eight zeros behind them, as fastparquet writes them:
// these are neither values nor a warning of the library, which an empty string at the end is not, either.
func TestPadding_IsNoString(t *testing.T) {
	plain := func(texts ...string) (b []byte) {
		for _, text := range texts {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
			b = append(b, text...)
		}
		return b
	}
	pad := func(b []byte) []byte { return append(b, make([]byte, 8)...) }
	for _, version2 := range []bool{false, true} {
		for _, nullable := range []bool{false, true} {
			column := encodedColumn{kind: format.ByteArray, nullable: nullable, version2: version2, encoding: format.Plain}
			present := [][]bool{{true, true}, {true, true, true}}
			pages := [][]byte{pad(plain("a", "bc")), pad(plain("d", "", ""))}
			want := []any{"a", "bc", "d", "", ""}
			if nullable {
				present = [][]bool{{true, false, true}, {true, true, false, true}}
				want = []any{"a", nil, "bc", "d", "", nil, ""}
			}
			if got := columnValues(t, column.file(t, pages, present)); !slices.Equal(got, want) {
				t.Errorf("version 2 is %t, nullable is %t: %q, want %q", version2, nullable, got, want)
			}
		}
	}
}

// TestPadding_FixedLength has the same zeros behind byte arrays of a fixed length, as fastparquet writes
// them for texts of fixed_text, of which one ends in as many zeros itself.
func TestPadding_FixedLength(t *testing.T) {
	zeros := make([]byte, 8)
	for _, version2 := range []bool{false, true} {
		for _, nullable := range []bool{false, true} {
			column := encodedColumn{
				kind:     format.FixedLenByteArray,
				length:   9,
				nullable: nullable,
				version2: version2,
				encoding: format.Plain,
			}
			first := []byte("123456789abcdefghi")
			second := append([]byte("z"), zeros...)
			present := [][]bool{{true, true}, {true}}
			want := []any{"123456789", "abcdefghi", string(second)}
			if nullable {
				present = [][]bool{{true, false, true}, {true}}
				want = slices.Insert(want, 1, any(nil))
			}
			for _, padding := range [][]byte{nil, zeros} {
				pages := [][]byte{slices.Concat(first, padding), slices.Concat(second, padding)}
				if got := columnValues(t, column.file(t, pages, present)); !slices.Equal(got, want) {
					t.Errorf("version 2 is %t, nullable is %t: %q, want %q", version2, nullable, got, want)
				}
			}
		}
	}
}

// TestCountLevel_AsDecoded draws levels in runs and packed groups, as a writer chooses, and counts them.
func TestCountLevel_AsDecoded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		bits := make([]bool, 1+random.IntN(100))
		want := 0
		for i := range bits {
			bits[i] = random.IntN(3) > 0
			if bits[i] {
				want++
			}
		}
		runs := runEncoded(random, bits)[4:]
		if got := countLevel(runs, 1, 1, len(bits)); got != want {
			t.Fatalf("%d of %v, want %d", got, bits, want)
		}
	}
	// By hand: a run of three 2s, then eight packed levels of two bits: 0, 1, 2, 3, 2, 2, 2, 0.
	packed := []byte{3 << 1, 2, 1<<1 | 1, 0b11_10_01_00, 0b00_10_10_10}
	if got := countLevel(packed, 2, 2, 11); got != 7 {
		t.Errorf("%d levels of 2, want 7", got)
	}
	if got := countLevel(packed, 2, 2, 6); got != 4 {
		t.Errorf("%d levels of 2 among the first 6, want 4", got)
	}
}

// TestFields_OfNoUse has columns of the logical types VARIANT, GEOMETRY and GEOGRAPHY, and one that the note of
// GeoParquet names, which hold bytes:
// they are neither pixels nor text, and reading one as a number is an error.
func TestFields_OfNoUse(t *testing.T) {
	element := func(name string, kind format.Type, logical any) format.SchemaElement {
		e := format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Required), Type: thrift.New(kind)}
		switch l := logical.(type) {
		case *format.GeometryType:
			e.LogicalType.Value = l
		case *format.GeographyType:
			e.LogicalType.Value = l
		}
		return e
	}
	variant := format.SchemaElement{
		Name:           "variant",
		RepetitionType: thrift.New(format.Optional),
		NumChildren:    thrift.New(int32(2)),
	}
	variant.LogicalType.Value = &format.VariantType{}
	footer, err := thrift.Marshal(&protocol, format.FileMetaData{
		Version: 1,
		Schema: []format.SchemaElement{
			{Name: "schema", NumChildren: thrift.New(int32(5))},
			element("noted", format.ByteArray, nil),
			element("geometry", format.ByteArray, &format.GeometryType{}),
			element("geography", format.ByteArray, &format.GeographyType{}),
			variant,
			element("metadata", format.ByteArray, nil),
			element("value", format.ByteArray, nil),
			element("pixels", format.ByteArray, nil),
		},
		// GeoParquet names its columns so.
		KeyValueMetadata: []format.KeyValue{{Key: "geo", Value: `{"version": "1.0.0", "primary_column": "noted", ` +
			`"columns": {"noted": {"encoding": "WKB", "geometry_types": ["Point"]}}}`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := append([]byte("PAR1"), footer...)
	file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Kind{"noted": KindOther, "geometry": KindOther, "geography": KindOther, "variant": KindOther, "pixels": KindBytes} {
		field := Join(f).Field(name)
		if field == nil || field.Kind != want {
			t.Errorf("%s: %+v", name, field)
			continue
		}
		if _, err := field.Number(parquet.ByteArrayValue([]byte{1})); err == nil {
			t.Errorf("%s is a number", name)
		}
	}
	if Join(f).Field("variant.value") != nil {
		t.Error("the parts of a variant are columns")
	}
}
