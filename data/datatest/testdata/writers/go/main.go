// Command writers writes the table of data/parquetfile/testdata/README.md with arrow-go, fraugster's and
// xitongsys's parquet-go, from the files that ../javascript has written there:
//
//	go mod tidy && go run . FOLDER
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	fraugster "github.com/fraugster/parquet-go"
	fraugsterformat "github.com/fraugster/parquet-go/parquet"
	"github.com/fraugster/parquet-go/parquetschema"
	xitongformat "github.com/xitongsys/parquet-go/parquet"
	xitong "github.com/xitongsys/parquet-go/writer"
)

const rows = 24

var folder = os.Args[1]

func main() {
	codecs := map[string]compress.Compression{"uncompressed": compress.Codecs.Uncompressed, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip,
		"brotli": compress.Codecs.Brotli, "zstd": compress.Codecs.Zstd, "lz4_raw": compress.Codecs.Lz4Raw}
	versions := map[string]parquet.DataPageVersion{"v1": parquet.DataPageV1, "v2": parquet.DataPageV2}
	for version, v := range versions {
		for codec, c := range codecs {
			arrowGo("arrow-go-"+version+"-"+codec, "duckdb-few", rows, parquet.WithCompression(c), parquet.WithDataPageVersion(v))
		}
		arrowGo("arrow-go-"+version+"-types", "duckdb-v1-types", rows, parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(v))
		arrowGo("arrow-go-"+version+"-groups", "duckdb-few", 5, parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageVersion(v), parquet.WithPageIndexEnabled(true))
		arrowGo("arrow-go-"+version+"-pages", "duckdb-few", rows, parquet.WithDataPageVersion(v), parquet.WithDataPageSize(16), parquet.WithBatchSize(1))
		arrowGo("arrow-go-"+version+"-delta", "duckdb-few", rows, parquet.WithDataPageVersion(v), parquet.WithDictionaryDefault(false),
			parquet.WithEncodingFor("client", parquet.Encodings.DeltaByteArray), parquet.WithEncodingFor("text", parquet.Encodings.DeltaLengthByteArray),
			parquet.WithEncodingFor("y", parquet.Encodings.DeltaBinaryPacked), parquet.WithEncodingFor("f64", parquet.Encodings.ByteStreamSplit))
	}
	for name, codec := range map[string]fraugsterformat.CompressionCodec{"uncompressed": fraugsterformat.CompressionCodec_UNCOMPRESSED,
		"snappy": fraugsterformat.CompressionCodec_SNAPPY, "gzip": fraugsterformat.CompressionCodec_GZIP} {
		fraugsters("fraugster-v1-"+name, fraugster.WithCompressionCodec(codec))
		fraugsters("fraugster-v2-"+name, fraugster.WithCompressionCodec(codec), fraugster.WithDataPageV2())
	}
	for name, codec := range map[string]xitongformat.CompressionCodec{"uncompressed": xitongformat.CompressionCodec_UNCOMPRESSED,
		"snappy": xitongformat.CompressionCodec_SNAPPY, "gzip": xitongformat.CompressionCodec_GZIP, "zstd": xitongformat.CompressionCodec_ZSTD} {
		xitongs("xitongsys-"+name, codec)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func path(name string) string { return filepath.Join(folder, name+".parquet") }

// arrowGo copies a file.
func arrowGo(name, from string, group int64, options ...parquet.WriterProperty) {
	r := must(pqarrow.NewFileReader(must(file.OpenParquetFile(path(from), false)), pqarrow.ArrowReadProperties{}, memory.DefaultAllocator))
	table := must(r.ReadTable(context.Background()))
	var b bytes.Buffer
	check(pqarrow.WriteTable(table, &b, group, parquet.NewWriterProperties(append(options, parquet.WithStats(false))...), pqarrow.DefaultWriterProps()))
	check(os.WriteFile(path(name), b.Bytes(), 0o644))
}

// fraugsters writes lists in the two-level form.
func fraugsters(name string, options ...fraugster.FileWriterOption) {
	schema := must(parquetschema.ParseSchemaDefinition(`message table {
		required binary client (STRING);
		required group x (LIST) { repeated float array; }
		repeated int32 ragged;
		required int32 y;
		required double f64;
		required binary text (STRING);
		optional double nullable;
		optional double holes;
	}`))
	var b bytes.Buffer
	w := fraugster.NewFileWriter(&b, append(options, fraugster.WithSchemaDefinition(schema))...)
	for i := range rows {
		row := map[string]any{"client": fmt.Append(nil, "c", i%4), "x": map[string]any{"array": []float32{float32(i), float32(i) / 2, -float32(i)}},
			"y": int32(i % 3), "f64": float64(i) / 3, "text": fmt.Append(nil, "ä", i), "nullable": float64(i) / 3}
		if i != 5 {
			row["holes"] = float64(i)
		}
		if i%3 > 0 {
			row["ragged"] = []int32{0, 1}[:i%3]
		}
		check(w.AddData(row))
		if i == 9 {
			check(w.FlushRowGroup())
		}
	}
	check(w.Close())
	check(os.WriteFile(path(name), b.Bytes(), 0o644))
}

type row struct {
	Client   string    `parquet:"name=client, type=BYTE_ARRAY, convertedtype=UTF8, encoding=PLAIN_DICTIONARY"`
	X        []float32 `parquet:"name=x, type=MAP, convertedtype=LIST, valuetype=FLOAT"`
	Y        int32     `parquet:"name=y, type=INT32, encoding=DELTA_BINARY_PACKED"`
	F64      float64   `parquet:"name=f64, type=DOUBLE"`
	Text     string    `parquet:"name=text, type=BYTE_ARRAY, convertedtype=UTF8, encoding=DELTA_BYTE_ARRAY"`
	I8       int32     `parquet:"name=i8, type=INT32, convertedtype=INT_8"`
	U8       int32     `parquet:"name=u8, type=INT32, convertedtype=UINT_8"`
	Flag     bool      `parquet:"name=flag, type=BOOLEAN"`
	Dec9     int32     `parquet:"name=dec9, type=INT32, convertedtype=DECIMAL, scale=2, precision=9"`
	Nullable *float64  `parquet:"name=nullable, type=DOUBLE"`
	Holes    *float64  `parquet:"name=holes, type=DOUBLE"`
}

func xitongs(name string, codec xitongformat.CompressionCodec) {
	var b bytes.Buffer
	w := must(xitong.NewParquetWriterFromWriter(&b, new(row), 1))
	w.CompressionType = codec
	for i := range rows {
		x := float64(i)
		third := x / 3
		r := row{Client: fmt.Sprint("c", i%4), X: []float32{float32(i), float32(i) / 2, -float32(i)}, Y: int32(i % 3), F64: third, Text: fmt.Sprint("ä", i),
			I8: int32(i - 12), U8: int32(i * 37 % 256), Flag: i%2 == 1, Dec9: int32(i * 125), Nullable: &third}
		if i != 5 {
			r.Holes = &x
		}
		check(w.Write(r))
		if i == 9 {
			check(w.Flush(true))
		}
	}
	check(w.WriteStop())
	check(os.WriteFile(path(name), b.Bytes(), 0o644))
}
