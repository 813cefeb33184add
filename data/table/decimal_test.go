package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
	"fedpace/internal/testkit/slow"
)

// TestDecimal_SignOfWholeColumn has files as Excel saves them where the decimal sign is a comma.
func TestDecimal_SignOfWholeColumn(t *testing.T) {
	wide := Table{Client: "who", Features: []string{"a", "b"}, Label: "lab"}
	set := func(decimal string) Table {
		table := wide
		table.Decimal = decimal
		return table
	}
	for name, c := range map[string]struct {
		table Table
		rows  string
		// x is what the features of the rows are; nil means that the table is refused with err.
		x   []float32
		err string
		// note is a part of the remarks on the set.
		note string
	}{
		"commas in one column":   {wide, "3,25;7;p\n-0,5;8;q", []float32{3.25, 7, -0.5, 8}, "", "decimal commas in the columns a"},
		"commas in both":         {wide, "3,25;7,5;p\n-0,5;8;q", []float32{3.25, 7.5, -0.5, 8}, "", "decimal commas in the columns a, b"},
		"a comma and a point":    {wide, "3,25;7.5;p\n-0,5;8.25;q", []float32{3.25, 7.5, -0.5, 8.25}, "", "decimal commas in the columns a"},
		"points alone":           {wide, "3.25;1.250;p\n-0.5;8;q", []float32{3.25, 1.25, -0.5, 8}, "", ""},
		"a zero and three":       {wide, "0,125;7;p\n1,250;8;q", []float32{0.125, 7, 1.25, 8}, "", "decimal commas in the columns a"},
		"three digits by chance": {wide, "1,250;7,5;p\n2,375;8;q", []float32{1.25, 7.5, 2.375, 8}, "", "decimal commas in the columns a, b"},
		"perhaps thousands":      {wide, "1,250;7;p\n2,375;8;q", nil, "column a has numbers such as 1,250, which may be thousands (want decimal: comma", ""},
		"decimals, as is said":   {set("comma"), "1,250;7;p\n2,375;8;q", []float32{1.25, 7, 2.375, 8}, "", "decimal commas"},
		"points, as is said":     {set("point"), "1,5;7;p\n2.5;8;q", nil, `"1,5" has a comma; want a number with a decimal point`, ""},
		"a point among commas":   {wide, "1,5;7;p\n2.5;8;q", nil, "column a has numbers with a comma, as 1,5, and with a point, as 2.5", ""},
		"thousands with points":  {wide, "1.250;7,5;p\n2.375;8;q", nil, "column a has numbers such as 1.250, which may be thousands, as other columns have decimal commas (want decimal: comma", ""},
		"thousands, as is said":  {set("comma"), "1.250;7,5;p\n2.375;8;q", []float32{1250, 7.5, 2375, 8}, "", "decimal commas"},
		"both signs in one":      {wide, "1.250,5;7;p\n2,5;8;q", []float32{1250.5, 7, 2.5, 8}, "", "points between thousands, as in a 1.250,5"},
		"both signs, other rows": {wide, "1.250;7;p\n2,5;8;q", []float32{1250, 7, 2.5, 8}, "", "points between thousands, as in a 1.250"},
		"millions":               {wide, "1.250.000;7;p\n-2.375;8;q", []float32{1250000, 7, -2375, 8}, "", "points between thousands, as in a 1.250.000"},
		"another's thousands":    {wide, "1.250;1.052,95;p\n750;8;q", []float32{1250, 1052.95, 750, 8}, "", "points between thousands, as in a 1.250, b 1.052,95"},
		"thousands and points":   {wide, "1.250,5;7;p\n2.5;8;q", nil, "column a has numbers with a comma, as 1.250,5, and with a point, as 2.5", ""},
		"no group of three":      {set("comma"), "1.25,5;7;p\n2,5;8;q", nil, `"1.25,5" is not a number`, ""},
		"thousands, points said": {set("point"), "1.250,5;7;p\n2;8;q", nil, `"1.250,5" has points between thousands; want decimal: comma`, ""},
		"either sign":            {wide, "750;7;p\n2.229;8;q", []float32{750, 7, 2.229, 8}, "", "column a has 2.229, or is it 2229?): set decimal: comma if they do, else decimal: point"},
		"either, points said":    {set("point"), "750;7;p\n2.229;8;q", []float32{750, 7, 2.229, 8}, "", ""},
		"either, beside points":  {wide, "750;7.5;p\n2.229;8;q", []float32{750, 7.5, 2.229, 8}, "", ""},
		"a missing value":        {wide, "3,5;7;p\nNA;8;q", nil, "no value", ""},
		"commas and a word":      {wide, "3,5;7;p\nx;8;q", nil, `"x" is not a number`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := "who;a;b;lab\n"
			for range 5 {
				for row := range strings.SplitSeq(c.rows, "\n") {
					text += "u;" + row + "\n"
				}
			}
			s, err := openMapped(t, text, "own.csv", c.table)
			if c.x == nil {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			found := everything(t, s).X
			for pair := range slices.Chunk(found, 2) {
				if !slices.Equal(pair, c.x[:2]) && !slices.Equal(pair, c.x[2:]) {
					t.Errorf("a row has %v, want %v or %v", pair, c.x[:2], c.x[2:])
				}
			}
			note := s.Info().Note
			if !strings.Contains(note, c.note) || c.note == "" && strings.Contains(note, "decimal") {
				t.Errorf("%q, want %q", note, c.note)
			}
		})
	}
}

// TestDecimal_OtherColumns has commas in columns that are no features: a target, a label and a client,
// and words that are no numbers.
func TestDecimal_OtherColumns(t *testing.T) {
	text := "who;a;says;t\n" + strings.Repeat("1,0;1,5;well, no;0,5\n2,0;2,5;yes, a;1,5\n", 5)
	s := mustOpenMapped(t, text, "own.csv", Table{Client: "who", Features: []string{"a"}, Words: []string{"says"}, Target: []string{"t"}})
	if s.Clients() != 2 || s.Client(0) != "1" || s.Client(1) != "2" {
		t.Errorf("clients %s, %s", s.Client(0), s.Client(1))
	}
	if b := datatest.All(t, s, 0); !slices.Equal(b.X[:3], []float32{1.5, 1, 0}) || b.Targets[0] != 0.5 {
		t.Errorf("features %v, targets %v", b.X[:3], b.Targets)
	}
	if names := s.Info().Columns; !slices.Equal(names, []string{"a", "says=well, no", "says=yes, a"}) {
		t.Errorf("columns %q", names)
	}
	// The only column of features has numbers, not lists of two.
	s = mustOpenMapped(t, text, "own.csv", Table{Client: "who", Features: []string{"a"}, Target: []string{"t"}})
	if b := datatest.All(t, s, 1); s.Info().Features != 1 || b.X[0] != 2.5 {
		t.Errorf("%d features, %v", s.Info().Features, b.X)
	}
	if p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "t"); err != nil || !slices.Contains(p.Table.Features, "a") {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestDecimal_SameNumbers draws numbers and writes them with a comma and with a point: both files have
// the same samples.
func TestDecimal_SameNumbers(t *testing.T) {
	slow.NotUnderRace(t)
	table := Table{Client: "who", Features: []string{"a", "b"}, Target: []string{"t"}}
	rapid.Check(t, func(rt *rapid.T) {
		text := "who;a;b;t\nu;0.5;0.5;0.5\n"
		for range rapid.IntRange(5, 20).Draw(rt, "rows") {
			number := func() string { return fmt.Sprint(float32(rapid.IntRange(-99999, 99999).Draw(rt, "n")) / 128) }
			text += fmt.Sprintf("u;%s;%s;%s\n", number(), number(), number())
		}
		point := mustOpenMapped(t, text, "own.csv", table)
		comma := mustOpenMapped(t, strings.ReplaceAll(text, ".", ","), "own.csv", table)
		if !datatest.Same(everything(t, point), everything(t, comma)) {
			rt.Fatalf("other samples of\n%s", text)
		}
	})
}

// TestLatin1_IsRefused has bytes of Latin-1 in each column whose texts are kept, far behind the beginning
// of the file.
func TestLatin1_IsRefused(t *testing.T) {
	ascii := strings.Repeat("ann,1,red,p,word\n", 100_000)
	for column, row := range map[string]string{
		"who":  "\xe9va,1,red,p,word\n",
		"col":  "ann,1,r\xf6t,p,word\n",
		"lab":  "ann,1,red,gr\xfcn,word\n",
		"says": "ann,1,red,p,w\xf6rt\n",
	} {
		t.Run(column, func(t *testing.T) {
			table := Table{Client: "who", Features: []string{"x"}, Words: []string{"col"}, Label: "lab"}
			if column == "says" {
				table = Table{Client: "who", Text: "says", Window: 2, Label: "lab"}
			}
			_, err := openMapped(t, "who,x,col,lab,says\n"+ascii+row, "own.csv", table)
			if err == nil || !strings.Contains(err.Error(), "not UTF-8") || !strings.Contains(err.Error(), "iconv") {
				t.Error(err)
			}
		})
	}
	// What no column of the mapping has does not matter.
	mustOpenMapped(t, "who,x,lab,says\n"+strings.Repeat("ann,1,p,w\xf6rt\n", 5), "own.csv", Table{Client: "who", Features: []string{"x"}, Label: "lab"})
}

// TestDecimal_OtherFiles has one file with commas beside one without: the values of both decide.
func TestDecimal_OtherFiles(t *testing.T) {
	open := func(t *testing.T, first, second string, table Table) (federated.Set, error) {
		t.Helper()
		dir := t.TempDir()
		datatest.Put(t, dir, "a.csv", []byte("who;a;says;lab\n"+strings.Repeat(first, 5)))
		datatest.Put(t, dir, "b.csv", []byte("who;a;says;lab\n"+strings.Repeat(second, 5)))
		s, err := data.OpenWith(table, dir, federated.Options{Seed: 1})
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	t.Run("words without a comma", func(t *testing.T) {
		// The column says is one of words, as the second file shows, so its 1,5 stays a word.
		s, err := open(t, "u;1;1,5;p\n", "u;2;x;q\n", Table{Client: "who", Features: []string{"a"}, Words: []string{"says"}, Label: "lab"})
		if err != nil {
			t.Fatal(err)
		}
		if names := s.Info().Columns; !slices.Equal(names, []string{"a", "says=1,5", "says=x"}) {
			t.Errorf("columns %q", names)
		}
	})
	t.Run("points without a comma", func(t *testing.T) {
		_, err := open(t, "u;1,5;w;p\n", "u;2.5;w;q\n", Table{Client: "who", Features: []string{"a"}, Label: "lab"})
		const want = "column a has numbers with a comma, as 1,5, and with a point, as 2.5"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// Where commas separate the fields, points between thousands still tell the decimal commas.
func TestPropose_QuotedThousands(t *testing.T) {
	propose := func(revenue string) (*Proposal, string, error) {
		text := "Kunde,Umsatz,Klasse\n"
		for i := range 60 {
			text += fmt.Sprintf("k%d,\"%s\",%s\n", i%10, []string{"650,57", revenue}[i%2], []string{"p", "q"}[i%2])
		}
		path := datatest.Put(t, t.TempDir(), "own.csv", []byte(text))
		p, err := Propose(path, "")
		return p, path, err
	}
	p, path, err := propose("1.052,95")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.YAML(path), "decimal: comma               # points separate thousands") {
		t.Error(p.YAML(path))
	}
	s, err := data.OpenWith(p.Table, path, federated.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if note := s.Info().Note; !strings.HasSuffix(note, "decimal commas in the columns Umsatz") {
		t.Error(note)
	}
	s.Close()
	const want = "column Umsatz has numbers such as 1,052.95, with commas between thousands; want numbers without these"
	if _, _, err := propose("1,052.95"); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
