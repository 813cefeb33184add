package data

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/data/table"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
)

// The files of many writers are sets of the columns client, x and y.
func TestParquet_Writers(t *testing.T) {
	for _, path := range datatest.Written(t, "parquetfile/testdata") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := mustOpen(t, path, federated.Options{})
			if s.Clients() != 4 || s.Info().Features != 3 || s.Info().Classes != 3 {
				t.Errorf("%d clients, %d features, %d classes; want 4, 3, 3", s.Clients(), s.Info().Features, s.Info().Classes)
			}
		})
	}
}

// A file with the row groups of several is one set.
func TestParquet_JoinedRowGroups(t *testing.T) {
	images := datatest.RawImages([]string{"a", "b"}, 100)
	file := datatest.JoinParquet(t,
		datatest.Parquet(t, images[:50], parquet.Compression(&parquet.Snappy)),
		datatest.Parquet(t, []datatest.RawImage{}),
		datatest.Parquet(t, images[50:60], parquet.Compression(&parquet.Lz4Raw), parquet.DataPageVersion(2)),
		datatest.Parquet(t, images[60:]))
	set := mustOpen(t, datatest.Put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if set.Clients() != 2 || set.Samples(0) != 80 {
		t.Errorf("%d clients, the first with %d samples", set.Clients(), set.Samples(0))
	}
}

// What compresses to almost nothing is still read: lists of equal numbers, where a
// page of a few bytes holds thousands of values.
func TestParquet_ConstantLists(t *testing.T) {
	slow.NotUnderRace(t)
	type row struct {
		Client string    `parquet:"client,dict"`
		X      []float32 `parquet:"x,list,dict"`
		Y      int32     `parquet:"y,dict"`
	}
	var rows []row
	for i := range 1000 {
		rows = append(rows, row{fmt.Sprint(i % 10), make([]float32, 784), int32(i % 2)})
	}
	file := datatest.Parquet(t, rows, parquet.Compression(&parquet.Zstd))
	if len(file) > 4*784*1000/100 {
		t.Fatalf("%d bytes, want a file of which the values are more than a hundred times its size", len(file))
	}
	s := mustOpen(t, datatest.Put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if s.Clients() != 10 || s.Info().Features != 784 {
		t.Errorf("%d clients, %d features", s.Clients(), s.Info().Features)
	}
}

// The samples of other people open, to the same set in every version of the pages.
func TestSharedSamples(t *testing.T) {
	folder := filepath.Join("..", "..", "shared", "samples")
	files := federated.Files(folder, ".parquet")
	if files == nil {
		t.Skipf("no samples in %s", folder)
	}
	var first federated.Set
	for _, path := range files {
		if !strings.Contains(path, "arrow-rs") {
			continue
		}
		s := mustOpen(t, path, federated.Options{})
		if first == nil {
			first = s
		}
		for c := range first.Clients() {
			if !datatest.Same(datatest.All(t, first, c), datatest.All(t, s, c)) {
				t.Errorf("%s: client %d differs", path, c)
			}
		}
	}
}

// TestSharedSamples_MarkedRows reads booleans in runs, of which pyarrow reads 16 true, and integers of
// DuckDB, whose differences do not fit 32 bits.
func TestSharedSamples_MarkedRows(t *testing.T) {
	folder := filepath.Join("..", "..", "shared", "samples")
	path := filepath.Join(folder, "booleans-v2.parquet")
	if federated.Files(folder, "booleans-v2.parquet") == nil {
		t.Skipf("no samples in %s", folder)
	}
	mapping := table.Table{
		Client:   "client",
		Features: []string{"x"},
		Label:    "label",
		Split:    "held",
	}
	s, err := OpenWith(mapping, path, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.HeldOut() != 16 {
		t.Errorf("%d rows are held out, want 16", s.HeldOut())
	}
	_, err = table.Columns(filepath.Join(folder, "twice.parquet"))
	if err == nil || !strings.Contains(err.Error(), "two columns are called") {
		t.Errorf("%v, want an error about two columns of one name", err)
	}
}

// A folder that is read as Parquet by name has no file to take the columns from.
func TestParquet_FolderWithoutFiles(t *testing.T) {
	_, err := OpenWith(Parquet{}, t.TempDir(), federated.Options{})
	if err == nil || !strings.Contains(err.Error(), "is a folder without Parquet files") {
		t.Errorf("got %v, want an error that says what the folder lacks", err)
	}
}

// What a file cannot be read for is said in so many words.
func TestParquet_Refused(t *testing.T) {
	type row struct {
		Client string  `parquet:"client"`
		X      []int64 `parquet:"x,list"`
		Y      int64   `parquet:"y,timestamp"`
	}
	stamps := datatest.Parquet(t, []row{{"a", []int64{1}, 0}, {"a", []int64{1}, 1}})
	encrypted := slices.Concat(stamps[:len(stamps)-4], []byte("PARE"))
	for want, file := range map[string][]byte{
		"column y holds TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS); want numbers, text or bytes": stamps,
		"an encrypted Parquet file": encrypted,
	} {
		_, err := Open(datatest.Put(t, t.TempDir(), "x.parquet", file), federated.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A run may stand for a million rows: they take what their values need, and more than a file of
// its size is believed take nothing.
func TestParquet_RowsOfRuns(t *testing.T) {
	slow.NotUnderRace(t)
	type plain struct {
		Client int32   `parquet:"client,dict"`
		X      float32 `parquet:"x,dict"`
		Y      int32   `parquet:"y,dict"`
	}
	type tweet struct {
		Sentiment int32  `parquet:"sentiment,dict"`
		User      string `parquet:"user,dict"`
		Text      string `parquet:"text,dict"`
	}
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"plain", "", datatest.Parquet(t, make([]plain, 1_300_000))},
		{"too many", "claims 3000000 rows of 12 bytes", datatest.Parquet(t, make([]plain, 3_000_000))},
		{"too many tweets", "claims 3000000 rows of 12 bytes", datatest.Parquet(t, make([]tweet, 3_000_000))},
	} {
		t.Run(c.name, func(t *testing.T) {
			datatest.Guard(t, len(c.file), func() {
				one, err := parquetfile.Open(bytes.NewReader(c.file), int64(len(c.file)))
				if err == nil {
					_, err = readSheets(parquetfile.Join(one), parquetfile.Join(), federated.Options{MinTweets: 1})
				}
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// A run that is longer than the page is refused before it takes any memory.
func TestParquet_LongRun(t *testing.T) {
	whole := datatest.Read(t, "parquetfile/testdata/duckdb-v2-uncompressed.parquet")
	levels := []byte{72<<1&0x7f | 0x80, 72 << 1 >> 7, 3} // of x: one run, 72 values of level 3
	if bytes.Count(whole, levels) != 1 {
		t.Fatalf("%d runs like that of x", bytes.Count(whole, levels))
	}
	file := bytes.Replace(whole, levels, []byte{0xfe, 0x7f, 3}, 1)
	_, err := Open(datatest.Put(t, t.TempDir(), "x.parquet", file), federated.Options{})
	if err == nil || !strings.Contains(err.Error(), "damaged: its runs hold more values than its header says") {
		t.Error(err)
	}
}

// BenchmarkFEMNIST reads the paper's 3,000 writers, 638,562 images, from Parquet.
func BenchmarkFEMNIST(b *testing.B) {
	path := realdata.Path(b, "femnist/femnist.parquet")
	for b.Loop() {
		s, err := Open(path, federated.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
