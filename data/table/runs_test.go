package table_test

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
	_ "fedpace/internal/testkit/testseed"
)

// numberRow is a row of the types whose numbers a page of Parquet can hand out at once.
type numberRow struct {
	Client string   `parquet:"client"`
	Single float32  `parquet:"single"`
	Double float64  `parquet:"double,dict"`
	Short  int32    `parquet:"short"`
	Byte   uint32   `parquet:"byte,dict"`
	Long   int64    `parquet:"long"`
	Hole   *float64 `parquet:"hole,optional"`
	Label  string   `parquet:"label"`
}

// csvNumber writes x as a column of floats is written.
func csvNumber(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") && !math.IsNaN(x) {
		text += ".0"
	}
	return text
}

// csvLine is the row as a line of CSV. A hole is an empty cell.
func (r *numberRow) csvLine() string {
	hole := ""
	if r.Hole != nil {
		hole = csvNumber(*r.Hole)
	}
	cells := []string{
		r.Client,
		csvNumber(float64(r.Single)),
		csvNumber(r.Double),
		strconv.Itoa(int(r.Short)),
		strconv.FormatUint(uint64(r.Byte), 10),
		strconv.FormatInt(r.Long, 10),
		hole,
		r.Label,
	}
	return strings.Join(cells, ",") + "\n"
}

// eighth draws a number that a short text has exactly.
func eighth(t *rapid.T, name string) float64 {
	return float64(rapid.IntRange(-40, 40).Draw(t, name)) / 8
}

// drawNumberRow draws a row of client c with the given label. mayMiss says that some values are missing.
func drawNumberRow(t *rapid.T, c int, label string, mayMiss bool) numberRow {
	hole := eighth(t, "hole")
	row := numberRow{
		Client: "c" + strconv.Itoa(c),
		Single: float32(eighth(t, "single")),
		Double: eighth(t, "double"),
		Short:  rapid.SampledFrom([]int32{-3, 0, 5, 20240131, math.MinInt32}).Draw(t, "short"),
		Byte:   rapid.SampledFrom([]uint32{0, 255, math.MaxUint32}).Draw(t, "byte"),
		Long:   rapid.SampledFrom([]int64{-1, 0, 1 << 53, 1<<53 + 1}).Draw(t, "long"),
		Hole:   &hole,
		Label:  label,
	}
	if mayMiss && rapid.IntRange(0, 9).Draw(t, "miss") == 0 {
		row.Hole = nil
		row.Single = float32(math.NaN())
	}
	return row
}

// A file of Parquet, whatever its pages and row groups, is the set and gets the proposal that the same rows
// in a CSV are and get, in which every number is read by itself.
func TestRuns_SameAsCSV(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		mayMiss := rapid.Bool().Draw(rt, "may miss")
		var rows []numberRow
		text := "client,single,double,short,byte,long,hole,label\n"
		for i := range rapid.IntRange(12, 60).Draw(rt, "rows") {
			row := drawNumberRow(rt, i%3, []string{"no", "yes"}[i%2], mayMiss)
			rows = append(rows, row)
			text += row.csvLine()
		}
		file := datatest.Parquet(t, rows,
			parquet.PageBufferSize(rapid.SampledFrom([]int{64, 1 << 20}).Draw(rt, "page")),
			parquet.MaxRowsPerRowGroup(int64(rapid.SampledFrom([]int{7, 1000}).Draw(rt, "group"))),
			parquet.DataPageVersion(rapid.IntRange(1, 2).Draw(rt, "version")),
		)
		mapping := Table{
			Client:   "client",
			Features: []string{"single", "double", "short", "byte", "long", "hole"},
			Label:    "label",
			Missing:  "mean",
			Scale:    rapid.SampledFrom([]string{"", "standard"}).Draw(rt, "scale"),
		}
		inParquet := datatest.Put(t, dir, "rows.parquet", file)
		inCSV := datatest.Put(t, dir, "rows.csv", []byte(text))
		a, err := data.OpenWith(mapping, inParquet, federated.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		b, err := data.OpenWith(mapping, inCSV, federated.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := content(t, a), content(t, b); got != want {
			rt.Fatalf("Parquet has\n%s\nCSV has\n%s", got, want)
		}
		if got, want := proposal(rt, inParquet), proposal(rt, inCSV); got != want {
			rt.Fatalf("of Parquet\n%s\nof CSV\n%s", got, want)
		}
	})
}

// proposal is the text that is proposed for a file, without its name.
func proposal(t *rapid.T, file string) string {
	p, err := Propose(file, "label")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(p.YAML("table"), filepath.Base(file), "table")
}

// Lists of numbers are the rows that the same lists are as texts, also where the list of a row lies in two
// pages, lacks a number or has one too large for the page to be taken at once.
func TestRuns_Lists(t *testing.T) {
	type row struct {
		Client string    `parquet:"client"`
		X      []float32 `parquet:"x,list"`
		Label  string    `parquet:"label"`
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		width := rapid.IntRange(1, 5).Draw(rt, "width")
		var rows []row
		text := "client,x,label\n"
		for i := range rapid.IntRange(6, 40).Draw(rt, "rows") {
			r := row{Client: "c" + strconv.Itoa(i%2), Label: []string{"no", "yes"}[i%3%2]}
			var words []string
			for range width {
				x := eighth(rt, "x")
				if rapid.IntRange(0, 29).Draw(rt, "miss") == 0 {
					x = math.NaN()
				}
				r.X = append(r.X, float32(x))
				words = append(words, csvNumber(x))
			}
			rows = append(rows, r)
			text += r.Client + ",[" + strings.Join(words, " ") + "]," + r.Label + "\n"
		}
		file := datatest.Parquet(t, rows,
			parquet.PageBufferSize(rapid.SampledFrom([]int{32, 1 << 20}).Draw(rt, "page")),
			parquet.MaxRowsPerRowGroup(int64(rapid.SampledFrom([]int{5, 1000}).Draw(rt, "group"))),
		)
		mapping := Table{Client: "client", Features: []string{"x"}, Label: "label", Missing: "mean"}
		a, err := data.OpenWith(mapping, datatest.Put(t, dir, "rows.parquet", file), federated.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		b, err := data.OpenWith(mapping, datatest.Put(t, dir, "rows.csv", []byte(text)), federated.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := content(t, a), content(t, b); got != want {
			rt.Fatalf("Parquet has\n%s\nCSV has\n%s", got, want)
		}
	})
}

// A list that is too short is an error that names its row, also behind a page that was taken at once.
func TestRuns_ShortList(t *testing.T) {
	type row struct {
		X     []float32 `parquet:"x,list"`
		Label string    `parquet:"label"`
	}
	rows := []row{{[]float32{1, 2}, "a"}, {[]float32{3, 4}, "b"}, {[]float32{5}, "a"}, {[]float32{6, 7}, "b"}}
	file := string(datatest.Parquet(t, rows))
	_, err := openMapped(t, file, "own.parquet", Table{Features: []string{"x"}, Label: "label"})
	if err == nil || !strings.Contains(err.Error(), "row 2 has 1 numbers after rows of 2") {
		t.Errorf("%v", err)
	}
}
