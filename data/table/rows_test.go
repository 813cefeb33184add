package table_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
)

// Of a column that is no single feature a list of several values is an error: its
// values would be those of the rows behind it.
func TestRows_ListsForValues(t *testing.T) {
	type row struct {
		Site []string  `parquet:"site,list"`
		X    float32   `parquet:"x"`
		Z    []float32 `parquet:"z,list"`
		Pics [][]byte  `parquet:"pics,list"`
		Y    []string  `parquet:"y,list"`
	}
	var rows []row
	for range 6 {
		rows = append(rows, row{[]string{"a", "b"}, 1, []float32{1, 2}, [][]byte{{1}, {2}}, []string{"p", "q"}})
	}
	file := string(datatest.Parquet(t, rows))
	const several = "value 1: a list of several values; want one value in a row"
	for name, c := range map[string]struct {
		table Table
		want  string
	}{
		"label":    {Table{Features: []string{"x"}, Label: "y"}, several},
		"client":   {Table{Client: "site", Features: []string{"x"}, Target: []string{"x"}}, "already"},
		"clients":  {Table{Client: "site", Features: []string{"z"}, Target: []string{"x"}}, several},
		"features": {Table{Features: []string{"x", "z"}, Label: "site"}, several},
		"text":     {Table{Text: "y", Window: 2}, several},
		"images":   {Table{Features: []string{"pics"}, Target: []string{"x"}}, "several values in a row; want one image"},
	} {
		if _, err := openMapped(t, file, "own.parquet", c.table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// What a list lacks is missing from its row alone.
func TestRows_ListsWithoutValues(t *testing.T) {
	type row struct {
		X    []*float32 `parquet:"x,list,optional"`
		Y    string     `parquet:"y"`
		Part string     `parquet:"part"`
	}
	list := func(numbers ...float32) (list []*float32) {
		for _, n := range numbers {
			list = append(list, &n)
			if n == 0 {
				list[len(list)-1] = nil
			}
		}
		return list
	}
	file := string(datatest.Parquet(t, []row{
		{nil, "p", "train"}, {list(0, 2, 4), "q", "train"}, {list(1, 2, 3), "p", "train"}, {list(3, 0, 0), "q", "train"},
		{list(4, 5, 6), "q", "test"}, {list(7, 8, 9, 0), "q", "none"},
	}[:5]))
	text := "x,y,part\n,p,train\nNA 2 4,q,train\n1 2 3,p,train\n[3; ?; nan],q,train\n4 5 6,q,test\n"
	for name, content := range map[string]string{"own.parquet": file, "own.csv": text} {
		table := Table{Features: []string{"x"}, Label: "y", Split: "part", Missing: "drop"}
		s := mustOpenMapped(t, content, name, table)
		if b := everything(t, s); !slices.Equal(b.X, []float32{1, 2, 3, 4, 5, 6}) || !slices.Equal(b.Labels, []int32{0, 1}) {
			t.Errorf("%s, rows left out: %v, %v", name, b.X, b.Labels)
		}
		table.Missing = "mean" // of 1 and 3; of 2 and 2; of 4 and 3
		s = mustOpenMapped(t, content, name, table)
		if b := everything(t, s); !slices.Equal(b.X, []float32{2, 2, 3.5, 2, 2, 4, 1, 2, 3, 3, 2, 3.5, 4, 5, 6}) || !slices.Equal(b.Labels, []int32{0, 1, 0, 1, 1}) {
			t.Errorf("%s, means: %v, %v", name, b.X, b.Labels)
		}
	}
	// A list that is too long is one, if what is too much is missing, too.
	long := string(datatest.Parquet(t, []row{{list(1, 2, 3), "p", "train"}, {list(4, 5, 6, 0), "q", "train"}, {list(7, 8, 9), "p", "test"}}))
	if _, err := openMapped(t, long, "own.parquet", Table{Features: []string{"x"}, Label: "y", Missing: "drop"}); err == nil || !strings.Contains(err.Error(), "row 1 has 4 numbers after rows of 3") {
		t.Error(err)
	}
}

// Rows without a value do not cost what the file does not hold.
func TestRows_ManyBesideOneLongList(t *testing.T) {
	text := "x,y\n" + strings.Repeat(",p\n", 1000) + strings.Repeat("1 ", 100_000) + ",p\n"
	datatest.Guard(t, len(text)/100, func() {
		if _, err := openMapped(t, text, "own.csv", Table{Features: []string{"x"}, Label: "y", Missing: "drop"}); err == nil || !strings.Contains(err.Error(), "column x: 1000 of 1001 rows have no value; want a file without them") {
			t.Error(err)
		}
	})
}

// A footer that claims rows does not cost memory for them.
func TestRows_ClaimedByFooter(t *testing.T) {
	type row struct{ A, B, C, D, E, F, G, Y float32 }
	file := datatest.ClaimRows(t, datatest.Parquet(t, make([]row, 10)), 8_000_000)
	table := Table{Features: []string{"A", "B", "C", "D", "E", "F", "G"}, Target: []string{"Y"}}
	datatest.Guard(t, len(file), func() {
		if _, err := openMapped(t, string(file), "own.parquet", table); err == nil || !strings.Contains(err.Error(), "claims 8000000 rows of 32 bytes") {
			t.Error(err)
		}
	})
}

// Patterns match the names that people give to columns.
func TestPatterns(t *testing.T) {
	const rows = "km/h,m/s,y\n1,2,p\n3,4,q\n5,6,p\n7,8,q\n9,10,p\n"
	for _, c := range []struct {
		features []string
		want     []string
	}{
		{[]string{"*"}, []string{"km/h", "m/s"}},
		{[]string{"k*", "*s"}, []string{"km/h", "m/s"}},
		{[]string{"*/s", "*"}, []string{"m/s", "km/h"}},
	} {
		s := mustOpenMapped(t, rows, "own.csv", Table{Features: c.features, Label: "y"})
		if got := s.Info().Columns; !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", c.features, got, c.want)
		}
	}
}

// An image with colours does not lose them among grey ones.
func TestRows_ColoursAmongGreyImages(t *testing.T) {
	type row struct {
		Image []byte `parquet:"image"`
		Y     string `parquet:"y"`
	}
	encode := func(m image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	grey, colours := image.NewGray(image.Rect(0, 0, 2, 2)), image.NewRGBA(image.Rect(0, 0, 2, 2))
	for i := range 4 {
		colours.Set(i%2, i/2, color.RGBA{7, 7, 7, 255})
	}
	table := Table{Features: []string{"image"}, Label: "y"}
	rows := []row{{encode(grey), "p"}, {encode(colours), "q"}, {encode(grey), "p"}}
	mustOpenMapped(t, string(datatest.Parquet(t, rows)), "i.parquet", table)
	colours.Set(1, 1, color.RGBA{7, 8, 7, 255})
	rows[1].Image = encode(colours)
	if _, err := openMapped(t, string(datatest.Parquet(t, rows)), "i.parquet", table); err == nil || !strings.Contains(err.Error(), "value 1: an image with colours among grey ones") {
		t.Error(err)
	}
	table.Shape = []int{3, 2, 2}
	mustOpenMapped(t, string(datatest.Parquet(t, rows)), "i.parquet", table)
}

// A column of numbers is a text, too, and one of large numbers names clients.
func TestRows_NumbersAsTexts(t *testing.T) {
	type row struct {
		Said int64  `parquet:"said"`
		User uint64 `parquet:"user"`
		Y    string `parquet:"y"`
	}
	var rows []row
	for i := range 8 {
		rows = append(rows, row{int64(100 + i), 1<<63 + uint64(i%2), []string{"p", "q"}[i%2]})
	}
	s := mustOpenMapped(t, string(datatest.Parquet(t, rows)), "own.parquet", Table{Client: "user", Text: "said", Window: 3, Label: "y"})
	if got := s.Info().Alphabet; len(got) != 8 || s.Client(1) != "9223372036854775809" {
		t.Errorf("tokens %q, the second client is %s", got, s.Client(1))
	}
}

// A number of classes goes with a label, and with the classes that a mapping names.
func TestRows_Classes(t *testing.T) {
	const rows = "x,y\n1,p\n2,q\n3,p\n4,q\n5,p\n"
	for want, table := range map[string]Table{
		"the mapping names 2 classes, want 3":             {Features: []string{"x"}, Label: "y", Classes: []string{"p", "q"}},
		"2 different labels (p, q), want 3 classes":       {Features: []string{"x"}, Label: "y"},
		"3 classes of a table without a label; want none": {Features: []string{"x"}, Target: []string{"x"}},
	} {
		path := datatest.Put(t, t.TempDir(), "own.csv", []byte(rows))
		if _, err := data.OpenWith(table, path, federated.Options{Classes: 3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
