package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
)

// rows repeats lines below a header, so that a column of few words is one of classes.
func rows(header string, lines ...string) string {
	return header + "\n" + strings.Repeat(strings.Join(lines, "\n")+"\n", 10)
}

func manyPrices() string {
	text := "user,x,price\n"
	for i := range 300 {
		text += fmt.Sprintf("u%d,%d.5,%d\n", i%3, i%7, 100_000+1000*(i%150))
	}
	return text
}

func sentences() string {
	text := "user,said\n"
	for i := range 1300 {
		text += fmt.Sprintf("u%d,we had %d of them\n", i%3, i%511)
	}
	return text
}

func pixelNames() (text string) {
	for i := range 64 {
		text += fmt.Sprintf("px%d,", i)
	}
	return text
}

func manyColumns() (text string) {
	for i := range 150 {
		text += fmt.Sprintf("%dx,", i)
	}
	return text
}

// opens reads a table by a proposal.
func opens(p *Proposal, path string) error {
	s, err := federated.OpenSource(path)
	if err != nil {
		return err
	}
	defer s.File.Close()
	_, err = p.Table.Open(s, federated.Options{})
	return err
}

// A column that is asked for is the label or the target, or an error says why it cannot be.
func TestPropose_AsksForLabel(t *testing.T) {
	path := datatest.Put(t, t.TempDir(), "t.csv", []byte(rows("user,when,kind,x,label", "a,2024-01-31,o,1.5,rose", "b,2024-02-01,p,2.5,lily")))
	for label, want := range map[string]string{
		"kind": "label  kind: 2 different words (o, p); as asked", "x": "target x: numbers from 1.5 to 2.5", "user": "label  user: 2 different words (a, b); as asked",
		"knd": `label: there is no column "knd"; the columns are user, when, kind, x, label`, "when": "label: column when is neither classes nor numbers: dates or times such as",
	} {
		p, err := Propose(path, label)
		got := fmt.Sprint(err)
		if err == nil {
			got = p.Answer()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
}

func TestProposals(t *testing.T) {
	for name, x := range map[string]struct{ file, want, without, err string }{
		"a column called label before one called y": {
			file: rows("user,x,y,label", "a,1.5,2.5,rose", "b,2.5,3.5,lily"), want: "label: label",
		},
		"a point and its class": {
			file: rows("user,x,y,arm", "a,1.5,2.5,rose", "b,2.5,3.5,lily"), want: `features: [x, "y"] `,
		},
		"minus one and one are classes": {
			file: rows("user,x,label", "a,1.5,-1", "b,2.5,1"), want: "label: label",
		},
		"numbers are a target": {
			file: rows("user,x,price", "a,1.5,-1.25", "b,2.5,1.5", "b,3.5,2.5"), want: "target: price",
		},
		"whole numbers with gaps are classes by their names": {
			file: rows("user,x,label", "a,1.5,40", "b,2.5,10", "b,2.5,9"), want: `classes: ["9", "10", "40"]`,
		},
		"whole numbers from 0 are classes": {
			file: rows("user,x,label", "a,1.5,0", "b,2.5,2", "b,2.5,1"), without: "classes:",
		},
		"many whole numbers far apart are a target": {
			file: manyPrices(), want: "numbers from 1e+05 to 2.49e+05, so this is a regression; its name\n  target_scale: standard       # a model learns deviations from the mean",
		},
		"true and false are numbers, and no parts": {
			file: rows("user,x,smoker,label", "a,1.5,True,rose", "b,2.5,False,lily"), want: "features: [x, smoker] ", without: "split:",
		},
		"true and false of a column that is called so are parts": {
			file: rows("user,x,is_test,label", "a,1.5,True,rose", "b,2.5,False,lily", "b,2.5,True,lily", "a,2.5,False,lily"), want: "split: is_test ",
		},
		"an infinity": {
			file: rows("user,x,z,label", "a,1.5,2,rose", "b,2.5,3,lily") + "a,inf,2,rose\n", want: "without a meaning: x (numbers, but inf and the like in 1 of 21 rows)",
		},
		"a column without a name": {
			file: rows(",user,x,label", "0,a,1.5,rose", "1,b,2.5,lily"), want: `features: [column 1, x]`,
		},
		"a number is last, behind words": {
			file: rows("user,town,kind,x,rent", "a,o,flat,1.5,1.25", "b,p,house,2.5,1.5", "b,q,flat,3.5,2.5"), want: "target: rent ", without: "label: kind",
		},
		"words of a vague name are last": {
			file: rows("user,type,x,left", "a,o,1.5,yes", "b,p,2.5,no"), want: "label: left ",
		},
		"numbers of the rows are last": {
			file: "user,kind,x,no\na,o,1.5,1\nb,p,2.5,2\nb,p,3.5,3\na,o,2.5,4\na,p,2.5,5\n", want: "label: kind ",
		},
		"a feature that is missing": {
			file: rows("user,x,label", "a,,rose", "b,2.5,lily", "b,3.5,lily"), want: "missing: mean ",
		},
		"a list that lacks a part": {
			file: rows("user,x,label", "a,NA 2,rose", "b,2 3,lily", "b,3 3,lily"), want: "missing: mean ",
		},
		"a label that is missing, and a feature": {
			file: rows("user,x,label", "a,,rose", "b,2.5,", "b,3.5,lily"), want: "missing: drop                # column label lacks a value in 10 of 30 rows",
		},
		"a pixel that is missing": {
			file: rows("user,"+pixelNames()+"label", "a,"+strings.Repeat("7,", 63)+",rose", "b,"+strings.Repeat("9,", 64)+"lily"), want: "missing: drop ",
		},
		"pixels of which some are always the same": {
			file: rows("user,"+pixelNames()+"label", "a,0,"+strings.Repeat("7,", 63)+"rose", "b,0,"+strings.Repeat("9,", 63)+"lily"), want: "shape: [1, 8, 8]",
		},
		"values of several lines": {
			file: rows("user,x,label", "a,1.5,\"ro\nse\"", "b,2.5,lily"), want: `("ro\nse", lily)`,
		},
		"a name of several lines": {
			file: rows("user,x,label,\"not\ne\"", "a,1.5,rose,w", "b,2.5,lily,w"), want: `without a meaning: "not\ne" (words`,
		},
		"very many columns": {
			file: rows("user,"+manyColumns()+"label", "a,"+strings.Repeat("7,", 150)+"rose", "b,"+strings.Repeat("9,", 150)+"lily"), want: `features: ["*"]              # 150 columns of numbers`,
		},
		"numbers with a decimal comma": {
			file: rows("user;x;label", "a;2,34;rose", "b;-0,66;lily"), want: "features: [x]                # a column of numbers",
		},
		"numbers with a decimal comma between commas": {
			file: rows("user,x,label", `a,"2,34",rose`, `b,"-0,66",lily`),
			err:  "column x has numbers with a comma, as in 2,34; want decimal: comma if it is the decimal sign",
		},
		"a list with commas alone": {
			file: rows("user;x;label", "a;2,3,4;rose", "b;3,4,5;lily"),
			err:  "column x has numbers with a comma",
		},
		"words with a comma": {
			file: rows("user;x;says;label", "a;2;10,000 people;rose", "b;3;well,no;lily"), want: "features: [x] ",
		},
		"words and dates": {
			file: rows("user,day,colour,x,label", "a,2024-01-31,red,1.5,rose", "b,2024-02-01 10:30:00,blue,2.5,lily"),
			want: "features: [x]                # a column of numbers\n  words: [colour]              # each of 2 words becomes a feature of 0 or 1\n  label: label                 # 2 different words (lily, rose); its name\n  # without a meaning: day (dates or times such as",
		},
		"words alone": {
			file: rows("user,colour,label", "a,red,rose", "b,blue,lily"), want: "words: [colour] ", without: "features:",
		},
		"dates are no classes": {
			file: rows("user,z,when,x", "a,1,31.01.2024,1.5", "b,2,01.02.2024,2.5"), want: "target: x", without: "words:",
		},
		"a word that is missing": {
			file: rows("user,x,colour,label", "a,1,,rose", "b,2.5,red,lily", "b,3.5,blue,lily"), want: "missing: mean                # column colour lacks",
		},
		"sentences are a text and no classes": {
			file: sentences(), want: "text: said", without: "label: said",
		},
		"sentences and a number for each": {
			file: strings.ReplaceAll(strings.ReplaceAll(sentences(), "\n", ",7\n"), "said,7", "said,stars"), want: "text: said", without: "label: said",
		},
		"sentences and their stars": {
			file: strings.ReplaceAll(strings.ReplaceAll(strings.Replace(sentences(), "user,", "reviewer,", 1), "\n", ",3\n"), "said,3", "said,stars") + "u1,it was not so good,4\n", want: "text: said                   # sentences of 17 bytes on average\n  tokens: words                # a model reads which words a text has and how often, not their order\n  label: stars",
		},
		"texts longer than what is read of them": {
			file: strings.ReplaceAll(sentences(), "of them", strings.Repeat("of them ", 12)), want: "80                   # tokens of a sample; with a label, the rest of a text is not read",
		},
		"three parts": {
			file: rows("user,x,set,label", "a,1.5,train,rose", "b,2.5,val,lily", "b,2.5,test,lily"), want: "split: set ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := datatest.Put(t, t.TempDir(), "own.csv", []byte(x.file))
			p, err := Propose(path, "")
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Errorf("%v, want %s", err, x.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := p.YAML(path)
			if !strings.Contains(got, x.want) || !p.Complete() || x.without != "" && strings.Contains(got, x.without) {
				t.Errorf("want %s, and not %q, in\n%s", x.want, x.without, got)
			}
			if err := opens(p, path); err != nil {
				t.Errorf("%v, by\n%s", err, got)
			}
		})
	}
}

// A table that is compressed is told from Sentiment140's by the names of its columns.
func TestPropose_CompressedTable(t *testing.T) {
	file := datatest.Gzip(t, []byte(rows("user,x,label", "a,1.5,rose", "b,2.5,lily")))
	path := datatest.Put(t, t.TempDir(), "own.csv.gz", file)
	p, err := Propose(path, "")
	if err != nil || p.Table.Label != "label" || p.Rows != 20 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The signs of numbers are proposed where they are certain, and doubted where they are not.
func TestPropose_DecimalSigns(t *testing.T) {
	for name, c := range map[string]struct {
		revenue []string
		decimal string
		line    string
		isDoubt bool
	}{
		"either sign": {
			revenue: []string{"750", "2.229", "1.980"},
			line:    "decimal: null                # WARNING: points are read as decimal signs, but may separate thousands (column Umsatz has 2.229, or is it 2229?): set decimal: comma if they do, else decimal: point",
			isDoubt: true,
		},
		"thousands and commas": {
			revenue: []string{"750,50", "1.052,95", "2.229"},
			decimal: "comma",
			line:    "decimal: comma               # points separate thousands, as in Umsatz 1.052,95",
		},
		"points": {revenue: []string{"750", "2.229", "1.98"}},
		"commas": {revenue: []string{"750", "2,229", "1,98"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "Client;Umsatz;Klasse\n"
			for i := range 30 {
				text += fmt.Sprintf("c%d;%s;%s\n", i%10, c.revenue[i%3], []string{"p", "q"}[i%2])
			}
			p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "")
			if err != nil {
				t.Fatal(err)
			}
			if p.Table.Decimal != c.decimal || !slices.Equal(p.Table.Features, []string{"Umsatz"}) {
				t.Errorf("decimal %q, features %q", p.Table.Decimal, p.Table.Features)
			}
			if (p.Doubt != "") != c.isDoubt {
				t.Errorf("doubt %q", p.Doubt)
			}
			yaml := p.YAML("own.csv")
			if !strings.Contains(yaml, c.line) || c.line == "" && strings.Contains(yaml, "decimal") {
				t.Errorf("want %s in\n%s", c.line, yaml)
			}
		})
	}
}

// Clients are found by their names in other languages, and before groups of few values.
func TestPropose_ClientNames(t *testing.T) {
	for _, name := range []string{
		"Kunde", "Kundennummer", "Klant", "cliente", "id_cliente", "utilisateur", "usuario", "Filiale", "Filiale_Nr",
		"Filiale Nr.", "magasin", "tienda", "store-id",
	} {
		text := "Region;" + name + ";x;Klasse\n"
		for i := range 120 {
			text += fmt.Sprintf("r%d;k%d;%d.5;%s\n", i%4, i%60, i%7, []string{"p", "q"}[i%2])
		}
		p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "")
		if err != nil {
			t.Fatal(err)
		}
		if p.Table.Client != name || strings.Contains(p.YAML("own.csv"), "a guess, as so few") {
			t.Errorf("%s: client %q\n%s", name, p.Table.Client, p.YAML("own.csv"))
		}
	}
	// Alone, a region is a guess; parts of words and words of other columns are none.
	text := "Region;Kundenzufriedenheit;customer_type;x;Klasse\n"
	for i := range 120 {
		text += fmt.Sprintf("r%d;%d;t%d;%d.5;%s\n", i%4, i%10, i%9, i%7, []string{"p", "q"}[i%2])
	}
	p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "4 different values (r0, r1, r2, r3), and its name; a guess, as so few may be groups of clients"
	if p.Table.Client != "Region" || !strings.Contains(p.YAML("own.csv"), want) {
		t.Errorf("client %q\n%s", p.Table.Client, p.YAML("own.csv"))
	}
}

// TestPropose_LabelBeforeNamedClients has the column y before one whose words name clients or parts, as the
// folders of a table give them behind its own columns. The words are no classes.
func TestPropose_LabelBeforeNamedClients(t *testing.T) {
	for _, last := range []string{"client", "held"} {
		text := "x1,x2,y," + last + "\n"
		for i := range 120 {
			word := map[string]string{"client": fmt.Sprint("ward ", i%8), "held": []string{"train", "test"}[i%2]}[last]
			text += fmt.Sprintf("%d.5,%d.25,%d,%s\n", i%7, i%11, i%3, word)
		}
		p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "")
		if err != nil {
			t.Fatal(err)
		}
		if p.Table.Label != "y" || (last == "client") != (p.Table.Client == "client") || (last == "held") != (p.Table.Split == "held") {
			t.Errorf("%s: %+v", last, p.Table)
		}
	}
}

// A column that the user names as that of the clients is it, whatever its name and values are.
func TestPropose_NamedClient(t *testing.T) {
	text := rows("house,day,x,label", "h1,2026-01-01,1.5,rose", "h2,2026-01-02,2.5,lily")
	path := datatest.Put(t, t.TempDir(), "own.csv", []byte(text))
	if p, err := Propose(path, ""); err != nil || p.Table.Client != "" {
		t.Fatalf("without a name the client is %q: %v", p.Table.Client, err)
	}
	p, err := ProposeNamed(path, Named{Client: "house"})
	if err != nil || p.Table.Client != "house" || !strings.Contains(p.YAML(path), "2 different values (h1, h2), as asked") {
		t.Errorf("%v\n%s", err, p.YAML(path))
	}
	if slices.Contains(p.Table.Words, "house") {
		t.Errorf("the clients are features, too: %v", p.Table.Words)
	}
	for named, want := range map[Named]string{
		{Client: "home"}:                  `client: there is no column "home"; the columns are house, day, x, label`,
		{Client: "label", Label: "label"}: "column label cannot be both label and client",
	} {
		if _, err := ProposeNamed(path, named); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", named, err)
		}
	}
}
