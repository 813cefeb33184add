package table_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn"
)

// openMapped opens a file with a mapping.
func openMapped(t testing.TB, content, name string, table Table) (federated.Set, error) {
	t.Helper()
	s, err := data.OpenWith(table, datatest.Put(t, t.TempDir(), name, []byte(content)), federated.Options{Seed: 1})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func mustOpenMapped(t testing.TB, content, name string, table Table) federated.Set {
	t.Helper()
	s, err := openMapped(t, content, name, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// everything is all samples of a set: what its clients train on, then what is held out.
func everything(t testing.TB, s federated.Set) *learn.Batch {
	t.Helper()
	all := new(learn.Batch)
	add := func(b *learn.Batch) {
		datatest.CheckBatch(t, s.Info(), b, b.N)
		all.N += b.N
		all.X, all.Labels = append(all.X, b.X...), append(all.Labels, b.Labels...)
		all.Targets, all.Tokens = append(all.Targets, b.Targets...), append(all.Tokens, b.Tokens...)
	}
	for c := range s.Clients() {
		add(datatest.All(t, s, c))
	}
	add(datatest.HeldOut(t, s, 0, s.HeldOut()))
	return all
}

var flowers = Table{Client: "garden", Features: []string{"length", "width"}, Label: "kind", Split: "part"}

const flowerRows = "garden,length,width,kind,part\n" +
	"a,1,0.5,tulip,train\nb,2,1.5,rose,train\na,3,2.5,daisy,test\nb,4,-1e2,tulip,test\n"

// The same rows are the same set however the file is written.
func TestCSV_AllForms(t *testing.T) {
	type row struct {
		Kind   string  `parquet:"kind"`
		Length float64 `parquet:"length"`
		Part   bool    `parquet:"part"`
		Garden string  `parquet:"garden"`
		Width  float32 `parquet:"width"`
	}
	rows := []row{{"tulip", 1, false, "a", 0.5}, {"rose", 2, false, "b", 1.5}, {"daisy", 3, true, "a", 2.5}, {"tulip", 4, true, "b", -100}}
	for name, content := range map[string]string{
		"plain.csv":       flowerRows,
		"crlf.csv":        strings.ReplaceAll(flowerRows, "\n", "\r\n"),
		"mark.csv":        "\ufeff" + flowerRows,
		"semicolons.csv":  strings.ReplaceAll(flowerRows, ",", ";"),
		"tabs.tsv":        strings.ReplaceAll(flowerRows, ",", "\t"),
		"quoted.csv":      strings.ReplaceAll(strings.ReplaceAll(flowerRows, "tulip", `"tulip"`), "a,", `"a",`),
		"spaces.csv":      strings.ReplaceAll(flowerRows, ",", ", "),
		"blank lines.csv": strings.ReplaceAll(flowerRows, "\n", "\n\n"),
		"no end.csv":      strings.TrimSuffix(flowerRows, "\n"),
		"numbers.csv":     strings.NewReplacer("train", "0", "test", "1").Replace(flowerRows),
		"zipped.csv.gz":   string(datatest.Gzip(t, []byte(flowerRows))),
		"t.parquet":       string(datatest.Parquet(t, rows)),
		"groups.parquet":  string(datatest.Parquet(t, rows, parquet.MaxRowsPerRowGroup(3))),
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpenMapped(t, content, name, flowers)
			info := s.Info()
			if !slices.Equal(info.Labels, []string{"daisy", "rose", "tulip"}) || info.Classes != 3 || info.Features != 2 || info.Undealt {
				t.Errorf("%+v", info)
			}
			if s.Clients() != 2 || s.Client(0) != "a" || s.Client(1) != "b" {
				t.Errorf("%d clients, the first is %s", s.Clients(), s.Client(0))
			}
			b := everything(t, s)
			if !slices.Equal(b.X, []float32{1, 0.5, 2, 1.5, 3, 2.5, 4, -100}) || !slices.Equal(b.Labels, []int32{2, 1, 0, 2}) {
				t.Errorf("%v, %v", b.X, b.Labels)
			}
		})
	}
}

// Values that a person would quote come back as they were, whatever is in them.
func TestCSV_QuotedFields(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé"',;\n]*[a-z]`), 2, 6, rapid.ID).Draw(r, "labels")
		names = slices.DeleteFunc(names, func(s string) bool { return s != strings.TrimSpace(s) })
		if len(names) == 0 {
			return
		}
		text := "x,y,label\n"
		for _, name := range names {
			for range 3 {
				text += `1,2,"` + strings.ReplaceAll(name, `"`, `""`) + "\"\n"
			}
		}
		s, err := openMapped(t, text, "own.csv", Table{Features: []string{"*"}, Label: "label"})
		if err != nil {
			r.Fatal(err)
		}
		slices.Sort(names)
		if got := s.Info().Labels; !slices.Equal(got, names) {
			r.Errorf("labels %q, want %q", got, names)
		}
	})
}

// Errors say what is wrong, in which line and column, and what would be right.
func TestTable_Errors(t *testing.T) {
	plain := Table{Client: "c", Features: []string{"x"}, Label: "y"}
	wide := Table{Client: "c", Features: []string{"x", "z"}, Label: "y"}
	const rows = "c,x,z,y\na,1,1,q\na,2,2,q\n"
	for _, c := range []struct {
		name, content string
		table         Table
		want          string
	}{
		{"no number", "c,x,z,y\na,1,1,q\na,one,1,q\n", wide, `own.csv: line 3, byte 3, column x: "one" is not a number`},
		{"behind quoted lines", "c,x,z,y\n\"a\n\",1,1,q\na,one,1,q\n", wide, `line 4, byte 3, column x: "one" is not a number`},
		{"comma", "c,x,z,y\na,\"1,5\",1,q\n", wide, `"1,5" has a comma; want a number with a decimal point`},
		{"too large", "c,x,z,y\na,1e39,1,q\n", wide, "1e39 is no finite float32"},
		{"infinite", "c,x,z,y\na,inf,1,q\n", wide, "inf is no finite float32"},
		{"missing", "c,x,z,y\na,,1,q\n", wide, "line 2, byte 3, column x: no value (missing: drop leaves out the rows without one)"},
		{"missing NA", "c,x,z,y\na,NA,1,q\n", wide, "column x: no value"},
		{"missing label", "c,x,z,y\na,1,1,\n", wide, "column y: no value"},
		{"missing client", "c,x,z,y\n,1,1,q\n", wide, "column c: no value"},
		{"fewer fields", rows + "a,1\n", wide, "line 4: 2 fields, and line 1 names 4 columns"},
		{"open quote", rows + "\"a,1,1,q\n", wide, "line 4, byte 10: extraneous or missing"},
		{"quote within", rows + "a\"b,1,1,q\n", wide, `line 4, byte 2: bare " in non-quoted`},
		{"no rows", "c,x,z,y\n", wide, "no row; want at least one sample"},
		{"empty", "", wide, "is empty; want a line with the names of the columns"},
		{"UTF-16", "\xff\xfec\x00,\x00", wide, "the text is UTF-16; want UTF-8"},
		{"a note for Excel", "sep=;\r\nc;x;y\r\na;1;0\r\n", wide, `line 1 is "sep=;", which tells Excel the separator`},
		{"carriage returns alone", "c,x,y\ra,1,0\ra,2,1\r", wide, "line 1 has a carriage return within it"},
		{"two columns of a name", "c,x,x,y\na,1,1,q\n", wide, `line 1, column 3: "x" is the name of an earlier column, too`},
		{"no such column", rows, Table{Client: "c", Features: []string{"w"}, Label: "y"}, `features: no column is called "w", or matches it; the columns are c, x, z, y`},
		{"no such label", rows, Table{Client: "c", Features: []string{"x"}, Label: "w"}, `label: there is no column "w"; the columns are c, x, z, y`},
		{"named twice", rows, Table{Client: "c", Features: []string{"c"}, Label: "y"}, `features: column "c" is client already`},
		{"another class", rows, Table{Client: "c", Features: []string{"x"}, Label: "y", Classes: []string{"r", "s"}}, `line 2, byte 7, column y: "q" is none of the classes r, s`},
		{"no part", "c,x,z,y\na,1,1,q\n", Table{Features: []string{"x"}, Label: "y", Split: "c"}, `column c: "a" is no part; want train or test`},
		{"target in words", rows, Table{Client: "c", Features: []string{"x"}, Target: []string{"y"}}, `column y: "q" is not a number`},
		{"ragged list", "c,x,y\na,1 2,q\na,1 2 3,q\n", plain, "row 1 has 3 numbers after rows of 2"},
		{"pixels", rows, Table{Client: "c", Features: []string{"x", "z"}, Label: "y", Scale: "pixels", Shape: []int{1, 2, 2}}, "shape: 4 values of an image, and there are 2 columns of features"},
		{"no pixels", "c,x,z,y\na,0.5,1,q\na,1,1,q\n", Table{Client: "c", Features: []string{"x", "z"}, Label: "y", Scale: "pixels"}, "scale: pixels is for whole numbers from 0 to 255, and a feature is 0.5"},
		{"nothing mapped", rows, Table{}, "columns c, x, z, y: nothing says what its columns mean; want a mapping"},
		{"no inputs", rows, Table{Label: "y"}, "want either features, or words, or text"},
		{"nothing to predict", rows, Table{Features: []string{"x"}}, "label: is not set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := openMapped(t, c.content, "own.csv", c.table); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n%v\nwant\n%v", err, c.want)
			}
		})
	}
}

// A row without a value is left out, or has the mean of its column's training rows.
func TestTable_MissingValues(t *testing.T) {
	const rows = "c,x,z,y,part\na,1,10,p,train\na,,20,q,train\na,5,30,q,train\na,9,NaN,p,test\n,9,40,p,test\na,4,50,q,test\n"
	table := Table{Client: "c", Features: []string{"x", "z"}, Label: "y", Split: "part", Missing: "drop"}
	s := mustOpenMapped(t, rows, "own.csv", table)
	if _, err := openMapped(t, rows, "own.csv", Table{Client: "c", Features: []string{"x", "z"}, Label: "y", Split: "part", Missing: "mean"}); err == nil || !strings.Contains(err.Error(), "line 6, byte 1, column c: no value") {
		t.Errorf("a row without a client: %v", err)
	}
	if s.Samples(0) != 2 || s.HeldOut() != 1 {
		t.Errorf("%d samples, %d held out", s.Samples(0), s.HeldOut())
	}
	table.Missing = "mean"
	s = mustOpenMapped(t, strings.Replace(rows, "\n,9", "\na,9", 1), "own.csv", table)
	// The training rows have x of 1 and 5, and z of 10, 20 and 30.
	if b := everything(t, s); !slices.Equal(b.X, []float32{1, 10, 3, 20, 5, 30, 9, 20, 9, 40, 4, 50}) {
		t.Errorf("%v", b.X)
	}
}

// Features are standardised by the training rows alone.
func TestStandardise(t *testing.T) {
	table := Table{Client: "c", Features: []string{"x", "z"}, Target: []string{"y"}, Split: "part", Scale: "standard"}
	s := mustOpenMapped(t, "c,x,z,y,part\na,1,7,0.5,train\na,3,7,1.5,train\na,9,8,2.5,test\n", "own.csv", table)
	b := everything(t, s) // x has mean 2 and deviation 1; z is constant
	if !slices.Equal(b.X, []float32{-1, 0, 1, 0, 7, 1}) || !slices.Equal(b.Targets, []float32{0.5, 1.5, 2.5}) || b.Labels != nil {
		t.Errorf("%v, %v, %v", b.X, b.Targets, b.Labels)
	}
	stats, err := federated.Describe(t.Context(), s)
	if err != nil || !strings.Contains(stats.String(), "target y   0.5 to 1.5, quartiles 0.5, 0.5, 0.5") || strings.Contains(stats.String(), "classes") {
		t.Errorf("%v, %v", stats, err)
	}
}

// Labels that are whole numbers from 0 are classes; all others are names.
func TestLabels(t *testing.T) {
	for _, c := range []struct {
		labels  string
		named   []string
		classes int
		want    []int32
	}{
		{"0 2 1 0", nil, 3, []int32{0, 2, 1, 0}},
		{"1 3 3 1", nil, 4, []int32{1, 3, 3, 1}},
		{"1.0 0.0 1.0 0.0", nil, 2, []int32{1, 0, 1, 0}},
		{"-1 1 1 -1", []string{"-1", "1"}, 2, []int32{0, 1, 1, 0}},
		{"10 9 -3 9", []string{"-3", "9", "10"}, 3, []int32{2, 1, 0, 1}},
		{"b a ü b", []string{"a", "b", "ü"}, 3, []int32{1, 0, 2, 1}},
		{"1 a 1 a", []string{"1", "a"}, 2, []int32{0, 1, 0, 1}},
	} {
		text := "x,y,part\n"
		for i, l := range strings.Fields(c.labels) {
			text += fmt.Sprintf("%d,%s,%s\n", i, l, []string{"train", "train", "train", "test"}[i])
		}
		s := mustOpenMapped(t, text, "own.csv", Table{Features: []string{"x"}, Label: "y", Split: "part"})
		b, info := everything(t, s), s.Info()
		if !slices.Equal(b.Labels, c.want) || info.Classes != c.classes || !slices.Equal(info.Labels, c.named) {
			t.Errorf("%s: %v of %d classes %q, want %v of %d %q", c.labels, b.Labels, info.Classes, info.Labels, c.want, c.classes, c.named)
		}
	}
}

// Images are PNG, bytes, or columns of pixels.
func TestImages(t *testing.T) {
	colours := image.NewRGBA(image.Rect(0, 0, 3, 2))
	for i := range colours.Pix {
		colours.Pix[i] = uint8(255 - i*i%200*(i%4-3)/-3) // opaque, all different
	}
	for i := range 6 {
		colours.Set(i%3, i/3, color.RGBA{uint8(10 * i), uint8(100 + i), uint8(200 + i), 255})
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, colours); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Image []byte `parquet:"image"`
		Y     string `parquet:"y"`
	}
	var raw []byte // channel after channel
	for _, base := range []int{0, 100, 200} {
		for i := range 6 {
			raw = append(raw, byte(base+i*map[int]int{0: 10, 100: 1, 200: 1}[base]))
		}
	}
	var want []float32
	for _, b := range raw {
		want = append(want, float32(b)/255)
	}
	rowsOf := func(image []byte) string {
		return string(datatest.Parquet(t, []row{{image, "p"}, {image, "q"}, {image, "p"}}))
	}
	text := "y"
	for i := range raw {
		text += fmt.Sprintf(",px%d", i)
	}
	for _, label := range []string{"p", "q", "p"} {
		text += "\n" + label + "," + strings.Trim(strings.ReplaceAll(fmt.Sprint(raw), " ", ","), "[]")
	}
	for name, c := range map[string]struct {
		file, content string
		table         Table
	}{
		"PNG":           {"i.parquet", rowsOf(encoded.Bytes()), Table{Features: []string{"image"}, Label: "y"}},
		"PNG of shape":  {"i.parquet", rowsOf(encoded.Bytes()), Table{Features: []string{"image"}, Label: "y", Shape: []int{3, 2, 3}}},
		"bytes":         {"i.parquet", rowsOf(raw), Table{Features: []string{"image"}, Label: "y", Shape: []int{3, 2, 3}}},
		"columns":       {"i.csv", text, Table{Features: []string{"px*"}, Label: "y", Shape: []int{3, 2, 3}, Scale: "pixels"}},
		"a list column": {"i.csv", "y,x\np,\"[" + text[strings.LastIndex(text, "p,")+2:] + "]\"\nq," + strings.ReplaceAll(text[strings.LastIndex(text, "p,")+2:], ",", " ") + "\nq," + strings.ReplaceAll(text[strings.LastIndex(text, "p,")+2:], ",", " ") + "\n", Table{Features: []string{"x"}, Label: "y", Scale: "pixels", Shape: []int{3, 2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpenMapped(t, c.content, c.file, c.table)
			if s.Info().Image != [3]int{3, 2, 3} || s.Info().Features != 18 {
				t.Errorf("%+v", s.Info())
			}
			b := everything(t, s)
			for i, x := range b.X {
				if math.Abs(float64(x-want[i%18])) > 1e-6 {
					t.Fatalf("value %d is %v, want %v", i, x, want[i%18])
				}
			}
		})
	}
	for _, c := range []struct {
		table Table
		image []byte
		want  string
	}{
		{Table{Features: []string{"image"}, Label: "y", Shape: []int{3, 2, 2}}, raw, "18 bytes, want 12 (an image of 3×2×2) or a PNG"},
		{Table{Features: []string{"image"}, Label: "y", Shape: []int{3, 3, 2}}, encoded.Bytes(), "an image of 3x2 pixels, want 2x3"},
		{Table{Features: []string{"image"}, Label: "y", Shape: []int{2, 2, 3}}, encoded.Bytes(), "want 1 or 3"},
	} {
		if _, err := openMapped(t, rowsOf(c.image), "i.parquet", c.table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// Text is tokens: windows with the next one as their label, or rows with a label.
func TestText(t *testing.T) {
	table := Table{Client: "who", Text: "said", Window: 3, Split: "part"}
	s := mustOpenMapped(t, "who,said,part\na,abcab,train\nb,bé,train\na,cab,train\na,abca,test\n", "own.csv", table)
	info := s.Info()
	// 1 is the line break between texts, 2 to 4 are a, b, c, and 5 is é. b's text is too short.
	if !slices.Equal(info.Alphabet, []string{"\n", "a", "b", "c", "é"}) || info.Vocabulary != 6 || info.Classes != 6 || s.Clients() != 1 {
		t.Fatalf("%+v, %d clients", info, s.Clients())
	}
	b := everything(t, s)
	if want := []byte{2, 3, 4, 3, 4, 2, 4, 2, 3, 2, 3, 1, 3, 1, 4, 1, 4, 2, 2, 3, 4}; !bytes.Equal(b.Tokens, want) {
		t.Errorf("tokens %v, want %v", b.Tokens, want)
	}
	if want := []int32{2, 3, 1, 4, 2, 3, 2}; !slices.Equal(b.Labels, want) {
		t.Errorf("labels %v, want %v", b.Labels, want)
	}
	labelled := Table{Text: "said", Window: 4, Label: "who", Tokens: "bytes", Split: "part"}
	s = mustOpenMapped(t, "who,said,part\na,é,train\nb,xyzzy,test\n", "own.csv", labelled)
	if b := everything(t, s); !bytes.Equal(b.Tokens, []byte{5, 4, 0, 0, 1, 2, 3, 3}) {
		t.Errorf("tokens %v", b.Tokens)
	}
	// Without a part that is held out no window of training reaches into what is.
	long := strings.Repeat("abcdefghij", 10)
	s = mustOpenMapped(t, "said\n"+long+"\n", "own.csv", Table{Text: "said", Window: 10})
	if s.Samples(0) != 72 || s.HeldOut() != 8 || !s.Info().Undealt {
		t.Errorf("%d windows, %d held out", s.Samples(0), s.HeldOut())
	}
	if _, err := openMapped(t, "said\n"+long[:60]+"\n", "own.csv", Table{Text: "said", Window: 10}); err == nil || !strings.Contains(err.Error(), "more than 60 tokens of text, six windows") {
		t.Error(err)
	}
}

// A folder's files are one table; those called test are held out.
func TestTable_Folder(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "train-1.csv", []byte("c,x,z,y\na,1,1,p\n"))
	datatest.Put(t, dir, "train-2.csv", []byte("y,z,x,c\nq,2,2,b\n"))
	datatest.Put(t, dir, "test.csv", []byte("c,x,z,y\na,3,3,q\n"))
	table := Table{Client: "c", Features: []string{"x", "z"}, Label: "y"}
	s, err := data.OpenWith(table, dir, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b := everything(t, s); !slices.Equal(b.X, []float32{1, 1, 2, 2, 3, 3}) || s.HeldOut() != 1 || s.Clients() != 2 {
		t.Errorf("%v, %d held out, %d clients", b.X, s.HeldOut(), s.Clients())
	}
	datatest.Put(t, dir, "train-3.csv", []byte("c,x,y\na,1,p\n"))
	if _, err := data.OpenWith(table, dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "train-3.csv: columns c, x, y, and those of test.csv are c, x, z, y") {
		t.Error(err)
	}
}

// Samples of nobody are dealt to clients, prepared, and adopted by name.
func TestTable_MappedIsPreparedAndDealt(t *testing.T) {
	dir := t.TempDir()
	text := "x,z,y\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,%d,%s\n", i, i*i, []string{"q", "p"}[i%2])
	}
	path := datatest.Put(t, dir, "own.csv", []byte(text))
	for name, table := range map[string]Table{
		"classes": {Features: []string{"x", "z"}, Label: "y", Scale: "standard"},
		"targets": {Features: []string{"x"}, Target: []string{"z"}},
		"next":    {Text: "y", Window: 4},
	} {
		t.Run(name, func(t *testing.T) {
			o := federated.Options{Seed: 3, Partition: federated.Partition{Kind: "iid", Clients: 4}}
			if name == "next" {
				if _, err := data.OpenWith(table, path, o); err == nil || !strings.Contains(err.Error(), "windows of 4 tokens overlap") {
					t.Error(err)
				}
				o.Partition = federated.Partition{}
			}
			s, err := data.OpenWith(table, path, o)
			if err != nil {
				t.Fatal(err)
			}
			cache := filepath.Join(dir, name)
			p, why, err := data.OpenPrepared(table, path, cache, o)
			if err != nil || why != "not prepared yet" {
				t.Fatalf("%s, %v", why, err)
			}
			t.Cleanup(func() { p.Close() })
			datatest.SameSets(t, s, p)
			if name != "next" && (s.Clients() != 4 || s.Info().Undealt) {
				t.Errorf("%d clients, %+v", s.Clients(), s.Info())
			}
			other := table
			other.Missing = "drop"
			if q, why, err := data.OpenPrepared(other, path, cache, o); err != nil || !strings.Contains(why, "stale") {
				t.Errorf("another mapping: %s, %v", why, err)
			} else {
				q.Close()
			}
		})
	}
}

// Samples of a device mean what the run's mean: classes, scale and tokens.
func TestAdopt(t *testing.T) {
	open := func(content string, table Table) federated.Set { return mustOpenMapped(t, content, "own.csv", table) }
	table := Table{Features: []string{"x", "z"}, Label: "y", Split: "part", Scale: "standard"}
	run := open("x,z,y,part\n0,0,ant,train\n4,8,bee,train\n8,4,cow,test\n", table) // means 2 and 4, deviations 2 and 4
	own := open("x,z,y,part\n6,12,cow,train\n2,0,ant,train\n4,4,cow,test\n", table)
	if err := federated.Adopt(own, run.Info().Schema); err != nil {
		t.Fatal(err)
	}
	b := everything(t, own)
	near := func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-6 }
	if !slices.EqualFunc(b.X, []float32{2, 2, 0, -1, 1, 0}, near) || !slices.Equal(b.Labels, []int32{2, 0, 2}) || own.Info().Classes != 3 {
		t.Errorf("%v, %v", b.X, b.Labels)
	}
	for _, c := range []struct {
		content string
		table   Table
		want    string
	}{
		{"x,z,y,part\n1,1,dog,train\n1,2,ant,test\n", table, `class "dog" is none of the run's 3 classes ("ant" to "cow")`},
		{"x,q,y,part\n1,1,ant,train\n1,2,ant,test\n", Table{Features: []string{"q", "x"}, Label: "y", Split: "part"}, "no feature is called z, as one of the run's 2 is"},
		{"x,z,q,y,part\n1,1,1,ant,train\n1,2,2,ant,test\n", Table{Features: []string{"z", "x", "q"}, Label: "y", Split: "part"}, "the feature q is none of the run's 2"},
		{"x,z,y,part\n1,1,0,train\n1,2,1,test\n", table, `class "0" is none of the run's`},
	} {
		if err := federated.Adopt(open(c.content, c.table), run.Info().Schema); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	text := Table{Text: "y", Window: 2, Split: "part"}
	run = open("y,part\nabcd,train\nabcd,test\n", text)
	own = open("y,part\ndxba,train\ndxba,test\n", text)
	if err := federated.Adopt(own, run.Info().Schema); err != nil {
		t.Fatal(err)
	}
	// The run's alphabet is a line break, a, b, c, d; it has no x.
	if b := everything(t, own); !bytes.Equal(b.Tokens[:4], []byte{5, 0, 0, 3}) || !slices.Equal(b.Labels[:2], []int32{3, 2}) {
		t.Errorf("tokens %v, labels %v", b.Tokens, b.Labels)
	}
}

// Each word of a column is a feature of 0 or 1, behind the columns of numbers, which alone are
// scaled. A device that lacks a word, and has its columns in another order, means the same.
func TestWords(t *testing.T) {
	table := Table{Features: []string{"x"}, Words: []string{"colour", "size"}, Label: "y", Split: "part", Scale: "standard", Missing: "mean"}
	const header = "x,colour,size,y,part\n"
	run := mustOpenMapped(t, header+"0,red,L,ant,train\n4,blue,S,bee,train\n2,,S,bee,train\n8,green,L,ant,test\n", "own.csv", table)
	if got, want := run.Info().Columns, []string{"x", "colour=blue", "colour=green", "colour=red", "size=L", "size=S"}; !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	deviation := float32(math.Sqrt(8. / 3)) // of 0, 2 and 4
	want := []float32{
		-2 / deviation, 0, 0, 1, 1, 0,
		2 / deviation, 1, 0, 0, 0, 1,
		0, 0.5, 0, 0.5, 0, 1, // the shares of the training rows
		6 / deviation, 0, 1, 0, 1, 0,
	}
	near := func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-6 }
	if b := everything(t, run); !slices.EqualFunc(b.X, want, near) {
		t.Errorf("%v", b.X)
	}
	device := mustOpenMapped(t, "size,x,y,colour,part\nS,4,bee,blue,train\nS,0,ant,blue,train\nS,8,ant,green,test\n", "own.csv", table)
	if err := federated.Adopt(device, run.Info().Schema); err != nil {
		t.Fatal(err)
	}
	b := everything(t, device)
	if want := append(slices.Clone(want[6:12]), -2/deviation, 1, 0, 0, 0, 1, 6/deviation, 0, 1, 0, 0, 1); !slices.EqualFunc(b.X, want, near) || device.Info().Features != 6 {
		t.Errorf("%v", b.X)
	}
	other := mustOpenMapped(t, header+"0,mauve,L,ant,train\n4,blue,S,bee,test\n", "own.csv", table)
	if err := federated.Adopt(other, run.Info().Schema); err == nil || !strings.Contains(err.Error(), "the feature colour=mauve is none of the run's 6") {
		t.Errorf("%v", err)
	}
	many := "colour,y\n"
	for i := range 1001 {
		many += fmt.Sprintf("c%d,%d\n", i, i%2)
	}
	if _, err := openMapped(t, many, "own.csv", Table{Words: []string{"colour"}, Label: "y"}); err == nil || !strings.Contains(err.Error(), "line 1002, byte 1, column colour: more than 1000 different words") {
		t.Errorf("%v", err)
	}
	table.Shape = []int{1, 1, 1}
	if err := table.Validate(); err == nil || !strings.Contains(err.Error(), "words: take no shape") {
		t.Error(err)
	}
}

// A table of any bytes is a set that keeps its promises, or an error.
func FuzzTable(f *testing.F) {
	f.Add([]byte(flowerRows))
	f.Add([]byte("garden;length;width;kind;part\n\"a\";1;2;\"x\";0\na;1;;y;1\n"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x05\x00"))
	f.Add([]byte("\"garden\n,length"))
	type row struct {
		Garden        string    `parquet:"garden"`
		Length, Width []float32 `parquet:",list"`
		Kind, Part    string
	}
	f.Add(datatest.Parquet(f, []row{{"a", []float32{1}, []float32{2}, "x", "0"}, {"a", []float32{1}, []float32{2}, "y", "1"}}))
	f.Add(datatest.Parquet(f, []struct {
		X []*float32 `parquet:"length,list,optional"`
		Y float32    `parquet:"width"`
	}{{nil, 1}, {[]*float32{nil, new(float32)}, 2}, {[]*float32{new(float32), nil}, 3}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		datatest.Guard(t, len(content), func() {
			path := datatest.Put(t, t.TempDir(), "own.csv", content)
			for _, table := range []Table{flowers, {Words: []string{"garden"}, Label: "kind"}, {Client: "garden", Text: "kind", Window: 2}, {Features: []string{"length"}, Target: []string{"width"}, Missing: "drop"}} {
				if s, err := data.OpenWith(table, path, federated.Options{}); err == nil {
					datatest.Usable(t, s.(*federated.Grouped))
					s.Close()
				}
			}
			if p, err := Propose(path, ""); err == nil && p.Complete() {
				if s, err := data.OpenWith(p.Table, path, federated.Options{}); err == nil {
					datatest.Usable(t, s.(*federated.Grouped))
				}
			}
		})
	})
}
