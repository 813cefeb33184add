package parquetfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// encodedColumn is a column x as a writer stores it, in one page for each part of its values.
type encodedColumn struct {
	kind     format.Type
	length   int32 // bytes of a value of fixed length
	unsigned bool
	nullable bool
	version2 bool
	encoding format.Encoding
}

// file writes pages of values, which are encoded already; present says which rows have one.
func (c encodedColumn) file(t *testing.T, pages [][]byte, present [][]bool) []byte {
	t.Helper()
	file := []byte("PAR1")
	rows := 0
	for i, values := range pages {
		rows += len(present[i])
		nulls := 0
		var levels []byte
		for _, p := range present[i] {
			if !p {
				nulls++
			}
			levels = append(levels, 2, byte(0)) // a run of one value
			if p {
				levels[len(levels)-1] = 1
			}
		}
		if !c.nullable {
			levels = nil
		}
		header := format.PageHeader{}
		content := slices.Concat(levels, values)
		if c.version2 {
			header.Type = format.DataPageV2
			header.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{
				NumValues:                  int32(len(present[i])),
				NumNulls:                   int32(nulls),
				NumRows:                    int32(len(present[i])),
				Encoding:                   c.encoding,
				DefinitionLevelsByteLength: int32(len(levels)),
			})
		} else {
			header.Type = format.DataPage
			header.DataPageHeader = thrift.New(format.DataPageHeader{
				NumValues:               int32(len(present[i])),
				Encoding:                c.encoding,
				DefinitionLevelEncoding: format.RLE,
				RepetitionLevelEncoding: format.RLE,
			})
			if c.nullable {
				content = slices.Concat(binary.LittleEndian.AppendUint32(nil, uint32(len(levels))), content)
			}
		}
		header.CompressedPageSize = int32(len(content))
		header.UncompressedPageSize = int32(len(content))
		head, err := thrift.Marshal(&protocol, header)
		if err != nil {
			t.Fatal(err)
		}
		file = slices.Concat(file, head, content)
	}
	column := format.SchemaElement{Name: "x", Type: thrift.New(c.kind), RepetitionType: thrift.New(format.Required)}
	if c.nullable {
		column.RepetitionType = thrift.New(format.Optional)
	}
	if c.length > 0 {
		column.TypeLength = thrift.New(c.length)
	}
	if c.unsigned {
		column.LogicalType.Value = &format.IntType{BitWidth: 32}
	}
	footer, err := thrift.Marshal(&protocol, format.FileMetaData{
		Version: 1,
		NumRows: int64(rows),
		Schema:  []format.SchemaElement{{Name: "schema", NumChildren: thrift.New(int32(1))}, column},
		RowGroups: []format.RowGroup{{
			NumRows: int64(rows),
			Columns: []format.ColumnChunk{{MetaData: format.ColumnMetaData{
				Type:                  c.kind,
				Encoding:              []format.Encoding{c.encoding},
				PathInSchema:          []string{"x"},
				NumValues:             int64(rows),
				TotalUncompressedSize: int64(len(file) - 4),
				TotalCompressedSize:   int64(len(file) - 4),
				DataPageOffset:        4,
			}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// columnValues returns the values of column x, nil for a null.
func columnValues(t *testing.T, file []byte) (values []any) {
	t.Helper()
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := Join(f)
	field := s.Field("x")
	err = s.Values("x", AnyValues, func(_ int, v parquet.Value) error {
		switch {
		case v.IsNull():
			values = append(values, nil)
		case field.IsInteger:
			n, _ := field.Integer(v)
			values = append(values, n)
		default:
			values = append(values, string(v.Bytes()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// runEncoded codes bits as runs and as packed groups of 8, as the writer chooses; a packed group
// that is not the last has 8 of the values.
func runEncoded(random *rand.Rand, bits []bool) []byte {
	var b []byte
	for i := 0; i < len(bits); {
		run := 1
		for i+run < len(bits) && bits[i+run] == bits[i] {
			run++
		}
		packed := min(8*(1+random.IntN(3)), (len(bits)-i+7)/8*8)
		if random.IntN(2) == 0 {
			run = 1 + random.IntN(run)
			b = binary.AppendUvarint(b, uint64(run)<<1)
			b = append(b, one(bits[i]))
			i += run
			continue
		}
		b = binary.AppendUvarint(b, uint64(packed/8)<<1|1)
		group := make([]byte, packed/8)
		for k := range min(packed, len(bits)-i) {
			group[k/8] |= one(bits[i+k]) << (k % 8)
		}
		b = append(b, group...)
		i += packed
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func one(bit bool) byte {
	if bit {
		return 1
	}
	return 0
}

// deltaEncoded codes integers in blocks of 128 with 4 parts. cut is how many bits the differences
// are taken in: writers such as pyarrow let those of 32-bit integers overflow, DuckDB does not.
func deltaEncoded(values []int64, cut uint) []byte {
	b := binary.AppendUvarint(nil, 128)
	b = binary.AppendUvarint(b, 4)
	b = binary.AppendUvarint(b, uint64(len(values)))
	if len(values) == 0 {
		return binary.AppendVarint(b, 0)
	}
	b = binary.AppendVarint(b, values[0])
	var deltas []int64
	for i := range values[1:] {
		d := values[i+1] - values[i]
		if cut == 32 {
			d = int64(int32(d))
		}
		deltas = append(deltas, d)
	}
	for block := range slices.Chunk(deltas, 128) {
		smallest := slices.Min(block)
		b = binary.AppendVarint(b, smallest)
		var widths, packed []byte
		for part := range slices.Chunk(block, 32) {
			width := 0
			for _, d := range part {
				width = max(width, levelBits64(uint64(d-smallest)&(1<<cut-1)))
			}
			widths = append(widths, byte(width))
			group := make([]byte, 4*width)
			for i, d := range part {
				for bit := range width {
					if uint64(d-smallest)>>bit&1 == 1 {
						group[(i*width+bit)/8] |= 1 << ((i*width + bit) % 8)
					}
				}
			}
			packed = append(packed, group...)
		}
		widths = append(widths, 0, 0, 0, 0)[:4]
		b = slices.Concat(b, widths, packed)
	}
	return b
}

func levelBits64(v uint64) (n int) {
	for ; v > 0; v >>= 1 {
		n++
	}
	return n
}

// TestEncodings_RunsWideRangesRepeatsNulls draws columns with runs, wide ranges, repeats and nulls in
// each encoding that is decoded here, and compares what is read with what was drawn.
func TestEncodings_RunsWideRangesRepeatsNulls(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 59))
		c := encodedColumn{nullable: random.IntN(2) == 0, version2: random.IntN(2) == 0}
		kinds := []string{"boolean", "int32", "duckdb", "unsigned", "int64", "strings", "prefixes", "fixed"}
		kind := kinds[random.IntN(len(kinds))]
		t.Run(fmt.Sprintf("%s-%d", kind, seed), func(t *testing.T) {
			var want []any
			var pages [][]byte
			var present [][]bool
			for range 1 + random.IntN(3) {
				rows := 1 + random.IntN(600)
				here := make([]bool, rows)
				page := drawn{random: random}
				for i := range here {
					here[i] = !c.nullable || random.IntN(5) > 0
					if here[i] {
						want = append(want, page.draw(kind))
					} else {
						want = append(want, nil)
					}
				}
				pages = append(pages, page.encode(kind, &c))
				present = append(present, here)
			}
			got := columnValues(t, c.file(t, pages, present))
			if !slices.Equal(got, want) {
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("%+v: value %d of %d: want %v", c, i, len(want), want[i])
					}
				}
				t.Fatalf("%d values, want %d", len(got), len(want))
			}
		})
	}
}

// drawn are the values of a page, in the type of its column.
type drawn struct {
	random   *rand.Rand
	bits     []bool
	integers []int64
	texts    []string
}

func (d *drawn) draw(kind string) any {
	r := d.random
	again := r.IntN(3) > 0 // a run
	switch kind {
	case "boolean":
		bit := r.IntN(2) == 0
		if again && len(d.bits) > 0 {
			bit = d.bits[len(d.bits)-1]
		}
		d.bits = append(d.bits, bit)
		return int64(one(bit))
	case "int32", "duckdb", "unsigned", "int64":
		n := int64(r.Uint64())
		if r.IntN(2) == 0 {
			n = []int64{0, 1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, math.MaxUint32}[r.IntN(7)]
		}
		switch kind {
		case "int32", "duckdb":
			n = int64(int32(n))
		case "unsigned":
			n = int64(uint32(n))
		}
		if again && len(d.integers) > 0 {
			n = d.integers[len(d.integers)-1]
		}
		d.integers = append(d.integers, n)
		return n
	}
	text := fmt.Sprintf("%0*d", 6+r.IntN(40), r.IntN(1000))
	if kind == "fixed" {
		text = text[:6]
	}
	if again && len(d.texts) > 0 {
		text = d.texts[len(d.texts)-1]
	}
	d.texts = append(d.texts, text)
	return text
}

func (d *drawn) encode(kind string, c *encodedColumn) []byte {
	switch kind {
	case "boolean":
		c.kind = format.Boolean
		c.encoding = format.RLE
		return runEncoded(d.random, d.bits)
	case "int32", "duckdb", "unsigned", "int64":
		c.encoding = format.DeltaBinaryPacked
		c.kind = format.Int32
		c.unsigned = kind == "unsigned"
		cut := uint(64)
		switch kind {
		case "int32":
			cut = 32
		case "int64":
			c.kind = format.Int64
		}
		return deltaEncoded(d.integers, cut)
	}
	c.kind = format.ByteArray
	c.encoding = format.DeltaByteArray
	var prefixes, lengths []int64
	var suffixes []byte
	last := ""
	for _, text := range d.texts {
		shared := 0
		for kind != "strings" && shared < min(len(text), len(last)) && text[shared] == last[shared] {
			shared++
		}
		prefixes = append(prefixes, int64(shared))
		lengths = append(lengths, int64(len(text)-shared))
		suffixes = append(suffixes, text[shared:]...)
		last = text
	}
	switch kind {
	case "strings":
		c.encoding = format.DeltaLengthByteArray
		return append(deltaEncoded(lengths, 32), suffixes...)
	case "fixed":
		c.kind = format.FixedLenByteArray
		c.length = 6
	}
	return slices.Concat(deltaEncoded(prefixes, 32), deltaEncoded(lengths, 32), suffixes)
}
